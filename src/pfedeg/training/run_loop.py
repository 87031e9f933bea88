"""The loop of a run, local or over a network: rounds, early stopping, history, checkpoints, result."""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from pfedeg.checked_files import Arrays
from pfedeg.errors import DataWarning, InputError, PfedegError, RunError
from pfedeg.files import check_free
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.knowledge_graph import SPLITS, Split
from pfedeg.methods.base import State, Strategy, Weights
from pfedeg.result_table import ResultTable
from pfedeg.training.config import Config
from pfedeg.training.evaluation import Metrics, weighted
from pfedeg.training.last_mix import Mix
from pfedeg.training.progress import rounds_with_progress
from pfedeg.training.result_tables import history_table, metrics_table
from pfedeg.training.rounds import Round, Transport, run
from pfedeg.training.run_folder import RunFolder, custom_strategy
from pfedeg.training.run_result import check_result, check_rounds, make_result, summary

CHECKPOINT_SECONDS = 5.0


@dataclass
class Progress:
    """The progress of a run apart from the clients' states, as saved in checkpoints."""

    round: int = 0
    best: dict[str, tuple[float, int, int]] = field(
        default_factory=dict
    )  # scope → best MRR, its round, evaluations since
    retired: set[ClientId] = field(default_factory=set)
    metrics: dict[ClientId, Metrics] = field(default_factory=dict)  # latest metrics of each client
    stopped: bool = False


