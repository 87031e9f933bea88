"""Tests whether methods differ significantly, with a paired bootstrap over the test triples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.experiments.report.parts import missing_parts
from pfedeg.experiments.report.results import Entry
from pfedeg.training.saved_run import Run

Ranks = Mapping[int, tuple[str, NDArray[np.float64]]]  # seed → fingerprint of the data, 1 / rank of every test triple

DRAWS = 2000
TOLERANCE = 1e-4  # between saved and recomputed MRR: processors may break ties of scores differently


@dataclass(frozen=True)
class Difference:
    """The test MRR of `first` minus that of `second`, with a 95 % interval and a two-sided p-value."""

    first: Entry
    second: Entry
    mean: float
    low: float
    high: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class PairedTests:
    """The differences between the entries of a setup, and the reasons for missing ones."""

    differences: Sequence[Difference] = ()
    missing: Sequence[str] = field(default_factory=list)


def untested(tests: Mapping[Any, PairedTests]) -> str:
    """The reason why nothing is tested, if it is the same for all setups; otherwise empty."""
    reasons = {tuple(each.missing) for each in tests.values()}
    if len(reasons) != 1 or any(each.differences for each in tests.values()):
        return ""
    return "; ".join(reasons.pop())


def paired_tests(entries: Sequence[Entry], notify: Callable[[str], None] = lambda text: None) -> PairedTests:
    """Compare all pairs of entries of a setup, over common seeds with available tables."""
    if len(entries) < 2:
        return PairedTests()
    missing = _unavailable(entries)
    available = [entry for entry in entries if any(_can_be_ranked(run) for run in entry.runs)]
    if len(available) < 2:
        return PairedTests(missing=missing)
    ranks = []
    for entry in available:
        notify(f"{entry.data}, {entry.model.label}, {entry.label}: ranking the test triples")
        ranks.append(reciprocal_ranks(entry))
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for one, two in combinations(range(len(available)), 2):
        groups.setdefault(tuple(sorted(ranks[one].keys() & ranks[two].keys())), []).append((one, two))
    missing += [f"no common seed: {available[one].label} and {available[two].label}" for one, two in groups.pop((), [])]
    found: list[Difference] = []
    for seeds, pairs in groups.items():
        rows = sorted({row for pair in pairs for row in pair})
        values = np.stack([mean_over_seeds(ranks[row], seeds) for row in rows])
        wanted = [(available[one], available[two]) for one, two in pairs]
        tested = bootstrap([available[row] for row in rows], values)
        found += [each for each in tested if (each.first, each.second) in wanted]
    return PairedTests(found, missing)


def _can_be_ranked(run: Run) -> bool:
    return run.has_tables and "model" not in missing_parts(run)


def _unavailable(entries: Sequence[Entry]) -> list[str]:
    """The reasons why runs cannot be ranked again."""
    runs = [(entry, run) for entry in entries for run in entry.runs]
    if not any(run.has_tables for _, run in runs):
        return ["these run folders contain no embedding tables"]
    without = [f"{entry.label}, seed {run.seed}" for entry, run in runs if not run.has_tables]
    unknown = [entry.label for entry, run in runs if run.has_tables and not _can_be_ranked(run)]
    return [
        *([f"no embedding tables in the run folders of {'; '.join(without)}"] if without else []),
        *([f"the model of {'; '.join(dict.fromkeys(unknown))} is not installed"] if unknown else []),
    ]


def bootstrap(entries: Sequence[Entry], values: NDArray[np.float64], draws: int = DRAWS) -> Iterator[Difference]:
    """All pairs of rows of `values` (entries, triples), by their means over resampled triples."""
    means, drawn = values.mean(1), resampled_means(values, draws)
    for i, j in combinations(range(len(entries)), 2):
        difference = drawn[:, i] - drawn[:, j]
        low, high = np.quantile(difference, (0.025, 0.975))
        less, more = int((difference <= 0).sum()), int((difference >= 0).sum())
        p = min(1.0, 2 * (min(less, more) + 1) / (draws + 1))
        yield Difference(entries[i], entries[j], float(means[i] - means[j]), float(low), float(high), p)


def resampled_means(values: NDArray[np.float64], draws: int) -> NDArray[np.float64]:
    """The means of every row over triples drawn with replacement, the same triples for all rows: (draws, rows)."""
    random, size = np.random.default_rng(0), values.shape[1]
    means = np.empty((draws, len(values)))
    for draw in range(draws):
        counts = np.bincount(random.integers(0, size, size), minlength=size)
        means[draw] = values @ counts / size
    return means


def reciprocal_ranks(entry: Entry) -> Ranks:
    """1 / rank of every test triple, for every seed with available tables."""
    found = {}
    for run, result in zip(entry.runs, entry.results, strict=True):
        if not _can_be_ranked(run):
            continue
        ranks = run.ranks("test")
        values = 1 / np.concatenate([ranks[client] for client in sorted(ranks)])
        saved = result["test"]["weighted"]["mrr"]
        if len(values) and abs(values.mean() - saved) > TOLERANCE:
            raise InputError(
                f"{run.path}: result.json has test MRR {saved:.4f}, but its tables give {values.mean():.4f}"
            )
        found[run.seed] = str(run.provenance.get("data_fingerprint")), values
    return found


def mean_over_seeds(ranks: Ranks, seeds: Sequence[int]) -> NDArray[np.float64]:
    """The mean over seeds for every test triple; seeds with different test triples are concatenated."""
    found: dict[str, list[NDArray[np.float64]]] = {}
    for seed in seeds:
        data, values = ranks[seed]
        found.setdefault(data, []).append(values)
    return np.concatenate([np.mean(values, axis=0) for values in found.values()])
