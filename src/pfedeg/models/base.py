"""The models: each an equation, its gradient, its widths and its start.

Every model scores a triple in two steps: a query q = compose(h, r), then compare(q, t). The methods take arrays whose
last axis is the row of a table; complex rows hold all real parts, then all imaginary parts. The models are named
tuples because compiled kernels specialise on their class.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness

Mat = NDArray[np.float32]
Array = NDArray[Any]  # float32 in use, float64 when checked by finite differences


class Model(Protocol):
    """What the numpy side of the program asks of a model."""

    @property
    def dim(self) -> int: ...
    @property
    def gamma(self) -> float: ...
    @property
    def entity_width(self) -> int: ...
    @property
    def relation_width(self) -> int: ...

    def compose(self, h: Array, r: Array) -> Array:
        """The query q of (h, r, ?)."""

    def compose_grad(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        """Gradients of h and r from the gradient g of q = compose(h, r)."""

    def invert(self, t: Array, r: Array) -> Array:
        """The query q of (?, r, t): compare(q, h) equals compare(compose(h, r), t)."""

    def compare(self, q: Array, t: Array) -> Array:
        """The score of query q and candidate t."""

    def compare_grad(self, q: Array, t: Array) -> tuple[Array, Array]:
        """Gradients of the score by q and by t."""


def start_range(model: Model) -> float:
    """Tables start uniform in ± (γ + 2) / m."""
    return (model.gamma + 2) / model.dim


def start_rows(model: Model, width: int, key: int, ids: NDArray[np.integer]) -> Mat:
    """The first values of the rows `ids`: a function of the key and the id, whoever asks."""
    counters = ids.astype(np.uint64)[:, None] * np.uint64(width) + randomness.counters(width)
    return ((2 * randomness.uniform(key, counters) - 1) * start_range(model)).astype(np.float32)
