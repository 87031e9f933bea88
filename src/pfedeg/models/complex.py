"""ComplEx: a product of complex numbers (Trouillon et al. 2016)."""

from typing import NamedTuple

from pfedeg.models.base import Array, MarginSettings, ModelType
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

    @property
    def start_range(self) -> float:
        return (self.gamma + 2) / self.dim

    def compose(self, h: Array, r: Array) -> Array:
        return times(h, *halves(r))

    def compose_backward(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        (r_re, r_im), (h_re, h_im) = halves(r), halves(h)
        return times(g, r_re, -r_im), times(g, h_re, -h_im)

    def compose_inverse(self, t: Array, r: Array) -> Array:
        r_re, r_im = halves(r)
        return times(t, r_re, -r_im)

    def score(self, q: Array, t: Array) -> Array:
        score: Array = (q * t).sum(-1)
        return score

    def score_backward(self, q: Array, t: Array) -> tuple[Array, Array]:
        return t, q


MODEL = ModelType(
    name="complex",
    label="ComplEx",
    summary="a product of complex numbers",
    reference="Trouillon et al. 2016",
    settings=MarginSettings,
    build=lambda dim, settings: ComplEx(dim, settings.gamma),
    defaults={"beta": 5e-4},
)
