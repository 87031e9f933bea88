"""The Optimizer protocol: state as named arrays, and a step that updates tables in place."""

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
        """The state before the first step, for these `tables`."""

    def step(self, tables: Tables, state: OptimizerState, gradient: Tables) -> None:
        """Make one step along the `gradient`: update both `tables` and the `state` in place."""

    def reach(self, steps: int) -> float:
        """The furthest that a number can move in this many steps, whatever the gradients; infinite if unbounded.

        The server refuses uploads that moved further.
        """


@dataclass(frozen=True)
class OptimizerType:
    """An optimiser that users can choose by `name`.

    `label` stands in tables and figures, `summary` and `reference` in the docs. `build` makes the optimiser from an
    instance of the dataclass `settings`; `defaults` are other defaults of common settings.
    """

    name: str
    label: str
    build: Callable[[Any], Optimizer]  # from the settings
    settings: type = NoSettings
    summary: str = ""
    reference: str = ""
    defaults: Mapping[str, Value] = field(default_factory=dict)  # of other settings, where they differ
