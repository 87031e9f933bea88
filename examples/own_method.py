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
    downloads = pfedeg.Contents((pfedeg.SharedTable("entity"), COUNTS), scalars=("mean_loss",))

    def upload(self, client: pfedeg.ClientView) -> pfedeg.Upload:
        """At the client: what it sends."""
        ends = np.concatenate([client.graph.train[:, 0], client.graph.train[:, 2]])
        counts = np.bincount(ends, minlength=len(client.graph.entities))[client.local]
        count = pfedeg.Rows(client.ids, counts[:, None].astype(np.float32))
        return pfedeg.Upload({"entity": client.shared_rows, "count": count}, {"loss": client.loss})

    def aggregate(
        self,
        state: Mapping[str, Any],
        shared: pfedeg.Shared,
        uploads: Mapping[str, pfedeg.Upload],
        selected: Sequence[str],
    ) -> tuple[Mapping[str, Any], Mapping[str, pfedeg.Download]]:
        """At the server: from the latest upload of every client, a download for each selected one."""
        width = next(iter(uploads.values())).tables["entity"].values.shape[1]
        rows, weights = np.zeros((len(shared.owners), width)), np.zeros((len(shared.owners), 1))
        for upload in uploads.values():
            entity, count = upload.tables["entity"], upload.tables["count"]
            weight = (1.0 + count.values) ** self.power / (1 + upload.scalars["loss"])
            rows[entity.ids] += weight * entity.values
            weights[entity.ids] += weight
        loss = float(np.mean([upload.scalars["loss"] for upload in uploads.values()]))
        downloads = {}
        for client in selected:
            ids = uploads[client].tables["entity"].ids
            mean = pfedeg.Rows(ids, (rows[ids] / weights[ids]).astype(np.float32))
            count = pfedeg.Rows(ids, weights[ids].astype(np.float32))
            downloads[client] = pfedeg.Download({"entity": mean, "count": count}, {"mean_loss": loss})
        return state, downloads

    def knowledge(self, client: pfedeg.ClientView, download: pfedeg.Download) -> pfedeg.Rows:
        """At the client: a client that fits worse than the average takes over the mean, another only half of it."""
        mean = download.tables["entity"]
        share = np.float32(1.0 if client.loss >= download.scalars["mean_loss"] else 0.5)
        return pfedeg.Rows(mean.ids, share * mean.values + (1 - share) * client.shared_rows.values)


METHOD = pfedeg.Method(
    name="by-evidence",
    label="ByEvidence",
    summary="the mean over the owners of an entity, weighted by their triples and loss",
    settings=Settings,
    build=lambda settings, threads: ByEvidence(settings.power),
)
