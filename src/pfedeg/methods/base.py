"""The Method and Strategy protocols: a federated method, the server's half and the clients' half in one place."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import Absorb
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triples import Ids
from pfedeg.methods.exchange import Contents, Download, Upload
from pfedeg.models.base import Tables
from pfedeg.settings import NoSettings, Value

State = Mapping[str, NDArray[Any]]
Weights = NDArray[np.float64]  # C × C, clients in the order of Shared.clients: how much row i takes from column j
NO_CONTENTS = Contents(tables=())


class ClientView(NamedTuple):
    """What the clients' half of a strategy sees, at the client."""

    graph: KnowledgeGraph
    tables: Tables  # as they are now; not to be changed
    ids: Ids  # the sorted aligned ids of the entities that another client has too
    local: NDArray[np.intp]  # their rows in the entity table
    loss: float  # the mean loss of the client's last round; 0 before the first

    @property
    def shared_rows(self) -> Rows:
        """The rows of shared entities."""
        return Rows(self.ids, self.tables.entity[self.local])


class Strategy(ABC):
    """A method with its settings. State goes in and comes out; arguments are never changed.

    The server's half is `init` and `aggregate`, the clients' half `upload`, `knowledge` and what `absorb` says.
    """

    absorb: Absorb = Absorb()  # how clients use the rows that they receive
    uploads: ClassVar[Contents] = Contents()  # what clients send
    downloads: ClassVar[Contents] = Contents()  # what they are sent

    def init(self, shared: Shared) -> State:
        """What the server remembers between rounds, as named arrays."""
        return {}

    @abstractmethod
    def aggregate(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Download]]:
        """From every client's latest upload, the download of every selected client."""

    def upload(self, client: ClientView) -> Upload:
        """What a client sends; by default the rows of its shared entities."""
        return Upload({"entity": client.shared_rows})

    def knowledge(self, client: ClientView, download: Download) -> Rows:
        """The rows that `absorb` uses; by default those that were sent. Where none was sent, its own stays."""
        return download.tables["entity"]

    def relation_graph(self, state: State) -> Weights | None:
        """The client-wise relation graph W of the last aggregation, if the method has one."""
        return None

    def shares(
        self, learner: ClientId, owners: Sequence[ClientId], weights: Mapping[ClientId, float]
    ) -> dict[ClientId, float] | None:
        """The share of each other owner in what the learner was sent of an entity; None if the method cannot say.

        `weights` is the learner's row of the relation graph, empty without one.
        """
        return None


@dataclass(frozen=True)
class Method:
    """A method that can be chosen by name: what the rest of the program needs to know of it."""

    name: str
    label: str  # as tables print it
    build: Callable[[Any, int | None], Strategy]  # from the settings, and the server's threads (None: all cores)
    settings: type = NoSettings
    summary: str = ""
    reference: str = ""
    trains: Literal["alone", "pooled", "federated"] = "federated"  # each client alone, all data pooled, or by rounds
    role: Literal["baseline", "proposed", "ablation", "other"] = "other"  # in reports
    defaults: Mapping[str, Value] = field(default_factory=dict)  # for common settings, where they differ
    color: str = ""  # in pictures, as #rrggbb

    def __post_init__(self) -> None:
        """Refuse what a report or a run would stumble over later."""
        for name in ("trains", "role"):
            allowed = get_args(get_type_hints(Method)[name])
            if getattr(self, name) not in allowed:
                raise InputError(f"method {self.name!r}: {name} is {getattr(self, name)!r}, not {' or '.join(allowed)}")
        if self.color and not re.fullmatch("#[0-9a-fA-F]{6}", self.color):
            raise InputError(f"method {self.name!r}: color is {self.color!r}, not of the form #rrggbb")

    @property
    def is_federated(self) -> bool:
        """Whether rows travel."""
        return self.trains == "federated"
