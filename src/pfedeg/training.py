"""A run from start to result: rounds, early stopping, checkpoints, best tables."""

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.client import Client, ClientState
from pfedeg.config import Config, suggest
from pfedeg.errors import DataWarning, InputError, RunError
from pfedeg.evaluation import Metrics, weighted
from pfedeg.federation import Federation, check_free
from pfedeg.graph import Split, normal
from pfedeg.kernels import Kernels, Moments, Tables, default_kernels
from pfedeg.prediction import Prediction, predict
from pfedeg.rounds import Round, run
from pfedeg.shared import ClientId, Shared
from pfedeg.store import Arrays, RunFolder, provenance
from pfedeg.strategies import State, Strategy
from pfedeg.strategies.affinity import Weights
from pfedeg.transport.local import Local, Pooled

CHECKPOINT_SECONDS = 5.0
POOL = "collective"  # the one trainer of Collective


@dataclass
class Progress:
    """How training stands, beside the clients' states: all of it goes into a checkpoint."""

    round: int = 0
    best: dict[str, tuple[float, int, int]] = field(default_factory=dict)  # scope → best MRR, its round, stale since
    retired: set[ClientId] = field(default_factory=set)
    metrics: dict[ClientId, Metrics] = field(default_factory=dict)  # the last of every client
    stopped: bool = False


