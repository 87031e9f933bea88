"""What PFedEG is compared with: every client alone, and one mean for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.methods.affinity import mean
from pfedeg.methods.base import State

NOTHING = Absorb()
START = Absorb(replace=True)


@dataclass(frozen=True, slots=True)
class Single:
    """Each client alone: nothing travels. Collective is this on the merged graph."""

    absorb: Absorb = NOTHING
    shares: None = None

    def init(self, shared: Shared) -> State:
        """Nothing to remember."""
        return {}

    def aggregate(
        self, state: State, shared: Shared, latest: Mapping[ClientId, Rows], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Rows]]:
        """Nothing to say."""
        nothing = Rows(np.zeros(0, np.int32), np.zeros((0, 0), np.float32))
        return state, dict.fromkeys(selected, nothing)


@dataclass(frozen=True, slots=True)
class FedE:
    """The plain mean over owners, from which clients start (Chen et al. 2021); FedEC by its `absorb` (2022)."""

    absorb: Absorb = START
    threads: int | None = None  # of the server; by default all cores
    shares: Literal["entity"] = "entity"

    def init(self, shared: Shared) -> State:
        """Nothing to remember."""
        return {}

    def aggregate(
        self, state: State, shared: Shared, latest: Mapping[ClientId, Rows], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Rows]]:
        """The mean of the uploads."""
        return state, mean(shared, latest, selected, self.threads)
