"""What a client takes from the server: rows that can be averages of its own rows and of rows that changed like them."""

from typing import NamedTuple

import numpy as np

from pfedeg.graphs.alignment import Mat
from pfedeg.network.messages import ProtocolError

FACTOR = 6.0  # rows may differ by so many times what this client changes in a round
LARGER = 3.0  # a row may be so many times as large as this client's largest
ROUNDING = 1e-5  # of a row's size


class Distance(NamedTuple):
    """How far two tables are apart; both are root mean squares of numbers."""

    largest: float = 0.0  # of a row
    mean: float = 0.0  # of all rows

    @classmethod
    def of(cls, difference: Mat) -> "Distance":
        """The size of a difference."""
        squares = np.square(difference, dtype=np.float64).mean(1)
        return cls(float(squares.max(initial=0.0)) ** 0.5, float(squares.mean()) ** 0.5 if len(squares) else 0.0)

    def plus(self, other: "Distance", times: float = 1.0) -> "Distance":
        """The sum with another distance, which counts so many `times`."""
        return Distance(self.largest + times * other.largest, self.mean + times * other.mean)


AT_REST = Distance()


def check_download(received: Mat, own: Mat, most: Distance, least_size: float) -> None:
    """Refuse rows that are too large for an average over the owners, or further than `most` from the client's `own`.

    `least_size` is a size that rows may always have.
    """
    size = max(Distance.of(own).largest, least_size)
    found = Distance.of(received).largest
    if not found <= LARGER * size:
        text = f"a downloaded row has the size {found:.3g}"
        raise ProtocolError(f"{text}; an average of rows like this client's has {LARGER * size:.3g} at most")
    for name, apart, limit in zip(("a downloaded row", "the download"), Distance.of(received - own), most, strict=True):
        if not apart <= limit + ROUNDING * size:
            text = f"{name} is {apart:.3g} away from this client's last upload"
            raise ProtocolError(f"{text}; an average over the owners is {limit:.3g} away at most")
