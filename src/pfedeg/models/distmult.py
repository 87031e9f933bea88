"""DistMult: a product of real numbers."""

from typing import NamedTuple

from pfedeg.models.base import Array


class DistMult(NamedTuple):
    """s = ⟨h, r, t⟩ (Yang et al. 2015)."""

    dim: int
    gamma: float = 10.0

    @property
    def entity_width(self) -> int:
        return self.dim

    @property
    def relation_width(self) -> int:
        return self.dim

    def compose(self, h: Array, r: Array) -> Array:
        return h * r

    def compose_grad(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        return g * r, g * h

    def invert(self, t: Array, r: Array) -> Array:
        return t * r

    def compare(self, q: Array, t: Array) -> Array:
        score: Array = (q * t).sum(-1)
        return score

    def compare_grad(self, q: Array, t: Array) -> tuple[Array, Array]:
        return t, q
