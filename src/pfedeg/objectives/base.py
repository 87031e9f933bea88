"""The Objective protocol: from the scores of positives and their negatives to losses and gradients."""

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
        """The loss of every positive, and its gradients by the scores.

        `positive` holds the score of each positive (b,), `negative` those of its negatives (b, n); only the negatives
        in `mask` count. The second and third result have the shapes of `positive` and `negative`.
        """


@dataclass(frozen=True)
class ObjectiveType:
    """An objective that can be chosen by name."""

    name: str
    label: str
    build: Callable[[Any], Objective]  # from the settings
    settings: type = NoSettings
    summary: str = ""
    reference: str = ""
    defaults: Mapping[str, Value] = field(default_factory=dict)  # for other settings


def softmax(x: Array, mask: NDArray[np.bool_]) -> Array:
    """The softmax along the last axis over the places in the mask; all zero where there is none."""
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
