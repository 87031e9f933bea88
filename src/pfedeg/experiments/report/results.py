"""Groups finished runs for comparison: by data, model and scale; then by method, settings and seed."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from pfedeg.errors import InputError
from pfedeg.experiments.report.parts import (
    ReportMethod,
    ReportModel,
    method_of,
    model_named,
    model_of,
    with_colors,
)
from pfedeg.experiments.report.published import Published, read_published
from pfedeg.experiments.report.run_files import data_names, describe_missing, find_runs, why_empty
from pfedeg.experiments.report.run_table import run_table
from pfedeg.graphs.alignment import ClientId
from pfedeg.result_table import ResultTable
from pfedeg.settings import setting_fields
from pfedeg.training.config import DEFAULT_PARTS, REGISTRIES, Config
from pfedeg.training.saved_run import Run

# Settings of every run that each method may have its own value of; all others must be equal in a comparison.
SCHEDULE = {"rounds", "epochs", "moments", "fraction", "evaluate", "eval_every", "patience"}
SCALE = ("objective", "optimizer", *(name for name in setting_fields(Config) if name not in {"seed", *SCHEDULE}))


class Setup(NamedTuple):
    """The common properties of compared runs."""

    data: str
    model: ReportModel
    scale: str  # common settings that differ from the paper's, as text; else empty

    @property
    def title(self) -> str:
        """The heading."""
        return f"{self.data}, {self.model.label}" + (f" ({self.scale})" if self.scale else "")

    @property
    def position(self) -> tuple[Any, ...]:
        """A sort key: data by name and number, models in registry order, default settings first."""
        return _natural(self.data), self.model.position, _natural(self.scale)


@dataclass
class Entry:
    """A method with its settings on a dataset, with a run per seed."""

    data: str
    method: ReportMethod
    model: ReportModel
    settings: Mapping[str, Any]  # all but the seed
    runs: list[Run] = field(default_factory=list)
    varied: tuple[str, ...] = ()  # settings that differ between entries of the same method on the same data
    varied_in_setup: tuple[str, ...] = ()  # the same within one setup

    @cached_property
    def setup(self) -> Setup:
        """The setup in which the entry is compared; it does not depend on what is installed."""
        defaults = {name: item.default for name, item in setting_fields(Config).items()} | DEFAULT_PARTS
        changed = [name for name in self.scale if self.settings[name] != defaults[name]]
        return Setup(self.data, self.model, self._describe(changed))

    @property
    def scale(self) -> list[str]:
        """The names of the settings that all entries of a setup have in common."""
        unused = {"chunk"} if self.settings.get("sampling") != "shared" else set()
        return [name for name in self.settings if name in SCALE and name not in unused]

    @property
    def label(self) -> str:
        """The method, with the settings that distinguish it in its setup."""
        settings = self._describe(self.varied_in_setup)
        return f"{self.method.label} ({settings})" if settings else self.method.label

    @property
    def variant(self) -> str:
        """The settings that distinguish it from other entries of the same method on the same data."""
        return self._describe(self.varied)

    def _describe(self, names: Sequence[str]) -> str:
        return ", ".join(f"{name} {self.setting_text(name)}" for name in names)

    def setting_text(self, name: str) -> str:
        """The value of a setting as text; a method, model, objective or optimiser by its label."""
        if name == "method":
            return self.method.label
        if name in REGISTRIES and name in self.settings and self.runs:
            return self.runs[0].label(name)  # type: ignore[arg-type]  # a registry name is a literal
        return str(self.settings.get(name, "–"))

    @cached_property
    def results(self) -> list[dict[str, Any]]:
        """The content of result.json for every seed."""
        return [run.result or {} for run in self.runs]

    def values(self, metric: str, split: str = "test", client: ClientId | None = None) -> list[float]:
        """A metric for every seed where it is defined: weighted over clients, or of one client."""
        found = [
            result[split]["weighted"] if client is None else result[split]["clients"][client] for result in self.results
        ]
        return [metrics[metric] for metrics in found if metrics[metric] is not None]

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
    """The runs of a folder as `entries`, in report order: a method with its settings on a dataset, with a run per seed.

    `published` results stand beside them. Left out are runs that are `unfinished`, `damaged` (with the reason) or
    `duplicates` of others; `missing` names plug-ins that are not installed here.
    """

    entries: list[Entry]
    unfinished: list[Path]
    published: Published
    damaged: list[str] = field(default_factory=list)  # an error message per damaged run
    duplicates: list[str] = field(default_factory=list)  # runs that repeat another one's data, settings and seed
    missing: list[str] = field(default_factory=list)  # plug-ins that are not installed here

    @classmethod
    def read(cls, folder: Path, published: Path | None = None) -> "Results":
        """Read the runs in a folder and its subfolders, and published results."""
        runs, damaged = find_runs(folder)
        finished = [run for run in runs if run.result is not None]
        if not finished:
            raise InputError(f"{folder}: {why_empty(runs, damaged)}")
        entries, duplicates = _group(finished)
        unfinished = [run.path for run in runs if run.result is None]
        methods = {entry.method.identifier: entry.method.label for entry in entries}
        models = {entry.model.identifier: entry.model.label for entry in entries}
        reported = read_published(published, methods, models) if published else {}
        return cls(entries, unfinished, reported, damaged, duplicates, describe_missing(finished))

    @cached_property
    def setups(self) -> list[Setup]:
        """The setups of all entries, in order."""
        return list(dict.fromkeys(entry.setup for entry in self.entries))

    @cached_property
    def compared(self) -> list[Setup]:
        """The setups with a section of their own: all except single entries that a comparison of settings covers."""
        in_studies = [entry.setup for group in self.studies() for entry in group]
        methods = {setup: len(self.at(setup)) for setup in self.setups}
        groups = [[other for other in self.setups if other[:2] == setup[:2]] for setup in self.setups]
        fullest = [max(group, key=lambda setup: methods[setup]) for group in groups]
        return [setup for setup in self.setups if methods[setup] > 1 or setup not in in_studies or setup in fullest]

    def at(self, setup: Setup) -> list[Entry]:
        """The entries of a `setup` to compare: every method with the settings that are best on validation triples."""
        return [best_by_validation(tried) for tried in self.tried(setup).values()]

    def tried(self, setup: Setup) -> dict[str, list[Entry]]:
        """All entries of a `setup` by method."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if entry.setup == setup:
                found.setdefault(entry.method.identifier, []).append(entry)
        return found

    @cached_property
    def usual(self) -> dict[str, str]:
        """The most frequent value of every setting that all entries of a setup share."""
        values: dict[str, Counter[str]] = {}
        for setup in self.setups:
            entry = next(entry for entry in self.entries if entry.setup == setup)
            for name in entry.scale:
                values.setdefault(name, Counter())[entry.setting_text(name)] += 1
        common = {name: found.most_common(1)[0] for name, found in values.items()}
        return {name: value for name, (value, number) in common.items() if 2 * number >= len(self.setups)}

    def title(self, setup: Setup) -> str:
        """The heading of a setup: data, model, and the shared settings that differ from the usual ones."""
        entry = next((entry for entry in self.entries if entry.setup == setup), None)
        names = [name for name in entry.scale if entry.setting_text(name) != self.usual.get(name)] if entry else []
        listed = ", ".join(f"{name} {entry.setting_text(name)}" for name in names) if entry else ""
        return f"{setup.data}, {setup.model.label}" + (f" ({listed})" if listed else "")

    def studies(self) -> list[list[Entry]]:
        """Groups of entries of the same method on the same data that differ only in settings."""
        kinds = dict.fromkeys(_kind(entry) for entry in self.entries)
        groups = [[entry for entry in self.entries if _kind(entry) == kind] for kind in kinds]
        return [
            sorted(group, key=lambda e: [_sortable(e.settings.get(name)) for name in e.varied])
            for group in groups
            if len(group) > 1
        ]

    def table(self) -> ResultTable:
        """A row per run and client, and one for the weighted average of a run (client ""), with published metrics."""
        return run_table(self.entries, self.published_for)

    def published_at(self, setup: Setup) -> dict[str, Mapping[str, float]]:
        """Published metrics for the data and model of a setup, at the paper's settings, by method."""
        key = setup.data.casefold(), setup.model.identifier
        return {method: values for (data, model, method), values in self.published.items() if (data, model) == key}

    def published_for(self, entry: Entry) -> Mapping[str, float]:
        """Published metrics for the data, model and method of an entry."""
        return self.published_at(entry.setup).get(entry.method.identifier, {})

    def published_only(self) -> list[Setup]:
        """Setups with published metrics but without runs."""
        run = {(setup.data.casefold(), setup.model.identifier) for setup in self.setups}
        left = {(data, model) for data, model, _ in self.published if (data, model) not in run}
        return sorted((Setup(data, model_named(model), "") for data, model in left), key=lambda setup: setup.position)


