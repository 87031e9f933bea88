"""Estimates the remaining time of an experiment from its finished runs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pfedeg.errors import InputError
from pfedeg.experiments.plan import PlannedRun
from pfedeg.graphs.federation import Federation

NUMBERS_PER_SECOND = 3e9  # table entries per second, until a run with this model is finished
STARTUP_SECONDS = 4.0  # to start and finish a run
UPDATE_COST = 4  # of a row, in negatives


class Size(NamedTuple):
    """The size of a dataset, which determines its cost."""

    triples: int = 0
    entities: float = 0.0  # per client, on average


class RemainingTime:
    """Estimates from the sizes of datasets and the speed of runs with the same model."""

    def __init__(self, sources: Mapping[str, Path]) -> None:
        """`sources` maps datasets to files or folders."""
        self._sources = sources
        self._size = cache(self._read_size)

    def estimate(
        self, remaining: Sequence[tuple[PlannedRun, int]], done: Sequence[tuple[PlannedRun, Mapping[str, Any]]]
    ) -> float:
        """Seconds to finish runs, given with their rounds so far, if none stops early.

        `done` has finished runs with their results.
        """
        speeds: dict[str, list[float]] = {}
        for run, result in done:
            if result.get("seconds"):
                speeds.setdefault(run.model, []).append(self._work(run, result["rounds"]) / result["seconds"])
        total = 0.0
        for run, rounds in remaining:
            speed = max(1.0, fmean(speeds.get(run.model, [NUMBERS_PER_SECOND])))
            total += STARTUP_SECONDS + self._work(run, max(0, run.config.rounds - rounds)) / speed
        return total

    def _work(self, run: PlannedRun, rounds: int) -> float:
        """Table entries processed in these rounds: negatives of each triple, and updates of all rows per batch."""
        size, config = self._size(run.data), run.config
        rows = config.negatives + UPDATE_COST * size.entities / config.batch
        return size.triples * rounds * config.epochs * config.build_model().entity_width * rows

    def _read_size(self, name: str) -> Size:
        with suppress(InputError):  # the runs on this dataset will report the error
            graphs = Federation.read(self._sources[name]).graphs.values()
            entities = sum(len(graph.entities) for graph in graphs)
            return Size(sum(len(graph.train) for graph in graphs), entities / len(graphs))
        return Size()
