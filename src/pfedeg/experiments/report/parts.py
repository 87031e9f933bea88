"""Methods and models of runs in a report, also if a plug-in is not installed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pfedeg.errors import InputError
from pfedeg.methods.base import Method
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from pfedeg.training.config import REGISTRIES
from pfedeg.training.saved_run import Run

COLORS = (
    "#9467bd",
    "#8c564b",
    "#17becf",
    "#bcbd22",
    "#e377c2",
    "#2ca02c",
)  # for methods without a colour, or with one that is already used
TRAITS = {  # what a run folder may say about a method
    "role": "baseline|proposed|ablation|other",
    "trains": "alone|pooled|federated",
    "color": "#[0-9a-fA-F]{6}",
}


@dataclass(frozen=True)
class ReportMethod:
    """A method in tables and figures."""

    identifier: str
    label: str
    role: str = "other"
    trains: str = "federated"
    color: str = ""

    @property
    def pools_data(self) -> bool:
        """Whether the method pools all data; such methods never count as the best."""
        return self.trains == "pooled"

    @property
    def position(self) -> tuple[int, str]:
        """A sort key: built-in methods in registry order, then the others by name."""
        return METHODS.position(self.identifier)


@dataclass(frozen=True)
class ReportModel:
    """A model in tables and figures."""

    identifier: str
    label: str

    @property
    def position(self) -> tuple[int, str]:
        """A sort key, as for methods."""
        return MODELS.position(self.identifier)


def load(part: str, identifier: str) -> Any | None:
    """A method, model, objective or optimiser; None if it cannot be loaded."""
    try:
        return REGISTRIES[part].get(identifier)
    except InputError:
        return None


def missing_parts(run: Run) -> dict[str, str]:
    """The identifiers of the method, model and so on that cannot be loaded."""
    saved = {part: str(run.settings[part]) for part in REGISTRIES if part in run.settings}
    return {part: identifier for part, identifier in saved.items() if load(part, identifier) is None}


def method_of(run: Run) -> ReportMethod:
    """The method of a run."""
    if run.custom_strategy:
        return ReportMethod(run.custom_strategy, run.custom_strategy)
    method = load("method", run.method)
    return report_method(run.method, method) if method else _saved_method(run)


def report_method(identifier: str, method: Method) -> ReportMethod:
    """A method of the registry."""
    return ReportMethod(identifier, method.label, method.role, method.trains, method.color)


def _saved_method(run: Run) -> ReportMethod:
    """A method that is not installed, as saved with the run."""
    traits = run.provenance.get("traits")
    saved = traits if isinstance(traits, dict) else {}
    known = {
        name: saved[name]
        for name, allowed in TRAITS.items()
        if name in saved and re.fullmatch(allowed, str(saved[name]))
    }
    return ReportMethod(run.method, run.label("method"), **known)


def model_of(run: Run) -> ReportModel:
    """The model of a run."""
    return model_named(run.model, run.label("model"))


def model_named(identifier: str, label: str = "") -> ReportModel:
    """A model by its identifier."""
    model = load("model", identifier)
    return ReportModel(identifier, model.label if model else label or identifier)


def with_colors(methods: Iterable[ReportMethod]) -> Mapping[str, ReportMethod]:
    """Methods by identifier, each with a different colour as long as there are enough."""
    found: dict[str, ReportMethod] = {}
    free = list(COLORS)
    for method in sorted(set(methods), key=lambda method: method.position):
        taken = {other.color for other in found.values()}
        color = method.color if method.color and method.color not in taken else free.pop(0) if free else COLORS[-1]
        found[method.identifier] = replace(method, color=color)
    return found
