"""The models: each an equation, its gradient, its widths and its start.

Every model scores a triple in two steps: a query q = compose(h, r), then compare(q, t). The methods take arrays whose
last axis is the row of a table; complex rows hold all real parts, then all imaginary parts. The models are named
tuples because compiled kernels specialise on their class.
"""

from typing import Any, NamedTuple, Protocol

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
        return _times(h, np.cos(r * self.phase), np.sin(r * self.phase))

    def compose_grad(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        (q_re, q_im), (g_re, g_im) = _halves(q), _halves(g)
        by_theta = g_im * q_re - g_re * q_im  # ∂q/∂θ = i · q
        return _times(g, np.cos(r * self.phase), -np.sin(r * self.phase)), by_theta * self.phase

    def invert(self, t: Array, r: Array) -> Array:
        return _times(t, np.cos(r * self.phase), -np.sin(r * self.phase))

    def compare(self, q: Array, t: Array) -> Array:
        re, im = _halves(q - t)
        score: Array = self.gamma - np.sqrt(re * re + im * im).sum(-1)
        return score

    def compare_grad(self, q: Array, t: Array) -> tuple[Array, Array]:
        re, im = _halves(q - t)
        length = np.sqrt(re * re + im * im)
        inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        direction = np.concatenate([re * inverse, im * inverse], -1)
        return -direction, direction


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
        return _times(h, *_halves(r))

    def compose_grad(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        (r_re, r_im), (h_re, h_im) = _halves(r), _halves(h)
        return _times(g, r_re, -r_im), _times(g, h_re, -h_im)

    def invert(self, t: Array, r: Array) -> Array:
        r_re, r_im = _halves(r)
        return _times(t, r_re, -r_im)

    def compare(self, q: Array, t: Array) -> Array:
        score: Array = (q * t).sum(-1)
        return score

    def compare_grad(self, q: Array, t: Array) -> tuple[Array, Array]:
        return t, q


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


MODELS: dict[str, type[TransE] | type[RotatE] | type[ComplEx] | type[DistMult]] = {
    "transe": TransE,
    "rotate": RotatE,
    "complex": ComplEx,
    "distmult": DistMult,
}


def start_range(model: Model) -> float:
    """Tables start uniform in ± (γ + 2) / m."""
    return (model.gamma + 2) / model.dim


def start_rows(model: Model, width: int, key: int, ids: NDArray[np.integer]) -> Mat:
    """The first values of the rows `ids`: a function of the key and the id, whoever asks."""
    counters = ids.astype(np.uint64)[:, None] * np.uint64(width) + randomness.counters(width)
    return ((2 * randomness.uniform(key, counters) - 1) * start_range(model)).astype(np.float32)


def _halves(x: Array) -> tuple[Array, Array]:
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def _times(x: Array, re: Array, im: Array) -> Array:
    """The complex product of x with re + i · im."""
    x_re, x_im = _halves(x)
    return np.concatenate([x_re * re - x_im * im, x_re * im + x_im * re], -1)
