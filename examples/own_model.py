"""A model of your own: SimplE (Kazemi and Poole 2018), with its equation and gradients.

pfedeg train world --preset quick --rounds 5 --model own_model:MODEL
"""

from typing import NamedTuple

import numpy as np

import pfedeg
from pfedeg.models.base import Array


class SimplE(NamedTuple):
    """s = ½ (⟨h₁, r₁, t₂⟩ + ⟨t₁, r₂, h₂⟩): each row has a half as head and one as tail, relations one per direction."""

    dim: int

    @property
    def entity_width(self) -> int:
        return 2 * self.dim

    @property
    def relation_width(self) -> int:
        return 2 * self.dim

    @property
    def start_range(self) -> float:
        """Tables start uniform in ± this."""
        return float((6 / self.dim) ** 0.5)

    def compose(self, h: Array, r: Array) -> Array:
        """The query q = ½ (r₂ h₂, r₁ h₁), so that the score of t = (t₁, t₂) is q · t."""
        return 0.5 * swap(r * h)

    def compose_backward(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        """Gradients of h and r from the gradient g of q."""
        half = 0.5 * swap(g)
        return r * half, h * half

    def compose_inverse(self, t: Array, r: Array) -> Array:
        """The query for heads: (r₁ t₂, r₂ t₁) / 2, so that its score of h is the same."""
        return 0.5 * r * swap(t)

    def score(self, q: Array, t: Array) -> Array:
        score: Array = (q * t).sum(-1)
        return score

    def score_backward(self, q: Array, t: Array) -> tuple[Array, Array]:
        """Gradients of the score by q and by t."""
        return t, q


def swap(x: Array) -> Array:
    """(x₁, x₂) → (x₂, x₁)."""
    half = x.shape[-1] // 2
    return np.concatenate([x[..., half:], x[..., :half]], -1)


MODEL = pfedeg.ModelType(
    name="simple",
    label="SimplE",
    summary="two canonical decompositions",
    reference="Kazemi and Poole 2018",
    build=lambda dim, settings: SimplE(dim),
    settings=pfedeg.NoSettings,
)
