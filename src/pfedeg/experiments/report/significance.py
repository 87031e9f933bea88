"""Whether a difference between methods is more than luck of the test triples: a paired bootstrap over them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.experiments.report.results import Entry

Ranks = Mapping[int, tuple[str, NDArray[np.float64]]]  # seed → which data, 1 / rank of every test triple

TIMES = 2000
TOLERANCE = 1e-4  # between a result and what its tables give: another processor may break a tie of scores otherwise


@dataclass(frozen=True)
class Difference:
    """How far the MRR of `first` is above that of `second`, with a 95 % interval and a two-sided p-value."""

    first: Entry
    second: Entry
    mean: float
    low: float
    high: float
    p: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Findings:
    """The differences between entries at a place, and why others are missing."""

    differences: Sequence[Difference] = ()
    missing: Sequence[str] = field(default_factory=list)


def differences(entries: Sequence[Entry], tell: Callable[[str], None] = lambda text: None) -> Findings:
    """Every pair of entries at the same place, over the seeds that both have and whose tables are here."""
    without = [
        f"{entry.label}, seed {run.config.seed}" for entry in entries for run in entry.runs if not run.has_tables
    ]
    able = [entry for entry in entries if any(run.has_tables for run in entry.runs)]
    if len(entries) < 2:
        return Findings()
    if not able:
        return Findings(missing=["the directories of these runs have no tables in them, only the small files"])
    missing = [f"no tables in the directories of {'; '.join(without)}"] if without else []
    if len(able) < 2:
        return Findings(missing=missing)
    ranks = []
    for entry in able:
        tell(f"{entry.data}, {entry.model}, {entry.label}: ranks of the test triples")
        ranks.append(reciprocal_ranks(entry))
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for one, two in combinations(range(len(able)), 2):
        groups.setdefault(tuple(sorted(ranks[one].keys() & ranks[two].keys())), []).append((one, two))
    missing += [f"no seed in common: {able[one].label} and {able[two].label}" for one, two in groups.pop((), [])]
    found: list[Difference] = []
    for seeds, pairs in groups.items():
        rows = sorted({row for pair in pairs for row in pair})
        values = np.stack([over_seeds(ranks[row], seeds) for row in rows])
        wanted = [(able[one], able[two]) for one, two in pairs]
        found += [each for each in compare([able[row] for row in rows], values) if (each.first, each.second) in wanted]
    return Findings(found, missing)


def compare(entries: Sequence[Entry], values: NDArray[np.float64], times: int = TIMES) -> Iterator[Difference]:
    """Pairs of rows of `values` (entries, triples) by their means over triples drawn again and again."""
    means, draws = values.mean(1), resampled_means(values, times)
    for i, j in combinations(range(len(entries)), 2):
        drawn = draws[:, i] - draws[:, j]
        low, high = np.quantile(drawn, (0.025, 0.975))
        less, more = int((drawn <= 0).sum()), int((drawn >= 0).sum())
        p = min(1.0, 2 * (min(less, more) + 1) / (times + 1))
        yield Difference(entries[i], entries[j], float(means[i] - means[j]), float(low), float(high), p)


def resampled_means(values: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """The means of every row over triples drawn with replacement, the same ones for all rows: (times, rows)."""
    random, many = np.random.default_rng(0), values.shape[1]
    means = np.empty((times, len(values)))
    for draw in range(times):
        counts = np.bincount(random.integers(0, many, many), minlength=many)
        means[draw] = values @ counts / many
    return means


def reciprocal_ranks(entry: Entry) -> Ranks:
    """1 / rank of every test triple of every client, for every seed whose tables are here."""
    found = {}
    for run, result in zip(entry.runs, entry.results, strict=True):
        if not run.has_tables:
            continue
        ranks = run.ranks("test")
        values = 1 / np.concatenate([ranks[client] for client in sorted(ranks)])
        told = result["test"]["weighted"]["mrr"]
        if len(values) and abs(values.mean() - told) > TOLERANCE:
            raise InputError(f"{run.path}: result.json says test MRR {told:.4f}, its tables give {values.mean():.4f}")
        found[run.config.seed] = str(run.provenance.get("data_fingerprint")), values
    return found


def over_seeds(ranks: Ranks, seeds: Sequence[int]) -> NDArray[np.float64]:
    """The mean over seeds for every test triple; where data are split by the seed, there are other ones for each."""
    found: dict[str, list[NDArray[np.float64]]] = {}
    for seed in seeds:
        data, values = ranks[seed]
        found.setdefault(data, []).append(values)
    return np.concatenate([np.mean(values, axis=0) for values in found.values()])
