"""Spelling variants: entity names that probably mean the same but will not align."""

import unicodedata
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.federation import Federation

Difference = Literal["case", "spaces", "Unicode form", "several"]


@dataclass(frozen=True)
class Variant:
    """Two spellings of what may be one entity, and two clients that each know only one of them."""

    first: str
    first_client: ClientId
    second: str
    second_client: ClientId
    difference: Difference


@dataclass(frozen=True)
class SpellingVariants:
    """The entities that different clients spell differently, counted by kind of difference."""

    number: int
    differences: dict[Difference, int]
    pairs: tuple[Variant, ...]


def find_variants(federation: Federation) -> SpellingVariants:
    """Names of different clients that differ only in case, spaces or Unicode compatibility forms.

    A client with both spellings means two entities by them, so a variant needs two clients with one spelling each.
    """
    spellings: dict[str, list[str]] = {}
    for name in sorted({name for graph in federation.graphs.values() for name in graph.entities}):
        spellings.setdefault(fold(name), []).append(name)
    groups = [group for group in spellings.values() if len(group) > 1]
    place = {name: number for number, group in enumerate(groups) for name in group}
    known: list[dict[frozenset[str], ClientId]] = [
        {} for _ in groups
    ]  # spellings of a group that a client uses → the first such client
    for client, graph in federation.graphs.items():
        mine: dict[int, set[str]] = {}
        for name in place.keys() & set(graph.entities):
            mine.setdefault(place[name], set()).add(name)
        for number, names in mine.items():
            known[number].setdefault(frozenset(names), client)
    found = [variant for sets in known if (variant := _different(sets))]
    counts: dict[Difference, int] = {}
    for variant in found:
        counts[variant.difference] = counts.get(variant.difference, 0) + 1
    return SpellingVariants(len(found), counts, tuple(found))


def _different(known: dict[frozenset[str], ClientId]) -> Variant | None:
    for one, other in combinations(known, 2):
        if one - other and other - one:
            first, second = min(one - other), min(other - one)
            return Variant(first, known[one], second, known[other], _difference(first, second))
    return None


def _difference(first: str, second: str) -> Difference:
    if first.casefold() == second.casefold():
        return "case"
    if _squeeze(first) == _squeeze(second):
        return "spaces"
    if unicodedata.normalize("NFKC", first) == unicodedata.normalize("NFKC", second):
        return "Unicode form"
    return "several"


def fold(name: str) -> str:
    """A name without differences in case, surrounding or repeated spaces, and Unicode compatibility forms."""
    if name.isascii():
        return _squeeze(name.casefold())
    compatible = unicodedata.normalize("NFKC", name).casefold()
    return _squeeze(unicodedata.normalize("NFKC", compatible))


def _squeeze(name: str) -> str:
    return " ".join(name.split())
