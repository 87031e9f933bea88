"""The Objective protocol: losses and gradients from the scores of positives and their negatives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pfedeg.models.base import Array
from pfedeg.settings import NoSettings, Value


class Objective(Protocol):
    """An objective with its settings."""

    def loss(self, positive: Array, negative: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """The loss of every positive, and its gradients with respect to the scores.

        `positive` has the scores of the positives (b,), `negative` those of their negatives (b, n); negatives outside
        `mask` are ignored. The second and third result have the shapes of `positive` and `negative`.
        """


@dataclass(frozen=True)
class ObjectiveType:
    """An objective that users can choose by `name`.

    `label` stands in tables and figures, `summary` and `reference` in the docs. `build` makes the objective from an
    instance of the dataclass `settings`; `defaults` are other defaults of common settings.
    """

    name: str
    label: str
    build: Callable[[Any], Objective]  # from the settings
    settings: type = NoSettings
    summary: str = ""
    reference: str = ""
    defaults: Mapping[str, Value] = field(default_factory=dict)  # of other settings, where they differ


def softmax(x: Array, mask: NDArray[np.bool_]) -> Array:
    """The softmax along the last axis within the mask; zeros where the mask is empty."""
    top = np.max(x, -1, keepdims=True, where=mask, initial=-np.inf)
    weight = np.exp(np.minimum(x - np.where(np.isfinite(top), top, 0), 0)) * mask
    total = weight.sum(-1, keepdims=True)
    share: Array = weight / np.where(total > 0, total, 1)
    return share


def softplus(x: Array) -> Array:
    """log(1 + eˣ)."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e⁻ˣ), the derivative of softplus."""
    small = np.exp(-np.abs(x))
    share: Array = np.where(x >= 0, 1, small) / (1 + small)
    return share
