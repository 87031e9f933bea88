"""Prints names that seem to mean the same, and the commands that let them align."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from pfedeg.graphs.federation_files import is_federation
from pfedeg.inspection.findings import Inspection
from pfedeg.inspection.spelling_variants import Difference, SpellingVariants, Variant
from pfedeg.text import plural, printable

MAX_EXAMPLES = 3  # of each kind of difference


def naming_hints(inspection: Inspection, path: Path) -> Iterator[str]:
    """Examples of every kind of difference, and commands for the federation at this path."""
    variants = inspection.spelling_variants
    if not variants.pairs and not variants.inside:
        return
    if variants.pairs:
        yield "Names that do not align"
        yield from map(_between, _examples(variants.pairs))
    yield from inside_lines(variants)
    source, target = shlex.quote(str(path)), shlex.quote(f"{_stem(path)}-aligned")
    if not is_federation(path):
        target += " --federation"
    for mend in inspection.mends:
        now = inspection.overlap.common
        instead = f"instead of {now:,}" if mend.shared > now else "among more clients"
        effect = f"to share {plural(mend.shared, 'entity')} {instead}"
        if mend.with_map:
            yield f"  {effect}, with a map of names, which you can edit:"
            yield from _map_commands(source, target)
        else:
            options = "" if mend.names == "full" else f"--names {mend.names} "
            yield f"  {effect}:"
            yield f"    pfedeg import {source} {options}--out {target}"
    if not any(mend.with_map for mend in inspection.mends) and any(each.is_spelling for each in variants.inside):
        yield "  to unite spellings, with a map of names, which you can edit:"
        yield from _map_commands(source, target)


def inside_lines(variants: SpellingVariants) -> Iterator[str]:
    """Examples of names of one client that seem to mean the same."""
    if variants.inside:
        yield f"Two names inside one client, {plural(len(variants.inside), 'pair')}"
        yield from map(_inside, _examples(variants.inside))


def _map_commands(source: str, target: str) -> Iterator[str]:
    yield f"    pfedeg inspect {source} --no-measure --write-map names.tsv"
    yield f"    pfedeg import {source} --map names.tsv --out {target}"


def _stem(path: Path) -> Path:
    if path.suffix.lower() == ".parquet":
        return path.with_suffix("")
    return path if path.name not in ("", "..") else path.resolve()  # "." and ".." are no names


def _examples(variants: tuple[Variant, ...]) -> list[Variant]:
    """The first variants of each kind."""
    kinds: dict[Difference, list[Variant]] = {}
    for variant in variants:
        kinds.setdefault(variant.difference, []).append(variant)
    return [variant for same in kinds.values() for variant in same[:MAX_EXAMPLES]]


def _between(variant: Variant) -> str:
    first, second = f"{variant.first!r} at {variant.first_client}", f"{variant.second!r} at {variant.second_client}"
    return printable(f"  {first}, {second} ({_kind(variant)})")


def _inside(variant: Variant) -> str:
    return printable(f"  {variant.first_client}: {variant.first!r}, {variant.second!r} ({_kind(variant)})")


def _kind(variant: Variant) -> str:
    return variant.difference if variant.is_spelling else f"{variant.difference} {variant.label!r}"
