"""Answers to questions (h, r, ?) and (?, r, t) from a client's tables, with names."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import Engine
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph, Side, Split
from pfedeg.graphs.naming import decoded
from pfedeg.graphs.triples import normal
from pfedeg.models.base import Mat, Model, Tables
from pfedeg.text import suggest

MAX_CANDIDATES = 5  # names in an error message
MAX_SCORES = 1 << 24  # computed at a time


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answer: an `entity` with its display `label`, its `rank` and `score`, and the split in which it is `known`.

    `probability` is the probability of being correct, if the run is calibrated; it rests on so many `cases`.
    """

    rank: int
    entity: str
    score: float
    known: Split | None
    label: str | None = None  # display label of the entity
    probability: float | None = None  # of being correct; None if the run is not calibrated
    cases: int | None = None  # the number of validation answers that the probability rests on


@dataclass(frozen=True)
class Calibration:
    """A curve from scores to probabilities: linear between points, constant beyond them."""

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]
    cases: tuple[int, ...] = ()  # the number of answers that each point rests on; empty if it was not recorded

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of scores."""
        return np.interp(scores, self.scores, self.probabilities)

    def cases_at(self, scores: NDArray[np.float64]) -> list[int | None]:
        """The number of answers that each probability rests on: between two points, the smaller one of theirs."""
        if not self.cases:
            return [None] * len(scores)
        last = len(self.scores) - 1
        right = np.minimum(np.searchsorted(self.scores, scores, "left"), last)
        left = np.clip(np.searchsorted(self.scores, scores, "right") - 1, 0, last)
        cases = np.array(self.cases)
        found: list[int | None] = np.minimum(cases[left], cases[right]).tolist()
        return found


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
        self._engine, self._model, self._tables, self.graph, self.side = engine, model, tables, graph, side
        self._calibration = calibration
        self._known = {split: graph.known(side, [split]) for split in SPLITS}

    def answers(
        self, questions: Sequence[tuple[int, int]], k: int, *, hidden: Sequence[Split] = SPLITS, min_score: float = -inf
    ) -> Iterator[list[Prediction]]:
        """The k best answers to each question (given entity, relation), without those in hidden splits.

        Questions are processed in batches whose scores take at most about 64 MB.
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise InputError(f"k: {k!r} is not a whole number")
        if k < 1:
            raise InputError(f"k: {k} is out of range; it must be at least 1")
        k = min(k, len(self.graph.entities))
        step = max(1, MAX_SCORES // len(self.graph.entities))
        for first in range(0, len(questions), step):
            batch = questions[first : first + step]
            for question, row in zip(batch, self._scores(batch), strict=True):
                yield self._best(row, self.facts(question), k, hidden, min_score)

    def with_tables(self, tables: Tables) -> "Answerer":
        """The same with other tables, and without probabilities."""
        other = copy(self)
        other._tables, other._calibration = tables, None
        return other

    def standing(
        self, question: tuple[int, int], entities: Sequence[int], hidden: Sequence[Split]
    ) -> list[tuple[int, float]]:
        """Rank and score of some entities among all answers to a question without those in hidden splits."""
        (scores,) = self._scores([question]).copy()
        others = np.ones(len(scores), bool)
        others[[e for e, split in self.facts(question).items() if split in hidden]] = False
        found = []
        for entity in entities:
            better = (scores > scores[entity]) | ((scores == scores[entity]) & (np.arange(len(scores)) < entity))
            found.append((1 + int((better & others).sum()), float(scores[entity])))
        return found

    def _scores(self, questions: Sequence[tuple[int, int]]) -> Mat:
        """The scores of all entities as answers."""
        compose = self._model.compose if self.side == "tail" else self._model.compose_inverse
        given, relation = np.array(questions, np.int64).T
        queries = compose(self._tables.entity[given], self._tables.relation[relation]).astype(np.float32)
        return self._engine.scores(self._model, self._tables, np.ascontiguousarray(queries))

    def facts(self, question: tuple[int, int]) -> dict[int, Split]:
        """The known answers to a question, with their split."""
        key, facts = question[0] * len(self.graph.relations) + question[1], dict[int, Split]()
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
        best, names = scores[order].astype(np.float64), [self.graph.entities[e] for e in order.tolist()]
        chances: list[float | None] = self._calibration(best).tolist() if self._calibration else [None] * len(order)
        cases = self._calibration.cases_at(best) if self._calibration else [None] * len(order)
        return [
            Prediction(rank, name, float(scores[e]), facts.get(e), self.graph.labels.get(name), chance, number)
            for rank, (e, name, chance, number) in enumerate(zip(order.tolist(), names, chances, cases, strict=True), 1)
        ]


class Predictor(ABC):
    """What has tables that answer questions: a training, or a saved run."""

    @abstractmethod
    def answerer(self, client: ClientId, side: Side = "tail") -> Answerer:
        """An answerer for many questions to one `client`, for tails or heads (`side`)."""

    def predict(
        self,
        client: ClientId,
        relation: str,
        *,
        head: str | None = None,
        tail: str | None = None,
        k: int = 10,
        known: bool = False,
        min_score: float = -inf,
    ) -> list[Prediction]:
        """The `k` best answers of a `client` to (`head`, `relation`, ?) or (?, `relation`, `tail`), best first.

        Without `known`, answers that are in the client's triples are left out, and so are those below `min_score`.
        """
        answerer = self.answerer(client, "tail" if tail is None else "head")
        _, question = parse_question(answerer.graph, relation, head, tail)
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
    if not isinstance(name, str):
        raise InputError(f"{kind} {name!r}: not a text")
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