class Training:
    """An iterator over the rounds of a run; afterwards `result` and `tables` are those of the best round.

    With `out`, everything is kept in a run directory; with `resume`, the run there goes on where it was saved.
    """

    def __init__(
        self,
        federation: Federation,
        config: Config | None = None,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        strategy: Strategy | None = None,
        kernels: Kernels | None = None,
        threads: int | None = None,
        source: str = "",
    ) -> None:
        """`strategy` takes the place of the one that the config names; `source` says where the data came from."""
        self.federation = federation
        self.config = (config or Config()).resolved()
        self.history: list[dict[str, Any]] = []
        self.tables: dict[ClientId, Tables] = {}
        self.result: dict[str, Any] | None = None
        self._strategy = strategy or self.config.build_strategy(threads)
        self._kernels = kernels or default_kernels(threads)
        self._folder = RunFolder(Path(out)) if out else None
        self._progress = Progress()
        self._state: State | None = None
        shared = federation.shared()
        warn_about(federation, shared, self.config.method)
        about = {"strategy": type(self._strategy).__name__, "clients": list(federation.graphs)}
        origin = provenance(federation.fingerprint, source, self.config.seed) | about
        saved = self._enter(origin, resume)
        self._shared, self._transport = self._assemble(saved, shared)
        if self._folder is not None and not self._folder.exists():
            self._folder.create(self.config.as_dict(), origin, federation.graphs)
        self._whole = self._arrays(), self._about()  # the last state between two rounds; arrays never change in place
        self._saved_at = time.monotonic()

    @property
    def rounds_done(self) -> int:
        """How many rounds are behind."""
        return int(self.result["rounds"]) if self.result else self._progress.round

    @property
    def best_round(self) -> int:
        """The round whose tables are kept (of Single: the latest of its clients')."""
        if self.result:
            return int(self.result["best_round"])
        return max((at for _, at, _ in self._progress.best.values()), default=self._progress.round)

    def __iter__(self) -> Iterator[Round]:
        """Train until the end. A break in between leaves a checkpoint; iterating again goes on."""
        if self.result is not None:
            return
        with self._folder.locked() if self._folder else nullcontext():
            if self._folder:
                self._folder.cut_history(self._progress.round)
            try:
                yield from self._rounds()
                self._finish()
            except (KeyboardInterrupt, GeneratorExit):
                self._rewind()
                self.save()
                raise
            except RunError:
                self._rewind()
                with suppress(RunError):  # a full disk is full still
                    self.save()
                raise

    def run(self) -> "Training":
        """Train until the end."""
        for _ in self:
            pass
        return self

    def predict(self, client: ClientId, relation: str, **question: Any) -> list[Prediction]:
        """Answers of a client's tables; see `prediction.predict`."""
        client = normal(client)
        if client not in self.tables:
            raise InputError(f"unknown client {client!r}{suggest(client, self.tables)}")
        model, graph = self.config.build_model(), self.federation.graphs[client]
        return predict(self._kernels, model, self.tables[client], graph, relation=relation, **question)

    def save(self) -> None:
        """Write a checkpoint, if there is a run directory."""
        if self._folder is not None and self.result is None:
            self._folder.save_checkpoint(*self._whole)
            self._saved_at = time.monotonic()

    def affinity(self) -> dict[ClientId, dict[ClientId, float]] | None:
        """Who learned how much from whom at the best round, by names."""
        kept = [line for line in self.history if line.get("affinity") and line["round"] <= self.best_round]
        return kept[-1]["affinity"] if kept else None

    def _rounds(self) -> Iterator[Round]:
        config, progress = self.config, self._progress
        if progress.stopped:
            return
        assert config.rounds is not None
        assert config.eval_every is not None
        loop = run(
            self._strategy,
            self._transport,
            self._shared,
            rounds=config.rounds,
            seed=config.seed,
            fraction=config.fraction or 1.0,
            eval_every=config.eval_every,
            evaluate=config.evaluate or "after_training",
            done=progress.round,
            state=self._state,
            retired=progress.retired,
        )
        for done in loop:
            progress.round, self._state = done.number, done.state
            if done.metrics is not None:
                self._judge(done)
            line = self._line(done)
            self.history.append(line)
            if self._folder is not None:
                self._folder.append_history(line)
            self._whole = self._arrays(), self._about()
            if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
                self.save()
            yield done
            if progress.stopped:
                return

    def _judge(self, done: Round) -> None:
        """Keep what is best so far, and stop who has not improved for too long: the run, or in Single each client."""
        progress = self._progress
        assert done.metrics is not None
        active = {name: m for name, m in done.metrics.items() if name not in progress.retired}
        progress.metrics |= active
        scopes = {name: [name] for name in active} if self.config.method == "single" else {"": list(progress.metrics)}
        for scope, members in scopes.items():
            metric = weighted({name: progress.metrics[name] for name in members})
            best, at, stale = progress.best.get(scope, (-1.0, 0, 0))
            if not metric.triples or metric.mrr > best:  # without validation triples the last tables are the best
                progress.best[scope] = (metric.mrr if metric.triples else -1.0, done.number, 0)
                shown = self._transport.shown()
                self.tables |= {name: shown[name] for name in members}
            else:
                progress.best[scope] = (best, at, stale + 1)
                if stale + 1 >= self.config.patience:
                    progress.retired |= set(members)
        progress.stopped = set(progress.metrics) <= progress.retired

    def _rewind(self) -> None:
        """Forget what is half done of a round."""
        self._transport.states = self._restore(*self._whole, list(self._transport.states))
        del self.history[self._progress.round :]

    def _finish(self) -> None:
        splits: dict[str, Any] = {split: self._measure(split) for split in ("valid", "test")}
        result: dict[str, Any] = {
            "method": self.config.method,
            "model": self.config.model,
            "seed": self.config.seed,
            "rounds": self._progress.round,
            "best_round": self.best_round,
            "seconds": round(sum(line["seconds"] for line in self.history), 3),
            **splits,
        }
        if self._folder is not None:
            self._folder.finish(self.tables, self.federation.graphs, result)
        self.result = result

    def _measure(self, split: Split) -> dict[str, Any]:
        return summary(self._transport.measure(self.tables, split))

    def _line(self, done: Round) -> dict[str, Any]:
        """A round as a line of history.jsonl."""
        line: dict[str, Any] = {
            "round": done.number,
            "selected": list(done.selected),
            "loss": dict(done.loss),
            "seconds": round(done.seconds, 4),
            "bytes_up": done.bytes_up,
            "bytes_down": done.bytes_down,
        }
        if done.metrics is not None:
            line["valid"] = summary(self._progress.metrics)
            if done.weights is not None:
                line["affinity"] = named_weights(self._shared, done.weights)
        return line

    def _enter(self, origin: Mapping[str, Any], resume: bool) -> tuple[Arrays, dict[str, Any]] | None:
        """Check that the run directory can be made, or that the one there is this run, and find its checkpoint."""
        folder = self._folder
        if folder is None:
            return None
        if not folder.exists():
            check_free(folder.path)
            return None
        if not resume:
            raise InputError(
                f"{folder.path}: holds a run already; add --resume to continue it, or choose another --out"
            )
        self._compare(folder, origin)
        if folder.finished():
            self.result, self.history = folder.read("result.json"), folder.history()
            self.tables = {client: folder.tables(client) for client in self.federation.graphs}
            return None
        with folder.locked():
            saved = folder.load_checkpoint()
            self.history = folder.history(saved[1]["round"] if saved else 0)
        return saved

    def _compare(self, folder: RunFolder, origin: Mapping[str, Any]) -> None:
        before = folder.read("provenance.json")
        if before.get("data_fingerprint") != origin["data_fingerprint"]:
            raise InputError(f"{folder.path}: holds a run of other data ({before.get('data')}); choose another --out")
        settings = folder.read("config.json") | {"strategy": before.get("strategy")}
        for name, value in (self.config.as_dict() | {"strategy": origin["strategy"]}).items():
            if settings.get(name) != value:
                text = f"holds a run with {name} = {settings.get(name)}, not {value}"
                raise InputError(f"{folder.path}: {text}; choose another --out, or give the same settings")

    def _assemble(self, saved: tuple[Arrays, dict[str, Any]] | None, shared: Shared) -> tuple[Shared, Local]:
        """The clients, and the way to them."""
        graphs = self.federation.graphs
        clients = {name: self._client(name, graphs[name], shared) for name in graphs}
        pool = None
        if self.config.method == "collective":
            merged = Federation({POOL: self.federation.merged()})
            shared = merged.shared()
            pool = self._client(POOL, merged.graphs[POOL], shared)
        states = None
        if saved is not None:
            states = self._restore(*saved, [POOL] if pool else list(clients))
        if pool:
            return shared, Pooled(pool, clients, self._kernels, states)
        return shared, Local(clients, self._kernels, states)

    def _client(self, name: ClientId, graph: Any, shared: Shared) -> Client:
        config = self.config
        travelling = shared.travelling[name] if self._strategy.shares else np.zeros(0, np.int32)
        return Client(
            name,
            graph,
            shared.ids[name],
            travelling,
            model=config.build_model(),
            local=config.build_local(),
            absorb=self._strategy.absorb,
            seed=config.seed,
            start=config.start,
            moments=config.moments or "reset",
        )

    def _arrays(self) -> Arrays:
        """Every array of the checkpoint; clients by their place, since names may be anything."""
        arrays: Arrays = {f"server/{name}": np.asarray(array) for name, array in (self._state or {}).items()}
        for i, state in enumerate(self._transport.states.values()):
            for part, group in (("tables", state.tables), ("moments", state.moments)):
                arrays |= {f"client/{i}/{part}/{name}": a for name, a in (group._asdict() if group else {}).items()}
        for i, name in enumerate(self.federation.graphs):
            if name in self.tables:
                arrays |= {f"best/{i}/{kind}": table for kind, table in self.tables[name]._asdict().items()}
        return arrays

    def _about(self) -> dict[str, Any]:
        progress = self._progress
        return {
            "round": progress.round,
            "best": {scope: list(value) for scope, value in progress.best.items()},
            "retired": sorted(progress.retired),
            "metrics": {name: [m.mrr, list(m.hits), m.triples] for name, m in progress.metrics.items()},
            "stopped": progress.stopped,
            "trained": [state.trained for state in self._transport.states.values()],
        }

    def _restore(self, arrays: Arrays, about: dict[str, Any], trainers: list[ClientId]) -> dict[ClientId, ClientState]:
        self._progress = Progress(
            round=about["round"],
            best={scope: (value[0], value[1], value[2]) for scope, value in about["best"].items()},
            retired=set(about["retired"]),
            metrics={
                name: Metrics(mrr, tuple(hits), triples) for name, (mrr, hits, triples) in about["metrics"].items()
            },
            stopped=about["stopped"],
        )
        server = {name.removeprefix("server/"): array for name, array in arrays.items() if name.startswith("server/")}
        self._state = server or None
        self.tables = {
            name: Tables(arrays[f"best/{i}/entity"], arrays[f"best/{i}/relation"])
            for i, name in enumerate(self.federation.graphs)
            if f"best/{i}/entity" in arrays
        }
        states = {}
        for i, name in enumerate(trainers):
            tables = Tables(*(arrays[f"client/{i}/tables/{kind}"] for kind in Tables._fields))
            moments = None
            if f"client/{i}/moments/steps" in arrays:
                moments = Moments(*(arrays[f"client/{i}/moments/{kind}"] for kind in Moments._fields))
            states[name] = ClientState(tables, moments, about["trained"][i])
        return states


