"""Rewrites names so that those of different clients align: trimmed, mapped, or replaced by labels or local names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import unquote

from pfedeg.errors import InputError
from pfedeg.graphs.name_pairs import read_pairs
from pfedeg.graphs.triples import normal
from pfedeg.text import suggest

NameForm = Literal["full", "local", "label"]
NAME_FORMS: tuple[NameForm, ...] = get_args(NameForm)
IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|urn:\S+", re.A)
PREFIX = re.compile(r"([\w.-]*)\s*[:=]\s*(.+)")


@dataclass(frozen=True)
class Renaming:
    """The new names of some names of one client, and how they came about."""

    names: Sequence[str]  # all, before
    new: Mapping[str, str]  # of the names that change
    trimmed: tuple[str, ...] = ()
    expanded: tuple[str, ...] = ()  # written with a declared prefix
    mapped: frozenset[str] = frozenset()  # names in the map
    formed: tuple[str, ...] = ()  # replaced by their label or local name
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of several names, which keep their own
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # new name → the different names it stands for

    def __call__(self, name: str) -> str:
        """The new name of a name."""
        return self.new.get(name, name)


@dataclass(frozen=True)
class Naming:
    """Rules for names. The map comes first, and its new names are final; then labels or local names."""

    form: NameForm = "full"
    prefixes: Mapping[str, str] = field(default_factory=dict)  # prefix → IRI
    new_names: Mapping[str, str] = field(default_factory=dict)  # old name → new name

    @classmethod
    def of(cls, form: str = "full", prefixes: Iterable[str] = (), map: str | Path | None = None) -> "Naming":
        """The rules of the options --names, --prefix and --map."""
        if form not in NAME_FORMS:
            raise InputError(f"--names {form}: unknown{suggest(form, NAME_FORMS)}")
        declared = read_prefixes(prefixes)
        found = cls(form, declared)
        return cls(found.form, declared, read_map(Path(map), found)) if map else found

    @property
    def is_plain(self) -> bool:
        """Whether names are trimmed and otherwise kept."""
        return self.form == "full" and not self.prefixes and not self.new_names

    def rename(self, names: Iterable[str], labels: Mapping[str, str]) -> Renaming:
        """New names for the entities, or for the relations, of one client, whose labels are given."""
        new: dict[str, str] = {}
        trimmed, expanded, mapped, wanted = list[str](), list[str](), set[str](), dict[str, str]()
        seen = list(names)
        for name in seen:
            plain = normal(name.strip())
            full = self.expand(plain)
            if plain != normal(name):
                trimmed.append(name)
            if full != plain:
                expanded.append(name)
            if full in self.new_names:
                mapped.add(full)
                full = self.new_names[full]
            elif formed := self._formed(full, labels.get(name) or labels.get(full)):
                wanted[name] = formed
            new[name] = full
        owners: dict[str, list[str]] = {}
        for name, formed in wanted.items():
            owners.setdefault(formed, []).append(name)
        ambiguous = {formed: tuple(many) for formed, many in owners.items() if len({new[name] for name in many}) > 1}
        formed_names = [name for name, formed in wanted.items() if formed not in ambiguous]
        new |= {name: wanted[name] for name in formed_names}
        together: dict[str, list[str]] = {}
        for name in seen:
            together.setdefault(new[name], []).append(name)
        merged = {name: tuple(many) for name, many in together.items() if len(many) > 1}
        changed = {name: other for name, other in new.items() if other != name}
        return Renaming(
            seen, changed, tuple(trimmed), tuple(expanded), frozenset(mapped), tuple(formed_names), ambiguous, merged
        )

    def expand(self, name: str) -> str:
        """The IRI of a name such as `ex:Peru`, if its prefix is declared."""
        prefix, colon, local = name.partition(":")
        iri = self.prefixes.get(prefix) if colon and not local.startswith("//") else None
        return name if iri is None else iri + local

    def _formed(self, name: str, label: str | None) -> str:
        """The label or local name in place of a name; empty to keep it."""
        if self.form == "label":
            is_text = label is not None and not is_shortened(name, label)
            return normal(label.strip()) if is_text and label is not None else ""
        if self.form == "local" and is_iri(name):
            return normal(local_name(name, self._namespaces))
        return ""

    @cached_property
    def _namespaces(self) -> Sequence[str]:
        return sorted(self.prefixes.values(), key=len, reverse=True)


def is_iri(name: str) -> bool:
    """Whether a name looks like an absolute IRI."""
    return bool(IRI.fullmatch(name))


def decoded(name: str) -> str:
    """An IRI with percent-encoded characters decoded; other names unchanged."""
    if "%" not in name or not is_iri(name):
        return name
    try:
        return normal(unquote(name, errors="strict"))
    except UnicodeDecodeError:
        return name


def local_name(iri: str, namespaces: Sequence[str] = ()) -> str:
    """The decoded part of an IRI after one of the given namespaces, else after the last # or / (: in a URN)."""
    inside = next((space for space in namespaces if iri.startswith(space) and len(iri) > len(space)), None)
    if inside is not None:
        rest = iri[len(inside) :]
    else:
        separators = "#/:" if iri.startswith("urn:") else "#/"
        trimmed = iri.rstrip(separators)
        rest = trimmed[max(trimmed.rfind(each) for each in separators) + 1 :]
    try:
        return unquote(rest, errors="strict").strip()
    except UnicodeDecodeError:
        return rest


