"""Why an answer: the known triples that are most like it, and whose knowledge moved the entities in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat
from pfedeg.prediction.saved_run import Run
from pfedeg.training.config import PFEDEG


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
        """The shares of other clients in the knowledge of an entity that this client was sent, largest first.

        Those of `mix`: p · W_ij / Σ_{k owns e} W_ik; of FedE's mean: 1 / the number of owners. Nobody for an entity
        that is this client's alone, or for methods in which nothing travels.
        """
        run, config = self._run, self._run.config
        owners = [name for name in run.clients if entity in run.graph(name).entity_ids]
        if len(owners) < 2 or config.method in ("single", "collective"):
            return {}
        if config.method not in PFEDEG:
            return {name: 1 / len(owners) for name in owners if name != self._client}
        affinity = run.affinity()
        row = affinity[self._client] if affinity else {}
        total = sum(row.get(name, 0.0) for name in owners)
        if not total or config.p is None:
            return {}
        shares = {name: config.p * row.get(name, 0.0) / total for name in owners if name != self._client}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))
