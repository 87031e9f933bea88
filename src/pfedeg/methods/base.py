"""The Strategy protocol: a federated method, both its halves in one place."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import ClientId, Rows, Shared

State = Mapping[str, NDArray[Any]]


class Strategy(Protocol):
    """The server's half is `aggregate`; the client's half is what `absorb` says."""

    @property
    def absorb(self) -> Absorb:
        """How clients use what they receive."""

    @property
    def shares(self) -> Literal["entity"] | None:
        """Which rows travel, if any."""

    def init(self, shared: Shared) -> State:
        """What to remember between rounds, as named arrays; "weights" (C × C), if present, goes into the history."""

    def aggregate(
        self, state: State, shared: Shared, latest: Mapping[ClientId, Rows], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Rows]]:
        """From every client's latest upload, the download of every selected client. Arguments stay as they are."""
