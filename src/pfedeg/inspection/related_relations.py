"""Relations that say the same, or the reverse, of nearly the same pairs of entities."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.triples import distinct
from pfedeg.inspection.facts import Facts, Numbers, meet

Way = Literal["duplicate", "inverse"]
Mask = NDArray[np.bool_]

ALIKE = 0.8  # share of the pairs, of the relation that has more of them, from which on two relations are kin
LEAST = 5  # pairs that kin relations have in common: fewer may be chance


@dataclass(frozen=True)
class Kin:
    """Two relations between nearly the same pairs of entities, or one whose pairs are there in both directions."""

    kind: Literal["duplicate", "inverse", "symmetric"]
    first: str
    second: str
    share: float  # of the pairs of the one that has more
    pairs: int  # in common
    clients: tuple[ClientId, ...]  # none: over all clients; one: as it uses both; two: as each uses one of them


class Relations:
    """Kin relations of a federation: by name over all clients, and as single clients use them."""

    def __init__(self, facts: Facts) -> None:
        """Relations are compared by the pairs that they connect in any split."""
        self._facts = facts
        names = int(facts.name.max()) + 1
        self._whole = _Kinship(facts.pair, facts.reverse, facts.name[facts.relation], names)
        shared = names < len(facts.name)  # else a name is one client's, and there is nothing more to compare
        rows = slice(None) if shared else slice(0)
        self._local = _Kinship(facts.pair[rows], facts.reverse, facts.relation[rows], len(facts.name))

    def alike(self, way: Way, a: Numbers, b: Numbers) -> Mask:
        """Which clients' relations a and b are kin."""
        return self._local.has(way, a, b) | self._everywhere(way, a, b)

    def symmetric(self, a: Numbers, b: Numbers) -> Mask:
        """Which of the inverse a and b are one and the same symmetric relation.

        One that two clients mean in opposite directions is not.
        """
        same: Mask = self._facts.name[a] == self._facts.name[b]
        one: Mask = (a == b) | (same & self._everywhere("inverse", a, b))
        return one

    def _everywhere(self, way: Way, a: Numbers, b: Numbers) -> Mask:
        return self._whole.has(way, self._facts.name[a], self._facts.name[b])

    def told(self) -> Iterator[Kin]:
        """With names: over all clients, then those that are kin only as certain clients use them; largest first."""
        facts, number = self._facts, self._whole.number
        use = dict(zip(facts.name.tolist(), range(len(facts.name)), strict=True))  # some client's relation of a name
        for way, a, b, share, pairs in self._whole.found():
            first, second = sorted(facts.spelled(use[name])[1] for name in (a, b))
            yield Kin("symmetric" if a == b else way, first, second, share, pairs, ())
        known = {(way, a * number + b) for way, a, b, _, _ in self._whole.found()}
        for way, a, b, share, pairs in self._local.found():
            low, high = sorted((int(facts.name[a]), int(facts.name[b])))
            if (way, low * number + high) in known or (low == high and way == "duplicate"):  # one name, two clients
                continue
            (client, first), (other, second) = facts.spelled(a), facts.spelled(b)
            clients = (client,) if client == other else (client, other)
            yield Kin("symmetric" if a == b else way, first, second, share, pairs, clients)


class _Kinship:
    """Which of some relations are kin: the keys a · number + b of a ≤ b. Symmetric ones are inverse to themselves."""

    def __init__(self, pair: Numbers, reverse: Numbers, relation: Numbers, number: int) -> None:
        self.number = number
        rows = distinct(pair * number + relation)
        size = np.bincount(rows % number, minlength=number)
        rows = rows[size[rows % number] >= LEAST]
        pair, relation = np.divmod(rows, number)  # sorted by pair
        several, back = np.bincount(pair, minlength=1)[pair] > 1, reverse[pair]
        met: dict[Way, tuple[Numbers, Numbers]] = {
            "duplicate": (pair[several], relation[several]),
            "inverse": (back[back >= 0], relation[back >= 0]),
        }
        self._keys: dict[Way, Numbers] = {}
        self._found = list[tuple[Way, int, int, float, int]]()
        for way, (pairs, mine) in met.items():
            keys, common = _common(pairs, mine, pair, relation, number)
            a, b = np.divmod(keys, number)
            share = common / np.maximum(size[a], size[b])
            kept = (share >= ALIKE) & (common >= LEAST) & ((a != b) | (way == "inverse"))
            self._keys[way] = keys[kept]
            columns = (part[kept].tolist() for part in (a, b, share, common))
            self._found += [(way, *row) for row in zip(*columns, strict=True)]

    def has(self, way: Way, a: Numbers, b: Numbers) -> Mask:
        """Which a and b are kin."""
        return np.isin(np.minimum(a, b) * self.number + np.maximum(a, b), self._keys[way])

    def found(self) -> list[tuple[Way, int, int, float, int]]:
        """All that are kin, with share and common pairs; the largest first."""
        return sorted(self._found, key=lambda kin: (-kin[-1], *kin))


def _common(met: Numbers, mine: Numbers, pair: Numbers, theirs: Numbers, number: int) -> tuple[Numbers, Numbers]:
    """How often relations a ≤ b meet: the keys a · number + b, and counts."""
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for i, j in meet(met, pair):
        a, b = mine[i], theirs[j]
        key, many = np.unique((a * number + b)[a <= b], return_counts=True)
        keys.append(key)
        counts.append(many)
    different, place = np.unique(np.concatenate(keys), return_inverse=True)
    return different, np.bincount(place, np.concatenate(counts), len(different)).astype(np.int64)
