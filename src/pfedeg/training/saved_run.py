"""Opens a saved run: settings, result, history, and tables for evaluation and prediction."""

from collections.abc import Mapping
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
from pfedeg.result_table import ResultTable
from pfedeg.settings import build_settings
from pfedeg.text import suggest
from pfedeg.training.config import DEFAULT_PARTS, REGISTRIES, Config
from pfedeg.training.evaluation import Evaluator, Metrics
from pfedeg.training.last_mix import Change, SavedMix
from pfedeg.training.link_prediction import Answerer, Calibration, Prediction, Predictor, look_up, parse_question
from pfedeg.training.result_tables import history_table, metrics_table
from pfedeg.training.run_folder import RunFolder, custom_strategy
from pfedeg.training.run_result import check_result, check_rounds


class Run(Predictor):
    """A saved run: settings, result, history, and tables for evaluation and prediction."""

    def __init__(self, path: str | Path, engine: Engine | None = None) -> None:
        """Open the run folder at `path`; tables and graphs are read when needed, and `engine` computes with them."""
        self.path, self._folder = Path(path), RunFolder.open(path)
        self.provenance = self._folder.read("provenance.json")
        self.settings: dict[str, Any] = self._folder.settings()
        try:
            self.clients: tuple[ClientId, ...] = tuple(self.provenance["clients"])
            if not isinstance(self.provenance["clients"], list) or not all(isinstance(c, str) for c in self.clients):
                raise TypeError("clients is not a list of names")
            self.method, self.model, self.seed = (self.settings[name] for name in ("method", "model", "seed"))
        except (TypeError, KeyError) as error:
            raise InputError(f"{path}: damaged, or made by another version of pfedeg ({error})") from None
        self.history: list[dict[str, Any]] = self._folder.history()
        if "federation" not in self.provenance:
            check_rounds(self.path / "history.jsonl", self.history)
        self._custom_engine = engine
        self.graph = cache(self._graph)
        self.tables = cache(self._tables)

    @cached_property
    def config(self) -> Config:
        """The settings; InputError if the method, model, objective or optimiser cannot be loaded."""
        return self._folder.config()

    @cached_property
    def model_settings(self) -> Any:
        """The settings of the model."""
        return build_settings(MODELS.get(self.model).settings, self.settings)

    @cached_property
    def built_model(self) -> Model:
        """The model; predictions do not need the method."""
        return MODELS.get(self.model).build(self.settings["dim"], self.model_settings)

    def label(self, part: Literal["method", "model", "objective", "optimizer"]) -> str:
        """The label of a `part` (method, model, objective or optimizer), even if it cannot be loaded."""
        saved = self.provenance.get("labels")
        if isinstance(saved, dict) and isinstance(saved.get(part), str):
            return str(saved[part])
        if part == "method" and self.custom_strategy:
            return self.custom_strategy
        identifier = str(self.settings.get(part, DEFAULT_PARTS[part]))
        return REGISTRIES[part].get(identifier).label if identifier in REGISTRIES[part] else identifier

    @property
    def custom_strategy(self) -> str:
        """The class of a user's strategy, which schema 1 allowed in place of the method's; otherwise empty."""
        return custom_strategy(self.provenance)

    @property
    def effective_settings(self) -> dict[str, Any]:
        """All settings with defaults filled in; as saved if the method or another part cannot be loaded."""
        try:
            return self.config.as_dict()
        except InputError:
            return self.settings

    @property
    def title(self) -> str:
        """The labels of method and model."""
        return f"{self.label('method')}, {self.label('model')}"

    @cached_property
    def _engine(self) -> Engine:
        """Loaded when needed, since importing the compiler takes time."""
        return self._custom_engine or default_engine()

    @property
    def has_tables(self) -> bool:
        """Whether graphs and tables of all clients are available; a copy of the small files has none."""
        return all(self._folder.has_tables(client) for client in self.clients)

    @property
    def result(self) -> dict[str, Any] | None:
        """The content of result.json, checked; None while the run is not finished."""
        if not self._folder.finished():
            return None
        history = () if "federation" in self.provenance else self.history  # a client has no lines of rounds it missed
        return check_result(self.path / "result.json", self._folder.read("result.json"), history)

    def metrics_table(self) -> ResultTable:
        """The metrics of the finished run: a row per split and client, and one for the weighted average (client "")."""
        return metrics_table(self.result)

    def history_table(self) -> ResultTable:
        """A row per round: loss, validation metrics if evaluated, seconds, and exchanged bytes."""
        return history_table(self.history)

    def affinity(self) -> dict[ClientId, dict[ClientId, float]] | None:
        """The relation graph of the best round, as learner → teacher → weight."""
        until = self.result["best_round"] if self.result else len(self.history)
        kept = [line["affinity"] for line in self.history if line.get("affinity") and line["round"] <= until]
        return kept[-1] if kept else None

    def require_finished(self) -> None:
        """Raise InputError if the run has no result yet."""
        self._folder.read("result.json")

    def find_client(self, client: str) -> ClientId:
        """The client with this name; otherwise an error that suggests similar names."""
        if normal(client) not in self.clients:
            raise InputError(f"unknown client {client!r}{suggest(client, self.clients)}")
        return normal(client)

    def evaluate(self, split: Split = "test", side: Side | None = "tail") -> dict[ClientId, Metrics]:
        """Metrics of every client on a `split`; `side` None: over head and tail predictions together."""
        sides: tuple[Side, ...] = ("tail", "head") if side is None else (side,)
        ranks = [self.ranks(split, which) for which in sides]
        return {
            client: replace(Metrics.of(np.concatenate([each[client] for each in ranks])), triples=len(ranks[0][client]))
            for client in self.clients
        }

    def ranks(self, split: Split = "test", side: Side = "tail") -> dict[ClientId, NDArray[np.float64]]:
        """The rank of every triple of a `split` among its client's candidates for the `side`, in the graph's order."""
        return {
            client: Evaluator(self.graph(client)).ranks(
                self._engine, self.built_model, self.tables(client), split, side
            )
            for client in self.clients
        }

    def count_known(self, client: ClientId, relation: str, *, head: str | None = None, tail: str | None = None) -> int:
        """How many answers to (`head`, `relation`, ?) or (?, `relation`, `tail`) the `client` already knows."""
        graph = self.graph(normal(client))
        side, (given, kind) = parse_question(graph, relation, head, tail)
        keys, start, _ = graph.known(side)
        at = int(np.searchsorted(keys, key := given * len(graph.relations) + kind))
        return int(start[at + 1] - start[at]) if at < len(keys) and keys[at] == key else 0

    def answerer(self, client: ClientId, side: Side = "tail") -> Answerer:
        """An answerer for many questions to one `client`, for tails or heads (`side`)."""
        client = self.find_client(client)
        parts = self._engine, self.built_model, self.tables(client), self.graph(client)
        return Answerer(*parts, side, self.calibration(client, side))

    def calibration(self, client: ClientId, side: Side = "tail") -> Calibration | None:
        """The curve of a `client` for predicted tails or heads (`side`) that `pfedeg calibrate` saved, if any."""
        return self._folder.calibrations(client).get(side)

    def calibrate(self, client: ClientId, curves: Mapping[Side, Calibration]) -> None:
        """Save the `curves` of a `client` with the run."""
        self._folder.save_calibrations(client, curves)

    def mix(self) -> SavedMix | None:
        """The last mix before the tables of this run; a run over a network, or of an earlier version, has none."""
        return self._folder.mix()

    def received(self, client: ClientId) -> Change | None:
        """What the last mix changed in the tables of a `client`, as the folder of a client in a federation has it."""
        return self._folder.change(client)

    def similar(self, client: ClientId, entity: str, k: int = 10) -> list[Prediction]:
        """The `k` entities of a `client` whose embeddings are most similar to that of `entity` by cosine, in order."""
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
            raise InputError(f"{self._folder.path}: a server's run; the clients have the graphs and tables")
        return self._folder.graph(client)

    def _tables(self, client: ClientId) -> Tables:
        graph, tables = self.graph(client), self._folder.tables(client)
        widths = (self.built_model.entity_width, self.built_model.relation_width)
        if tables.entity.shape != (len(graph.entities), widths[0]):
            raise InputError(
                f"{self._folder.path}: client {client!r}: the entity table does not fit the graph and model"
            )
        if tables.relation.shape != (len(graph.relations), widths[1]):
            raise InputError(
                f"{self._folder.path}: client {client!r}: the relation table does not fit the graph and model"
            )
        return tables
