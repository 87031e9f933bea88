"""What training would take, for every model and method: memory by counting, time by measuring."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pfedeg.engine.interface import cores
from pfedeg.graphs.alignment import Shared
from pfedeg.graphs.federation import Federation
from pfedeg.inspection.memory import CODE, available, outlines, peak, pool
from pfedeg.inspection.pace import Pace
from pfedeg.models.registry import MODELS
from pfedeg.training.config import METHODS, Config, configure


@dataclass(frozen=True)
class Estimate:
    """One model and method."""

    model: str
    method: str
    rounds: int  # at most; training stops when validation no longer improves
    bytes: int  # at most
    seconds_per_round: float | None  # None if it was not measured


@dataclass(frozen=True)
class Estimates:
    """All of them, and what they hold for."""

    settings: Mapping[str, Any]
    threads: int
    bytes_available: int | None
    busy: bool  # whether others used the machine while times were measured, which are then less certain
    runs: tuple[Estimate, ...]


def settings_of(flags: Mapping[str, Any], preset: str | None) -> list[Config]:
    """The settings of every method and model that the flags leave open."""
    models = [flags["model"]] if flags.get("model") else list(MODELS)
    methods = [flags["method"]] if flags.get("method") else list(METHODS)
    found = []
    for model in models:
        for method in methods:
            given = {**flags, "model": model, "method": method}
            if method in ("single", "collective") and not flags.get("method"):
                given.pop("epochs", None)  # theirs is one in any case
            found.append(configure(given, preset)[0])
    return found


def estimate(
    federation: Federation,
    entity: Shared,
    relation: Shared,
    configs: Sequence[Config],
    base: tuple[int, int],
    threads: int | None,
    measure: bool,
    tell: Callable[[str], None],
) -> Estimates:
    """For every one of the settings; `base` is what the process takes with the data alone, and took at most."""
    now, most = base
    clients = outlines(federation, entity)
    together = pool(clients, entity, relation)
    pace = Pace(federation, entity, relation, threads) if measure else None
    if pace:
        tell("measuring some batches of this data; engine that were never used before are compiled first")
    runs, told = list[Estimate](), ""
    for config in configs:
        if pace and config.model != told:
            tell(f"measuring {config.model}")
            told = config.model
        arrays = peak(config, clients, together, threads or cores())
        seconds = pace.seconds(config) if pace else None
        runs.append(Estimate(config.model, config.method, config.rounds or 0, max(most, now + CODE + arrays), seconds))
    shown = ("dim", "batch", "negatives", "sampling")
    settings = {name: getattr(configs[0], name) for name in shown}
    return Estimates(settings, threads or cores(), available(), bool(pace and pace.busy), tuple(runs))
