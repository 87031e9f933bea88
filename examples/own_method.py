"""A federated method of your own: the mean over the owners of an entity, weighted by how often each client sees it.

Clients send a second table (how many training triples each shared entity has) and a scalar (their mean loss).

Try it: pfedeg train world --method own_method:METHOD --power 2
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pfedeg

COUNTS = pfedeg.SharedTable("count", width=1)  # one number per shared entity


@dataclass(frozen=True)
class Settings:
    """What users may set; each field becomes a flag, a key of TOML files and a line of the help."""

    power: float = pfedeg.setting(1.0, "weight of a client ~ (its triples of the entity) ^ power", least=0)


@dataclass(frozen=True)
class ByEvidence(pfedeg.Strategy):
    """Clients that know more about an entity, and fit better, have more weight in its mean."""

    power: float
    absorb = pfedeg.Absorb(replace=True)  # clients start their round from the rows that `knowledge` returns
    uploads = pfedeg.Contents((pfedeg.SharedTable("entity"), COUNTS), scalars=("loss",))
    downloads = pfedeg.Contents(scalars=("mean_loss",))

    def upload(self, client: pfedeg.ClientView) -> pfedeg.Upload:
        """At the client: what it sends."""
        counts = np.bincount(client.graph.train[:, [0, 2]].ravel(), minlength=len(client.graph.entities))[client.local]
        count = pfedeg.Rows(client.ids, counts[:, None].astype(np.float32))
        return pfedeg.Upload({"entity": client.shared_rows, "count": count}, {"loss": client.loss})

    def aggregate(
        self, state: Any, shared: pfedeg.Shared, uploads: Mapping[str, pfedeg.Upload], selected: Sequence[str]
    ) -> tuple[Any, Mapping[str, pfedeg.Download]]:
        """At the server: from the latest upload of every client, a download for each selected one."""
        weights, loss = self.weights(shared, uploads), np.mean([each.scalars["loss"] for each in uploads.values()])
        mean = np.zeros((len(shared.owners), next(iter(uploads.values())).tables["entity"].values.shape[1]))
        for name, upload in uploads.items():
            entity = upload.tables["entity"]
            mean[entity.ids] += weights[name][entity.ids, None] * entity.values
        rows = {name: pfedeg.Rows(ids := shared.travelling[name], mean[ids].astype(np.float32)) for name in selected}
        return state, {name: pfedeg.Download({"entity": rows[name]}, {"mean_loss": float(loss)}) for name in selected}

    def weights(self, shared: pfedeg.Shared, uploads: Mapping[str, pfedeg.Upload]) -> dict[str, Any]:
        """The weight of each client in the mean of each entity; 0 where it has no such row."""
        found = np.zeros((len(uploads), len(shared.owners)))
        for weights, upload in zip(found, uploads.values(), strict=True):
            count = upload.tables["count"]
            weights[count.ids] = (1.0 + count.values[:, 0]) ** self.power / (1 + upload.scalars["loss"])
        return dict(zip(uploads, found / np.maximum(found.sum(0), 1e-30), strict=True))

    def knowledge(self, client: pfedeg.ClientView, download: pfedeg.Download) -> pfedeg.Rows:
        """At the client: a client that fits worse than the average takes over the mean, another only half of it."""
        mean = download.tables["entity"]
        part = np.float32(1.0 if client.loss >= download.scalars["mean_loss"] else 0.5)
        return pfedeg.Rows(mean.ids, part * mean.values + (1 - part) * client.shared_rows.values)

    def shares(self, state: Any, shared: pfedeg.Shared, uploads: Mapping[str, pfedeg.Upload], learner: str) -> Any:
        """Optional, for `predict --explain`: how much of each other client is in what `knowledge` returns."""
        loss, ids = {name: upload.scalars["loss"] for name, upload in uploads.items()}, shared.travelling[learner]
        part = 1.0 if loss[learner] >= np.mean(list(loss.values())) else 0.5
        return {name: part * each[ids] for name, each in self.weights(shared, uploads).items() if name != learner}


METHOD = pfedeg.Method(
    name="by-evidence",
    label="ByEvidence",
    summary="the mean over the owners of an entity, weighted by their triples and loss",
    settings=Settings,
    build=lambda settings, threads: ByEvidence(settings.power),
)
