"""TransE: a relation is a translation (Bordes et al. 2013)."""

from typing import NamedTuple

import numpy as np

from pfedeg.models.base import Array, MarginSettings, ModelType


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

    @property
    def start_range(self) -> float:
        return (self.gamma + 2) / self.dim

    def compose(self, h: Array, r: Array) -> Array:
        return h + r

    def compose_backward(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        return g, g

    def compose_inverse(self, t: Array, r: Array) -> Array:
        return t - r

    def score(self, q: Array, t: Array) -> Array:
        score: Array = self.gamma - np.abs(q - t).sum(-1)
        return score

    def score_backward(self, q: Array, t: Array) -> tuple[Array, Array]:
        sign = np.sign(q - t)
        return -sign, sign


MODEL = ModelType(
    name="transe",
    label="TransE",
    summary="a relation is a translation",
    reference="Bordes et al. 2013",
    settings=MarginSettings,
    build=lambda dim, settings: TransE(dim, settings.gamma),
)
