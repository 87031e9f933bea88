"""The Model protocol: score, gradients and row widths; and the embedding tables with their initial values.

A model scores a triple in two steps: a query q = compose(h, r), then score(q, t). The functions take arrays whose last
axis is an embedding row. numpy runs them directly; the compiled engine has its own code for some models.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pfedeg import aligned_arrays, randomness
from pfedeg.settings import Value, build_settings, setting

Mat = NDArray[np.float32]
Array = NDArray[Any]  # float32 in training, float64 in tests with finite differences


class Model(Protocol):
    """A model with its dimension and settings."""

    @property
    def dim(self) -> int:
        """The embedding dimension m."""

    @property
    def entity_width(self) -> int:
        """Real numbers per entity."""

    @property
    def relation_width(self) -> int:
        """Real numbers per relation."""

    @property
    def start_range(self) -> float:
        """The initial values are uniform in ± this."""

    def compose(self, h: Array, r: Array) -> Array:
        """The query q of (h, r, ?)."""

    def compose_backward(self, h: Array, r: Array, q: Array, g: Array) -> tuple[Array, Array]:
        """Gradients of h and r from the gradient g of q = compose(h, r)."""

    def compose_inverse(self, t: Array, r: Array) -> Array:
        """The query q of (?, r, t): score(q, h) equals score(compose(h, r), t)."""

    def score(self, q: Array, t: Array) -> Array:
        """The score of query q and candidate t."""

    def score_backward(self, q: Array, t: Array) -> tuple[Array, Array]:
        """Gradients of the score with respect to q and t."""


@dataclass(frozen=True)
class ModelType:
    """A model that users can choose by `name`; `model_type(dim, gamma=…)` builds it.

    `label` stands in tables and figures, `summary` and `reference` in the docs. `build` makes the model from the
    dimension and an instance of the dataclass `settings`; `defaults` are other defaults of common settings.
    """

    name: str
    label: str
    build: Callable[[int, Any], Model]  # from dimension and settings
    settings: type
    summary: str = ""
    reference: str = ""
    defaults: Mapping[str, Value] = field(
        default_factory=dict
    )  # of method settings, where this model works better with others

    def __call__(self, dim: int, **settings: Value) -> Model:
        """Build the model with this dimension and these settings."""
        return self.build(dim, build_settings(self.settings, settings))


@dataclass(frozen=True, slots=True)
class MarginSettings:
    """The setting of the built-in models."""

    gamma: float = setting(
        10.0, "margin γ of the distance models; initial values are uniform in ± (γ + 2) / m", above=0
    )


class Tables(NamedTuple):
    """A client's embeddings: a row per local entity, a row per local relation."""

    entity: Mat
    relation: Mat

    def copy(self) -> "Tables":
        """A copy that can be changed in place."""
        return Tables(aligned_arrays.copy(self.entity), aligned_arrays.copy(self.relation))


def start_rows(model: Model, width: int, key: int, ids: NDArray[np.integer]) -> Mat:
    """The initial values of the rows `ids`, which depend only on the key and the id."""
    counters = ids.astype(np.uint64)[:, None] * np.uint64(width) + randomness.counters(width)
    return ((2 * randomness.uniform(key, counters) - 1) * model.start_range).astype(np.float32)
