"""Why an answer: the known triples that are most like it, and whose knowledge moved the entities in it."""

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
    """A triple of the client's train split, and how like the answer it is: the mean cosine of heads and of tails."""

    head: str
    relation: str
    tail: str
    likeness: float


@dataclass(frozen=True)
class Explanation:
    """What speaks for an answer."""

    neighbours: tuple[Neighbour, ...]
    taught: Mapping[str, Mapping[ClientId, float]]  # entity → client → its share in what this client was sent


class Explainer:
    """Explains answers of one client of a run."""

    def __init__(self, run: Run, client: ClientId) -> None:
        """Looks at tables and graphs; nothing is trained."""
        self._run, self._client = run, run.named(client)
        self._graph = run.graph(self._client)
        table = run.tables(self._client).entity
        self._directions: Mat = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)
        self._of_relation = cache(self._find)

    def explain(self, head: str, relation: str, tail: str, k: int = 3) -> Explanation:
        """A triple, whether it is known or not; itself is not among its neighbours."""
        graph = self._graph
        ids = graph.entity_ids[head], graph.relation_ids[relation], graph.entity_ids[tail]
        triples = self._of_relation(ids[1])
        heads, tails = self._directions[triples[:, 0]], self._directions[triples[:, 2]]
        likeness = (heads @ self._directions[ids[0]] + tails @ self._directions[ids[2]]) / 2
        order = np.argsort(-likeness, kind="stable").tolist()
        others = [at for at in order if triples[at].tolist() != list(ids)][:k]
        neighbours = tuple(
            Neighbour(graph.entities[triples[at, 0]], relation, graph.entities[triples[at, 2]], float(likeness[at]))
            for at in others
        )
        return Explanation(neighbours, {name: self.taught(name) for name in dict.fromkeys((head, tail))})

    def _find(self, relation: int) -> Ids:
        found: Ids = self._graph.train[self._graph.train[:, 1] == relation]
        return found

    def taught(self, entity: str) -> dict[ClientId, float]:
        """The shares of other clients in what this client was sent of an entity, as the run's strategy tells them.

        Empty for an entity that is this client's alone, and for methods that cannot say.
        """
        run = self._run
        owners = [name for name in run.clients if entity in run.graph(name).entity_ids]
        if len(owners) < 2:
            return {}
        weights = (run.affinity() or {}).get(self._client, {})
        return run.config.build_strategy().shares(self._client, owners, weights) or {}
