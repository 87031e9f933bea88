"""One run at a client: its state between two requests, and the files that keep it.

A round is in files before the client responds, so that the client may crash at any moment and still give the same
response to the same request. If the server crashes and repeats a round with a different download, the client rolls its
last round back.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.checked_files import parsing, read_arrays, write_arrays
from pfedeg.engine.interface import MultiThreaded
from pfedeg.errors import InputError, RunError
from pfedeg.files import rename
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import SPLITS
from pfedeg.graphs.triples import Ids
from pfedeg.methods.exchange import Download, Upload
from pfedeg.models.base import Tables
from pfedeg.network.download_limits import AT_REST, FACTOR, Distance, check_download
from pfedeg.network.limits import OWNER
from pfedeg.network.messages import Message, ProtocolError, as_download, metrics_fields, pack_contents, read_contents
from pfedeg.training.client import Client, ClientState, check_arrays
from pfedeg.training.last_mix import Change, check_change
from pfedeg.training.run_folder import RunFolder
from pfedeg.training.run_result import make_result, summary

WORK = ".work"


@dataclass(frozen=True, slots=True)
class SavedState:
    """A client's state after a round, and what led to it."""

    state: ClientState
    round: int
    download: str = ""  # its digest
    loss: float = 0.0
    seconds: float = 0.0
    before: int = 0  # the round of the previous state
    change: Change | None = None  # what the download changed, to explain answers
    trained: Distance = AT_REST  # how far training moved the rows of shared entities in this round


def digest(*arrays: Any) -> str:
    """A digest of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def digest_contents(message: Upload) -> str:
    """A digest of an upload or a download."""
    arrays = [array for _, rows in sorted(message.tables.items()) for array in (rows.ids, rows.values)]
    return digest(*arrays, *(np.array([value]) for _, value in sorted(message.scalars.items())))


def alignment_digest(folder: Path) -> str:
    """The digest of a run's alignment, or "" without one."""
    path = folder / WORK / "alignment.safetensors"
    return read_arrays(path)[1].get("digest", "") if path.exists() else ""


