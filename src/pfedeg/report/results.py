"""The finished runs below a folder, sorted into what can be compared: data, model, method, settings, seeds."""

import csv
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pfedeg.config import LABELS, PFEDEG, Config, suggest
from pfedeg.errors import InputError
from pfedeg.evaluation import HITS
from pfedeg.models import MODELS
from pfedeg.prediction import Run
from pfedeg.shared import ClientId

METRICS = ("mrr", *(f"hits@{k}" for k in HITS))
METHODS = ("collective", "single", "fede", "fedec", *PFEDEG)  # in the order of the paper's tables
MODEL_LABELS = {name: model.__name__ for name, model in MODELS.items()}

Place = tuple[str, str]  # data, model
Reported = Mapping[tuple[str, str, str], Mapping[str, float]]  # data, model, method → metrics


@dataclass
class Entry:
    """A method with its settings on some data: a run for every seed."""

    data: str
    settings: Mapping[str, Any]  # all but the seed
    runs: list[Run] = field(default_factory=list)
    varied: tuple[str, ...] = ()  # settings in which entries of the same method on the same data differ

    @property
    def method(self) -> str:
        """One of config.METHODS."""
        return str(self.settings["method"])

    @property
    def model(self) -> str:
        """One of MODELS."""
        return str(self.settings["model"])

    @property
    def label(self) -> str:
        """The method's name, and how it differs from its like."""
        return LABELS[self.method] + (f" ({self.variant})" if self.varied else "")

    @property
    def variant(self) -> str:
        """How it differs from its like."""
        return ", ".join(f"{name} {self.settings[name]}" for name in self.varied)

    @property
    def oddity(self) -> int:
        """In how many settings it differs from what its method and model prescribe."""
        usual = Config(method=self.method, model=self.model).resolved().as_dict()
        return sum(self.settings[name] != usual[name] for name in self.settings)

    @cached_property
    def results(self) -> list[dict[str, Any]]:
        """The content of result.json for every seed."""
        return [run.result or {} for run in self.runs]

    def values(self, metric: str, split: str = "test", client: ClientId | None = None) -> list[float]:
        """A metric for every seed that has it, weighted or of one client."""
        parts = [
            result[split]["weighted"] if client is None else result[split]["clients"][client] for result in self.results
        ]
        return [part[metric] for part in parts if part[metric] is not None]

    def mean(self, metric: str, split: str = "test", client: ClientId | None = None) -> float | None:
        """The mean over seeds."""
        values = self.values(metric, split, client)
        return fmean(values) if values else None

    def sd(self, metric: str) -> float | None:
        """The standard deviation over seeds; None for fewer than two."""
        values = self.values(metric)
        return stdev(values) if len(values) > 1 else None


