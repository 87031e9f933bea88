"""Answers with names: from a trained client's tables, or from a whole run on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.config import Config, suggest
from pfedeg.errors import InputError
from pfedeg.evaluation import Evaluator, Metrics
from pfedeg.graph import SPLITS, KnowledgeGraph, Side, Split, normal
from pfedeg.kernels import Kernels, Tables, default_kernels
from pfedeg.models import Mat, Model
from pfedeg.shared import ClientId
from pfedeg.store import RunFolder

MOST_SCORES = 1 << 24  # at a time


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answer: its place among all answers shown, its score, and in which split the client has it, if in any."""

    rank: int
    entity: str
    score: float
    known: Split | None
    label: str | None = None  # the entity as people know it
    probability: float | None = None  # of being a fact, where the run is calibrated


@dataclass(frozen=True)
class Calibration:
    """A curve from scores to probabilities: straight between points, flat beyond them."""

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of scores."""
        return np.interp(scores, self.scores, self.probabilities)


class Answerer:
    """Answers questions of one side, (h, r, ?) or (?, r, t), from a client's tables and graph."""

    def __init__(
        self,
        kernels: Kernels,
        model: Model,
        tables: Tables,
        graph: KnowledgeGraph,
        side: Side,
        calibration: Calibration | None = None,
    ) -> None:
        """What stands in the graph is looked up once."""
        self._kernels, self._model, self._tables, self._graph, self._side = kernels, model, tables, graph, side
        self._calibration = calibration
        self._known = {split: graph.known(side, [split]) for split in SPLITS}

    def answers(
        self, questions: Sequence[tuple[int, int]], k: int, *, hidden: Sequence[Split] = SPLITS, least: float = -inf
    ) -> Iterator[list[Prediction]]:
        """The k best answers to each question (given entity, relation), but for those that hidden splits hold.

        Scores are computed for so many questions at a time that they stay within some 64 MB.
        """
        if k < 1:
            raise InputError(f"k: {k} is out of range; it must be at least 1")
        step = max(1, MOST_SCORES // len(self._graph.entities))
        compose = self._model.compose if self._side == "tail" else self._model.invert
        for first in range(0, len(questions), step):
            given, relation = np.array(questions[first : first + step], np.int64).T
            queries = compose(self._tables.entity[given], self._tables.relation[relation]).astype(np.float32)
            scores = self._kernels.scores(self._model, self._tables, np.ascontiguousarray(queries))
            for question, row in zip(questions[first : first + step], scores, strict=True):
                yield self._best(row, self.facts(question), k, hidden, least)

    def facts(self, question: tuple[int, int]) -> dict[int, Split]:
        """The answers that stand in the graph, and in which split."""
        key, facts = question[0] * len(self._graph.relations) + question[1], dict[int, Split]()
        for split, (keys, start, answers) in self._known.items():
            at = int(np.searchsorted(keys, key))
            if at < len(keys) and keys[at] == key:
                found = answers[start[at] : start[at + 1]].tolist()
                facts |= dict.fromkeys((e for e in found if e not in facts), split)
        return facts

    def _best(
        self, scores: Mat, facts: dict[int, Split], k: int, hidden: Sequence[Split], least: float
    ) -> list[Prediction]:
        scores = scores.copy()
        scores[[e for e, split in facts.items() if split in hidden]] = -inf
        floor = np.partition(scores, -k)[-k] if k < len(scores) else -inf
        able = np.flatnonzero((scores >= max(floor, least)) & (scores > -inf))
        order = able[np.argsort(-scores[able], kind="stable")][:k]  # equal ones by name
        chances = self._calibration(scores[order].astype(np.float64)).tolist() if self._calibration else [None] * k
        names = [self._graph.entities[e] for e in order.tolist()]
        return [
            Prediction(rank, name, float(scores[e]), facts.get(e), self._graph.labels.get(name), chance)
            for rank, (e, name, chance) in enumerate(zip(order.tolist(), names, chances, strict=False), 1)
        ]


def predict(
    kernels: Kernels,
    model: Model,
    tables: Tables,
    graph: KnowledgeGraph,
    *,
    relation: str,
    head: str | None = None,
    tail: str | None = None,
    k: int = 10,
    known: bool = False,
    least: float = -inf,
    calibration: Calibration | None = None,
) -> list[Prediction]:
    """The k best answers to (head, relation, ?) or (?, relation, tail); answers in the graph only if `known`."""
    side, question = ask(graph, relation, head, tail)
    answerer = Answerer(kernels, model, tables, graph, side, calibration if side == "tail" else None)
    return next(answerer.answers([question], k, hidden=() if known else SPLITS, least=least))


def ask(graph: KnowledgeGraph, relation: str, head: str | None, tail: str | None) -> tuple[Side, tuple[int, int]]:
    """A question by names as the side that is asked for and ids."""
    if (head is None) == (tail is None):
        raise InputError("give either a head or a tail")
    given = look_up("entity", (head if head is not None else tail) or "", graph)
    return "tail" if head is not None else "head", (given, look_up("relation", relation, graph))


def look_up(kind: Literal["entity", "relation"], name: str, graph: KnowledgeGraph) -> int:
    """The id of a name, or of the only one that people know as this, or a hint at names like it."""
    ids, wanted = graph.entity_ids if kind == "entity" else graph.relation_ids, normal(name)
    found = ids.get(wanted)
    if found is not None:
        return found
    called = [each for each, label in graph.labels.items() if label == wanted and each in ids]
    if len(called) > 1:
        raise InputError(f"{kind} {name!r}: {len(called)} are called so; say which: {', '.join(called[:5])}")
    if not called:
        labels = [label for each, label in graph.labels.items() if each in ids]
        unknown = f"unknown {kind} {name!r}{suggest(wanted, [*ids, *labels])}"
        raise InputError(unknown if name else f"the {kind} is missing")
    return ids[called[0]]


class Run:
    """A finished run on disk: its settings, result and history; its tables for evaluation and prediction."""

    def __init__(self, path: str | Path, kernels: Kernels | None = None) -> None:
        """Read what describes the run; tables and graphs are read when needed."""
        self.path, self._folder = Path(path), RunFolder.open(path)
        self.provenance = self._folder.read("provenance.json")
        try:
            self.config = Config(**self._folder.read("config.json"))
            self.clients: tuple[ClientId, ...] = tuple(self.provenance["clients"])
        except (TypeError, KeyError) as error:
            raise InputError(f"{path}: damaged, or a run of another version of pfedeg ({error})") from None
        self.history: list[dict[str, Any]] = self._folder.history()
        self._given = kernels
        self._model = self.config.build_model()
        self.graph = cache(self._graph)
        self.tables = cache(self._tables)

    @cached_property
    def _kernels(self) -> Kernels:
        """Made when needed: who only looks at a run does not wait for the compiler to be loaded."""
        return self._given or default_kernels()

    @property
    def has_tables(self) -> bool:
        """Whether graphs and tables of all clients are here, as they are not in a copy of the small files alone."""
        return all(self._folder.has_tables(client) for client in self.clients)

    @property
    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None while the run is not finished."""
        return self._folder.read("result.json") if self._folder.finished() else None

    def affinity(self) -> dict[ClientId, dict[ClientId, float]] | None:
        """Who learned how much from whom at the round whose tables are kept."""
        until = self.result["best_round"] if self.result else len(self.history)
        kept = [line["affinity"] for line in self.history if line.get("affinity") and line["round"] <= until]
        return kept[-1] if kept else None

    def must_be_finished(self) -> None:
        """Refuse a run that has no result yet."""
        self._folder.read("result.json")

    def named(self, client: str) -> ClientId:
        """The client of a name, or a hint at names like it."""
        if normal(client) not in self.clients:
            raise InputError(f"unknown client {client!r}{suggest(client, self.clients)}")
        return normal(client)

    def evaluate(self, split: Split = "test", side: Side | None = "tail") -> dict[ClientId, Metrics]:
        """Metrics of every client; with side None over head and tail predictions together."""
        sides: tuple[Side, ...] = ("tail", "head") if side is None else (side,)
        ranks = [self.ranks(split, which) for which in sides]
        return {
            client: replace(Metrics.of(np.concatenate([each[client] for each in ranks])), triples=len(ranks[0][client]))
            for client in self.clients
        }

    def ranks(self, split: Split = "test", side: Side = "tail") -> dict[ClientId, NDArray[np.float64]]:
        """The rank of every triple of a split among its client's candidates, in the graph's order."""
        return {
            client: Evaluator(self.graph(client)).ranks(self._kernels, self._model, self.tables(client), split, side)
            for client in self.clients
        }

    def predict(self, client: ClientId, relation: str, **question: Any) -> list[Prediction]:
        """See `predict`; e.g. run.predict("government", "in_country", head="Kyoto", k=3)."""
        client = self.named(client)
        parts = self._kernels, self._model, self.tables(client), self.graph(client)
        return predict(*parts, relation=relation, calibration=self.calibration(client), **question)

    def known(self, client: ClientId, relation: str, *, head: str | None = None, tail: str | None = None) -> int:
        """How many answers to a question stand in the client's own triples."""
        graph = self.graph(normal(client))
        side, (given, kind) = ask(graph, relation, head, tail)
        keys, start, _ = graph.known(side)
        at = int(np.searchsorted(keys, key := given * len(graph.relations) + kind))
        return int(start[at + 1] - start[at]) if at < len(keys) and keys[at] == key else 0

    def answerer(self, client: ClientId, side: Side = "tail") -> Answerer:
        """For many questions to one client."""
        client = self.named(client)
        parts = self._kernels, self._model, self.tables(client), self.graph(client)
        return Answerer(*parts, side, self.calibration(client) if side == "tail" else None)

    def calibration(self, client: ClientId) -> Calibration | None:
        """The curve that `pfedeg calibrate` has left, if it has."""
        found = self._folder.calibration(client)
        return Calibration(*found) if found else None

    def calibrate(self, client: ClientId, calibration: Calibration) -> None:
        """Keep a curve with the run."""
        self._folder.save_calibration(client, calibration.scores, calibration.probabilities)

    def similar(self, client: ClientId, entity: str, k: int = 10) -> list[Prediction]:
        """The entities whose embeddings point most nearly the same way (cosine), best first."""
        client = self.named(client)
        graph, table = self.graph(client), self.tables(client).entity
        given = look_up("entity", entity, graph)
        length = np.linalg.norm(table, axis=1)
        cosine = table @ table[given] / np.maximum(length * length[given], 1e-30)
        order = [e for e in np.argsort(-cosine, kind="stable").tolist() if e != given][:k]
        names = [graph.entities[e] for e in order]
        return [
            Prediction(rank, name, float(cosine[e]), None, graph.labels.get(name))
            for rank, (e, name) in enumerate(zip(order, names, strict=True), 1)
        ]

    def _graph(self, client: ClientId) -> KnowledgeGraph:
        if "federation" in self.provenance and not (self._folder.path / "clients").exists():
            raise InputError(f"{self._folder.path}: a server's run; graphs and tables are with its clients")
        return self._folder.graph(client)

    def _tables(self, client: ClientId) -> Tables:
        graph, tables = self.graph(client), self._folder.tables(client)
        widths = (self._model.entity_width, self._model.relation_width)
        if tables.entity.shape != (len(graph.entities), widths[0]):
            raise InputError(
                f"{self._folder.path}: client {client!r}: the entity table does not fit the graph and model"
            )
        if tables.relation.shape != (len(graph.relations), widths[1]):
            raise InputError(
                f"{self._folder.path}: client {client!r}: the relation table does not fit the graph and model"
            )
        return tables
