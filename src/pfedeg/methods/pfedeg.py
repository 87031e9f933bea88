"""PFedEG* and PFedEG+: personalised knowledge, mixed along the client-wise relation graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.methods.affinity import distance_weights, mix, overlap_weights
from pfedeg.methods.base import State


@dataclass(frozen=True, slots=True)
class PFedEGStar:
    """Affinity from the number of shared entities, computed once."""

    absorb: Absorb
    p: float = 0.5
    threads: int | None = None  # of the server; by default all cores
    shares: Literal["entity"] = "entity"

    def init(self, shared: Shared) -> State:
        """The weights stay the same in every round."""
        return {"weights": overlap_weights(shared, self.threads)}

    def aggregate(
        self, state: State, shared: Shared, latest: Mapping[ClientId, Rows], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Rows]]:
        """Mix the uploads by W."""
        return state, mix(shared, latest, state["weights"], self.p, selected, self.threads)


@dataclass(frozen=True, slots=True)
class PFedEGPlus:
    """Affinity from the distance of shared embeddings, computed from the latest uploads in every round."""

    absorb: Absorb
    p: float = 0.5
    reduce: Literal["sum", "mean"] = "sum"
    threads: int | None = None  # of the server; by default all cores
    shares: Literal["entity"] = "entity"

    def init(self, shared: Shared) -> State:
        """Nothing is known before the first uploads."""
        return {}

    def aggregate(
        self, state: State, shared: Shared, latest: Mapping[ClientId, Rows], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Rows]]:
        """New weights W, then mix the uploads by them."""
        weights = distance_weights(shared, latest, self.reduce, self.threads)
        return {"weights": weights}, mix(shared, latest, weights, self.p, selected, self.threads)
