"""An optimiser of your own: Adagrad (Duchi et al. 2011).

pfedeg train world --preset quick --rounds 5 --optimizer own_optimizer:OPTIMIZER --lr 0.1
"""

from dataclasses import dataclass

import numpy as np

import pfedeg
from pfedeg.optimizers.base import OptimizerState


@dataclass(frozen=True)
class Adagrad:
    """G ← G + g², x ← x − lr · g / (√G + ε)."""

    lr: float = pfedeg.setting(0.05, "learning rate", above=0, candidates=(0.02, 0.05, 0.1))
    epsilon: float = 1e-10

    def init(self, tables: pfedeg.Tables) -> OptimizerState:
        """The state before the first step: named arrays, which a run saves."""
        return {name: np.zeros_like(table) for name, table in tables._asdict().items()}

    def step(self, tables: pfedeg.Tables, state: OptimizerState, gradient: pfedeg.Tables) -> None:
        """Change tables and state in place."""
        for name, table in tables._asdict().items():
            g = getattr(gradient, name)
            state[name] += g * g
            table -= self.lr * g / (np.sqrt(state[name]) + self.epsilon)

    def reach(self, steps: int) -> float:
        """No step moves a number further than lr, since √G ≥ |g|; a server refuses uploads that moved further."""
        return self.lr * steps


OPTIMIZER = pfedeg.OptimizerType(
    name="adagrad",
    label="Adagrad",
    reference="Duchi et al. 2011",
    summary="learning rates from the sum of squared gradients",
    settings=Adagrad,
    build=lambda settings: settings,
)
