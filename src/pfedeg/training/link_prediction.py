"""Answers to questions (h, r, ?) and (?, r, t) from a client's tables, with names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import Engine
from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph, Side, Split
from pfedeg.graphs.naming import decoded
from pfedeg.graphs.triples import normal
from pfedeg.models.base import Mat, Model, Tables
from pfedeg.text import suggest

MAX_CANDIDATES = 5  # names in an error message
MAX_SCORES = 1 << 24  # computed at a time


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answer: its rank, its score, and the split in which the client knows it, if any."""

    rank: int
    entity: str
    score: float
    known: Split | None
    label: str | None = None  # display label of the entity
    probability: float | None = None  # of being correct; None if the run is not calibrated


@dataclass(frozen=True)
class Calibration:
    """A curve from scores to probabilities: linear between points, constant beyond them."""

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of scores."""
        return np.interp(scores, self.scores, self.probabilities)


class Answerer:
    """Answers questions of one side, (h, r, ?) or (?, r, t), from a client's tables and graph."""

    def __init__(
        self,
        engine: Engine,
        model: Model,
        tables: Tables,
        graph: KnowledgeGraph,
        side: Side,
        calibration: Calibration | None = None,
    ) -> None:
        """Index the known answers of the graph once."""
        self._engine, self._model, self._tables, self._graph, self._side = engine, model, tables, graph, side
        self._calibration = calibration
        self._known = {split: graph.known(side, [split]) for split in SPLITS}

    def answers(
        self, questions: Sequence[tuple[int, int]], k: int, *, hidden: Sequence[Split] = SPLITS, min_score: float = -inf
    ) -> Iterator[list[Prediction]]:
        """The k best answers to each question (given entity, relation), without those in hidden splits.

        Questions are processed in batches whose scores take at most about 64 MB.
        """
        if k < 1:
            raise InputError(f"k: {k} is out of range; it must be at least 1")
        k = min(k, len(self._graph.entities))
        step = max(1, MAX_SCORES // len(self._graph.entities))
        compose = self._model.compose if self._side == "tail" else self._model.compose_inverse
        for first in range(0, len(questions), step):
            given, relation = np.array(questions[first : first + step], np.int64).T
            queries = compose(self._tables.entity[given], self._tables.relation[relation]).astype(np.float32)
            scores = self._engine.scores(self._model, self._tables, np.ascontiguousarray(queries))
            for question, row in zip(questions[first : first + step], scores, strict=True):
                yield self._best(row, self.facts(question), k, hidden, min_score)

    def facts(self, question: tuple[int, int]) -> dict[int, Split]:
        """The known answers to a question, with their split."""
        key, facts = question[0] * len(self._graph.relations) + question[1], dict[int, Split]()
        for split, (keys, start, answers) in self._known.items():
            at = int(np.searchsorted(keys, key))
            if at < len(keys) and keys[at] == key:
                found = answers[start[at] : start[at + 1]].tolist()
                facts |= dict.fromkeys((e for e in found if e not in facts), split)
        return facts

    def _best(
        self, scores: Mat, facts: dict[int, Split], k: int, hidden: Sequence[Split], min_score: float
    ) -> list[Prediction]:
        scores = scores.copy()
        scores[[e for e, split in facts.items() if split in hidden]] = -inf
        floor = np.partition(scores, -k)[-k] if k < len(scores) else -inf
        candidates = np.flatnonzero((scores >= max(floor, min_score)) & (scores > -inf))
        order = candidates[np.argsort(-scores[candidates], kind="stable")][:k]  # ties by name
        chances = self._calibration(scores[order].astype(np.float64)).tolist() if self._calibration else [None] * k
        names = [self._graph.entities[e] for e in order.tolist()]
        return [
            Prediction(rank, name, float(scores[e]), facts.get(e), self._graph.labels.get(name), chance)
            for rank, (e, name, chance) in enumerate(zip(order.tolist(), names, chances, strict=False), 1)
        ]


def predict(
    engine: Engine,
    model: Model,
    tables: Tables,
    graph: KnowledgeGraph,
    *,
    relation: str,
    head: str | None = None,
    tail: str | None = None,
    k: int = 10,
    known: bool = False,
    min_score: float = -inf,
    calibration: Calibration | None = None,
) -> list[Prediction]:
    """The k best answers to (head, relation, ?) or (?, relation, tail); known answers only if `known`."""
    side, question = parse_question(graph, relation, head, tail)
    answerer = Answerer(engine, model, tables, graph, side, calibration if side == "tail" else None)
    return next(answerer.answers([question], k, hidden=() if known else SPLITS, min_score=min_score))


def parse_question(
    graph: KnowledgeGraph, relation: str, head: str | None, tail: str | None
) -> tuple[Side, tuple[int, int]]:
    """The side to predict, and the ids of the given entity and the relation."""
    if (head is None) == (tail is None):
        raise InputError("give either a head or a tail")
    given = look_up("entity", (head if head is not None else tail) or "", graph)
    return "tail" if head is not None else "head", (given, look_up("relation", relation, graph))


def look_up(kind: Literal["entity", "relation"], name: str, graph: KnowledgeGraph) -> int:
    """The id of a name, unique display label or decoded IRI; otherwise an error that suggests similar names."""
    ids, wanted = graph.entity_ids if kind == "entity" else graph.relation_ids, normal(name)
    if wanted in ids:
        return ids[wanted]
    plain = normal(name.strip())
    for names, what in ((graph.names_by_label, "label"), (graph.names_by_decoded_iri, "decoded IRI")):
        called = [each for each in names.get(plain, ()) if each in ids]
        if len(called) > 1:
            more = ", …" if len(called) > MAX_CANDIDATES else ""
            candidates = ", ".join(called[:MAX_CANDIDATES])
            raise InputError(f"{kind} {name!r}: {len(called)} have this {what}; choose one: {candidates}{more}")
        if called:
            return ids[called[0]]
    if (other := next((each for each in (plain, decoded(plain)) if each in ids), None)) is not None:
        return ids[other]
    labels = [label for each, label in graph.labels.items() if each in ids]
    unknown = f"unknown {kind} {name!r}{suggest(wanted, [*ids, *labels])}"
    raise InputError(unknown if plain else f"the {kind} is missing")
