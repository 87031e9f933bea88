"""Triples with names, each name stored once: the form between files and a knowledge graph."""

import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError

Ids = NDArray[np.int32]
Named = Sequence[tuple[str, str, str]]
ROLES = ("head", "relation", "tail")


class Triples(Sequence[tuple[str, str, str]]):
    """A sequence of (head, relation, tail), stored as ids (n, 3): positions in `entities` and `relations`."""

    def __init__(self, entities: Sequence[str], relations: Sequence[str], ids: Ids) -> None:
        """`entities` and `relations` may contain names that no triple uses."""
        self.entities, self.relations, self.ids = entities, relations, ids

    @classmethod
    def of(cls, named: Named) -> "Triples":
        """Any sequence of (head, relation, tail) in this form."""
        if isinstance(named, cls):
            return named
        entities, relations = NameNumbers(), NameNumbers()
        ids = array("i")
        try:
            for head, relation, tail in named:
                ids.extend((entities[head], relations[relation], entities[tail]))
        except (TypeError, ValueError):
            _refuse(named)
        if not all(isinstance(name, str) for names in (entities, relations) for name in names):
            _refuse(named)
        return cls(list(entities), list(relations), np.frombuffer(ids, np.int32).reshape(-1, 3))

    @classmethod
    def joined(cls, parts: Sequence["Triples"]) -> "Triples":
        """The triples of all parts, in order."""
        first = parts[0]
        if all(part.entities is first.entities and part.relations is first.relations for part in parts):
            return cls(first.entities, first.relations, np.concatenate([part.ids for part in parts]))
        entities, relations = NameNumbers(), NameNumbers()
        ids = []
        for part in parts:
            entity, relation = (
                np.fromiter(map(numbers.__getitem__, names), np.int32, len(names))
                for numbers, names in ((entities, part.entities), (relations, part.relations))
            )
            h, r, t = part.ids.T
            ids.append(np.stack([entity[h], relation[r], entity[t]], 1))
        return cls(list(entities), list(relations), np.concatenate(ids))

    def select(self, rows: NDArray[Any]) -> "Triples":
        """Some of the triples, by index or by mask."""
        return Triples(self.entities, self.relations, self.ids[rows])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        entities, relations = self.entities, self.relations
        return ((entities[h], relations[r], entities[t]) for h, r, t in self.ids.tolist())

    @overload
    def __getitem__(self, index: int) -> tuple[str, str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> "Triples": ...
    def __getitem__(self, index: int | slice) -> "tuple[str, str, str] | Triples":
        if isinstance(index, slice):
            return Triples(self.entities, self.relations, self.ids[index])
        h, r, t = self.ids[index].tolist()
        return self.entities[h], self.relations[r], self.entities[t]


def _refuse(named: Any) -> NoReturn:
    """Raise InputError for the first element that is not a triple of texts."""
    if isinstance(named, str) or not isinstance(named, Iterable):
        raise InputError(f"expected a sequence of (head, relation, tail) triples, not {named!r:.80}")
    for number, triple in enumerate(named, 1):
        parts = () if isinstance(triple, str) or not isinstance(triple, Iterable) else tuple(triple)
        if len(parts) != len(ROLES) or not all(isinstance(name, str) for name in parts):
            raise InputError(f"triple {number} is {triple!r:.80}; expected (head, relation, tail), all of them texts")
    raise InputError("expected a sequence of (head, relation, tail) triples, all of them texts")


class NameNumbers(dict[str, int]):
    """Name → number. A new name gets the next number on its first lookup."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


def normal(name: str) -> str:
    """The name in Unicode normal form C, in which all names are compared."""
    return unicodedata.normalize("NFC", name)


def sort_names(names: Sequence[str], used: Ids, transform: Callable[[str], str]) -> tuple[tuple[str, ...], Ids]:
    """The transformed names whose numbers are in `used`, sorted; and the new position of every name, −1 if unused."""
    is_used = np.zeros(len(names), np.bool_)
    is_used[used.ravel()] = True
    numbers = np.flatnonzero(is_used)
    transformed = [transform(names[number]) for number in numbers.tolist()]
    ordered = tuple(sorted(set(transformed)))
    position = {name: i for i, name in enumerate(ordered)}
    positions = np.full(len(names), -1, np.int32)
    positions[numbers] = np.fromiter(map(position.__getitem__, transformed), np.int32, len(transformed))
    return ordered, positions


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct numbers, sorted. Sorting is many times faster here than `np.unique`, which may hash."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def sorted_unique(ids: Ids, entities: int, relations: int) -> Ids:
    """The distinct triples sorted by h, r, t, as a read-only array."""
    packed = distinct((ids[:, 0].astype(np.int64) * relations + ids[:, 1]) * entities + ids[:, 2])
    rest, tails = np.divmod(packed, max(entities, 1))
    triples = np.stack([*np.divmod(rest, max(relations, 1)), tails], 1).astype(np.int32)
    triples.flags.writeable = False
    return triples
