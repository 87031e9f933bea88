"""A run on disk: its settings, result and history, its tables for evaluation and prediction."""

from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import Engine, default_engine
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Side, Split
from pfedeg.graphs.triples import normal
from pfedeg.models.base import Model, Tables
from pfedeg.models.registry import MODELS
from pfedeg.settings import build_settings
from pfedeg.text import suggest
from pfedeg.training.config import DEFAULT_PARTS, REGISTRIES, Config
from pfedeg.training.evaluation import Evaluator, Metrics
from pfedeg.training.link_prediction import Answerer, Calibration, Prediction, look_up, parse_question, predict
from pfedeg.training.run_folder import RunFolder

SCHEMA_1_STRATEGIES = ("Single", "FedE", "PFedEGStar", "PFedEGPlus")  # others were a user's own


class Run:
    """A finished run on disk: its settings, result and history; its tables for evaluation and prediction."""

    def __init__(self, path: str | Path, engine: Engine | None = None) -> None:
        """Read what describes the run; tables and graphs are read when needed."""
        self.path, self._folder = Path(path), RunFolder.open(path)
        self.provenance = self._folder.read("provenance.json")
        self.settings: dict[str, Any] = self._folder.settings()
        try:
            self.clients: tuple[ClientId, ...] = tuple(self.provenance["clients"])
            self.method, self.model, self.seed = (self.settings[name] for name in ("method", "model", "seed"))
        except (TypeError, KeyError) as error:
            raise InputError(f"{path}: damaged, or a run of another version of pfedeg ({error})") from None
        self.history: list[dict[str, Any]] = self._folder.history()
        self._given = engine
        self.graph = cache(self._graph)
        self.tables = cache(self._tables)

    @cached_property
    def config(self) -> Config:
        """The settings; an error if the run's method or model cannot be loaded here."""
        return self._folder.config()

    @cached_property
    def _model(self) -> Model:
        """The model alone: a run whose method cannot be loaded still answers questions."""
        kind = MODELS.get(self.model)
        return kind.build(self.settings["dim"], build_settings(kind.settings, self.settings))

    def label(self, part: Literal["method", "model", "objective", "optimizer"]) -> str:
        """How a part of the run is called, even where it cannot be loaded."""
        saved = self.provenance.get("labels")
        if isinstance(saved, dict) and isinstance(saved.get(part), str):
            return str(saved[part])
        if part == "method" and self.custom_strategy:
            return self.custom_strategy
        identifier = str(self.settings.get(part, DEFAULT_PARTS[part]))
        return REGISTRIES[part].get(identifier).label if identifier in REGISTRIES[part] else identifier

    @property
    def custom_strategy(self) -> str:
        """The class of a user's strategy that took the place of the method's, which schema 1 allowed; else empty."""
        strategy = self.provenance.get("strategy")
        return strategy if isinstance(strategy, str) and strategy not in SCHEMA_1_STRATEGIES else ""

    @property
    def effective_settings(self) -> dict[str, Any]:
        """The settings with those that an earlier version did not save; as saved if a part cannot be loaded."""
        try:
            return self.config.as_dict()
        except InputError:
            return self.settings

    @property
    def title(self) -> str:
        """The method and the model as people read them."""
        return f"{self.label('method')}, {self.label('model')}"

    @cached_property
    def _engine(self) -> Engine:
        """Made when needed: who only looks at a run does not wait for the compiler to be loaded."""
        return self._given or default_engine()

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

    def require_finished(self) -> None:
        """Refuse a run that has no result yet."""
        self._folder.read("result.json")

    def find_client(self, client: str) -> ClientId:
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
            client: Evaluator(self.graph(client)).ranks(self._engine, self._model, self.tables(client), split, side)
            for client in self.clients
        }

    def predict(self, client: ClientId, relation: str, **question: Any) -> list[Prediction]:
        """See `predict`; e.g. run.predict("government", "in_country", head="Kyoto", k=3)."""
        client = self.find_client(client)
        parts = self._engine, self._model, self.tables(client), self.graph(client)
        return predict(*parts, relation=relation, calibration=self.calibration(client), **question)

    def count_known(self, client: ClientId, relation: str, *, head: str | None = None, tail: str | None = None) -> int:
        """How many answers to a question stand in the client's own triples."""
        graph = self.graph(normal(client))
        side, (given, kind) = parse_question(graph, relation, head, tail)
        keys, start, _ = graph.known(side)
        at = int(np.searchsorted(keys, key := given * len(graph.relations) + kind))
        return int(start[at + 1] - start[at]) if at < len(keys) and keys[at] == key else 0

    def answerer(self, client: ClientId, side: Side = "tail") -> Answerer:
        """For many questions to one client."""
        client = self.find_client(client)
        parts = self._engine, self._model, self.tables(client), self.graph(client)
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
        client = self.find_client(client)
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
