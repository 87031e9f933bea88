"""An objective of your own: cross entropy over the positive and its sampled negatives.

pfedeg train world --objective own_objective:OBJECTIVE --smoothing 0.1
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import pfedeg
from pfedeg.models.base import Array


@dataclass(frozen=True)
class SampledCrossEntropy:
    """L = −Σ_j y_j log softmax(s)_j over the positive (j = 0) and its negatives; y₀ = 1 − smoothing."""

    smoothing: float = pfedeg.setting(0.0, "share of the label that is spread over the candidates", least=0, most=0.9)

    def loss(self, positive: Array, negative: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """Losses of the positives (b,), gradients by their scores (b,) and by those of the negatives (b, n)."""
        scores = np.concatenate([positive[:, None], np.where(mask, negative, -np.inf)], 1)
        counts = np.isfinite(scores)  # the negatives in the mask, and the positive
        label = self.smoothing * counts / counts.sum(1, keepdims=True)
        label[:, 0] += 1 - self.smoothing
        top = scores.max(1, keepdims=True)
        log_share = scores - top - np.log(np.exp(scores - top).sum(1, keepdims=True))
        losses = -np.sum(label * np.where(counts, log_share, 0.0), 1)
        gradient = (np.exp(log_share) - label).astype(positive.dtype)  # of the scores; 0 outside of the mask
        return losses.astype(positive.dtype), gradient[:, 0], gradient[:, 1:]


OBJECTIVE = pfedeg.ObjectiveType(
    name="sampled-cross-entropy",
    label="cross entropy",
    summary="cross entropy over sampled negatives",
    settings=SampledCrossEntropy,
    build=lambda settings: settings,
)
