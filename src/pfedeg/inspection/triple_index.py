"""All triples of a federation, indexed by pairs of aligned entities."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, Split

Numbers = NDArray[np.int64]
Triple = tuple[str, str, str]

BLOCK = 1 << 22  # matches processed at a time, to limit memory


class TripleIndex:
    """One row per triple, by client and split. Relations are numbered per client: equal names at two clients differ."""

    def __init__(self, federation: Federation, entity: Shared, relation: Shared) -> None:
        """Of a federation with aligned entities and relations."""
        self.federation, self.clients = federation, entity.clients
        self.rows: dict[tuple[int, Split], slice] = {}  # of a client and split
        self._first: list[int] = []  # each client's first relation
        heads, tails, relations = list[Any](), list[Any](), list[Any]()
        number = begin = 0
        for place, client in enumerate(self.clients):
            graph = federation.graphs[client]
            self._first.append(number)
            for split in SPLITS:
                h, r, t = graph.triples(split).T
                heads.append(entity.ids[client][h])
                tails.append(entity.ids[client][t])
                relations.append(r + number)
                self.rows[place, split] = slice(begin, begin := begin + len(h))
            number += len(graph.relations)
        self.relation: Numbers = np.concatenate(relations).astype(np.int64)
        self.client = np.repeat(np.arange(len(self.clients)), np.diff([*self._first, number]))  # of a relation
        self.name = np.concatenate([relation.ids[client] for client in self.clients]).astype(
            np.int64
        )  # aligned name of a relation
        size = len(entity.owners)
        head, tail = np.concatenate(heads).astype(np.int64), np.concatenate(tails)
        pairs, pair = np.unique(head * size + tail, return_inverse=True)
        self.pair: Numbers = pair.astype(np.int64)
        back = pairs % size * size + pairs // size
        found = np.minimum(np.searchsorted(pairs, back), len(pairs) - 1)
        self.reverse = np.where((pairs[found] == back) & (back != pairs), found, -1)  # of a pair; −1 if there is none

    def train(self) -> Numbers:
        """The rows of the training triples."""
        return np.concatenate(
            [np.arange(len(self.pair))[self.rows[place, "train"]] for place in range(len(self.clients))]
        )

    def triple(self, place: int, split: Split, row: int) -> Triple:
        """A triple with names."""
        graph = self.federation.graphs[self.clients[place]]
        h, r, t = graph.triples(split)[row].tolist()
        return graph.entities[h], graph.relations[r], graph.entities[t]

    def relation_name(self, relation: int) -> tuple[ClientId, str]:
        """The client and name of a relation."""
        place = int(self.client[relation])
        client = self.clients[place]
        return client, self.federation.graphs[client].relations[relation - self._first[place]]


def matches(left: Numbers, right: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """All i, j with left[i] == right[j], in blocks; `right` is sorted."""
    first = np.searchsorted(right, left)
    counts = np.searchsorted(right, left, "right") - first
    end, begin = np.cumsum(counts), 0
    while begin < len(left):
        before = int(end[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(end, before + BLOCK, "right")))
        part = counts[begin:stop]
        total = int(part.sum())
        i = np.repeat(np.arange(begin, stop), part)
        j = np.repeat(first[begin:stop] - (np.cumsum(part) - part), part) + np.arange(total)
        if total:
            yield i, j
        begin = stop