class RunLoop(ABC):
    """An iterator over the rounds of a run; subclasses know where the clients are.

    With a folder, the run is saved there: interrupting the iteration leaves a checkpoint to resume from.
    """

    _transport: Transport
    _shared: Shared
    _left_out: Mapping[ClientId, str] = MappingProxyType({})  # clients that were refused again and again, and why
    _can_continue = False  # whether a finished run can continue with more rounds

    def __init__(self, config: Config, strategy: Strategy, folder: RunFolder | None) -> None:
        """Subclasses set the transport."""
        self.config, self._strategy, self._folder = config, strategy, folder
        self.history: list[dict[str, Any]] = []
        self.result: dict[str, Any] | None = None
        self._progress = Progress()
        self._is_new = False  # whether this object has made the run folder
        self._more_rounds = False  # whether the run in the folder was made with fewer rounds
        self._state: State | None = None
        self._saved_at = time.monotonic()
        self._snapshot: tuple[Arrays, dict[str, Any]] = {}, {}  # after the last complete round
        self._unevaluated: tuple[Arrays, dict[str, Any]] | None = None  # before the extra evaluation of the last round

    @property
    def rounds_done(self) -> int:
        """The number of finished rounds."""
        return int(self.result["rounds"]) if self.result else self._progress.round

    @property
    def best_round(self) -> int:
        """The round of the best tables (with Single: the latest of its clients' best rounds)."""
        if self.result:
            return int(self.result["best_round"])
        return max((at for _, at, _ in self._progress.best.values()), default=self._progress.round)

    def __iter__(self) -> Iterator[Round]:
        """Train to the end. An interruption leaves a checkpoint; iterating again continues."""
        if self.result is not None:
            return
        with self._folder.locked() if self._folder else nullcontext():
            if self._folder and self._more_rounds:
                self.save()  # from now on the folder has no result
                self._folder.reopen(self.config.as_dict(), self.history)
                self._more_rounds = False
            elif self._folder:
                self._folder.truncate_history(self._progress.round)
            try:
                yield from self._rounds()
                self._finish()
            except (KeyboardInterrupt, GeneratorExit):
                self._roll_back()
                self.save()
                raise
            except (PfedegError, MemoryError):
                self._roll_back()
                if self._folder and self._is_new and self._progress.round == 0:
                    self._folder.remove()  # nothing in it is worth resuming
                    raise
                with suppress(RunError):  # the disk may still be full
                    self.save()
                raise

    def run(self, progress: bool = False) -> Self:
        """Train to the end; with `progress`, show on stderr how far it is."""
        for _ in rounds_with_progress(self) if progress else self:
            pass
        return self

    def save(self) -> None:
        """Write a checkpoint, if there is a run folder."""
        if self._folder is not None and self.result is None:
            self._folder.save_checkpoint(*self._snapshot)
            self._saved_at = time.monotonic()

    def metrics_table(self) -> ResultTable:
        """The metrics of the finished run: a row per split and client, and one for the weighted average (client "")."""
        return metrics_table(self.result)

    def history_table(self) -> ResultTable:
        """A row per round: loss, validation metrics if evaluated, seconds, and exchanged bytes."""
        return history_table(self.history)

    def affinity(self) -> dict[ClientId, dict[ClientId, float]] | None:
        """The relation graph of the best round, as learner → teacher → weight."""
        kept = [line for line in self.history if line.get("affinity") and line["round"] <= self.best_round]
        return kept[-1]["affinity"] if kept else None

    def _rounds(self) -> Iterator[Round]:
        config, progress = self.config, self._progress
        if progress.stopped:
            return
        loop = run(
            self._strategy,
            self._transport,
            self._shared,
            width=config.build_model().entity_width,
            rounds=config.rounds,
            seed=config.seed,
            fraction=config.fraction,
            eval_every=config.eval_every,
            evaluate=config.evaluate,
            done=progress.round,
            state=self._state,
            retired=progress.retired,
            robust=config.robust,
            left_out=self._left_out,
        )
        for done in loop:
            progress.round, self._state = done.number, done.state
            if done.metrics is not None:
                if done.number % config.eval_every:  # a run with more rounds does not evaluate here
                    self._unevaluated = self._checkpoint_arrays(), self._checkpoint_fields()
                self._update_best(done)
            line = self._history_line(done)
            self.history.append(line)
            if self._folder is not None:
                self._folder.append_history(line)
            self._snapshot = self._checkpoint_arrays(), self._checkpoint_fields()
            if self._checkpoint_due():
                self.save()
            yield replace(done, mix=None)  # a list of rounds should not keep every upload
            if progress.stopped:
                return

    def _update_best(self, done: Round) -> None:
        """Keep the best tables so far; stop early without improvement (with Single, each client by itself)."""
        progress = self._progress
        assert done.metrics is not None
        active = {name: m for name, m in done.metrics.items() if name not in progress.retired}
        progress.metrics = {name: m for name, m in (progress.metrics | active).items() if name not in self._left_out}
        alone = self.config.method_type.trains == "alone"
        scopes = {name: [name] for name in active} if alone else {"": list(progress.metrics)}
        for scope, members in scopes.items():
            metric = weighted({name: progress.metrics[name] for name in members})
            best, at, stale = progress.best.get(scope, (-1.0, 0, 0))
            if not metric.triples or metric.mrr > best:  # without validation triples, keep the last tables
                progress.best[scope] = (metric.mrr if metric.triples else -1.0, done.number, 0)
                self._keep_best(members, done.mix)
            else:
                progress.best[scope] = (best, at, stale + 1)
                if stale + 1 >= self.config.patience:
                    progress.retired |= set(members)
        progress.stopped = set(progress.metrics) <= progress.retired

    def _roll_back(self) -> None:
        """Go back to the end of the last complete round."""
        self._restore(*self._snapshot)
        del self.history[self._progress.round :]

    def _finish(self) -> None:
        measured = {split: self._evaluate_best(split) for split in SPLITS[1:]}
        result = make_result(self.config, self._progress.round, self.best_round, self.history, measured)
        self._save_result(result)
        self.result = result

    def _checkpoint_due(self) -> bool:
        """Whether the next checkpoint is due."""
        return time.monotonic() - self._saved_at > CHECKPOINT_SECONDS

    @abstractmethod
    def _keep_best(self, members: list[ClientId], mix: Mix | None) -> None:
        """Keep the tables that were just evaluated as the best of these clients, and the last mix in them."""

    @abstractmethod
    def _evaluate_best(self, split: Split) -> Mapping[ClientId, Metrics]:
        """Evaluate the best tables."""

    @abstractmethod
    def _save_result(self, result: dict[str, Any]) -> None:
        """Save the result."""

    def _checkpoint_arrays(self) -> Arrays:
        """All arrays of a checkpoint."""
        return {f"server/{name}": np.asarray(array) for name, array in (self._state or {}).items()}

    def _checkpoint_fields(self) -> dict[str, Any]:
        """The other fields of a checkpoint, as JSON."""
        progress = self._progress
        return {
            "round": progress.round,
            "best": {scope: list(value) for scope, value in progress.best.items()},
            "retired": sorted(progress.retired),
            "metrics": {name: [m.mrr, list(m.hits), m.triples] for name, m in progress.metrics.items()},
            "stopped": progress.stopped,
        }

    def _restore(self, arrays: Arrays, fields: dict[str, Any]) -> None:
        """Restore the state from the arrays and fields of a checkpoint."""
        self._progress = Progress(
            round=fields["round"],
            best={scope: (value[0], value[1], value[2]) for scope, value in fields["best"].items()},
            retired=set(fields["retired"]),
            metrics={
                name: Metrics(mrr, tuple(hits), triples) for name, (mrr, hits, triples) in fields["metrics"].items()
            },
            stopped=fields["stopped"],
        )
        server = {name.removeprefix("server/"): array for name, array in arrays.items() if name.startswith("server/")}
        self._state = server or None

    def _history_line(self, done: Round) -> dict[str, Any]:
        """The line of a round in history.jsonl."""
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

    def _open_run(self, origin: Mapping[str, Any], resume: bool) -> tuple[Arrays, dict[str, Any]] | None:
        """Check that the folder is new or contains this same run; returns its checkpoint."""
        folder = self._folder
        if folder is None:
            return None
        if not folder.exists():
            check_free(folder.path)
            return None
        if not resume:
            raise InputError(
                f"{folder.path}: already contains a run; add --resume to continue it, or choose another --out"
            )
        self._check_same_run(folder, origin)
        if folder.finished():
            return self._open_finished(folder)
        if "schema" not in folder.read("config.json"):
            text = "started by an earlier version of pfedeg; results may differ in the last digits"
            warnings.warn(f"{folder.path}: {text}", DataWarning, stacklevel=4)
        with folder.locked():
            saved = folder.load_checkpoint()
            done = int(saved[1]["round"]) if saved else 0
            self.history = folder.history(done)
        check_rounds(folder.path / "history.jsonl", self.history, done)
        return saved

    def _open_finished(self, folder: RunFolder) -> tuple[Arrays, dict[str, Any]] | None:
        """The result of a finished run; or its last checkpoint, if it continues with more rounds."""
        history = folder.history()
        check_rounds(folder.path / "history.jsonl", history)
        self.result = check_result(folder.path / "result.json", folder.read("result.json"), history)
        self.history, rounds = history, int(self.result["rounds"])
        if not self._more_rounds or rounds < folder.config().rounds:  # it has stopped early
            return None
        saved = folder.load_checkpoint()
        if saved is None:
            text = "finished, and cannot continue, since its checkpoint was deleted or an earlier version made it"
            raise InputError(f"{folder.path}: {text}; train anew with another --out")
        if saved[1]["stopped"]:
            return None
        self.history = history[: saved[1]["round"]]
        if rounds % self.config.eval_every and self.history:  # a run with more rounds does not evaluate here
            self.history[-1] = {name: each for name, each in history[-1].items() if name not in ("valid", "affinity")}
        self.result = None
        return saved

    def _check_same_run(self, folder: RunFolder, origin: Mapping[str, Any]) -> None:
        before = folder.read("provenance.json")
        if before.get("data_fingerprint") != origin["data_fingerprint"]:
            raise InputError(
                f"{folder.path}: contains a run on other data ({before.get('data')}); choose another --out"
            )
        if before.get("secret", "") != origin.get("secret", ""):
            raise InputError(f"{folder.path}: contains a run with another alignment secret; choose another --out")
        if own := custom_strategy(before):
            text = f"contains a run of an earlier version with a strategy of your own, {own}, which cannot be resumed"
            raise InputError(f"{folder.path}: {text}; choose another --out")
        saved, wanted = folder.config().as_dict(), self.config.as_dict()
        self._more_rounds = self._can_continue and self.config.rounds > folder.config().rounds
        for name in dict.fromkeys((*wanted, *saved)):
            if saved.get(name) != wanted.get(name) and not (name == "rounds" and self._more_rounds):
                text = f"contains a run with {name} = {saved.get(name)}, not {wanted.get(name)}"
                fix = "give the same settings" + (" or more rounds" if name == "rounds" and self._can_continue else "")
                raise InputError(f"{folder.path}: {text}; choose another --out, or {fix}")


def named_weights(shared: Shared, weights: Weights) -> dict[ClientId, dict[ClientId, float]]:
    """The weights W by client names."""
    names = shared.clients
    return {i: {j: float(w) for j, w in zip(names, row, strict=True)} for i, row in zip(names, weights, strict=True)}
