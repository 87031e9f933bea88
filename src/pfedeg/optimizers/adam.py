"""Adam (Kingma and Ba 2015), dense: every step updates all rows."""

from dataclasses import dataclass

import numpy as np

from pfedeg import aligned_arrays
from pfedeg.models.base import Tables
from pfedeg.optimizers.base import OptimizerState, OptimizerType
from pfedeg.settings import setting

REACH = 7.3  # the most learning rates per step that a number can move, whatever the gradients


@dataclass(frozen=True, slots=True)
class Adam:
    """m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², x ← x − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)."""

    lr: float = setting(1e-3, "learning rate", above=0)
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def init(self, tables: Tables) -> OptimizerState:
        entity, relation = tables
        moments = {"entity1": entity, "entity2": entity, "relation1": relation, "relation2": relation}
        state: OptimizerState = {name: aligned_arrays.zeros_like(table) for name, table in moments.items()}
        return state | {"steps": np.zeros(1, np.int64)}

    def step(self, tables: Tables, state: OptimizerState, gradient: Tables) -> None:
        state["steps"][0] += 1
        step = int(state["steps"][0])
        rate = self.lr / (1 - self.beta1**step)
        unbias = 1 / np.sqrt(1 - self.beta2**step)
        for name in Tables._fields:
            table, g = getattr(tables, name), getattr(gradient, name)
            first, second = state[f"{name}1"], state[f"{name}2"]
            first[...] = self.beta1 * first + (1 - self.beta1) * g
            second[...] = self.beta2 * second + (1 - self.beta2) * g * g
            table -= rate * first / (np.sqrt(second) * unbias + self.epsilon)

    def reach(self, steps: int) -> float:
        return REACH * self.lr * steps


OPTIMIZER = OptimizerType(
    name="adam",
    label="Adam",
    summary="dense Adam",
    reference="Kingma and Ba 2015",
    settings=Adam,
    build=lambda settings: settings,
)
