"""One run at a client, from message to message: its state, and the files that keep it.

What a round changes is in files before the client answers, so that it may die at any moment, be asked the same again,
and give the same answer. A round is undone if the server, after a fault of its own, asks for it again with other
knowledge.
"""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.engine.interface import Engine
from pfedeg.errors import InputError, RunError
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import SPLITS
from pfedeg.graphs.triples import Ids
from pfedeg.methods.exchange import Download, Upload
from pfedeg.models.base import Tables
from pfedeg.network.messages import Note, ProtocolError, as_download, metrics_facts, pack_contents, read_contents
from pfedeg.training.client import Client, ClientState
from pfedeg.training.run_folder import RunFolder, read_arrays, write_arrays
from pfedeg.training.run_loop import make_result, summary

WORK = ".work"


@dataclass(frozen=True, slots=True)
class Kept:
    """A client's state after some round, and what led to it."""

    state: ClientState
    round: int
    cause: str = ""  # a digest of the download
    loss: float = 0.0
    seconds: float = 0.0
    before: int = 0  # the round of the state before


def digest(*arrays: Any) -> str:
    """What arrays contain, in short."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def digest_contents(message: Upload) -> str:
    """The same of an upload or a download."""
    arrays = [array for _, rows in sorted(message.tables.items()) for array in (rows.ids, rows.values)]
    return digest(*arrays, *(np.array([value]) for _, value in sorted(message.scalars.items())))


def alignment_digest(folder: Path) -> str:
    """Which alignment a run has, if it has one."""
    path = folder / WORK / "alignment.safetensors"
    return read_arrays(path)[1].get("digest", "") if path.exists() else ""


class Session:
    """One run at this client: its state between two messages, and the files that keep it."""

    def __init__(
        self,
        path: Path,
        run: str,
        name: ClientId,
        engine: Engine,
        log: Callable[[str], None],
    ) -> None:
        """Go on where the files say, with the graph as it was when the run began."""
        self.run, self._name, self._engine, self._log = run, name, engine, log
        self._folder, self._work = RunFolder(path), path / WORK
        self._config = self._folder.config()
        self._graph = self._folder.graph(name)
        self.finished = self._folder.finished()
        if self.finished:
            self._tidy()
            return
        arrays, _ = read_arrays(self._work / "alignment.safetensors")
        self._travelling: Ids = arrays["travelling"]
        strategy = self._config.build_strategy()
        self._client = Client(name, self._graph, arrays["aligned"], self._travelling, self._config, strategy)
        state = self._load("state")
        self.kept = state or self._load("previous") or Kept(self._client.start(), 0)
        self._stored = state.round if state else 0  # the round in the file
        shown = self._work / "shown.safetensors"
        self._shown = int(read_arrays(shown)[1]["round"]) if shown.exists() else 0

    def upload(self) -> Upload:
        """What the method sends, from the tables as they are now."""
        try:
            return self._client.upload(self.kept.state)
        except InputError as error:  # the method does not keep to what it declares
            raise ProtocolError(str(error)) from None

    def train(self, note: Note) -> Note:
        """Take the knowledge, train for one round, show the shared rows."""
        number = note.number("round", 1)
        self._heed(note)
        download = self._download(note)
        cause = digest_contents(download)
        lines = self._folder.history()
        anew = self.kept.round != number or self.kept.cause != cause
        if anew:
            self._back_before(number)
            began = time.perf_counter()
            try:
                state, loss = self._client.step(self.kept.state, number, download, self._engine)
            except (InputError, RunError) as error:  # the method is at fault, or training diverged
                raise ProtocolError(str(error)) from None
            self._keep(Kept(state, number, cause, loss, time.perf_counter() - began, self.kept.round))
            self._log(f"run {self.run}: round {number}, loss {loss:.4f}, {self.kept.seconds:.1f} s")
        if anew or not lines or lines[-1]["round"] != number:
            self._record(number, download)
        arrays, more = pack_contents(self.upload())
        facts = {"round": number, "loss": self.kept.loss, "seconds": self.kept.seconds, **more}
        return Note("train", facts, arrays)

    def evaluate(self, note: Note) -> Note:
        """Rank the validation triples with the tables as they are, or with the knowledge in place."""
        number = note.number("round", 1)
        self._heed(note)
        kept = self.kept if self.kept.round <= number else self._before(number + 1)
        tables = kept.state.tables
        if note.arrays or "scalars" in note.facts:
            try:
                tables = self._client.absorbed(kept.state, self._download(note))
            except InputError as error:
                raise ProtocolError(str(error)) from None
        metrics = self._client.evaluate(tables, "valid", self._engine)
        write_arrays(self._work / "shown.safetensors", tables._asdict(), {"round": str(number)})
        self._shown = number
        self._add(number, {"valid": summary({self._name: metrics})})
        return Note("evaluate", {"round": number, "valid": metrics_facts(metrics)})

    def finish(self, note: Note) -> Note:
        """Make the best tables the result, and say how good they are."""
        if not self.finished:
            rounds = note.number("rounds")
            self._heed(note)
            self._folder.cut_history(rounds)
            tables, at = self._best()
            measured = {split: {self._name: self._client.evaluate(tables, split, self._engine)} for split in SPLITS[1:]}
            result = make_result(self._config, rounds, at, self._folder.history(), measured)
            self._folder.finish({self._name: tables}, {self._name: self._graph}, result)
            self._tidy()
            self.finished = True
            self._log(f"run {self.run}: finished; the tables of round {at} are in {self._folder.path}")
        result = self._folder.read("result.json")
        facts = {split: result[split]["clients"][self._name] for split in ("valid", "test")}
        return Note("finish", {"round": result["best_round"], **facts})

    def _download(self, note: Note) -> Download:
        contents, width = self._client.strategy.downloads, self._client.model.entity_width
        return as_download(read_contents(note, contents, self._travelling, width))

    def _heed(self, note: Note) -> None:
        """What the server says beside its request: which evaluation was the best so far, and who is close."""
        if self._shown and note.facts.get("best_round") == self._shown:
            os.replace(self._work / "shown.safetensors", self._work / "best.safetensors")
            self._shown = 0
        affinity, lines = note.facts.get("affinity"), self._folder.history()
        if lines and "affinity" not in lines[-1] and isinstance(affinity, dict) and affinity.get("round"):
            row = affinity.get("row")
            if lines[-1]["round"] == affinity["round"] and isinstance(row, dict) and len(row) <= 100_000:
                shares = {str(name)[:200]: float(w) for name, w in row.items() if isinstance(w, float) and 0 <= w <= 1}
                self._add(affinity["round"], {"affinity": {self._name: shares}})

    def _add(self, number: int, more: dict[str, Any]) -> None:
        """Add to the last line of the client's own history, if it is of this round."""
        lines = self._folder.history()
        if lines and lines[-1]["round"] == number:
            self._folder.write_history([*lines[:-1], lines[-1] | more])

    def _best(self) -> tuple[Tables, int]:
        """The best tables that this client has, and of which round they are: the latest, if none was evaluated."""
        path = self._work / "best.safetensors"
        if not path.exists():
            return self.kept.state.tables, self.kept.round
        arrays, about = read_arrays(path)
        return Tables(arrays["entity"], arrays["relation"]), int(about["round"])

    def _tidy(self) -> None:
        """Remove what is not needed once there is a result."""
        for file in self._work.iterdir():
            if file.name != "alignment.safetensors":
                file.unlink()

    def _record(self, number: int, download: Download) -> None:
        """A line of the client's own history."""
        line = {
            "round": number,
            "selected": [self._name],
            "loss": {self._name: self.kept.loss},
            "seconds": round(self.kept.seconds, 4),
            "bytes_up": self.upload().nbytes,
            "bytes_down": download.nbytes,
        }
        self._folder.write_history([*self._folder.history(number - 1), line])

    def _back_before(self, number: int) -> None:
        """Undo the last round if it is not before `number`."""
        if self.kept.round >= number:
            earlier = self._before(number)
            self._log(f"run {self.run}: undoes round {self.kept.round}")
            self.kept = earlier

    def _before(self, number: int) -> Kept:
        """The state before the last round, if that is before `number`."""
        earlier = self._load("previous") if self.kept.before else Kept(self._client.start(), 0)
        if earlier is None or earlier.round != self.kept.before or earlier.round >= number:
            raise ProtocolError(f"this client is at round {self.kept.round} and cannot go back before round {number}")
        return earlier

    def _keep(self, kept: Kept) -> None:
        """Keep a state, and the one before it; a crash between the two leaves the latter."""
        path = self._work / "state.safetensors"
        if self._stored and self._stored == self.kept.round:
            os.replace(path, self._work / "previous.safetensors")
        about = {"round": str(kept.round), "cause": kept.cause, "loss": repr(kept.loss), "seconds": repr(kept.seconds)}
        about |= {"before": str(kept.before)}
        write_arrays(path, kept.state.arrays(), about)
        self.kept, self._stored = kept, kept.round

    def _load(self, name: str) -> Kept | None:
        path = self._work / f"{name}.safetensors"
        if not path.exists():
            return None
        arrays, about = read_arrays(path)
        state = ClientState.of(arrays, trained=True, loss=float(about["loss"]))
        times = float(about["loss"]), float(about["seconds"])
        return Kept(state, int(about["round"]), about["cause"], *times, int(about["before"]))
