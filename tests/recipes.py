"""Recipes and optimiser states for tests that call an engine directly."""

from typing import Any

from pfedeg.engine.interface import Absorb, Batches, Recipe
from pfedeg.models.base import Model, Tables
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam
from pfedeg.optimizers.base import OptimizerState

STATE = ("entity1", "entity2", "relation1", "relation2", "steps")  # of Adam
OF_BATCHES = {"epochs", "negatives", "sampling", "chunk"}
OF_ADAM = {"lr", "beta1", "beta2", "epsilon"}


def recipe(model: Model, absorb: Absorb = Absorb(), **settings: Any) -> Recipe:
    """A recipe with the paper's objective and Adam, from settings such as batch, negatives, lr, alpha."""
    renamed = {{"batch": "size", "loss": "reduction"}.get(name, name): value for name, value in settings.items()}
    batches = {name: renamed.pop(name) for name in [*renamed] if name in {*OF_BATCHES, "size", "reduction"}}
    adam = {name: renamed.pop(name) for name in [*renamed] if name in OF_ADAM}
    return Recipe(model, SelfAdversarial(**renamed), Adam(**adam), Batches(**batches), absorb)


def fresh(tables: Tables) -> OptimizerState:
    """Adam's state before the first step."""
    return Adam().init(tables)


def copied(state: OptimizerState) -> OptimizerState:
    """A copy that can be changed in place."""
    return {name: array.copy() for name, array in state.items()}
