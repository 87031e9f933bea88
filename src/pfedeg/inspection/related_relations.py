"""Duplicate, inverse and symmetric relations: those that connect nearly the same pairs of entities."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.triples import distinct
from pfedeg.inspection.triple_index import Numbers, TripleIndex, matches

Direction = Literal["duplicate", "inverse"]
Mask = NDArray[np.bool_]

MIN_SHARE = 0.8  # common pairs as a share of the pairs of the larger relation
MIN_PAIRS = 5  # common pairs; fewer may be chance


@dataclass(frozen=True)
class RelatedPair:
    """Two relations with nearly the same pairs of entities, or one with most pairs in both directions."""

    kind: Literal["duplicate", "inverse", "symmetric"]
    first: str
    second: str
    share: float  # of the pairs of the larger relation
    pairs: int  # in common
    clients: tuple[ClientId, ...]  # empty: over all clients; one: both at this client; two: one at each


class RelatedRelations:
    """The related relations of a federation: by name over all clients, and between relations of single clients."""

    def __init__(self, index: TripleIndex) -> None:
        """Compare relations by the pairs that they connect in any split."""
        self._index = index
        names = int(index.name.max()) + 1
        self._by_name = _Comparison(index.pair, index.reverse, index.name[index.relation], names)
        shared = names < len(index.name)  # otherwise the names already identify the clients
        rows = slice(None) if shared else slice(0)
        self._by_client = _Comparison(index.pair[rows], index.reverse, index.relation[rows], len(index.name))

    def related(self, direction: Direction, a: Numbers, b: Numbers) -> Mask:
        """Which of the clients' relations a and b are related."""
        return self._by_client.has(direction, a, b) | self._everywhere(direction, a, b)

    def symmetric(self, a: Numbers, b: Numbers) -> Mask:
        """Which of the inverse relations a and b are the same symmetric relation.

        A name that two clients use in opposite directions is not symmetric.
        """
        same: Mask = self._index.name[a] == self._index.name[b]
        one: Mask = (a == b) | (same & self._everywhere("inverse", a, b))
        return one

    def _everywhere(self, direction: Direction, a: Numbers, b: Numbers) -> Mask:
        return self._by_name.has(direction, self._index.name[a], self._index.name[b])

    def list_pairs(self) -> Iterator[RelatedPair]:
        """Pairs with names: those over all clients, then those only of certain clients; largest first."""
        index, number = self._index, self._by_name.number
        use = dict(zip(index.name.tolist(), range(len(index.name)), strict=True))  # some client's relation of a name
        for direction, a, b, share, pairs in self._by_name.found():
            first, second = sorted(index.relation_name(use[name])[1] for name in (a, b))
            yield RelatedPair("symmetric" if a == b else direction, first, second, share, pairs, ())
        known = {(direction, a * number + b) for direction, a, b, _, _ in self._by_name.found()}
        for direction, a, b, share, pairs in self._by_client.found():
            low, high = sorted((int(index.name[a]), int(index.name[b])))
            if (direction, low * number + high) in known or (
                low == high and direction == "duplicate"
            ):  # the same name at two clients
                continue
            (client, first), (other, second) = index.relation_name(a), index.relation_name(b)
            clients = (client,) if client == other else (client, other)
            yield RelatedPair("symmetric" if a == b else direction, first, second, share, pairs, clients)


class _Comparison:
    """Related pairs a ≤ b of some relations, as keys a · number + b. A symmetric relation is its own inverse."""

    def __init__(self, pair: Numbers, reverse: Numbers, relation: Numbers, number: int) -> None:
        self.number = number
        rows = distinct(pair * number + relation)
        size = np.bincount(rows % number, minlength=number)
        rows = rows[size[rows % number] >= MIN_PAIRS]
        pair, relation = np.divmod(rows, number)  # sorted by pair
        several, back = np.bincount(pair, minlength=1)[pair] > 1, reverse[pair]
        candidates: dict[Direction, tuple[Numbers, Numbers]] = {
            "duplicate": (pair[several], relation[several]),
            "inverse": (back[back >= 0], relation[back >= 0]),
        }
        self._keys: dict[Direction, Numbers] = {}
        self._found = list[tuple[Direction, int, int, float, int]]()
        for direction, (pairs, mine) in candidates.items():
            keys, common = _common(pairs, mine, pair, relation, number)
            a, b = np.divmod(keys, number)
            share = common / np.maximum(size[a], size[b])
            kept = (share >= MIN_SHARE) & (common >= MIN_PAIRS) & ((a != b) | (direction == "inverse"))
            self._keys[direction] = keys[kept]
            columns = (part[kept].tolist() for part in (a, b, share, common))
            self._found += [(direction, *row) for row in zip(*columns, strict=True)]

    def has(self, direction: Direction, a: Numbers, b: Numbers) -> Mask:
        """Which a and b are related."""
        return np.isin(np.minimum(a, b) * self.number + np.maximum(a, b), self._keys[direction])

    def found(self) -> list[tuple[Direction, int, int, float, int]]:
        """All related pairs with their share and number of common pairs; largest first."""
        return sorted(self._found, key=lambda pair: (-pair[-1], *pair))


def _common(pairs: Numbers, first: Numbers, pair: Numbers, second: Numbers, number: int) -> tuple[Numbers, Numbers]:
    """The number of common pairs of relations a ≤ b: keys a · number + b, and counts."""
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for i, j in matches(pairs, pair):
        a, b = first[i], second[j]
        key, many = np.unique((a * number + b)[a <= b], return_counts=True)
        keys.append(key)
        counts.append(many)
    different, place = np.unique(np.concatenate(keys), return_inverse=True)
    return different, np.bincount(place, np.concatenate(counts), len(different)).astype(np.int64)
