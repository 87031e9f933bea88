"""The Optimizer protocol: state as named arrays, and a step that changes tables in place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from pfedeg.models.base import Tables
from pfedeg.settings import NoSettings, Value

OptimizerState = dict[str, NDArray[Any]]


class Optimizer(Protocol):
    """An optimiser with its settings."""

    def init(self, tables: Tables) -> OptimizerState:
        """The state before the first step."""

    def step(self, tables: Tables, state: OptimizerState, gradient: Tables) -> None:
        """One step on both tables; changes tables and state in place."""

    def reach(self, steps: int) -> float:
        """How far a number can move at most in so many steps, whatever the gradients; infinite where unbounded.

        A server refuses uploads that have moved further.
        """


@dataclass(frozen=True)
class OptimizerType:
    """An optimiser that can be chosen by name."""

    name: str
    label: str
    build: Callable[[Any], Optimizer]  # from the settings
    settings: type = NoSettings
    summary: str = ""
    reference: str = ""
    defaults: Mapping[str, Value] = field(default_factory=dict)  # for other settings