def is_shortened(name: str, label: str) -> bool:
    """Whether a label is only the IRI with its namespace shortened to a prefix, as in `ex:Peru`."""
    prefix, colon, local = label.partition(":")
    return bool(colon and local) and " " not in prefix and is_iri(name) and name.endswith((f"#{local}", f"/{local}"))


def read_prefixes(texts: Iterable[str]) -> dict[str, str]:
    """The declared prefixes, from texts such as `ex:http://example.org/`."""
    found: dict[str, str] = {}
    for text in texts:
        match = PREFIX.fullmatch(text.strip())
        iri = match[2].strip().removeprefix("<").removesuffix(">") if match else ""
        if match is None or not is_iri(iri):
            raise InputError(f"--prefix {text!r}: expected PREFIX:IRI, as in ex:http://example.org/")
        if found.setdefault(match[1], iri) != iri:
            raise InputError(f"--prefix {match[1]}: is declared as {found[match[1]]} and as {iri}")
    return found


def read_map(path: Path, naming: Naming) -> dict[str, str]:
    """Old name → new name, from a file of two columns. A new name that is an old name itself is mapped on."""
    new: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, written, other in read_pairs(path, ("old", "new")):
        old = naming.expand(written)
        before = lines.setdefault(old, line)
        if new.setdefault(old, naming.expand(other)) != naming.expand(other):
            two = f"{new[old]!r} (line {before}) and {other!r}"
            raise InputError(f"{path}, line {line}: {old!r} has two new names: {two}; keep one of them")
    for old in new:
        chain, name = [old], new[old]
        while name in new and new[name] != name:
            if name in chain:
                circle = " → ".join(repr(each) for each in (*chain[chain.index(name) :], name))
                raise InputError(f"{path}, line {lines[name]}: the names form a cycle: {circle}; remove one line")
            chain.append(name)
            name = new[name]
        new |= dict.fromkeys(chain, name)
    return new


def report_naming(naming: Naming, entities: Renaming, relations: Renaming) -> dict[str, Any]:
    """What became of the names of one client, for a summary: counts, each with an example."""
    parts = entities, relations
    unknown = [name for name in naming.new_names if not any(name in part.mapped for part in parts)]
    ambiguous = {**relations.ambiguous, **entities.ambiguous}
    merged = {**relations.merged, **entities.merged}
    found: dict[str, tuple[int, Any]] = {}
    for kind in ("trimmed", "expanded", "mapped", "formed"):
        names = [(name, part(name)) for part in parts for name in sorted(getattr(part, kind))]
        found[kind] = len(names), names[0] if names else None
    found["ambiguous"] = len(ambiguous), next(iter(ambiguous.items()), None)
    found["merged"] = len(merged), next(iter(merged.items()), None)
    found["unknown_in_map"] = len(unknown), unknown[0] if unknown else None
    return {kind: {"names": number, "example": example} for kind, (number, example) in found.items() if number}
