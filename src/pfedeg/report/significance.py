"""Whether a difference between methods is more than luck of the test triples: a paired bootstrap over them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.report.results import Entry

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


def differences(entries: Sequence[Entry], tell: Callable[[str], None] = lambda text: None) -> list[Difference]:
    """Every pair of entries on the same data whose tables are here."""
    able = [entry for entry in entries if all(run.has_tables for run in entry.runs)]
    if len(able) < 2:
        return []
    values = []
    for entry in able:
        tell(f"{entry.data}, {entry.model}, {entry.label}: ranks of the test triples")
        values.append(reciprocal_ranks(entry))
    return list(compare(able, np.stack(values)))


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


def reciprocal_ranks(entry: Entry) -> NDArray[np.float64]:
    """1 / rank of every test triple of every client, as a mean over seeds."""
    over_seeds = []
    for run, result in zip(entry.runs, entry.results, strict=True):
        ranks = run.ranks("test")
        values = 1 / np.concatenate([ranks[client] for client in sorted(ranks)])
        told = result["test"]["weighted"]["mrr"]
        if len(values) and abs(values.mean() - told) > TOLERANCE:
            raise InputError(f"{run.path}: result.json says test MRR {told:.4f}, its tables give {values.mean():.4f}")
        over_seeds.append(values)
    means: NDArray[np.float64] = np.stack(over_seeds).mean(0)
    return means
