"""Spelling variants: different names that probably mean the same entity, at two clients or at one.

Names are compared as they are, by their labels and by the local names of IRIs.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.naming import is_iri, is_shortened, local_name

Difference = Literal["case", "spaces", "accents", "Unicode form", "several", "label", "local name"]
ACCENTS = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic; in other scripts marks are letters
LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Variant:
    """Two names of what may be one entity: each at a client that lacks the other, or both at one client."""

    first: str
    first_client: ClientId
    second: str
    second_client: ClientId
    difference: Difference
    label: str | None = None  # the label or local name that makes them alike

    @property
    def is_spelling(self) -> bool:
        """Whether the names themselves differ only in spelling."""
        return self.difference not in ("label", "local name")


@dataclass(frozen=True)
class SpellingVariants:
    """Variants between clients and inside clients, the first of each entity, counted by kind of difference."""

    number: int
    differences: dict[Difference, int]
    pairs: tuple[Variant, ...]
    inside: tuple[Variant, ...]  # both names at one client


@dataclass(frozen=True)
class Group:
    """Names that are alike, by client."""

    clients: Mapping[ClientId, list[str]]
    labels: Mapping[str, set[str]]

    def between(self) -> Iterator[Variant]:
        """The variants between two clients, one for each pair of names; spellings inside a client count as one name."""
        seen = set[tuple[str, str]]()
        firsts: dict[frozenset[str], ClientId] = {}
        for client, names in self.clients.items():
            firsts.setdefault(frozenset(names), client)
        for one, other in combinations(firsts, 2):
            common = {fold(name) for name in one & other}
            left, right = ({fold(name): name for name in sorted(names, reverse=True)} for names in (one, other))
            if len(left.keys() - common) == len(right.keys() - common) == 1:
                (first,), (second,) = ([own[key] for key in own.keys() - common] for own in (left, right))
                if (first, second) not in seen and (second, first) not in seen:
                    seen.add((first, second))
                    yield self._variant(first, firsts[one], second, firsts[other])

    def inside(self) -> Iterator[Variant]:
        """The variants inside a client; two IRIs with the same local name are not among them."""
        for client, names in self.clients.items():
            for first, second in pairwise(names):
                variant = self._variant(first, client, second, client)
                if variant.difference != "local name" or not (is_iri(first) and is_iri(second)):
                    yield variant

    def _variant(self, first: str, first_client: ClientId, second: str, second_client: ClientId) -> Variant:
        if fold(first) == fold(second):
            return Variant(first, first_client, second, second_client, difference(first, second))
        texts = [{fold(text): text for text in (name, *self.labels.get(name, ()))} for name in (first, second)]
        common = min(texts[0].keys() & texts[1].keys(), default=None)
        if common is not None:
            text = texts[0][common] if texts[0][common] != first else texts[1][common]
            return Variant(first, first_client, second, second_client, "label", text)
        local = next(iter((*_local(first), *_local(second))), None)
        return Variant(first, first_client, second, second_client, "local name", local)


def find_groups(federation: Federation) -> list[Group]:
    """The groups of alike entity names. A label that one client knows counts for the name everywhere."""
    labels: dict[str, set[str]] = {}
    for graph in federation.graphs.values():
        for name, label in graph.own_labels.items():
            if name in graph.entity_ids and label.strip() and not is_shortened(name, label):
                labels.setdefault(name, set()).add(label)
    alike: dict[str, list[str]] = {}
    for name in sorted({name for graph in federation.graphs.values() for name in graph.entities}):
        for key in {fold(text) for text in (name, *labels.get(name, ()), *_local(name))}:
            alike.setdefault(key, []).append(name)
    known: dict[str, dict[ClientId, list[str]]] = {key: {} for key in sorted(alike) if len(alike[key]) > 1}
    places: dict[str, list[str]] = {}
    for key in known:
        for name in alike[key]:
            places.setdefault(name, []).append(key)
    for client, graph in federation.graphs.items():
        for name in sorted(places.keys() & graph.entity_ids.keys()):
            for key in places[name]:
                known[key].setdefault(client, []).append(name)
    return [Group(clients, labels) for clients in known.values()]


def find_variants(groups: Iterable[Group]) -> SpellingVariants:
    """The variants in groups of alike names.

    A client with both names means two entities by them, so a variant between clients needs two clients of which each
    has exactly one name that the other lacks.
    """
    between, inside = dict[frozenset[str], Variant](), dict[frozenset[str], Variant]()
    for group in groups:
        for variant in list(group.between())[:1]:
            between.setdefault(frozenset((variant.first, variant.second)), variant)
        for variant in group.inside():
            inside.setdefault(frozenset((variant.first, variant.second)), variant)
    pairs = tuple(between.values())
    return SpellingVariants(len(pairs), _count(pairs), pairs, tuple(inside.values()))


def difference(first: str, second: str) -> Difference:
    """How two names differ that are equal when folded."""
    if first.casefold() == second.casefold():
        return "case"
    if _squeeze(first) == _squeeze(second):
        return "spaces"
    if unicodedata.normalize("NFKC", first) == unicodedata.normalize("NFKC", second):
        return "Unicode form"
    if _without_accents(first) == _without_accents(second):
        return "accents"
    return "several"


def fold(name: str) -> str:
    """A name without differences in case, spaces, underscores, accents, and Unicode compatibility forms."""
    if name.isascii():
        return _squeeze(name.casefold())
    compatible = _without_accents(unicodedata.normalize("NFKC", name).casefold())
    return _squeeze(_without_accents(unicodedata.normalize("NFKC", compatible).casefold()))


def _local(name: str) -> tuple[str, ...]:
    """The local name of an IRI, unless it is only a number."""
    local = local_name(name) if is_iri(name) else ""
    return (local,) if LETTER.search(local) else ()


def _without_accents(text: str) -> str:
    return unicodedata.normalize("NFC", ACCENTS.sub("", unicodedata.normalize("NFD", text)))


def _squeeze(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _count(variants: tuple[Variant, ...]) -> dict[Difference, int]:
    counts: dict[Difference, int] = {}
    for variant in variants:
        counts[variant.difference] = counts.get(variant.difference, 0) + 1
    return counts
