"""A run with all clients in this process: training, best tables, predictions."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pfedeg.checked_files import Arrays, parsing
from pfedeg.engine.interface import Engine, check_threads, default_engine
from pfedeg.errors import DataWarning, InputError, RunError
from pfedeg.graphs.alignment import ClientId, Shared, fingerprint
from pfedeg.graphs.federation import Federation, require_federation
from pfedeg.graphs.knowledge_graph import Side, Split
from pfedeg.graphs.triples import normal
from pfedeg.methods.base import Method
from pfedeg.models.base import ModelType, Tables
from pfedeg.text import suggest
from pfedeg.training.client import ClientState, build_clients
from pfedeg.training.config import Config, require_config
from pfedeg.training.evaluation import Metrics
from pfedeg.training.in_process import InProcess, PooledInProcess
from pfedeg.training.last_mix import Mix, check_mix
from pfedeg.training.link_prediction import Answerer, Predictor
from pfedeg.training.run_folder import CHECKPOINT, RunFolder, provenance
from pfedeg.training.run_loop import RunLoop

POOL = "collective"  # name of the pooled client; random numbers depend on it


class Training(RunLoop, Predictor):
    """An iterator over the rounds of a run; afterwards `result` and `tables` are those of the best round.

    The run has the settings `config` (default: all defaults). With `out`, it is saved in a run folder; with `resume`, a
    run saved there continues. `engine` computes, by default compiled code on so many `threads` (default: all cores).
    """

    _transport: InProcess
    _can_continue = True

    def __init__(
        self,
        federation: Federation,
        config: Config | None = None,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        engine: Engine | None = None,
        threads: int | None = None,
        source: str = "",
        secret: bytes = b"",
    ) -> None:
        """`source` names the data (default: `federation.source`); `secret` reproduces a network run."""
        federation, config = require_federation(federation), require_config(config)
        check_threads(threads)
        super().__init__(config, config.build_strategy(threads), RunFolder(Path(out)) if out else None)
        self.federation = federation
        self.tables: dict[ClientId, Tables] = {}
        self._mix: Mix | None = None  # the last mix in these tables
        self._engine = engine or default_engine(threads)
        shared = federation.shared(secret=secret)
        warn_about(federation, shared, config.method_type)
        extra: dict[str, Any] = {"labels": config.labels(), "traits": config.traits()}
        extra |= {"clients": list(federation.graphs)}
        extra |= {"secret": fingerprint(secret)} if secret else {}
        origin = provenance(federation.fingerprint, source or federation.source, config.seed) | extra
        saved = self._open_run(origin, resume)
        if self._folder is not None and self.result is not None:
            self.tables = {client: self._folder.tables(client) for client in federation.graphs}
        elif self._folder is not None and self._folder.exists():
            for client in federation.graphs:
                self._folder.graph(client)  # training does not read it, but every later command does
        self._shared, self._transport = self._assemble(shared)
        if saved is not None:
            arrays, fields = saved
            assert self._folder is not None
            lacks_best = bool(fields.get("best")) and not any(name.startswith("best/") for name in arrays)
            if self._folder.finished() or lacks_best:  # then its tables are the best so far
                arrays = self._final_tables(self._folder) | arrays
            with parsing(self._folder.path / CHECKPOINT):
                self._restore(arrays, fields)
                self._check_restored()
        if self._folder is not None and not self._folder.exists():
            self._folder.create(config.as_dict(), origin, federation.graphs)
            self._is_new = True
        self._snapshot = self._checkpoint_arrays(), self._checkpoint_fields()

    def _check_restored(self) -> None:
        """Raise ValueError unless the arrays of a checkpoint fit the clients; compiled code does not check them."""
        for name, client in self._transport.clients.items():
            client.check(self._transport.states[name])
        for name, tables in self.tables.items():
            self._transport.members[name].check_tables(tables)
        if self._mix is not None:
            check_mix(self._mix, self._strategy.uploads, self._shared, self.config.build_model().entity_width)

    def answerer(self, client: ClientId, side: Side = "tail") -> Answerer:
        """An answerer for many questions to one `client`, for tails or heads (`side`), without probabilities."""
        client = normal(client)
        if client not in self.tables:
            raise InputError(f"unknown client {client!r}{suggest(client, self.tables)}")
        model, graph = self.config.build_model(), self.federation.graphs[client]
        return Answerer(self._engine, model, self.tables[client], graph, side)

    def _assemble(self, shared: Shared) -> tuple[Shared, InProcess]:
        """The clients and their transport."""
        config, graphs = self.config, self.federation.graphs
        clients = build_clients(graphs, shared, config, self._strategy)
        if config.method_type.trains != "pooled":
            return shared, InProcess(clients, self._engine)
        merged = Federation({POOL: self.federation.merged()})
        alone = merged.shared()
        pool = build_clients(merged.graphs, alone, config, self._strategy)[POOL]
        return alone, PooledInProcess(pool, clients, self._engine)

    def _keep_best(self, members: list[ClientId], mix: Mix | None) -> None:
        evaluated = self._transport.evaluated()
        self.tables |= {name: evaluated[name] for name in members}
        if self._folder is not None and self.config.method_type.is_federated:
            self._mix = mix

    def _evaluate_best(self, split: Split) -> Mapping[ClientId, Metrics]:
        return self._transport.measure(self.tables, split)

    def _save_result(self, result: dict[str, Any]) -> None:
        """Save tables and result. The checkpoint stays if the run could continue with more rounds."""
        if self._folder is None:
            return
        if self._mix is not None:
            self._folder.save_mix(self._mix, self._shared)
        can_continue = result["rounds"] == self.config.rounds
        self._folder.finish(self.tables, self.federation.graphs, result, can_continue)
        if can_continue:
            arrays, fields = self._unevaluated or self._snapshot
            if self._unevaluated is None:  # the best tables are in files of their own
                arrays = {name: array for name, array in arrays.items() if not name.startswith("best/")}
            with suppress(RunError):  # a full disk; the run is finished all the same
                self._folder.save_checkpoint(arrays, fields)

    def _checkpoint_arrays(self) -> Arrays:
        """Adds the clients' states and best tables, by client number, since names may contain anything."""
        arrays = super()._checkpoint_arrays()
        for i, state in enumerate(self._transport.states.values()):
            arrays |= state.arrays(f"client/{i}/")
        if self._mix is not None:
            arrays |= {f"mix/{name}": array for name, array in self._mix.arrays().items()}
        return arrays | self._best_arrays(self.tables)

    def _best_arrays(self, tables: Mapping[ClientId, Tables]) -> Arrays:
        found = {i: tables[name]._asdict() for i, name in enumerate(self.federation.graphs) if name in tables}
        return {f"best/{i}/{kind}": table for i, both in found.items() for kind, table in both.items()}

    def _final_tables(self, folder: RunFolder) -> Arrays:
        """The best tables of a finished run, as in a checkpoint."""
        return self._best_arrays({client: folder.tables(client) for client in self.federation.graphs})

    def _checkpoint_fields(self) -> dict[str, Any]:
        states = self._transport.states.values()
        return super()._checkpoint_fields() | {
            "trained": [each.trained for each in states],
            "loss": [each.loss for each in states],
            "mix": self._mix.fields() if self._mix is not None else None,
        }

    def _restore(self, arrays: Arrays, fields: dict[str, Any]) -> None:
        super()._restore(arrays, fields)
        self.tables = {
            name: Tables(arrays[f"best/{i}/entity"], arrays[f"best/{i}/relation"])
            for i, name in enumerate(self.federation.graphs)
            if f"best/{i}/entity" in arrays
        }
        mixed = {name.removeprefix("mix/"): array for name, array in arrays.items() if name.startswith("mix/")}
        self._mix = Mix.of(mixed, fields["mix"]) if fields.get("mix") else None
        self._transport.states = {
            name: ClientState.of(arrays, fields["trained"][i], fields["loss"][i], f"client/{i}/")
            for i, name in enumerate(self._transport.states)
        }


