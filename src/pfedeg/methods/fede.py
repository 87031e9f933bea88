"""FedE (Chen et al. 2021): clients start each round from the plain mean over the owners of an entity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.methods.base import Method, Shares, State, Strategy
from pfedeg.methods.exchange import Download, Upload
from pfedeg.methods.mixing import mean


@dataclass(frozen=True, slots=True)
class FedE(Strategy):
    """The plain mean. FedEC aggregates in the same way and differs only on the client side."""

    averages: ClassVar[bool] = True
    absorb: Absorb = Absorb(replace=True)
    threads: int | None = None

    def aggregate(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Download]]:
        """The mean of the uploads."""
        latest = {client: upload.tables["entity"] for client, upload in uploads.items()}
        rows = mean(shared, latest, selected, self.threads)
        return state, {client: Download({"entity": rows[client]}) for client in selected}

    def shares(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], learner: ClientId
    ) -> dict[ClientId, Shares]:
        """Every owner has the same share."""
        owners = shared.owners[shared.travelling[learner]]
        return {name: shared.owned(learner, name) / owners for name in shared.clients if name != learner}


METHOD = Method(
    name="fede",
    label="FedE",
    summary="the mean over the owners of an entity",
    reference="Chen et al. 2021",
    build=lambda settings, threads: FedE(threads=threads),
    role="baseline",
    defaults={"evaluate": "after_aggregation"},
    color="#e69f00",
)
