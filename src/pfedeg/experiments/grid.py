"""The cells of a plan in a folder, each a run directory of its own: how they stand, and running those that are left."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pfedeg.errors import InputError
from pfedeg.experiments.plan import Cell, Plan
from pfedeg.files import locked, write_bytes, write_json
from pfedeg.graphs.federation import Federation
from pfedeg.network.operations.supervisor import die_with_parent
from pfedeg.text import suggest
from pfedeg.training.run_folder import RunFolder

PACE = {"transe": 3e9, "rotate": 1.2e9, "complex": 2e9, "distmult": 3e9}  # work per second, until some is known
START = 4.0  # seconds in which a cell begins and ends
LOOK_SECONDS = 2.0  # between looks at cells that are running


class Size(NamedTuple):
    """What a dataset's time depends on."""

    triples: int = 0
    entities: float = 0.0  # of a client, on average


@dataclass
class Job:
    """A cell that is being run."""

    cell: Cell
    process: "subprocess.Popen[str]"


class Grid:
    """The cells of a plan in a folder: what is done, what has failed, what is left."""

    def __init__(self, plan: Plan, data: Path, out: Path) -> None:
        """`data` is the folder with a Parquet file or a folder for each dataset."""
        self.plan, self._data, self.out = plan, data, out
        self._sizes: dict[str, Size] = {}
        self._sources = {cell.data: self._source(cell.data) for cell in plan.cells}

    def _source(self, name: str) -> Path:
        for path in (self._data / f"{name}.parquet", self._data / name):
            if path.exists():
                return path
        known = sorted({path.stem for path in self._data.glob("*")})
        raise InputError(f"{self._data}: holds no {name}.parquet{suggest(name, known)}")

    def path(self, cell: Cell) -> Path:
        """The run directory of a cell."""
        return self.out / cell.name

    def state(self, cell: Cell) -> str:
        """done, failed, begun or open; other, if there is a run with other settings."""
        return self.standing(cell)[0]

    def reason(self, cell: Cell) -> str:
        """Why a cell has failed, or is another."""
        return self.standing(cell)[1]

    def standing(self, cell: Cell) -> tuple[str, str]:
        """The state of a cell, and the reason where there is one."""
        run = RunFolder(self.path(cell))
        if run.exists():
            try:
                kept, wanted = run.read("config.json"), cell.config.as_dict()
                if run.finished():
                    run.read("result.json")["test"]["weighted"]["mrr"]
            except (InputError, KeyError, TypeError) as error:
                said = str(error) if isinstance(error, InputError) else f"{run.path / 'result.json'}: damaged"
                return "failed", f"{said}; remove {run.path}"
            differing = [name for name in wanted if name in kept and kept[name] != wanted[name]]
            if differing:
                told = ", ".join(f"{name} {kept[name]}, not {wanted[name]}" for name in differing)
                return "other", f"was run with {told}"
        if run.finished():
            return "done", ""
        if self._note(cell, "json").exists():
            return "failed", self._failure(cell)
        return "begun" if run.exists() else "open", ""

    def _note(self, cell: Cell, kind: str) -> Path:
        """A file about a cell: its settings (toml), what it says while it runs (log), why it failed (json)."""
        return self.out / ".cells" / f"{cell.name.replace('/', '--')}.{kind}"

    def _failure(self, cell: Cell) -> str:
        with suppress(OSError, ValueError, KeyError, TypeError):  # a note that is damaged tells nothing
            return str(json.loads(self._note(cell, "json").read_text(encoding="utf-8"))["reason"])
        return "for a reason that is lost"

    def left(self, only: Mapping[str, Sequence[str]], retry: bool) -> list[Cell]:
        """The cells to run."""
        wanted = [cell for cell in self.plan.cells if cell.fits(only)]
        states = ("open", "begun", "failed") if retry else ("open", "begun")
        return [cell for cell in wanted if self.state(cell) in states]

    def run(
        self, cells: Sequence[Cell], jobs: int, threads: int | None, tell: Callable[[str], None]
    ) -> Iterator[tuple[Cell, str]]:
        """Run cells, some side by side; yields each with how it ended, and every few seconds one that is running.

        Stopped in between, it goes on later.
        """
        waiting, running, looked = list(cells), list[Job](), time.monotonic()
        try:
            (self.out / ".cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.out}: cannot be written: {error.strerror}") from None
        with locked(self.out / ".cells" / ".lock", f"{self.out}: another `pfedeg experiment` is at work here"):
            try:
                while waiting or running:
                    while waiting and len(running) < jobs:
                        running.append(self._start(waiting.pop(0), threads, tell))
                    time.sleep(0.1)
                    for job in [job for job in running if job.process.poll() is not None]:
                        running.remove(job)
                        yield job.cell, self._end(job)
                    if running and time.monotonic() - looked > LOOK_SECONDS:
                        yield running[0].cell, "running"
                        looked = time.monotonic()
            finally:
                for job in running:
                    job.process.terminate()
                for job in running:
                    job.process.wait()

    def _start(self, cell: Cell, threads: int | None, tell: Callable[[str], None]) -> Job:
        self._note(cell, "json").unlink(missing_ok=True)
        settings = "".join(
            f"{name} = {json.dumps(value)}\n" for name, value in cell.config.as_dict().items() if value is not None
        )
        write_bytes(self._note(cell, "toml"), settings.encode())
        command = [sys.executable, "-m", "pfedeg", "train", str(self._sources[cell.data])]
        command += ["--config", str(self._note(cell, "toml")), "--out", str(self.path(cell)), "--resume", "--json"]
        command += ["--threads", str(threads)] if threads else []
        tell(f"{cell.name}: begins")
        with open(self._note(cell, "log"), "w") as log:
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(command, stdout=quiet, stderr=log, text=True, preexec_fn=die_with_parent)
        return Job(cell, process)

    def _end(self, job: Job) -> str:
        log, code = self._note(job.cell, "log"), job.process.returncode
        if code == 0:
            log.unlink(missing_ok=True)
            return "done"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1].removeprefix("error: ") if lines else f"ended with {code}"
        if code < 0:  # what it said last is how far it had come
            reason = f"killed by {signal.Signals(-code).name}"
            reason += "; out of memory? fewer --jobs need less" if code == -signal.SIGKILL else ""
        write_json(self._note(job.cell, "json"), {"reason": reason})
        return "failed"

    def mrr(self, cell: Cell) -> str:
        """The weighted test MRR of a cell that is done."""
        if self.state(cell) != "done":
            return ""
        mrr = RunFolder(self.path(cell)).read("result.json")["test"]["weighted"]["mrr"]
        return "–" if mrr is None else f"{mrr:.4f}"  # there may be no test triples

    def progress(self, cell: Cell) -> str:
        """How far a cell that is running has come."""
        lines = RunFolder(self.path(cell)).history()
        if not lines:
            return "its start"
        valid = [line["valid"]["weighted"]["mrr"] for line in lines if "valid" in line]
        quality = f", valid MRR {valid[-1]:.4f}" if valid and valid[-1] is not None else ""
        return f"round {len(lines)}/{cell.config.rounds}{quality}"

    def seconds_left(self, cells: Sequence[Cell]) -> float:
        """About how long cells take if none stops early, by the work of those of the same model that are done."""
        paces: dict[str, list[float]] = {}
        for cell in self.plan.cells:
            if self.state(cell) == "done":
                result = RunFolder(self.path(cell)).read("result.json")
                if result.get("seconds"):
                    paces.setdefault(cell.model, []).append(self._work(cell, result["rounds"]) / result["seconds"])
        total = 0.0
        for cell in cells:
            known, history = paces.get(cell.model), self.path(cell) / "history.jsonl"
            done = len(history.read_text(encoding="utf-8").splitlines()) if history.exists() else 0
            pace = max(1.0, sum(known) / len(known)) if known else PACE[cell.model]
            total += START + self._work(cell, max(0, (cell.config.rounds or 0) - done)) / pace
        return total

    def _work(self, cell: Cell, rounds: int) -> float:
        """Numbers in rows that so many rounds meet, and that Adam moves, which takes some four times as long."""
        size, config = self._size(cell.data), cell.config
        rows = config.negatives + 4 * size.entities / config.batch
        return size.triples * rounds * (config.epochs or 1) * config.dim * rows

    def _size(self, name: str) -> Size:
        if name not in self._sizes:
            self._sizes[name] = Size()
            with suppress(InputError):  # its cells will say what is wrong with it
                graphs = Federation.read(self._sources[name]).graphs.values()
                entities = sum(len(graph.entities) for graph in graphs)
                self._sizes[name] = Size(sum(len(graph.train) for graph in graphs), entities / len(graphs))
        return self._sizes[name]
