"""A grid of runs from a plan: datasets × models × methods × seeds × settings, each cell a run directory of its own."""

import itertools
import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pfedeg.config import METHODS, Config, configure, suggest
from pfedeg.deploy.processes import die_with_parent
from pfedeg.errors import InputError
from pfedeg.federation import Federation
from pfedeg.models import MODELS
from pfedeg.store import RunFolder, write_bytes, write_json

KEYS = ("title", "data", "models", "methods", "seeds", "preset", "settings", "vary", "where", "choices", "grid")
AXES = ("data", "model", "method", "seed")
PACE = {"transe": 9e4, "rotate": 3.5e4, "complex": 5.5e4, "distmult": 7e4}  # triples per second, until some are known
LOOK_SECONDS = 2.0  # between looks at cells that are running


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    data: str
    model: str
    method: str
    seed: int
    varied: Mapping[str, Any]
    config: Config

    @property
    def name(self) -> str:
        """Where it is, below the grid's folder."""
        parts = [self.data, self.model, self.method, f"seed-{self.seed}"]
        varied = "-".join(f"{name}-{value}" for name, value in self.varied.items())
        return "/".join([*parts, varied] if varied else parts)

    def fits(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Whether it is one of those that are wanted."""
        return all(str(self.axis(name)) in values for name, values in wanted.items())

    def axis(self, name: str) -> Any:
        """Where it stands on an axis of the grid."""
        return getattr(self, name) if name in AXES else self.varied.get(name)


@dataclass(frozen=True)
class Plan:
    """What to run, in this order."""

    title: str
    cells: tuple[Cell, ...]
    varied: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """From a TOML file; docs/experiments.md describes it."""
        raw = _toml(path)
        vary = raw.get("vary", {})
        if not isinstance(vary, dict) or not all(isinstance(values, list) and values for values in vary.values()):
            raise InputError(f"{path}: vary: expected lists, as in epochs = [1, 3, 5]")
        rules = [*_choices(path, raw), *raw.get("where", [])]
        cells: dict[str, Cell] = {}
        for part in raw.get("grid", [{}]):
            for cell in _cells(path, {"seeds": [0]} | raw | part, vary, rules):
                cells.setdefault(cell.name, cell)
        return cls(str(raw.get("title", path.stem)), tuple(cells.values()), tuple(vary))


def _cells(path: Path, raw: Mapping[str, Any], vary: Mapping[str, list[Any]], rules: list[Any]) -> Iterator[Cell]:
    """The cells of one grid, dataset by dataset."""
    for key in raw:
        if key not in KEYS:
            raise InputError(f"{path}: unknown entry {key!r}{suggest(key, KEYS)}")
    seeds, datasets = _list(path, raw, "seeds", int), _list(path, raw, "data", str)
    models, methods = _list(path, raw, "models", str), _list(path, raw, "methods", str)
    for key, names, known in (("models", models, list(MODELS)), ("methods", methods, list(METHODS))):
        for name in names:
            if name not in known:
                raise InputError(f"{path}: {key}: unknown {name!r}{suggest(name, known)}")
    for seed, data, model, method in itertools.product(seeds, datasets, models, methods):
        for values in itertools.product(*vary.values()):
            varied = dict(zip(vary, values, strict=True))
            flags = {**raw.get("settings", {}), "model": model, "method": method, "seed": seed}
            for rule in rules:
                flags |= _applies(path, rule, {"data": data, "model": model, "method": method})
            try:
                config = configure({**flags, **varied}, raw.get("preset"))[0]
            except (InputError, TypeError) as error:
                raise InputError(f"{path}: {data}, {model}, {method}: {error}") from None
            yield Cell(data, model, method, seed, varied, config)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def _list(path: Path, raw: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    values = raw.get(key)
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        raise InputError(f"{path}: {key}: expected a list of {'names' if kind is str else 'whole numbers'}")
    return values


def _choices(path: Path, raw: Mapping[str, Any]) -> list[Any]:
    """Settings that were chosen on validation data, from a file beside the plan, if it is there already."""
    name = raw.get("choices")
    if name is None or not (path.parent / name).exists():
        return []
    rules = _toml(path.parent / name).get("where", [])
    return rules if isinstance(rules, list) else []


def _applies(path: Path, rule: Any, cell: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a [[where]] for a cell, if it is meant."""
    if not isinstance(rule, dict) or not isinstance(rule.get("set"), dict) or set(rule) - {*cell, "set", "evidence"}:
        raise InputError(f"{path}: [[where]]: expected data, model, method (a name or a list) and set = {{…}}")
    for axis, value in cell.items():
        if axis in rule and value not in (rule[axis] if isinstance(rule[axis], list) else [rule[axis]]):
            return {}
    known = [item.name for item in fields(Config)]
    for name in rule["set"]:
        if name not in known:
            raise InputError(f"{path}: [[where]]: unknown setting {name!r}{suggest(name, known)}")
    return dict(rule["set"])


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
        self._sizes: dict[str, int] = {}
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
        """done, failed, begun or open."""
        path = self.path(cell)
        if (path / "result.json").exists():
            return "done"
        if self._note(cell, "json").exists():
            return "failed"
        return "begun" if (path / "provenance.json").exists() else "open"

    def _note(self, cell: Cell, kind: str) -> Path:
        """A file about a cell: its settings (toml), what it says while it runs (log), why it failed (json)."""
        return self.out / ".cells" / f"{cell.name.replace('/', '--')}.{kind}"

    def failure(self, cell: Cell) -> str:
        """Why a cell has failed."""
        return str(json.loads(self._note(cell, "json").read_text(encoding="utf-8"))["reason"])

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
        (self.out / ".cells").mkdir(parents=True, exist_ok=True)
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
        log = self._note(job.cell, "log")
        if job.process.returncode == 0:
            log.unlink(missing_ok=True)
            return "done"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"ended with {job.process.returncode}"
        write_json(self._note(job.cell, "json"), {"reason": reason})
        return "failed"

    def mrr(self, cell: Cell) -> str:
        """The weighted test MRR of a cell that is done."""
        if self.state(cell) != "done":
            return ""
        return f"{json.loads((self.path(cell) / 'result.json').read_text())['test']['weighted']['mrr']:.4f}"

    def standing(self, cell: Cell) -> str:
        """How far a cell that is running has come."""
        lines = RunFolder(self.path(cell)).history()
        if not lines:
            return "its start"
        valid = [line["valid"]["weighted"]["mrr"] for line in lines if "valid" in line]
        quality = f", valid MRR {valid[-1]:.4f}" if valid and valid[-1] is not None else ""
        return f"round {len(lines)}/{cell.config.rounds}{quality}"

    def seconds_left(self, cells: Sequence[Cell]) -> float:
        """How long cells take at most, by what others of the same model took per triple."""
        paces: dict[str, list[float]] = {}
        for cell in self.plan.cells:
            if self.state(cell) == "done":
                result = json.loads((self.path(cell) / "result.json").read_text(encoding="utf-8"))
                paces.setdefault(cell.model, []).append(
                    self._work(cell, result["rounds"]) / max(result["seconds"], 0.01)
                )
        total = 0.0
        for cell in cells:
            known, history = paces.get(cell.model), self.path(cell) / "history.jsonl"
            done = len(history.read_text(encoding="utf-8").splitlines()) if history.exists() else 0
            pace = sum(known) / len(known) if known else PACE[cell.model]
            total += self._work(cell, max(0, (cell.config.rounds or 0) - done)) / pace
        return total

    def _work(self, cell: Cell, rounds: int) -> float:
        """Triples that are trained on in so many rounds."""
        return float(self._triples(cell.data) * rounds * (cell.config.epochs or 1))

    def _triples(self, name: str) -> int:
        if name not in self._sizes:
            graphs = Federation.read(self._sources[name]).graphs
            self._sizes[name] = sum(len(graph.train) for graph in graphs.values())
        return self._sizes[name]


def read_only(texts: Sequence[str], plan: Plan) -> dict[str, list[str]]:
    """--only AXIS=VALUE,VALUE as a mapping."""
    axes = (*AXES, *plan.varied)
    wanted: dict[str, list[str]] = {}
    for text in texts:
        axis, sign, values = text.partition("=")
        if not sign or axis not in axes:
            raise InputError(f"--only {text}: expected AXIS=VALUE, where AXIS is one of {', '.join(axes)}")
        known = sorted({str(cell.axis(axis)) for cell in plan.cells})
        for value in values.split(","):
            if value not in known:
                raise InputError(f"--only {text}: no cell has {axis} {value!r}{suggest(value, known)}")
        wanted.setdefault(axis, []).extend(values.split(","))
    return wanted
