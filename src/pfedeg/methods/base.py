"""Method and Strategy: the interface of a federated method, with its server side and its client side."""

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
Shares = NDArray[np.float64]  # of one client, for each shared id of another
Weights = NDArray[np.float64]  # C × C, in the order of Shared.clients: how much row i takes from column j
NO_CONTENTS = Contents(tables=())


class ClientView(NamedTuple):
    """What the client side of a strategy can see: its `graph`, its `tables`, and the `loss` of its last round.

    `ids` has the aligned ids of the entities that it shares with others, and `local` their rows in the entity table.
    """

    graph: KnowledgeGraph
    tables: Tables  # current values; do not change them
    ids: Ids  # sorted aligned ids of the entities shared with other clients
    local: NDArray[np.intp]  # their rows in the entity table
    loss: float  # the mean loss of the client's last round; 0 before the first

    @property
    def shared_rows(self) -> Rows:
        """The rows of shared entities."""
        return Rows(self.ids, self.tables.entity[self.local])


class Strategy(ABC):
    """A method with its settings. It keeps no state: state is passed in and returned, and arguments are not changed.

    The server side is `init` and `aggregate`; the client side is `upload`, `knowledge` and `absorb`.
    """

    absorb: Absorb = Absorb()  # how clients use the rows that they receive
    uploads: ClassVar[Contents] = Contents()  # what clients send
    downloads: ClassVar[Contents] = Contents()  # what clients receive
    averages: ClassVar[bool] = False  # whether downloaded rows are averages of uploaded ones: clients refuse others

    def init(self, shared: Shared) -> State:
        """The server's initial state, as named arrays; `shared` says which client owns which ids."""
        return {}

    @abstractmethod
    def aggregate(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Download]]:
        """The new `state`, and a download for every `selected` client, from the latest `uploads` of all clients.

        `shared` says which client owns which ids.
        """

    def upload(self, client: ClientView) -> Upload:
        """The upload of a client; by default the rows of its shared entities."""
        return Upload({"entity": client.shared_rows})

    def knowledge(self, client: ClientView, download: Download) -> Rows:
        """The rows that `absorb` uses; by default those of the download. Missing rows keep the client's own values."""
        return download.tables["entity"]

    def relation_graph(self, state: State) -> Weights | None:
        """The client-wise relation graph W of the last aggregation, from its `state`, if the method has one."""
        return None

    def shares(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], learner: ClientId
    ) -> Mapping[ClientId, Shares] | None:
        """How much of each other client's row is in the row that `learner` uses; None if the method does not say.

        For every shared id of the learner (`shared.travelling[learner]`) and every other client j a share s_j, 0 where
        j has no such row, so that the learner's row U becomes U + Σ_j s_j (U_j − U). `state` is the one that
        `aggregate` returned for these uploads. `pfedeg predict --explain` needs this; training does not.
        """
        return None


@dataclass(frozen=True)
class Method:
    """A method that users can choose by `name`, with all that the rest of the program needs to know about it.

    `label` stands in tables and figures, `summary` and `reference` in the docs, `color` (#rrggbb) and `role` in
    reports. `build` makes the strategy from an instance of the dataclass `settings` and the number of threads. `trains`
    says whether clients train alone, on pooled data, or federated; `defaults` are other defaults of common settings.
    """

    name: str
    label: str  # in tables and figures
    build: Callable[[Any, int | None], Strategy]  # from settings and the server's threads (None: all cores)
    settings: type = NoSettings
    summary: str = ""
    reference: str = ""
    trains: Literal["alone", "pooled", "federated"] = "federated"  # clients alone, on pooled data, or in rounds
    role: Literal["baseline", "proposed", "ablation", "other"] = "other"  # in reports
    defaults: Mapping[str, Value] = field(default_factory=dict)  # of common settings, where they differ
    color: str = ""  # in figures, as #rrggbb

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
        """Whether clients exchange anything."""
        return self.trains == "federated"
