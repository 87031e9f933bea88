"""Explains answers: the nearest known facts, and the influence of each other client on rank and score."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import SPLITS, Side, Split
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat
from pfedeg.prediction.influence import Influence, InfluenceMeasure
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
    influence: tuple[Influence, ...]  # empty if it is not known, and without other clients that contributed


class Explainer:
    """Explains answers of one client of a run."""

    def __init__(self, run: Run, client: ClientId) -> None:
        """Load a finished run."""
        client = run.find_client(client)
        self._graph, self._measure = run.graph(client), InfluenceMeasure(run, client)
        table = run.tables(client).entity
        self._directions: Mat = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)
        self._triples_of = cache(self._find_triples)

    @property
    def unknown(self) -> str:
        """Why the influence of each other client is not known; empty if it is."""
        return self._measure.unknown

    def explain(
        self,
        side: Side,
        question: tuple[int, int],
        answers: Sequence[str],
        k: int = 3,
        hidden: Sequence[Split] = SPLITS,
    ) -> list[Explanation]:
        """Explain answers to a question (given entity, relation), each with its k nearest training triples.

        Ranks are among all answers without those in hidden splits.
        """
        entities = [self._graph.entity_ids[name] for name in answers]
        influences = self._measure.measure(side, question, entities, hidden)
        found = []
        for entity, influence in zip(entities, influences, strict=True):
            head, tail = (question[0], entity) if side == "tail" else (entity, question[0])
            found.append(Explanation(self.neighbours(head, question[1], tail, k), tuple(influence)))
        return found

    def neighbours(self, head: int, relation: int, tail: int, k: int = 3) -> tuple[Neighbour, ...]:
        """The k training triples of the relation that are most similar to a triple, without the triple itself."""
        graph, triples = self._graph, self._triples_of(relation)
        heads, tails = self._directions[triples[:, 0]], self._directions[triples[:, 2]]
        similarity = (heads @ self._directions[head] + tails @ self._directions[tail]) / 2
        order = np.argsort(-similarity, kind="stable").tolist()
        others = [at for at in order if triples[at].tolist() != [head, relation, tail]][:k]
        name = graph.relations[relation]
        return tuple(
            Neighbour(graph.entities[triples[at, 0]], name, graph.entities[triples[at, 2]], float(similarity[at]))
            for at in others
        )

    def _find_triples(self, relation: int) -> Ids:
        found: Ids = self._graph.train[self._graph.train[:, 1] == relation]
        return found
