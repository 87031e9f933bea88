"""DistMult: a product of real numbers (Yang et al. 2015)."""

from typing import NamedTuple

from pfedeg.models.base import Array, MarginSettings, ModelType


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

    @property
    def start_range(self) -> float:
        return (self.gamma + 2) / self.dim

    def compose(self, h: Array, r: Array) -> Array:
        return h * r

    def compose_backward(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        return g * r, g * h

    def compose_inverse(self, t: Array, r: Array) -> Array:
        return t * r

    def score(self, q: Array, t: Array) -> Array:
        score: Array = (q * t).sum(-1)
        return score

    def score_backward(self, q: Array, t: Array) -> tuple[Array, Array]:
        return t, q


MODEL = ModelType(
    name="distmult",
    label="DistMult",
    summary="a product of real numbers",
    reference="Yang et al. 2015",
    settings=MarginSettings,
    build=lambda dim, settings: DistMult(dim, settings.gamma),
    defaults={"beta": 5e-4},
)