def _group(runs: Sequence[Run]) -> tuple[list[Entry], list[str]]:
    """Group runs into sorted entries; returns also the duplicates."""
    names, methods = data_names(runs), with_colors(method_of(run) for run in runs)
    entries: dict[str, Entry] = {}
    duplicates = []
    for run in runs:
        method, model = methods[method_of(run).identifier], model_of(run)
        settings = {name: value for name, value in run.effective_settings.items() if name != "seed"}
        key = repr((names[run.path], method.identifier, sorted(settings.items())))
        entry = entries.setdefault(key, Entry(names[run.path], method, model, settings))
        twin = next((other for other in entry.runs if other.seed == run.seed), None)
        if twin:
            duplicates.append(f"{run.path} (as {twin.path})")
        else:
            entry.runs.append(run)
    ordered = sorted(entries.values(), key=_position)
    for entry in ordered:
        like = [other for other in ordered if _kind(other) == _kind(entry)]
        entry.varied = _differing(like)
        entry.varied_in_setup = _differing([other for other in like if other.setup == entry.setup])
    return ordered, duplicates


def best_by_validation(tried: Sequence[Entry]) -> Entry:
    """The entry with the best validation MRR, over the seeds that all of them have if there are any."""
    common = set.intersection(*({run.seed for run in entry.runs} for entry in tried))

    def score(entry: Entry) -> float:
        found = [
            result["valid"]["weighted"]["mrr"]
            for run, result in zip(entry.runs, entry.results, strict=True)
            if run.seed in common or not common
        ]
        known = [value for value in found if value is not None]
        return fmean(known) if known else 0.0

    return max(tried, key=score)  # of equals the first, in the order of their settings


def _differing(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The settings in which entries differ."""
    names = dict.fromkeys(name for entry in entries for name in entry.settings)
    return tuple(name for name in names if len({repr(entry.settings.get(name)) for entry in entries}) > 1)


def _kind(entry: Entry) -> tuple[str, str, str]:
    return entry.data, entry.model.identifier, entry.method.identifier


def _position(entry: Entry) -> tuple[Any, ...]:
    settings = [(name, _sortable(value)) for name, value in sorted(entry.settings.items()) if value is not None]
    return entry.setup.position, entry.method.position, settings


def _sortable(value: Any) -> tuple[str, Any]:
    """Numbers by size, texts by name."""
    return ("", value) if isinstance(value, int | float) else ("text", str(value))


def _natural(name: str) -> list[Any]:
    """A key that sorts fed3 before fed10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