def train(
    federation: Federation,
    method: str | Method = "pfedeg-plus",
    model: str | ModelType = "transe",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    threads: int | None = None,
    progress: bool = False,
    **settings: Any,
) -> Training:
    """Train to the end: `train(federation, "fede", "rotate", rounds=20, lr=0.005)`.

    `federation` has the data; `method` and `model` are names, `package.module:NAME`, or the objects; all other
    `settings` are given by name (see `Config` and docs/settings.md). With `out`, the run is saved in this folder, and
    with `resume` a run saved there continues. `threads` is the number of cores, by default all; it does not affect
    results. `progress` shows on stderr how far the training is.
    """
    federation = require_federation(federation)  # before the settings, which may be right
    if isinstance(method, Config):
        raise InputError("expected a method, not a Config; `pfedeg.Training(federation, config)` takes one")
    config = Config(method=method, model=model, **settings)
    return Training(federation, config, out=out, resume=resume, threads=threads).run(progress)


def warn_about(federation: Federation, shared: Shared, method: Method) -> None:
    """Warn about properties of the data that limit the run."""
    graphs = federation.graphs
    for name, graph in graphs.items():
        if not len(graph.valid) and not len(graph.test):
            warnings.warn(
                f"client {name!r} has no valid and test triples: it trains without evaluation", DataWarning, 3
            )
    if not any(len(graph.valid) for graph in graphs.values()):
        warnings.warn("no client has valid triples: no early stopping, the last tables are kept", DataWarning, 3)
    if not method.is_federated:
        return
    if len(graphs) == 1:
        warnings.warn("a federation of one client: it has no other client to learn from", DataWarning, 3)
    elif not any(len(ids) for ids in shared.travelling.values()):
        warnings.warn("the clients share no entities, so no client can learn from another", DataWarning, 3)
    else:
        for name in (name for name, ids in shared.travelling.items() if not len(ids)):
            warnings.warn(f"client {name!r} shares no entity with the others", DataWarning, 3)
