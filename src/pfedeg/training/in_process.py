"""Transports for server and clients in one process."""

from collections.abc import Mapping
from functools import partial

from pfedeg.engine.interface import Engine
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.federation import positions
from pfedeg.graphs.knowledge_graph import Split
from pfedeg.graphs.triples import Ids
from pfedeg.methods.exchange import Download, Upload
from pfedeg.models.base import Tables
from pfedeg.training.client import Client, ClientState
from pfedeg.training.evaluation import Metrics
from pfedeg.training.rounds import Update
from pfedeg.training.schedule import Work, run_all


class InProcess:
    """A transport without a network. `states` holds all that changes; the clients share the threads of `engine`."""

    def __init__(
        self,
        clients: Mapping[ClientId, Client],
        engine: Engine,
        states: Mapping[ClientId, ClientState] | None = None,
    ) -> None:
        """Start from `states`, or from the initial tables."""
        self.clients, self._engine = clients, engine
        self.members = clients  # those with tables of their own at the end
        self.states = dict(states or {name: client.start() for name, client in clients.items()})
        self._evaluated = {name: state.tables for name, state in self.states.items()}

    def uploads(self) -> Mapping[ClientId, Upload]:
        """See `Transport.uploads`."""
        return {name: client.upload(self.states[name]) for name, client in self.clients.items()}

    def exchange(self, number: int, downloads: Mapping[ClientId, Download]) -> Mapping[ClientId, Update]:
        """See `Transport.exchange`. All clients succeed or none changes."""
        work = {
            name: Work(self.clients[name].training_size(), partial(self._step, name, number, download))
            for name, download in downloads.items()
        }
        done = run_all(work, self._engine)
        self.states |= {name: state for name, (state, _) in done.items()}
        return {name: update for name, (_, update) in done.items()}

    def evaluate(
        self, number: int, split: Split, downloads: Mapping[ClientId, Download] | None
    ) -> Mapping[ClientId, Metrics]:
        """See `Transport.evaluate`; `evaluated` returns the tables that were used."""
        self._evaluated = {name: state.tables for name, state in self.states.items()}
        for name, download in (downloads or {}).items():
            self._evaluated[name] = self.clients[name].absorbed(self.states[name], download)
        return self.measure(self.evaluated(), split)

    def evaluated(self) -> Mapping[ClientId, Tables]:
        """The tables of the last evaluation, by client."""
        return self._evaluated

    def measure(self, tables: Mapping[ClientId, Tables], split: Split) -> dict[ClientId, Metrics]:
        """Each client's metrics with these tables."""
        return {name: self.clients[name].evaluate(tables[name], split, self._engine) for name in tables}

    def _step(self, name: ClientId, number: int, download: Download, engine: Engine) -> tuple[ClientState, Update]:
        client = self.clients[name]
        state, loss = client.step(self.states[name], number, download, engine)
        return state, Update(client.upload(state), loss)


class PooledInProcess(InProcess):
    """Collective: one client trains on all triples; each client is evaluated with its rows of the table."""

    def __init__(
        self,
        pool: Client,
        clients: Mapping[ClientId, Client],
        engine: Engine,
        states: Mapping[ClientId, ClientState] | None = None,
    ) -> None:
        """`pool` trains, `clients` only evaluate."""
        super().__init__({pool.name: pool}, engine, states)
        self._pool = pool
        self.members = clients
        entities, relations = pool.graph.entities, pool.graph.relations
        self._views: dict[ClientId, tuple[Ids, Ids]] = {
            name: (positions(client.graph.entities, entities), positions(client.graph.relations, relations))
            for name, client in clients.items()
        }

    def evaluated(self) -> Mapping[ClientId, Tables]:
        """Each member's rows of the pool's tables."""
        entity, relation = self._evaluated[self._pool.name]
        return {name: Tables(entity[rows], relation[kinds]) for name, (rows, kinds) in self._views.items()}

    def measure(self, tables: Mapping[ClientId, Tables], split: Split) -> dict[ClientId, Metrics]:
        """Each member's metrics on its own candidates and filters."""
        return {name: self.members[name].evaluate(tables[name], split, self._engine) for name in tables}