class ClientSession:
    """One run at this client."""

    def __init__(
        self,
        path: Path,
        run: str,
        name: ClientId,
        engine: Callable[[], MultiThreaded],
        log: Callable[[str], None],
    ) -> None:
        """Load the state from files; the graph is the one with which the run began. engine() makes an engine."""
        self.run, self._name, self._make_engine, self._log = run, name, engine, log
        self._engine = engine()
        self._folder, self._work = RunFolder(path), path / WORK
        self.config = self._folder.config()
        self._graph = self._folder.graph(name)
        self.entities = len(self._graph.entities)
        self.finished = self._folder.finished()
        if self.finished:
            self._tidy()
            return
        arrays, _ = read_arrays(self._work / "alignment.safetensors")
        strategy = self.config.build_strategy()
        with parsing(self._work / "alignment.safetensors"):
            expected = {"aligned": np.zeros(len(self._graph.entities), np.int32), "travelling": arrays["travelling"]}
            check_arrays(arrays, expected)
            self._travelling: Ids = arrays["travelling"]
            if self._travelling.dtype != np.int32 or not np.isin(self._travelling, arrays["aligned"]).all():
                raise ValueError("shared ids are not among the aligned ids")
        self.shared = len(self._travelling)
        self._client = Client(name, self._graph, arrays["aligned"], self._travelling, self.config, strategy)
        state = self._newest()
        self.saved = state or self._load("previous") or SavedState(self._client.start(), 0)
        self._stored = state.round if state else 0  # the round in state.safetensors
        evaluated = self._work / "evaluated.safetensors"
        with parsing(evaluated):
            self._evaluated = int(read_arrays(evaluated)[1]["round"]) if evaluated.exists() else 0

    def upload(self) -> Upload:
        """What the method sends of the current tables."""
        try:
            return self._client.upload(self.saved.state)
        except InputError as error:  # the method sends what it does not declare
            raise ProtocolError(str(error)) from None

    def train(self, request: Message, seconds: float) -> Message:
        """Train for one round with the download, for some seconds at most; respond with the upload."""
        number = request.integer("round", 1)
        self._apply_news(request)
        download = self._download(request)
        received = digest_contents(download)
        lines = self._folder.history()
        trains = self.saved.round != number or self.saved.download != received
        if trains:
            self._roll_back_before(number)
            began = time.perf_counter()
            try:
                change = self._check_download(self.saved, number - 1, download)
                with self._within(seconds):
                    state, loss = self._client.step(self.saved.state, number, download, self._engine)
            except (InputError, RunError) as error:  # a fault of the method, or training diverged
                raise ProtocolError(str(error)) from None
            took = time.perf_counter() - began
            trained = self._trained(self.saved.state, state, change)
            self._save(SavedState(state, number, received, loss, took, self.saved.round, change, trained))
            self._log(f"run {self.run}: round {number}, loss {loss:.4f}, {self.saved.seconds:.1f} s")
        if trains or not lines or lines[-1]["round"] != number:
            self._record(number, download)
        arrays, more = pack_contents(self.upload())
        fields = {"round": number, "loss": self.saved.loss, "seconds": self.saved.seconds, **more}
        return Message("train", fields, arrays)

    def evaluate(self, request: Message, seconds: float) -> Message:
        """Evaluate the current tables, or those with the download in place, on validation triples."""
        number = request.integer("round", 1)
        self._apply_news(request)
        saved = self.saved if self.saved.round <= number else self._state_before(number + 1)
        tables, change = saved.state.tables, saved.change
        if request.arrays or "scalars" in request.fields:
            try:
                download = self._download(request)
                change = self._check_download(saved, number, download)
                tables = self._client.absorbed(saved.state, download)
            except InputError as error:
                raise ProtocolError(str(error)) from None
        with self._within(seconds):
            metrics = self._client.evaluate(tables, "valid", self._engine)
        arrays = tables._asdict() | (change.arrays() if change else {})
        write_arrays(self._work / "evaluated.safetensors", arrays, {"round": str(number)})
        self._evaluated = number
        self._add(number, {"valid": summary({self._name: metrics})})
        return Message("evaluate", {"round": number, "valid": metrics_fields(metrics)})

    def finish(self, request: Message) -> Message:
        """Keep the best tables as the result; respond with their metrics."""
        if not self.finished:
            rounds = request.integer("rounds")
            self._apply_news(request)
            self._folder.truncate_history(rounds)
            tables, change, at = self._best()
            measured = {split: {self._name: self._client.evaluate(tables, split, self._engine)} for split in SPLITS[1:]}
            result = make_result(self.config, rounds, at, self._folder.history(), measured)
            if change is not None:
                self._folder.save_change(self._name, change)
            self._folder.finish({self._name: tables}, {self._name: self._graph}, result)
            self._tidy()
            self.finished = True
            self._log(f"run {self.run}: finished; the tables of round {at} are in {self._folder.path}")
        result = self._folder.read("result.json")
        fields = {split: result[split]["clients"][self._name] for split in ("valid", "test")}
        return Message("finish", {"round": result["best_round"], **fields})

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Stop the engine after some seconds; what it has computed is then discarded."""
        expired, engine = threading.Event(), self._engine

        def stop() -> None:
            expired.set()
            engine.stop()

        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception:
            if not expired.is_set():
                raise
        finally:
            timer.cancel()
            timer.join()
        if expired.is_set():
            self._engine = self._make_engine()
            text = f"it would take longer than {seconds / 60:g} minutes"
            raise ProtocolError(f"{text}, the limit of {OWNER} (minutes_per_round)")

    def _download(self, request: Message) -> Download:
        contents, width = self._client.strategy.downloads, self._client.model.entity_width
        return as_download(read_contents(request, contents, self._travelling, width))

    def _check_download(self, saved: SavedState, number: int, download: Download) -> Change | None:
        """What a download changes; ProtocolError if it cannot be an average of uploads after round `number`."""
        change = self._client.change(saved.state, download)
        if change is None or not self._client.strategy.averages:
            return change
        model, shared_start = self._client.model, self.config.start == "shared"
        most = Distance.of(saved.change.values) if saved.change else AT_REST
        if saved.round:
            most = most.plus(saved.trained, FACTOR * max(1, 1 + number - saved.round))
        else:  # nothing is known of training yet
            steps = self.config.epochs * -(-len(self._graph.train) // self.config.batch)
            apart = self.config.build_optimizer().reach(steps) * number
            apart += 0.0 if shared_start else 2.01 * model.start_range
            most = Distance(apart, apart)
        own = saved.state.tables.entity[change.rows]
        check_download(own + change.values, own, most, model.start_range)
        return change

    def _trained(self, before: ClientState, after: ClientState, change: Change | None) -> Distance:
        """How far training moved the rows of shared entities."""
        if change is None:
            return AT_REST
        moved = after.tables.entity[change.rows] - before.tables.entity[change.rows]
        return Distance.of(moved - change.values if self._client.strategy.absorb.replace else moved)

    def _apply_news(self, request: Message) -> None:
        """Use what every request carries: the best round so far, and this client's row of the relation graph."""
        if self._evaluated and request.fields.get("best_round") == self._evaluated:
            rename(self._work / "evaluated.safetensors", self._work / "best.safetensors")
            self._evaluated = 0
        affinity, lines = request.fields.get("affinity"), self._folder.history()
        if lines and "affinity" not in lines[-1] and isinstance(affinity, dict) and affinity.get("round"):
            row = affinity.get("row")
            if lines[-1]["round"] == affinity["round"] and isinstance(row, dict) and len(row) <= 100_000:
                shares = {str(name)[:200]: float(w) for name, w in row.items() if isinstance(w, float) and 0 <= w <= 1}
                self._add(affinity["round"], {"affinity": {self._name: shares}})

    def _add(self, number: int, more: dict[str, Any]) -> None:
        """Add to the last line of this client's history, if it belongs to the round."""
        lines = self._folder.history()
        if lines and lines[-1]["round"] == number:
            self._folder.write_history([*lines[:-1], lines[-1] | more])

    def _best(self) -> tuple[Tables, Change | None, int]:
        """The best tables of this client, the last download in them, and their round; the latest without evaluation."""
        path = self._work / "best.safetensors"
        if not path.exists():
            return self.saved.state.tables, self.saved.change, self.saved.round
        arrays, about = read_arrays(path)
        with parsing(path):
            tables, change = Tables(arrays["entity"], arrays["relation"]), Change.of(arrays)
            self._client.check_tables(tables)
            if change is not None:
                check_change(change, tables)
            return tables, change, int(about["round"])

    def _tidy(self) -> None:
        """Remove the files that a finished run does not need."""
        for file in self._work.iterdir():
            if file.name != "alignment.safetensors":
                file.unlink()

    def _record(self, number: int, download: Download) -> None:
        """Add a line to this client's history."""
        line = {
            "round": number,
            "selected": [self._name],
            "loss": {self._name: self.saved.loss},
            "seconds": round(self.saved.seconds, 4),
            "bytes_up": self.upload().nbytes,
            "bytes_down": download.nbytes,
        }
        self._folder.write_history([*self._folder.history(number - 1), line])

    def _roll_back_before(self, number: int) -> None:
        """Roll the last round back if it is `number` or later."""
        if self.saved.round >= number:
            earlier = self._state_before(number)
            self._log(f"run {self.run}: rolls back round {self.saved.round}")
            self.saved = earlier

    def _state_before(self, number: int) -> SavedState:
        """The state before the last round, which must be earlier than `number`."""
        earlier = self._load("previous") if self.saved.before else SavedState(self._client.start(), 0)
        if earlier is None or earlier.round != self.saved.before or earlier.round >= number:
            raise ProtocolError(
                f"this client is at round {self.saved.round} and cannot roll back before round {number}"
            )
        return earlier

    def _save(self, saved: SavedState) -> None:
        """Write a state and keep the previous one; a crash in between leaves the previous one."""
        path = self._work / "state.safetensors"
        if self._stored and self._stored == self.saved.round:
            rename(path, self._work / "previous.safetensors")
        about = {
            "round": str(saved.round),
            "download": saved.download,
            "loss": repr(saved.loss),
            "seconds": repr(saved.seconds),
        }
        about |= {"before": str(saved.before), "trained": json.dumps(saved.trained)}
        write_arrays(path, saved.state.arrays() | (saved.change.arrays() if saved.change else {}), about)
        self.saved, self._stored = saved, saved.round

    def _newest(self) -> SavedState | None:
        """The state after the last round; None if there is none, or if only the previous one is undamaged."""
        try:
            return self._load("state")
        except InputError as error:
            if not (self._work / "previous.safetensors").exists():
                raise
            self._log(f"run {self.run}: {error}; going on from the state before, previous.safetensors")
            return None

    def _load(self, name: str) -> SavedState | None:
        path = self._work / f"{name}.safetensors"
        if not path.exists():
            return None
        arrays, about = read_arrays(path)
        with parsing(path):
            state = ClientState.of(arrays, trained=True, loss=float(about["loss"]))
            self._client.check(state)
            change = Change.of(arrays)
            if change is not None:
                check_change(change, state.tables)
            times = float(about["loss"]), float(about["seconds"])
            number, before = int(about["round"]), int(about["before"])
            trained = Distance(*json.loads(about.get("trained", "[Infinity, Infinity]")))  # older files do not say
            return SavedState(state, number, about["download"], *times, before, change, trained)
