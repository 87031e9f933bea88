"""Answers with names: from a trained client's tables, or from a whole run on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedeg.config import Config, suggest
from pfedeg.errors import InputError
from pfedeg.evaluation import Evaluator, Metrics
from pfedeg.graph import SPLITS, KnowledgeGraph, Side, Split, normal
from pfedeg.kernels import Kernels, Tables, default_kernels
from pfedeg.models import Model
from pfedeg.shared import ClientId
from pfedeg.store import RunFolder


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answer: its place among all answers shown, its score, and in which split the client has it, if in any."""

    rank: int
    entity: str
    score: float
    known: Split | None


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
) -> list[Prediction]:
    """The k best answers to (head, relation, ?) or (?, relation, tail); answers in the graph only if `known`."""
    if (head is None) == (tail is None):
        raise InputError("give either a head or a tail")
    if k < 1:
        raise InputError(f"k: {k} is out of range; it must be at least 1")
    side: Side = "tail" if head is not None else "head"
    given = look_up("entity", (head if head is not None else tail) or "", graph.entity_ids)
    kind = look_up("relation", relation, graph.relation_ids)
    compose = model.compose if side == "tail" else model.invert
    query = compose(tables.entity[given], tables.relation[kind])[None].astype(np.float32)
    scores = kernels.scores(model, tables, query)[0]
    facts = _facts(graph, side, given, kind)
    order = [e for e in np.argsort(-scores, kind="stable").tolist() if known or e not in facts][:k]
    return [Prediction(rank, graph.entities[e], float(scores[e]), facts.get(e)) for rank, e in enumerate(order, 1)]


def _facts(graph: KnowledgeGraph, side: Side, given: int, relation: int) -> dict[int, Split]:
    """The answers that stand in the graph, and in which split."""
    column, answer = (0, 2) if side == "tail" else (2, 0)
    facts: dict[int, Split] = {}
    for split in SPLITS:
        triples = graph.triples(split)
        found = triples[(triples[:, column] == given) & (triples[:, 1] == relation), answer]
        facts |= dict.fromkeys((e for e in found.tolist() if e not in facts), split)
    return facts


def look_up(kind: str, name: str, ids: Mapping[str, int]) -> int:
    """The id of a name, or a hint at names like it."""
    found = ids.get(normal(name))
    if found is None:
        raise InputError(f"unknown {kind} {name!r}{suggest(normal(name), ids)}")
    return found


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
        return predict(
            self._kernels, self._model, self.tables(client), self.graph(client), relation=relation, **question
        )

    def known(self, client: ClientId, relation: str, *, head: str | None = None, tail: str | None = None) -> int:
        """How many answers to a question stand in the client's own triples."""
        graph = self.graph(normal(client))
        side: Side = "tail" if head is not None else "head"
        given = look_up("entity", (head if head is not None else tail) or "", graph.entity_ids)
        return len(_facts(graph, side, given, look_up("relation", relation, graph.relation_ids)))

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
