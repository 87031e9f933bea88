"""How long the remaining runs of an experiment will take, from those that are done."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pfedeg.errors import InputError
from pfedeg.experiments.plan import PlannedRun
from pfedeg.graphs.federation import Federation

NUMBERS_PER_SECOND = 3e9  # table entries processed per second, before any run of the model is done
STARTUP_SECONDS = 4.0  # to start and finish a run
UPDATE_COST = 4  # updating a row costs about as much as this many negatives


class Size(NamedTuple):
    """What the cost of a dataset depends on."""

    triples: int = 0
    entities: float = 0.0  # per client, on average


class RemainingTime:
    """Estimates from the sizes of datasets and the speed of runs with the same model."""

    def __init__(self, sources: Mapping[str, Path]) -> None:
        """`sources` has the file or folder of each dataset."""
        self._sources = sources
        self._size = cache(self._read_size)

    def estimate(
        self, remaining: Sequence[tuple[PlannedRun, int]], done: Sequence[tuple[PlannedRun, Mapping[str, Any]]]
    ) -> float:
        """Seconds for the rest of some runs, each with its number of rounds so far, if none stops early.

        `done` has runs with their results.
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
        """Table entries to process in so many rounds: negatives of each triple, and updates of all rows per batch."""
        size, config = self._size(run.data), run.config
        rows = config.negatives + UPDATE_COST * size.entities / config.batch
        return size.triples * rounds * config.epochs * config.build_model().entity_width * rows

    def _read_size(self, name: str) -> Size:
        with suppress(InputError):  # the runs on this dataset will fail with the reason
            graphs = Federation.read(self._sources[name]).graphs.values()
            entities = sum(len(graph.entities) for graph in graphs)
            return Size(sum(len(graph.train) for graph in graphs), entities / len(graphs))
        return Size()