def train(
    federation: Federation,
    method: str = "pfedeg-plus",
    model: str = "transe",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    strategy: Strategy | None = None,
    threads: int | None = None,
    **settings: Any,
) -> Training:
    """Train to the end with settings by name (see `Config`), e.g. train(federation, "fede", "rotate", rounds=20)."""
    config = Config(method=method, model=model, **settings)
    return Training(federation, config, out=out, resume=resume, strategy=strategy, threads=threads).run()


def summary(metrics: Mapping[ClientId, Metrics]) -> dict[str, Any]:
    """Metrics weighted and per client, as result.json has them."""
    clients = {name: m.as_dict() | {"triples": m.triples} for name, m in sorted(metrics.items())}
    return {"weighted": weighted(metrics).as_dict(), "clients": clients}


def named_weights(shared: Shared, weights: Weights) -> dict[ClientId, dict[ClientId, float]]:
    """The weights W by names."""
    names = shared.clients
    return {i: {j: float(w) for j, w in zip(names, row, strict=True)} for i, row in zip(names, weights, strict=True)}


def warn_about(federation: Federation, shared: Shared, method: str) -> None:
    """Tell what about the data will limit the run."""
    graphs = federation.graphs
    for name, graph in graphs.items():
        if not len(graph.valid) and not len(graph.test):
            warnings.warn(
                f"client {name!r} has no valid and test triples: it trains without evaluation", DataWarning, 3
            )
    if not any(len(graph.valid) for graph in graphs.values()):
        warnings.warn("no client has valid triples: no early stopping, the last tables are kept", DataWarning, 3)
    if method in ("single", "collective"):
        return
    if len(graphs) == 1:
        warnings.warn("a federation of one client: there is nobody to learn from", DataWarning, 3)
    elif not any(len(ids) for ids in shared.travelling.values()):
        warnings.warn("the clients share no entities: nobody can learn from anybody", DataWarning, 3)
    else:
        lonely = [name for name, ids in shared.travelling.items() if not len(ids)]
        for name in lonely:
            warnings.warn(f"client {name!r} shares no entity with the others", DataWarning, 3)