@dataclass
class Results:
    """All entries of a folder, in the order of the paper's tables."""

    entries: list[Entry]
    unfinished: list[Path]
    paper: Reported

    @classmethod
    def read(cls, folder: Path, paper: Path | None = None) -> "Results":
        """Every run below the folder, and what a paper reports."""
        if not folder.is_dir():
            raise InputError(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
        places = sorted(
            path.parent for path in folder.rglob("config.json") if (path.parent / "provenance.json").exists()
        )
        runs = [
            Run(path) for path in places if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        ]
        finished = [run for run in runs if run.result is not None]
        if not finished:
            what = "no run is finished" if runs else "no runs in it; `pfedeg train` and `pfedeg experiment` make some"
            raise InputError(f"{folder}: {what}")
        names = _data_names(finished)
        entries: dict[str, Entry] = {}
        for run in finished:
            settings = {name: value for name, value in run.config.as_dict().items() if name != "seed"}
            key = repr((names[run.path], sorted(settings.items())))
            entry = entries.setdefault(key, Entry(names[run.path], settings))
            if run.config.seed in [other.config.seed for other in entry.runs]:
                raise InputError(f"{run.path}: the same run as {entry.runs[0].path}; remove one of them")
            entry.runs.append(run)
        ordered = sorted(entries.values(), key=_order)
        for entry in ordered:
            like = [other for other in ordered if _kind(other) == _kind(entry)]
            entry.varied = tuple(
                name for name in entry.settings if len({repr(other.settings[name]) for other in like}) > 1
            )
        unfinished = [run.path for run in runs if run.result is None]
        return cls(ordered, unfinished, read_paper(paper) if paper else {})

    @property
    def places(self) -> list[Place]:
        """Where something was run, in order."""
        return list(dict.fromkeys((entry.data, entry.model) for entry in self.entries))

    def at(self, place: Place) -> list[Entry]:
        """The entries to compare at a place: of each method the one with the most usual settings."""
        chosen: dict[str, Entry] = {}
        for entry in self.everything_at(place):
            if entry.method not in chosen or entry.oddity < chosen[entry.method].oddity:
                chosen[entry.method] = entry
        return list(chosen.values())

    def everything_at(self, place: Place) -> list[Entry]:
        """All entries at a place."""
        return [entry for entry in self.entries if (entry.data, entry.model) == place]

    def studies(self) -> list[list[Entry]]:
        """The entries that differ only in settings, method by method."""
        kinds = dict.fromkeys(_kind(entry) for entry in self.entries)
        groups = [[entry for entry in self.entries if _kind(entry) == kind] for kind in kinds]
        return [
            sorted(group, key=lambda e: [e.settings[name] for name in e.varied]) for group in groups if len(group) > 1
        ]

    def reported(self, entry: Entry) -> Mapping[str, float]:
        """What the paper reports for an entry; nothing for one that is not run as in the paper."""
        return self.paper.get((entry.data, entry.model, entry.method), {})


def _kind(entry: Entry) -> tuple[str, str, str]:
    return entry.data, entry.model, entry.method


def _order(entry: Entry) -> tuple[Any, ...]:
    return in_order((entry.data, entry.model)), METHODS.index(entry.method), entry.oddity


def in_order(place: Place) -> tuple[Any, ...]:
    """A key to sort places by: data by name and number, models as in the paper."""
    return _natural(place[0]), list(MODELS).index(place[1])


def _natural(name: str) -> list[Any]:
    """fed3 comes before fed10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _data_names(runs: list[Run]) -> dict[Path, str]:
    """How the data of each run are called: by their file; equal names for different data are told apart."""
    found = {run.path: (_stem(run), str(run.provenance.get("data_fingerprint", ""))) for run in runs}
    versions = Counter(name for name, _ in set(found.values()))
    return {path: name if versions[name] == 1 else f"{name} ({print[:6]})" for path, (name, print) in found.items()}


def _stem(run: Run) -> str:
    source = Path(str(run.provenance.get("data", "unknown")))
    return source.stem if source.suffix == ".parquet" else source.name


def read_paper(path: Path) -> dict[tuple[str, str, str], dict[str, float]]:
    """Reported results: a CSV file with dataset, model, method, mrr, hits@1, hits@5, hits@10; a cell may be empty."""
    methods = {label.lower(): name for name, label in LABELS.items()} | {name: name for name in LABELS}
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in ("dataset", "model", "method", "mrr") if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"{path}, line 1: no column {missing[0]!r}; expected dataset,model,method,mrr,hits@1,…"
                )
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                data, model, method = (str(row[name] or "").strip().lower() for name in ("dataset", "model", "method"))
                if model not in MODELS:
                    raise InputError(f"{where}: unknown model {row['model']!r}{suggest(model, MODELS)}")
                if method not in methods:
                    raise InputError(f"{where}: unknown method {row['method']!r}{suggest(method, methods)}")
                try:
                    values = {name: float(row[name]) for name in METRICS if row.get(name)}
                except ValueError as error:
                    raise InputError(f"{where}: {error}") from None
                if not all(0 <= value <= 1 for value in values.values()):
                    raise InputError(f"{where}: metrics are between 0 and 1 (not percent)")
                found.setdefault((data, model, methods[method]), {}).update(values)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    return found
