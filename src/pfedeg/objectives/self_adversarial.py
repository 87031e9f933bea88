"""Self-adversarial negative sampling (Sun et al. 2019): the paper's objective."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pfedeg.models.base import Array
from pfedeg.objectives.base import ObjectiveType, sigmoid, softmax, softplus
from pfedeg.settings import setting


@dataclass(frozen=True, slots=True)
class SelfAdversarial:
    """L_KGE = ½ [ −log σ(s(h,r,t)) − Σ_j w_j log σ(−s(h,r,t'_j)) ],  w = softmax(α · s(h,r,t'_·)) held constant."""

    alpha: float = setting(
        1.0, "temperature α of the self-adversarial weights; 0 weighs all negatives equally", least=0
    )

    def loss(self, positive: Array, negative: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        w = softmax(self.alpha * negative, mask)
        losses = 0.5 * (softplus(-positive) + (w * softplus(negative)).sum(-1))
        return losses, -0.5 * sigmoid(-positive), 0.5 * w * sigmoid(negative)


OBJECTIVE = ObjectiveType(
    name="self-adversarial",
    label="self-adversarial",
    summary="self-adversarial negative sampling",
    reference="Sun et al. 2019",
    settings=SelfAdversarial,
    build=lambda settings: settings,
)
