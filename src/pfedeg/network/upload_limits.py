"""Limits for uploads that the majority of clients sets: who exceeds them, and who is left out after many refusals."""

from collections.abc import Mapping
from statistics import median, median_low
from typing import Any, NamedTuple

import numpy as np

from pfedeg.graphs.alignment import ClientId, Rows

LEAST_CLIENTS = 3  # with two, nobody can tell which of them lies
FACTOR = 4.0  # a size may always be so many times the median over clients
SPREADS = 6.0  # or so many spreads above it, if clients differ more than that
SPREAD = 1.4826  # times the median deviation from the median is the standard deviation of normal numbers
MEMORY = 5  # rounds of a client that count
MOST_REFUSALS = 3  # rounds in a row in which a client's upload was refused before it is left out
MOST_CLAIM = 20  # a client's claimed number of triples counts up to so many times the median over clients


class Sizes(NamedTuple):
    """How large an upload is; every size is the root mean square of numbers.

    Changes are those of one round, divided by the square root of its training steps, so that clients with much and with
    little data can be compared.
    """

    largest_change: float  # of a row
    change: float  # of all rows
    largest_row: float

    @classmethod
    def of(cls, before: Rows, after: Rows, steps: int = 1, rounds: int = 1) -> "Sizes":
        """The sizes of rows that changed over some `rounds` of so many `steps` each; both have the same ids."""
        changes = np.square(after.values - before.values, dtype=np.float64).mean(1) / (rounds**2 * steps)
        rows = np.square(after.values, dtype=np.float64).mean(1)
        largest, mean = float(changes.max(initial=0.0)), float(changes.mean()) if len(changes) else 0.0
        return cls(largest**0.5, mean**0.5, float(rows.max(initial=0.0)) ** 0.5)


class UploadLimits:
    """What each client sent in its last rounds, and how often in a row it was refused."""

    def __init__(self) -> None:
        """Nothing is known before the first round."""
        self._sizes: dict[ClientId, list[Sizes]] = {}
        self._refusals: dict[ClientId, int] = {}
        self.left_out: dict[ClientId, str] = {}  # and why

    def judge(self, found: Mapping[ClientId, Sizes]) -> dict[ClientId, str]:
        """Which of these clients exceed the limits, and how; the sizes of the others count from now on."""
        reasons: dict[ClientId, str] = {}
        for i, name in enumerate(Sizes._fields):
            known = {client: [sizes[i] for sizes in before] for client, before in self._sizes.items()}
            usual = [max((*known.get(client, ()), sizes[i])) for client, sizes in found.items()]
            usual += [max(before) for client, before in known.items() if client not in found]
            if len(usual) < LEAST_CLIENTS:
                continue
            limit = _limit(usual)
            for client, sizes in found.items():
                if not sizes[i] <= limit and client not in reasons:
                    unit = "" if name == "largest_row" else " per √step"
                    text = f"{name.replace('_', ' ')} {sizes[i]:.3g}{unit}, above the limit {limit:.3g}"
                    reasons[client] = f"{text} that follows from the other clients"
        for client, sizes in found.items():
            if client not in reasons:
                self._sizes[client] = [*self._sizes.get(client, ()), sizes][-MEMORY:]
        return reasons

    def count(self, accepted: Mapping[ClientId, Any], refused: Mapping[ClientId, str], clients: int) -> list[ClientId]:
        """Count refusals; the clients that are left out from now on. At least two of so many `clients` stay."""
        self._refusals |= dict.fromkeys(accepted, 0)
        new = []
        for client, reason in refused.items():
            self._refusals[client] = self._refusals.get(client, 0) + 1
            if self._refusals[client] >= MOST_REFUSALS and clients - len(self.left_out) > 2:
                self.left_out[client] = f"refused {self._refusals[client]} times in a row, last: {reason}"
                self._sizes.pop(client, None)
                new.append(client)
        return new

    def fields(self) -> dict[str, Any]:
        """All of it as JSON, for a checkpoint."""
        sizes = {client: [list(each) for each in before] for client, before in self._sizes.items()}
        return {"sizes": sizes, "refusals": dict(self._refusals), "left_out": dict(self.left_out)}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """The inverse of `fields`; `left_out` stays the same object."""
        self._sizes = {client: [Sizes(*each) for each in before] for client, before in fields["sizes"].items()}
        self._refusals = dict(fields["refusals"])
        self.left_out.clear()
        self.left_out.update(fields["left_out"])


def _limit(usual: list[float]) -> float:
    """The limit that the median over clients and their spread give."""
    middle = median(usual)
    spread = SPREAD * median(abs(size - middle) for size in usual)
    return max(FACTOR * middle, middle + SPREADS * spread)


def counted_triples(claims: Mapping[ClientId, int]) -> dict[ClientId, int]:
    """The claimed numbers of training triples, as far as they count."""
    most = MOST_CLAIM * median_low(claims.values())
    return {client: min(claim, most) for client, claim in claims.items()}
