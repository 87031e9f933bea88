"""Overlap between clients: shared entities, and relation names."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.methods.affinity import overlaps

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Overlap:
    """What clients have in common. Matrices have one row and column per client, its own count on the diagonal."""

    clients: tuple[ClientId, ...]
    entities: Matrix
    relations: Matrix
    owners: tuple[int, ...]  # number of entities with exactly one owner, two owners, …, all clients
    common_relations: tuple[tuple[str, int], ...]  # relation names of at least two clients, and their number of clients

    @property
    def different(self) -> int:
        """The number of distinct entities."""
        return sum(self.owners)

    @property
    def common(self) -> int:
        """The number of entities of at least two clients."""
        return sum(self.owners[1:])

    def largest(self, number: int) -> list[tuple[ClientId, ClientId, int]]:
        """The pairs of clients that share most entities, with that number."""
        pairs = combinations(range(len(self.clients)), 2)
        found = sorted(((self.entities[i][j], i, j) for i, j in pairs), key=lambda pair: (-pair[0], *pair[1:]))
        return [(self.clients[i], self.clients[j], many) for many, i, j in found[:number] if many]


def overlap(federation: Federation, entity: Shared, relation: Shared) -> Overlap:
    """The overlap of a federation with aligned entities and relations."""
    return Overlap(
        clients=entity.clients,
        entities=_matrix(entity),
        relations=_matrix(relation),
        owners=tuple(np.bincount(entity.owners, minlength=len(entity.clients) + 1)[1:].tolist()),
        common_relations=_common(federation, relation),
    )


def _matrix(shared: Shared) -> Matrix:
    both = overlaps(shared).astype(int)
    np.fill_diagonal(both, [len(ids) for ids in shared.ids.values()])
    return tuple(tuple(row) for row in both.tolist())


def _common(federation: Federation, relation: Shared) -> tuple[tuple[str, int], ...]:
    """The relation names of several clients, sorted by the number of clients."""
    found: dict[str, int] = {}
    for client, graph in federation.graphs.items():
        many = relation.owners[relation.ids[client]].tolist()
        found |= {name: number for name, number in zip(graph.relations, many, strict=True) if number > 1}
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))
