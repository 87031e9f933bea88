"""Parts of a federation, large enough to tell how fast training is on it, and small enough to tell soon."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfedeg import randomness
from pfedeg.engine.interface import Absorb, Moments
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Model, start_rows, Tables
from pfedeg.training.client import Client, ClientState
from pfedeg.training.config import Config

ROWS = 1 << 15  # entities of a client, at most: more than caches hold
BYTES = 1 << 27  # of a table of all of them, at most
BLOCK = 1 << 9  # rows that are drawn; tables repeat them
KEY = randomness.key("excerpt")
STEPS = 1000  # Adam is on its way


@dataclass(frozen=True)
class Excerpt:
    """A client as it is trained for a moment."""

    name: ClientId
    triples: Ids
    entities: int
    relations: int
    travelling: int

    def cut(self, most: int) -> "Excerpt":
        """With fewer entities, between which the triples now are."""
        if self.entities <= most:
            return self
        triples = self.triples.copy()
        triples[:, [0, 2]] %= most
        return Excerpt(self.name, triples, most, self.relations, self.travelling * most // self.entities)

    def part(self, share: float) -> "Excerpt":
        """With a share of the triples, taken evenly from all of them."""
        number = max(1, round(min(1.0, share) * len(self.triples)))
        chosen = self.triples[np.linspace(0, len(self.triples) - 1, number).astype(np.int64)]
        return Excerpt(self.name, chosen, self.entities, self.relations, self.travelling)

    def work(self, config: Config, dense: bool) -> float:
        """How much an epoch is, in rows that are visited; `dense` if every batch visits all rows."""
        triples = len(self.triples)
        return float(triples * config.negatives + -(-triples // config.batch) * self.entities * dense)

    def graph(self) -> KnowledgeGraph:
        """Without names."""
        none = self.triples[:0]
        return KnowledgeGraph(("",) * self.entities, ("",) * self.relations, self.triples, none, none)

    def client(self, config: Config, absorb: Absorb) -> Client:
        """One that trains by these settings."""
        ids = np.arange(self.entities, dtype=np.int32)
        return config.build_client(self.name, self.graph(), ids, ids[: self.travelling], absorb)

    def state(self, model: Model) -> ClientState:
        """Somewhere in the middle of training."""
        entity, relation = (
            np.resize(start_rows(model, width, KEY, np.arange(min(rows, BLOCK))), rows * width).reshape(rows, width)
            for rows, width in ((self.entities, model.entity_width), (self.relations, model.relation_width))
        )
        tables = Tables(entity, relation)
        moments = Moments.zeros(tables)
        moments.steps[0] = STEPS
        return ClientState(tables, moments, True)

    def download(self, state: ClientState) -> Rows:
        """As from a server."""
        return Rows(np.arange(self.travelling, dtype=np.int32), state.tables.entity[: self.travelling])


def whole(federation: Federation, entity: Shared) -> list[Excerpt]:
    """All of every client."""
    return [
        Excerpt(client, graph.train, len(graph.entities), len(graph.relations), len(entity.travelling[client]))
        for client, graph in federation.graphs.items()
    ]


def pooled(federation: Federation, entity: Shared, relation: Shared) -> list[Excerpt]:
    """One client with everybody's triples, as Collective has it."""
    parts = []
    for client, graph in federation.graphs.items():
        h, r, t = graph.train.T
        parts.append(np.stack([entity.ids[client][h], relation.ids[client][r], entity.ids[client][t]], 1))
    return [Excerpt("collective", np.concatenate(parts), len(entity.owners), len(relation.owners), 0)]


def sample(clients: Sequence[Excerpt], threads: int, width: int) -> list[Excerpt]:
    """The largest clients, one for every thread, and not too much of them."""
    largest = sorted(clients, key=lambda client: -client.entities)[:threads]
    return [client.cut(max(1, min(ROWS, BYTES // (4 * width * len(largest))))) for client in largest]
