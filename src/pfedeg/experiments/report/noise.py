"""Which differences between methods are larger than noise, so that tables mark nothing else."""

from collections.abc import Sequence
from math import sqrt

from pfedeg.experiments.report.results import Entry
from pfedeg.experiments.report.significance import PairedTests
from pfedeg.graphs.alignment import ClientId

DEVIATIONS = 1.96  # standard errors on each side of a 95 % interval
NO_TESTS = PairedTests()


def differs(one: Entry, two: Entry, metric: str, tests: PairedTests = NO_TESTS, client: ClientId | None = None) -> bool:
    """Whether two entries differ beyond noise in a test metric: over all clients, or of one client.

    The paired bootstrap decides where there is one. Otherwise two means of as many values between 0 and 1 must be
    further apart than 95 % of those of independent samples: the variance of such values is at most m (1 − m).
    """
    if metric == "mrr" and client is None:
        for each in tests.differences:
            if {id(each.first), id(each.second)} == {id(one), id(two)}:
                return each.significant
    means = [entry.mean(metric, client=client) for entry in (one, two)]
    triples = [_triples(entry, client) for entry in (one, two)]
    if None in means or not all(triples):
        return False
    first, second = (mean or 0.0 for mean in means)
    variance = sum(mean * (1 - mean) / number for mean, number in zip((first, second), triples, strict=True))
    variance += sum(_seed_variance(entry, metric, client) for entry in (one, two))
    return abs(first - second) > DEVIATIONS * sqrt(variance)


def clear_winner(
    entries: Sequence[Entry], metric: str, tests: PairedTests = NO_TESTS, client: ClientId | None = None
) -> Entry | None:
    """The entry that is better than all others beyond noise; methods that pool data do not take part."""
    leader = best_entry(entries, metric, client)
    return leader if leader and not rivals(leader, entries, metric, tests, client) else None


def rivals(
    leader: Entry,
    entries: Sequence[Entry],
    metric: str,
    tests: PairedTests = NO_TESTS,
    client: ClientId | None = None,
) -> list[Entry]:
    """The other entries that take part and that noise does not tell from the leader."""
    others = [entry for entry in _taking_part(entries, metric, client) if entry is not leader]
    return [entry for entry in others if not differs(leader, entry, metric, tests, client)]


def best_entry(entries: Sequence[Entry], metric: str = "mrr", client: ClientId | None = None) -> Entry | None:
    """The entry with the highest test metric of the methods that do not pool data, if there are several."""
    found = _taking_part(entries, metric, client)
    return max(found, key=lambda entry: entry.mean(metric, client=client) or 0.0) if len(found) > 1 else None


def _taking_part(entries: Sequence[Entry], metric: str, client: ClientId | None) -> list[Entry]:
    return [each for each in entries if not each.method.pools_data and each.mean(metric, client=client) is not None]


def _triples(entry: Entry, client: ClientId | None) -> int:
    """The number of test triples of one seed; seeds share their test triples, so more of them count once."""
    clients = entry.results[0]["test"]["clients"]
    return int(sum(each["triples"] for name, each in clients.items() if client in (None, name)))


def _seed_variance(entry: Entry, metric: str, client: ClientId | None) -> float:
    """The variance of the mean over seeds; 0 for a single seed, which says nothing about it."""
    values = entry.values(metric, client=client)
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values) if len(values) > 1 else 0.0
