"""RotatE: a relation is a rotation of complex numbers."""

from typing import NamedTuple

import numpy as np

from pfedeg.models.base import Array, start_range
from pfedeg.models.complex_numbers import halves, times


class RotatE(NamedTuple):
    """s = γ − Σ_k |h_k · e^{iθ_k} − t_k|, θ = r · π / start range (Sun et al. 2019)."""

    dim: int
    gamma: float = 10.0

    @property
    def entity_width(self) -> int:
        return 2 * self.dim

    @property
    def relation_width(self) -> int:
        return self.dim

    @property
    def phase(self) -> float:
        """θ = phase · r, so that the start range of r covers the whole circle."""
        return float(np.pi / start_range(self))

    def compose(self, h: Array, r: Array) -> Array:
        return times(h, np.cos(r * self.phase), np.sin(r * self.phase))

    def compose_grad(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        (q_re, q_im), (g_re, g_im) = halves(q), halves(g)
        by_theta = g_im * q_re - g_re * q_im  # ∂q/∂θ = i · q
        return times(g, np.cos(r * self.phase), -np.sin(r * self.phase)), by_theta * self.phase

    def invert(self, t: Array, r: Array) -> Array:
        return times(t, np.cos(r * self.phase), -np.sin(r * self.phase))

    def compare(self, q: Array, t: Array) -> Array:
        re, im = halves(q - t)
        score: Array = self.gamma - np.sqrt(re * re + im * im).sum(-1)
        return score

    def compare_grad(self, q: Array, t: Array) -> tuple[Array, Array]:
        re, im = halves(q - t)
        length = np.sqrt(re * re + im * im)
        inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        direction = np.concatenate([re * inverse, im * inverse], -1)
        return -direction, direction
