"""ComplEx: a product of complex numbers."""

from typing import NamedTuple

from pfedeg.models.base import Array
from pfedeg.models.complex_numbers import halves, times


class ComplEx(NamedTuple):
    """s = Re⟨h, r, t̄⟩ (Trouillon et al. 2016)."""

    dim: int
    gamma: float = 10.0

    @property
    def entity_width(self) -> int:
        return 2 * self.dim

    @property
    def relation_width(self) -> int:
        return 2 * self.dim

    def compose(self, h: Array, r: Array) -> Array:
        return times(h, *halves(r))

    def compose_grad(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        (r_re, r_im), (h_re, h_im) = halves(r), halves(h)
        return times(g, r_re, -r_im), times(g, h_re, -h_im)

    def invert(self, t: Array, r: Array) -> Array:
        r_re, r_im = halves(r)
        return times(t, r_re, -r_im)

    def compare(self, q: Array, t: Array) -> Array:
        score: Array = (q * t).sum(-1)
        return score

    def compare_grad(self, q: Array, t: Array) -> tuple[Array, Array]:
        return t, q
