"""Explains an answer: the most similar known triples, and each other client's share in its entities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat
from pfedeg.training.saved_run import Run


class Neighbour(NamedTuple):
    """A training triple of the client, and its similarity: the mean cosine of the heads and of the tails."""

    head: str
    relation: str
    tail: str
    similarity: float


@dataclass(frozen=True)
class Explanation:
    """Why a client gives an answer."""

    neighbours: tuple[Neighbour, ...]
    contributions: Mapping[str, Mapping[ClientId, float]]  # entity → other client → its share in the download


class Explainer:
    """Explains answers of one client of a run."""

    def __init__(self, run: Run, client: ClientId) -> None:
        """Load a finished run."""
        self._run, self._client, self._strategy = run, run.find_client(client), run.config.build_strategy()
        self._graph = run.graph(self._client)
        table = run.tables(self._client).entity
        self._directions: Mat = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)
        self._triples_of = cache(self._find_triples)

    def explain(self, head: str, relation: str, tail: str, k: int = 3) -> Explanation:
        """Explain a triple by its k most similar training triples, not counting the triple itself."""
        graph = self._graph
        ids = graph.entity_ids[head], graph.relation_ids[relation], graph.entity_ids[tail]
        triples = self._triples_of(ids[1])
        heads, tails = self._directions[triples[:, 0]], self._directions[triples[:, 2]]
        similarity = (heads @ self._directions[ids[0]] + tails @ self._directions[ids[2]]) / 2
        order = np.argsort(-similarity, kind="stable").tolist()
        others = [at for at in order if triples[at].tolist() != list(ids)][:k]
        neighbours = tuple(
            Neighbour(graph.entities[triples[at, 0]], relation, graph.entities[triples[at, 2]], float(similarity[at]))
            for at in others
        )
        return Explanation(neighbours, {name: self.contributions(name) for name in dict.fromkeys((head, tail))})

    def _find_triples(self, relation: int) -> Ids:
        found: Ids = self._graph.train[self._graph.train[:, 1] == relation]
        return found

    def contributions(self, entity: str) -> dict[ClientId, float]:
        """The share of each other client in this client's downloaded row of an entity, as the run's method computes it.

        Empty if no other client has the entity, and for methods without shares.
        """
        run = self._run
        if run.custom_strategy:  # the saved method is not the one that computed the shares
            return {}
        owners = [name for name in run.clients if entity in run.graph(name).entity_ids]
        if len(owners) < 2:
            return {}
        weights = (run.affinity() or {}).get(self._client, {})
        return self._strategy.shares(self._client, owners, weights) or {}
