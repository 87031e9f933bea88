"""RotatE: a relation is a rotation of complex numbers (Sun et al. 2019)."""

from typing import NamedTuple

import numpy as np

from pfedeg.models.base import Array, MarginSettings, ModelType
from pfedeg.models.complex_numbers import halves, times


class RotatE(NamedTuple):
    """s = γ − Σ_k |h_k · e^{iθ_k} − t_k|, θ = r · π / initial range (Sun et al. 2019)."""

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
        """θ = phase · r, so that the initial range of r covers the whole circle."""
        return float(np.pi / self.start_range)

    @property
    def start_range(self) -> float:
        return (self.gamma + 2) / self.dim

    def compose(self, h: Array, r: Array) -> Array:
        return times(h, np.cos(r * self.phase), np.sin(r * self.phase))

    def compose_backward(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        (q_re, q_im), (g_re, g_im) = halves(q), halves(g)
        by_theta = g_im * q_re - g_re * q_im  # ∂q/∂θ = i · q
        return times(g, np.cos(r * self.phase), -np.sin(r * self.phase)), by_theta * self.phase

    def compose_inverse(self, t: Array, r: Array) -> Array:
        return times(t, np.cos(r * self.phase), -np.sin(r * self.phase))

    def score(self, q: Array, t: Array) -> Array:
        re, im = halves(q - t)
        score: Array = self.gamma - np.sqrt(re * re + im * im).sum(-1)
        return score

    def score_backward(self, q: Array, t: Array) -> tuple[Array, Array]:
        re, im = halves(q - t)
        length = np.sqrt(re * re + im * im)
        inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        direction = np.concatenate([re * inverse, im * inverse], -1)
        return -direction, direction


MODEL = ModelType(
    name="rotate",
    label="RotatE",
    summary="a relation is a rotation of complex numbers",
    reference="Sun et al. 2019",
    settings=MarginSettings,
    build=lambda dim, settings: RotatE(dim, settings.gamma),
)
