"""One client: initial tables, use of downloads, local training, uploads and evaluation."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg import aligned_arrays, randomness
from pfedeg.engine.interface import Engine, Knowledge, positives
from pfedeg.errors import InputError, RunError, named_failure
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Split
from pfedeg.graphs.triples import Ids
from pfedeg.methods.base import ClientView, Strategy
from pfedeg.methods.exchange import Contents, Download, SharedTable, Upload
from pfedeg.models.base import Tables, start_rows
from pfedeg.optimizers.base import OptimizerState
from pfedeg.training.config import Config
from pfedeg.training.evaluation import Evaluator, Metrics
from pfedeg.training.last_mix import Change

KNOWLEDGE = Contents((SharedTable("entity", partial=True),))


class ClientState(NamedTuple):
    """The state of a client between rounds."""

    tables: Tables
    optimizer: OptimizerState | None  # None with moments = reset
    trained: bool  # whether the client has trained in any round
    loss: float = 0.0  # of its last round

    def arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """All arrays by name, for a checkpoint."""
        tables = {f"{prefix}tables/{name}": table for name, table in self.tables._asdict().items()}
        return tables | {f"{prefix}optimizer/{name}": array for name, array in (self.optimizer or {}).items()}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], trained: bool, loss: float, prefix: str = "") -> "ClientState":
        """The inverse of `arrays`."""
        tables = Tables(*(arrays[f"{prefix}tables/{name}"] for name in Tables._fields))
        start = f"{prefix}optimizer/"
        optimizer = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
        return cls(tables, optimizer or None, trained, loss)


class Client:
    """A client's graph and settings. It has no state: `ClientState` is passed in and returned."""

    def __init__(
        self, name: ClientId, graph: KnowledgeGraph, aligned: Ids, travelling: Ids, config: Config, strategy: Strategy
    ) -> None:
        """`aligned` has the aligned id of every entity, `travelling` the sorted ids of shared entities."""
        self.name, self.graph, self.strategy = name, graph, strategy
        self.recipe = config.build_recipe(strategy.absorb)
        self.model = self.recipe.model
        self._aligned, self.travelling, self._config = aligned, travelling, config
        order = np.argsort(aligned)
        self._rows = order[np.searchsorted(aligned[order], travelling)]
        self._positives = positives(graph)
        self._evaluator = Evaluator(graph)

    def start(self) -> ClientState:
        """The initial tables. With start = shared, aligned entities have the same initial values at every client."""
        config, shared = self._config, self._config.start == "shared"
        key = randomness.key("start", "entity", config.seed) if shared else self._key("start", "entity")
        ids = self._aligned if shared else np.arange(len(self._aligned))
        entity = start_rows(self.model, self.model.entity_width, key, ids)
        relations = np.arange(len(self.graph.relations))
        relation = start_rows(self.model, self.model.relation_width, self._key("start", "relation"), relations)
        return ClientState(Tables(entity, relation), None, False)

    def check(self, state: ClientState) -> None:
        """Raise ValueError unless a state from a file has the arrays of this client: names, types, shapes, finite."""
        expected = self.start()
        if state.optimizer is not None:
            if self._config.moments != "keep":
                raise ValueError("it has an optimizer state, which this run does not keep")
            expected = expected._replace(optimizer=self.recipe.optimizer.init(expected.tables))
        check_arrays(state.arrays(), expected.arrays())

    def check_tables(self, tables: Tables) -> None:
        """Raise ValueError unless tables from a file are of this client's types and shapes, and finite."""
        check_arrays(tables._asdict(), self.start().tables._asdict())

    def step(self, state: ClientState, number: int, download: Download, engine: Engine) -> tuple[ClientState, float]:
        """The client's part of round `number`: use the download and train. Returns the new state and the mean loss."""
        absorb, before = self.recipe.absorb, state.tables.entity
        rows = self._knowledge(state, download)
        replaced = self._replaced(state.tables, rows)
        tables = replaced if absorb.replace else state.tables.copy()
        nothing = np.zeros((0, before.shape[1]), np.float32)
        received = previous = nothing
        if absorb.pull or absorb.contrast:
            received = aligned_arrays.copy(replaced.entity) if absorb.replace else replaced.entity
        if absorb.contrast:
            previous = before if state.trained else received
        if state.optimizer is None:
            optimizer = self.recipe.optimizer.init(tables)
        else:
            optimizer = {name: aligned_arrays.copy(array) for name, array in state.optimizer.items()}
        key = self._key("train", number)
        with named_failure(f"client {self.name!r}, round {number}: training"):
            loss = engine.train(self.recipe, tables, optimizer, Knowledge(received, previous), self._positives, key)
        if not (np.isfinite(loss) and all(np.isfinite(table).all() for table in tables)):
            raise RunError(
                f"client {self.name!r}, round {number}: training diverged (NaN or infinity); a smaller lr may help"
            )
        return ClientState(tables, optimizer if self._config.moments == "keep" else None, True, loss), loss

    def training_size(self) -> int:
        """The work of a round, in visited rows."""
        triples, batches = len(self.graph.train), self.recipe.batches
        return triples * batches.negatives + -(-triples // batches.size) * len(self.graph.entities)

    def absorbed(self, state: ClientState, download: Download) -> Tables:
        """The tables with downloaded rows in place of the client's own."""
        return self._replaced(state.tables, self._knowledge(state, download))

    def change(self, state: ClientState, download: Download) -> Change | None:
        """What a download changes in the rows of shared entities; None if the method exchanges no tables."""
        found = self._knowledge(state, download)
        if found is None:
            return None
        rows = self._rows[np.searchsorted(self.travelling, found.ids)].astype(np.int32)
        return Change(rows, found.values - state.tables.entity[rows])

    def upload(self, state: ClientState) -> Upload:
        """The upload, checked against what the method declares."""
        with named_failure(f"client {self.name!r}: {type(self.strategy).__name__}.upload"):
            upload = self.strategy.upload(self._view(state))
        self._check(self.strategy.uploads, upload, "upload")
        return upload

    def evaluate(self, tables: Tables, split: Split, engine: Engine) -> Metrics:
        """Link prediction on the client's own triples."""
        with named_failure(f"client {self.name!r}: evaluation"):
            return self._evaluator.metrics(engine, self.model, tables, split)

    def _view(self, state: ClientState) -> ClientView:
        return ClientView(self.graph, state.tables, self.travelling, self._rows, state.loss)

    def _knowledge(self, state: ClientState, download: Download) -> Rows | None:
        """The rows that the strategy computes from a download; None if the method exchanges no tables."""
        if not self.strategy.downloads.tables:
            return None
        with named_failure(f"client {self.name!r}: {type(self.strategy).__name__}.knowledge"):
            rows = self.strategy.knowledge(self._view(state), download)
        self._check(KNOWLEDGE, Upload({"entity": rows}), "knowledge")
        return rows

    def _check(self, contents: Contents, message: Upload, part: str) -> None:
        try:
            contents.check(message, self.travelling, self.model.entity_width)
        except ValueError as error:
            text = f"method {self._config.method_type.label}, client {self.name!r}: invalid {part}"
            raise InputError(f"{text}: {error}") from None

    def _replaced(self, tables: Tables, rows: Rows | None) -> Tables:
        """A copy of the tables with these rows of shared entities replaced."""
        result = tables.copy()
        if rows is not None and len(rows.ids):
            result.entity[self._rows[np.searchsorted(self.travelling, rows.ids)]] = rows.values
        return result

    def _key(self, *purpose: str | int) -> int:
        return randomness.key(self._config.seed, self.name, *purpose)


def check_arrays(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless two sets of arrays have the same names, types and shapes, and the found are finite."""
    if found.keys() != expected.keys():
        raise ValueError(f"expected arrays {', '.join(expected)}; found {', '.join(found)}")
    for name, array in found.items():
        wanted = expected[name]
        if (array.dtype, array.shape) != (wanted.dtype, wanted.shape):
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {wanted.dtype} {wanted.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite")


def build_clients(
    graphs: Mapping[ClientId, KnowledgeGraph], shared: Shared, config: Config, strategy: Strategy
) -> dict[ClientId, Client]:
    """The clients of a federation; if the method is not federated, no entity counts as shared."""
    federated, no_ids = config.method_type.is_federated, np.zeros(0, np.int32)
    return {
        name: Client(name, graph, shared.ids[name], shared.travelling[name] if federated else no_ids, config, strategy)
        for name, graph in graphs.items()
    }
