"""What would make names align: the options of `pfedeg import` with their effect, and a map of names to review."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.files import writing
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.naming import NameForm, Naming, is_iri
from pfedeg.graphs.triple_files import fits_tsv
from pfedeg.inspection.spelling_variants import Group


@dataclass(frozen=True)
class Mend:
    """A way to name entities, the number of entities that clients would share, and of pairs of clients over them."""

    names: NameForm
    with_map: bool
    shared: int
    pairs: int  # an entity of three clients counts three times


def find_mends(federation: Federation, new_names: Mapping[str, str]) -> tuple[Mend, ...]:
    """The ways that let clients share more entities than now: the best without a map, and the map if it is better."""
    now = _count_shared(federation, None)[1]
    forms: tuple[NameForm, ...] = ("full", "label", "local")  # the first of equals is chosen
    found = [Mend(form, False, *_count_shared(federation, Naming(form))) for form in forms]
    best = max(found, key=lambda mend: mend.pairs)
    mapped = Mend("full", True, *_count_shared(federation, Naming(new_names=new_names)))
    return tuple(mend for mend, least in ((best, now), (mapped, best.pairs)) if mend.pairs > least)


def _count_shared(federation: Federation, naming: Naming | None) -> tuple[int, int]:
    """The number of names of at least two clients, and of pairs of clients over them."""
    owners = Counter[str]()
    for graph in federation.graphs.values():
        names = set(graph.entities)
        owners.update(set(map(naming.rename(graph.entities, graph.labels), names)) if naming else names)
    numbers = owners.values()
    return sum(number > 1 for number in numbers), sum(number * (number - 1) // 2 for number in numbers)


def map_names(federation: Federation, groups: Sequence[Group]) -> dict[str, str]:
    """Old name → new name for all variants: the name of most clients, a text rather than an IRI.

    Names are left out that would unite two names of one client by more than their spelling.
    """
    united: dict[str, str] = {}

    def root(name: str) -> str:
        while united.setdefault(name, name) != name:
            name = united[name]
        return name

    spelled = set[frozenset[str]]()  # pairs of one client that may be united
    for group in groups:
        inside = [variant for variant in group.inside() if variant.is_spelling]
        spelled |= {frozenset((variant.first, variant.second)) for variant in inside}
        for variant in (*group.between(), *inside):
            united[root(variant.first)] = root(variant.second)
    entities: dict[str, list[str]] = {}
    for name in sorted(united):
        entities.setdefault(root(name), []).append(name)
    clients = Counter(name for graph in federation.graphs.values() for name in graph.entities if name in united)
    new_names: dict[str, str] = {}
    for names in entities.values():
        owned = ([name for name in names if name in graph.entity_ids] for graph in federation.graphs.values())
        if all(frozenset(pair) in spelled for own in owned for pair in pairwise(own)):
            chosen = min(names, key=lambda name: (is_iri(name), -clients[name], name != name.strip(), name.islower()))
            new_names |= {name: chosen.strip() for name in names if name != chosen.strip()}
    return dict(sorted(new_names.items()))


def write_map(path: Path, new_names: Mapping[str, str]) -> None:
    """Write a map of names as TSV or CSV, to review and to pass to `pfedeg import --map`."""
    with writing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".csv":
            csv.writer(file, lineterminator="\n").writerows(_lines(new_names))
        else:
            file.writelines(f"{old}\t{new}\n" for old, new in _lines(new_names))


def check_map(path: Path, new_names: Mapping[str, str] | None = None) -> None:
    """Raise InputError if a map cannot be written to this file."""
    if path.suffix.lower() not in (".tsv", ".csv"):
        raise InputError(f"--write-map {path}: expected a file name ending in .tsv or .csv")
    if not path.parent.is_dir():
        raise InputError(f"--write-map {path}: no such folder: {path.parent}")
    if path.suffix.lower() == ".tsv" and not all(map(fits_tsv, (*(new_names or {}), *(new_names or {}).values()))):
        raise InputError(f"--write-map {path}: a name has a tab or line break; write a .csv file")


def _lines(new_names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "old", "new"
    yield from new_names.items()
