"""An experiment: makes the runs of a plan, one process each, and tracks their status."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.experiments.plan import Plan, PlannedRun
from pfedeg.experiments.remaining_time import RemainingTime
from pfedeg.files import locked, write_bytes, write_json
from pfedeg.processes import end_with_parent
from pfedeg.text import suggest
from pfedeg.training.run_folder import RunFolder, saved_settings
from pfedeg.training.run_result import check_result

NOTES = ".experiment"  # folder beside the runs with the lock, and the settings, log and error of each run
POLL_SECONDS = 2.0  # between progress reports while runs are being made


@dataclass
class Running:
    """A run in progress and its process."""

    run: PlannedRun
    process: "subprocess.Popen[str]"


class Experiment:
    """The runs of a plan in a folder, with their states."""

    def __init__(self, plan: Plan, data: Path, out: Path) -> None:
        """`data` is the folder where the plan's data are: names and relative paths begin there."""
        self.plan, self._data, self.out = plan, data, out
        self._sources = {run.data: self._source(run.source) for run in plan.runs}
        self._time = RemainingTime(self._sources)

    def _source(self, text: str) -> Path:
        """The file or folder of a dataset, given as a name or a path; or the embedded federation."""
        for path in (self._data / f"{text}.parquet", self._data / text):
            if path.exists():
                return path
        if text == "world":
            return Path(text)
        folder = (self._data / text).parent
        known = sorted({path.stem for path in folder.glob("*") if not path.name.startswith(".")})
        name = Path(text).name
        wanted = name if name.endswith(".parquet") else f"{name} or {name}.parquet"
        raise InputError(f"{folder}: no {wanted} in this folder{suggest(name, known)}; --data names another folder")

    def folder(self, run: PlannedRun) -> RunFolder:
        """The run folder of a planned run."""
        return RunFolder(self.out / run.name)

    def state(self, run: PlannedRun) -> str:
        """One of done, failed, started, open, and other (the folder contains a run with other settings)."""
        return self.status(run)[0]

    def status(self, run: PlannedRun) -> tuple[str, str]:
        """The state of a run, and the reason if it has failed or has other settings."""
        folder = self.folder(run)
        if folder.exists():
            try:
                saved, planned = saved_settings(folder.read("config.json")), run.config.as_dict()
                if folder.finished():
                    check_result(folder.path / "result.json", folder.read("result.json"))
            except InputError as error:
                return "failed", f"{error}; remove {folder.path}"
            differing = [name for name in planned if name in saved and saved[name] != planned[name]]
            if differing:
                listed = ", ".join(f"{name} {saved[name]}, not {planned[name]}" for name in differing)
                return "other", f"run with {listed}"
        if folder.finished():
            return "done", ""
        if self._note(run, "json").exists():
            return "failed", self._saved_error(run)
        return "started" if folder.exists() else "open", ""

    def _note(self, run: PlannedRun, kind: str) -> Path:
        """A file about a run: its settings (toml), the log of its process (log), its error message (json)."""
        return self.out / NOTES / f"{run.name.replace('/', '--')}.{kind}"

    def _saved_error(self, run: PlannedRun) -> str:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(self._note(run, "json").read_text(encoding="utf-8"))["reason"])
        return "no error message was saved"

    def remaining(self, only: Mapping[str, Sequence[str]], retry: bool) -> list[PlannedRun]:
        """The runs to make; with `retry` also failed ones."""
        states = ("open", "started", "failed") if retry else ("open", "started")
        return [run for run in self.plan.runs if run.matches(only) and self.state(run) in states]

    def make(
        self, runs: Sequence[PlannedRun], jobs: int, threads: int | None, notify: Callable[[str], None]
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Make runs, `jobs` at a time. Yields each finished run with its state, and every few seconds a running one.

        After an interruption, call it again to continue.
        """
        waiting, running, reported = list(runs), list[Running](), time.monotonic()
        try:
            (self.out / NOTES).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.out}: cannot be written: {error.strerror}") from None
        with locked(self.out / NOTES / ".lock", f"{self.out}: another `pfedeg experiment` is using this folder"):
            try:
                while waiting or running:
                    while waiting and len(running) < jobs:
                        running.append(self._start(waiting.pop(0), threads, notify))
                    time.sleep(0.1)
                    for each in [each for each in running if each.process.poll() is not None]:
                        running.remove(each)
                        yield each.run, self._finish(each)
                    if running and time.monotonic() - reported > POLL_SECONDS:
                        yield running[0].run, "running"
                        reported = time.monotonic()
            finally:
                for each in running:
                    each.process.terminate()
                for each in running:
                    each.process.wait()

    def _start(self, run: PlannedRun, threads: int | None, notify: Callable[[str], None]) -> Running:
        self._note(run, "json").unlink(missing_ok=True)
        settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in run.config.as_dict().items())
        write_bytes(self._note(run, "toml"), settings.encode())
        command = [sys.executable, "-m", "pfedeg", "train", str(self._sources[run.data])]
        command += ["--config", str(self._note(run, "toml")), "--out", str(self.folder(run).path)]
        command += ["--resume", "--json"]
        command += ["--threads", str(threads)] if threads else []
        notify(f"{run.name}: starting")
        with open(self._note(run, "log"), "w") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, text=True, **end_with_parent())
        return Running(run, process)

    def _finish(self, running: Running) -> str:
        """The final state of a run; saves the error message of a failed one."""
        log, code = self._note(running.run, "log"), running.process.returncode
        if code == 0:
            log.unlink(missing_ok=True)
            return "done"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1].removeprefix("error: ") if lines else f"exit code {code}"
        if code < 0:  # then the log ends with a progress report, not an error
            reason = f"killed by {signal.Signals(-code).name}"
            reason += "; out of memory? try fewer --jobs" if code == -signal.SIGKILL else ""
        write_json(self._note(running.run, "json"), {"reason": reason})
        return "failed"

    def mrr(self, run: PlannedRun) -> str:
        """The weighted test MRR of a finished run; empty for others."""
        if self.state(run) != "done":
            return ""
        mrr = self.folder(run).read("result.json")["test"]["weighted"]["mrr"]
        return "–" if mrr is None else f"{mrr:.4f}"  # None without test triples

    def progress(self, run: PlannedRun) -> str:
        """The current round of a run."""
        lines = self.folder(run).history()
        if not lines:
            return "starting"
        valid = [line["valid"]["weighted"]["mrr"] for line in lines if "valid" in line]
        quality = f", valid MRR {valid[-1]:.4f}" if valid and valid[-1] is not None else ""
        return f"round {len(lines)}/{run.config.rounds}{quality}"

    def seconds_left(self, runs: Sequence[PlannedRun]) -> float:
        """The estimated remaining time of runs in seconds, without early stopping."""
        done = [(run, self.folder(run).read("result.json")) for run in self.plan.runs if self.state(run) == "done"]
        return self._time.estimate([(run, self._rounds_done(run)) for run in runs], done)

    def _rounds_done(self, run: PlannedRun) -> int:
        history = self.folder(run).path / "history.jsonl"
        return len(history.read_text(encoding="utf-8", errors="replace").splitlines()) if history.exists() else 0
