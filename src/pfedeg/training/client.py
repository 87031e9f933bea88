"""One client: how its tables start, absorb knowledge, train on its own triples, and what of them it uploads."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.engine.interface import Absorb, Kernels, Knowledge, Local, Moments, Tables, positives
from pfedeg.errors import RunError
from pfedeg.graphs.alignment import ClientId, Mat, Rows
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Split
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Model, start_rows
from pfedeg.training.evaluation import Evaluator, Metrics


class ClientState(NamedTuple):
    """All that changes at a client from round to round."""

    tables: Tables
    moments: Moments | None  # kept from round to round only where the method says so
    trained: bool  # whether it has trained at all

    def arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Its arrays by names, to be kept in a file."""
        groups = {"tables": self.tables, "moments": self.moments}
        return {
            f"{prefix}{part}/{name}": array
            for part, group in groups.items()
            for name, array in (group._asdict() if group else {}).items()
        }

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], trained: bool, prefix: str = "") -> "ClientState":
        """The counterpart of `arrays`."""
        tables = Tables(*(arrays[f"{prefix}tables/{name}"] for name in Tables._fields))
        moments = None
        if f"{prefix}moments/steps" in arrays:
            moments = Moments(*(arrays[f"{prefix}moments/{name}"] for name in Moments._fields))
        return cls(tables, moments, trained)


class Client:
    """A client's graph and settings; its state goes in and comes out."""

    def __init__(
        self,
        name: ClientId,
        graph: KnowledgeGraph,
        aligned: Ids,
        travelling: Ids,
        *,
        model: Model,
        local: Local,
        absorb: Absorb,
        seed: int,
        start: Literal["shared", "independent"] = "shared",
        moments: Literal["reset", "keep"] = "reset",
    ) -> None:
        """`aligned` is the aligned id of every entity, `travelling` the sorted ones that others own too."""
        self.name, self.graph, self.model, self.local, self.absorb = name, graph, model, local, absorb
        self._aligned, self._travelling, self._seed = aligned, travelling, seed
        self._start, self._keep_moments = start, moments == "keep"
        order = np.argsort(aligned)
        self._rows = order[np.searchsorted(aligned[order], travelling)]
        self._positives = positives(graph)
        self._evaluator = Evaluator(graph)

    def start(self) -> ClientState:
        """Aligned entities start from the same values everywhere (or, independent, each client from its own)."""
        shared = self._start == "shared"
        key = randomness.key("start", "entity", self._seed) if shared else self._key("start", "entity")
        ids = self._aligned if shared else np.arange(len(self._aligned))
        entity = start_rows(self.model, self.model.entity_width, key, ids)
        relations = np.arange(len(self.graph.relations))
        relation = start_rows(self.model, self.model.relation_width, self._key("start", "relation"), relations)
        return ClientState(Tables(entity, relation), None, False)

    def step(self, state: ClientState, number: int, download: Rows, kernels: Kernels) -> tuple[ClientState, float]:
        """The client's half of round `number`: absorb, train; the mean of L_KGE."""
        before = state.tables.entity
        tables = self.absorbed(state.tables, download) if self.absorb.replace else state.tables.copy()
        nothing = np.zeros((0, before.shape[1]), np.float32)
        received = previous = nothing
        if self.absorb.pull or self.absorb.contrast:
            received = self.absorbed(state.tables, download).entity
        if self.absorb.contrast:
            previous = before if state.trained else received
        moments = state.moments.copy() if state.moments else Moments.zeros(tables)
        key = self._key("train", number)
        knowledge = Knowledge(received, previous)
        loss = kernels.train(self.model, self.local, self.absorb, tables, moments, knowledge, self._positives, key)
        if not (np.isfinite(loss) and all(np.isfinite(table).all() for table in tables)):
            raise RunError(
                f"client {self.name!r}, round {number}: training diverged (NaN or infinity); a smaller lr may help"
            )
        return ClientState(tables, moments if self._keep_moments else None, True), loss

    def training_size(self) -> int:
        """How much work a round is, in rows that are visited."""
        triples = len(self.graph.train)
        return triples * self.local.negatives + -(-triples // self.local.batch) * len(self.graph.entities)

    def absorbed(self, tables: Tables, download: Rows) -> Tables:
        """The tables with the received rows in place; rows that did not travel stay."""
        result = tables.copy()
        if len(download.ids):
            result.entity[self._rows[np.searchsorted(self._travelling, download.ids)]] = download.values
        return result

    def upload(self, state: ClientState) -> Rows:
        """The rows of entities that another client owns too."""
        values: Mat = state.tables.entity[self._rows]
        return Rows(self._travelling, values)

    def evaluate(self, tables: Tables, split: Split, kernels: Kernels) -> Metrics:
        """Link prediction on the client's own triples."""
        return self._evaluator.metrics(kernels, self.model, tables, split)

    def _key(self, *purpose: str | int) -> int:
        return randomness.key(self._seed, self.name, *purpose)
