"""Metrics of filtered link prediction among a client's own entities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import Engine, Questions, questions
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Side, Split
from pfedeg.models.base import Mat, Model, Tables

HITS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Mean reciprocal rank `mrr`, Hits@1, 5 and 10 in `hits`, and the number of evaluated `triples`."""

    mrr: float
    hits: tuple[float, float, float]
    triples: int

    @classmethod
    def of(cls, ranks: NDArray[np.float64]) -> "Metrics":
        """The metrics of some ranks; NaN if there are none."""
        if not len(ranks):
            return cls(float("nan"), (float("nan"),) * 3, 0)
        at1, at5, at10 = (float((ranks <= k).mean()) for k in HITS)
        return cls(float((1 / ranks).mean()), (at1, at5, at10), len(ranks))

    def as_dict(self) -> dict[str, float | None]:
        """The metrics by name; None if nothing was evaluated."""
        values = {"mrr": self.mrr} | {f"hits@{k}": value for k, value in zip(HITS, self.hits, strict=True)}
        return {name: value if self.triples else None for name, value in values.items()}


def weighted(metrics: Mapping[str, Metrics]) -> Metrics:
    """The average over clients, weighted by their number of evaluated triples."""
    counted = [
        m for _, m in sorted(metrics.items()) if m.triples
    ]  # a fixed order, so that rounding does not depend on it
    total = sum(m.triples for m in counted)
    if not total:
        return Metrics.of(np.zeros(0))

    def average(values: list[float]) -> float:
        return sum(value * m.triples for value, m in zip(values, counted, strict=True)) / total

    at1, at5, at10 = (average([m.hits[k] for m in counted]) for k in range(3))
    return Metrics(average([m.mrr for m in counted]), (at1, at5, at10), total)


class Evaluator:
    """Ranks a graph's triples; questions and filters are prepared once."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        """For one client's graph."""
        self._graph = graph
        self._questions = cache(self._prepare)

    def ranks(
        self, engine: Engine, model: Model, tables: Tables, split: Split, side: Side = "tail"
    ) -> NDArray[np.float64]:
        """The rank of every triple of the split, in the order of the split."""
        grouped, order = self._questions(split, side)
        result = np.zeros(len(order))
        if len(order):
            result[order] = engine.ranks(model, tables, queries(model, tables, grouped, side), grouped)
        return result

    def metrics(self, engine: Engine, model: Model, tables: Tables, split: Split, side: Side = "tail") -> Metrics:
        """The metrics of one split."""
        return Metrics.of(self.ranks(engine, model, tables, split, side))

    def _prepare(self, split: Split, side: Side) -> tuple[Questions, NDArray[np.int64]]:
        graph = self._graph
        return questions(graph.triples(split), graph.known(side), len(graph.relations), 0 if side == "tail" else 2)


def queries(model: Model, tables: Tables, grouped: Questions, side: Side) -> Mat:
    """The composed query of every question."""
    given, relation = tables.entity[grouped.given], tables.relation[grouped.relation]
    compose = model.compose if side == "tail" else model.compose_inverse
    return np.ascontiguousarray(compose(given, relation), np.float32)
