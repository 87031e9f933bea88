"""The finished runs below a folder, sorted into what can be compared: data, model, method, settings, seeds."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId
from pfedeg.models.registry import MODELS
from pfedeg.text import suggest
from pfedeg.training.config import LABELS, PFEDEG, Config
from pfedeg.training.evaluation import HITS
from pfedeg.training.saved_run import Run

METRICS = ("mrr", *(f"hits@{k}" for k in HITS))
METHODS = ("collective", "single", "fede", "fedec", *PFEDEG)  # in the order of the paper's tables
MODEL_LABELS = {name: model.__name__ for name, model in MODELS.items()}

# settings that all methods share and that are prescribed alike for all: only runs that agree in them are compared
COMMON = ("batch", "dim", "negatives", "sampling", "chunk", "lr", "gamma", "alpha", "loss", "start")

Place = tuple[str, str, str]  # data, model, scale: the common settings that are not the usual ones, in words
Reported = Mapping[tuple[str, str, str], Mapping[str, float]]  # data, model, method → metrics


@dataclass
class Entry:
    """A method with its settings on some data: a run for every seed."""

    data: str
    settings: Mapping[str, Any]  # all but the seed
    runs: list[Run] = field(default_factory=list)
    varied: tuple[str, ...] = ()  # settings in which entries of the same method on the same data differ
    special: tuple[str, ...] = ()  # those in which they differ even at the same place

    @property
    def method(self) -> str:
        """One of config.METHODS."""
        return str(self.settings["method"])

    @property
    def model(self) -> str:
        """One of MODELS."""
        return str(self.settings["model"])

    @cached_property
    def scale(self) -> str:
        """The common settings that are not the usual ones; nothing for the paper's."""
        usual = Config().as_dict()
        used = [name for name in COMMON if name != "chunk" or self.settings["sampling"] == "shared"]
        return self._words([name for name in used if self.settings[name] != usual[name]])

    @property
    def place(self) -> Place:
        """With what it can be compared."""
        return self.data, self.model, self.scale

    @property
    def label(self) -> str:
        """The method's name, and how it differs from its like at the same place."""
        return LABELS[self.method] + (f" ({self._words(self.special)})" if self.special else "")

    @property
    def variant(self) -> str:
        """How it differs from its like."""
        return self._words(self.varied)

    def _words(self, names: Sequence[str]) -> str:
        return ", ".join(f"{name} {self.settings[name]}" for name in names)

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
    damaged: list[str] = field(default_factory=list)  # what is wrong with each run that cannot be used
    same: list[str] = field(default_factory=list)  # runs that only repeat another one

    @classmethod
    def read(cls, folder: Path, paper: Path | None = None) -> "Results":
        """Every run below the folder, and what a paper reports."""
        if not folder.is_dir():
            raise InputError(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
        runs, damaged = _runs(folder)
        finished = [run for run in runs if run.result is not None]
        if not finished:
            raise InputError(f"{folder}: {_nothing(runs, damaged)}")
        names = _data_names(finished)
        entries: dict[str, Entry] = {}
        same = []
        for run in finished:
            settings = {name: value for name, value in run.config.as_dict().items() if name != "seed"}
            key = repr((names[run.path], sorted(settings.items())))
            entry = entries.setdefault(key, Entry(names[run.path], settings))
            twin = next((other for other in entry.runs if other.config.seed == run.config.seed), None)
            if twin:
                same.append(f"{run.path} (as {twin.path})")
            else:
                entry.runs.append(run)
        ordered = sorted(entries.values(), key=_order)
        for entry in ordered:
            like = [other for other in ordered if _kind(other) == _kind(entry)]
            entry.varied = _differing(like)
            entry.special = _differing([other for other in like if other.scale == entry.scale])
        unfinished = [run.path for run in runs if run.result is None]
        return cls(ordered, unfinished, read_paper(paper) if paper else {}, damaged, same)

    @property
    def places(self) -> list[Place]:
        """Where something was run, in order."""
        return list(dict.fromkeys(entry.place for entry in self.entries))

    @property
    def compared(self) -> list[Place]:
        """The places to look at closely: a run that stands alone in a study's settings is shown there."""
        studied = [entry.place for group in self.studies() for entry in group]
        methods = {place: len(self.at(place)) for place in self.places}
        groups = {place[:2]: [other for other in self.places if other[:2] == place[:2]] for place in self.places}
        fullest = [max(group, key=lambda place: methods[place]) for group in groups.values()]
        return [place for place in self.places if methods[place] > 1 or place not in studied or place in fullest]

    def at(self, place: Place) -> list[Entry]:
        """The entries to compare at a place: of each method the one with the most usual settings, then the best."""
        chosen: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.place == place:
                chosen.setdefault(entry.method, entry)
        return list(chosen.values())

    def studies(self) -> list[list[Entry]]:
        """The entries that differ only in settings, method by method."""
        kinds = dict.fromkeys(_kind(entry) for entry in self.entries)
        groups = [[entry for entry in self.entries if _kind(entry) == kind] for kind in kinds]
        return [
            sorted(group, key=lambda e: [e.settings[name] for name in e.varied]) for group in groups if len(group) > 1
        ]

    def told(self, place: Place) -> dict[str, Mapping[str, float]]:
        """What the paper reports on data and model of a place, at its own settings, method by method."""
        key = place[0].lower(), place[1]
        return {method: values for (data, model, method), values in self.paper.items() if (data, model) == key}

    def reported(self, entry: Entry) -> Mapping[str, float]:
        """What the paper reports for data, model and method of an entry."""
        return self.told(entry.place).get(entry.method, {})


def _runs(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs below a folder, finished or not, and what is wrong with those that cannot be used."""
    paths = sorted(path.parent for path in folder.rglob("config.json") if (path.parent / "provenance.json").exists())
    runs, damaged = [], []
    for path in paths:
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            try:
                runs.append(_sound(path))
            except InputError as error:
                damaged.append(str(error))
            except OSError as error:
                damaged.append(f"{path}: cannot be read: {error.strerror}")
    return runs, damaged


def _nothing(runs: Sequence[Run], damaged: Sequence[str]) -> str:
    """Why there is nothing to report on."""
    if damaged:
        return f"no run can be used; {damaged[0]}"
    return "no run is finished" if runs else "no runs in it; `pfedeg train` and `pfedeg experiment` make some"


def _sound(path: Path) -> Run:
    """A run whose files hold all that a report looks at."""
    run, looked_at = Run(path), "config.json"
    try:
        prescribed = run.config.resolved().as_dict()
        for name, value in run.config.as_dict().items():
            if value is None and prescribed[name] is not None:
                raise KeyError(name)
        looked_at = "history.jsonl"
        for line in run.history:
            _check_line(line)
        looked_at = "result.json"
        if (result := run.result) is not None:
            _check_numbers(result[name] for name in ("rounds", "best_round", "seconds"))
            for split in ("valid", "test"):
                clients = [result[split]["clients"][client] for client in run.clients]
                _check_numbers(part["triples"] for part in clients)
                for part in (result[split]["weighted"], *clients):
                    _check_numbers(part[name] for name in METRICS if part[name] is not None)
    except KeyError as error:
        raise InputError(f"{path / looked_at}: damaged (no {error})") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path / looked_at}: damaged ({error})") from None
    return run


def _check_line(line: Mapping[str, Any]) -> None:
    """Round, validation MRR and the relation graph, where a line has them."""
    mrr, rows = line.get("valid", {}).get("weighted", {}).get("mrr"), line.get("affinity") or {}
    _check_numbers([line["round"], *([] if mrr is None else [mrr])])
    for row in rows.values():
        _check_numbers(row.values())
        if not row.keys() <= rows.keys():
            raise ValueError("affinity to an unknown client")


def _check_numbers(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError(f"{value!r} is not a number")


def _differing(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The settings in which entries differ."""
    first = entries[0].settings
    return tuple(name for name in first if len({repr(entry.settings[name]) for entry in entries}) > 1)


def _kind(entry: Entry) -> tuple[str, str, str]:
    return entry.data, entry.model, entry.method


def _order(entry: Entry) -> tuple[Any, ...]:
    best_first = -(entry.mean("mrr", "valid") or 0.0)
    return in_order(entry.place), METHODS.index(entry.method), entry.oddity, best_first


def in_order(place: Place) -> tuple[Any, ...]:
    """A key to sort places by: data by name and number, models as in the paper, the usual settings first."""
    return _natural(place[0]), list(MODELS).index(place[1]), _natural(place[2])


def _natural(name: str) -> list[Any]:
    """fed3 comes before fed10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _data_names(runs: list[Run]) -> dict[Path, str]:
    """How the data of each run are called: by their file; equal names for different data are told apart.

    Other seeds may have another fingerprint, since data that come without splits are split by the seed.
    """
    found = {run.path: (_stem(run), str(run.provenance.get("data_fingerprint", ""))) for run in runs}
    versions: defaultdict[tuple[str, int | None], set[Any]] = defaultdict(set)
    for run in runs:
        name, print = found[run.path]
        versions[name, run.config.seed].add(print)
        versions[name, None].add(run.clients)
    several = {name for (name, _), prints in versions.items() if len(prints) > 1}
    return {path: f"{name} ({print[:6]})" if name in several else name for path, (name, print) in found.items()}


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
                what = {name: (row[name] or "").strip().lower() for name in ("dataset", "model", "method")}
                for name, value in what.items():
                    if not value:
                        raise InputError(f"{where}: the column {name!r} is empty")
                data, model, method = what.values()
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
