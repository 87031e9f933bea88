"""Names that look alike and are not the same: entities that will not align although they may be meant to."""

import unicodedata
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.federation import Federation

Difference = Literal["case", "spaces", "Unicode form", "several"]


@dataclass(frozen=True)
class Alike:
    """Two spellings of what may be one entity, and two clients of which each knows only one of them."""

    first: str
    first_client: ClientId
    second: str
    second_client: ClientId
    differ_in: Difference


@dataclass(frozen=True)
class LookAlikes:
    """How many entities are spelled differently by different clients, by what the spellings differ in."""

    number: int
    differ_in: dict[Difference, int]
    pairs: tuple[Alike, ...]


def look_alikes(federation: Federation) -> LookAlikes:
    """Names of different clients that are equal but for case, spaces and Unicode compatibility forms.

    A client that knows both spellings means two things by them, so it takes two clients that know one each.
    """
    spellings: dict[str, list[str]] = {}
    for name in sorted({name for graph in federation.graphs.values() for name in graph.entities}):
        spellings.setdefault(fold(name), []).append(name)
    groups = [group for group in spellings.values() if len(group) > 1]
    place = {name: number for number, group in enumerate(groups) for name in group}
    known: list[dict[frozenset[str], ClientId]] = [{} for _ in groups]  # what clients know of a group, and who first
    for client, graph in federation.graphs.items():
        mine: dict[int, set[str]] = {}
        for name in place.keys() & set(graph.entities):
            mine.setdefault(place[name], set()).add(name)
        for number, names in mine.items():
            known[number].setdefault(frozenset(names), client)
    found = [alike for sets in known if (alike := _different(sets))]
    many: dict[Difference, int] = {}
    for alike in found:
        many[alike.differ_in] = many.get(alike.differ_in, 0) + 1
    return LookAlikes(len(found), many, tuple(found))


def _different(known: dict[frozenset[str], ClientId]) -> Alike | None:
    for one, other in combinations(known, 2):
        if one - other and other - one:
            first, second = min(one - other), min(other - one)
            return Alike(first, known[one], second, known[other], _difference(first, second))
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
    """What is left of a name when case, surrounding or multiple spaces and compatibility forms do not count."""
    if name.isascii():
        return _squeeze(name.casefold())
    compatible = unicodedata.normalize("NFKC", name).casefold()
    return _squeeze(unicodedata.normalize("NFKC", compatible))


def _squeeze(name: str) -> str:
    return " ".join(name.split())
