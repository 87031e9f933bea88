"""TransE: a relation is a translation."""

from typing import NamedTuple

import numpy as np

from pfedeg.models.base import Array


class TransE(NamedTuple):
    """s = γ − ‖h + r − t‖₁ (Bordes et al. 2013)."""

    dim: int
    gamma: float = 10.0

    @property
    def entity_width(self) -> int:
        return self.dim

    @property
    def relation_width(self) -> int:
        return self.dim

    def compose(self, h: Array, r: Array) -> Array:
        return h + r

    def compose_grad(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        return g, g

    def invert(self, t: Array, r: Array) -> Array:
        return t - r

    def compare(self, q: Array, t: Array) -> Array:
        score: Array = self.gamma - np.abs(q - t).sum(-1)
        return score

    def compare_grad(self, q: Array, t: Array) -> tuple[Array, Array]:
        sign = np.sign(q - t)
        return -sign, sign
