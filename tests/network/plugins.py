"""Plug-ins for tests: a method with a second table and scalars in both directions; a model, objective and optimiser."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.methods.base import ClientView, Method, State, Strategy
from pfedeg.methods.exchange import ENTITY, Contents, Download, SharedTable, Upload
from pfedeg.models.base import Array, MarginSettings, ModelType, Tables
from pfedeg.models.transe import TransE
from pfedeg.objectives.base import ObjectiveType, sigmoid, softplus
from pfedeg.optimizers.base import OptimizerState, OptimizerType
from pfedeg.settings import setting


@dataclass(frozen=True, slots=True)
class Settings:
    """Its own setting."""

    trust: float = setting(0.5, "how much of the mean a client takes", least=0, most=1)


@dataclass(frozen=True, slots=True)
class DegreeWeighted(Strategy):
    """Clients send the degree of each shared entity and their loss; the server sends a mean and how far to trust it."""

    trust: float
    absorb: Absorb = Absorb(replace=True)
    uploads: ClassVar[Contents] = Contents((ENTITY, SharedTable("degree", width=1)), ("loss",))
    downloads: ClassVar[Contents] = Contents((ENTITY, SharedTable("weight", width=1, partial=True)), ("trust", "round"))

    def init(self, shared: Shared) -> State:
        return {"round": np.zeros(1)}

    def upload(self, client: ClientView) -> Upload:
        degree = np.bincount(client.graph.train[:, [0, 2]].ravel(), minlength=len(client.graph.entities))
        values = degree[client.local, None].astype(np.float32)
        return Upload({"entity": client.shared_rows, "degree": Rows(client.ids, values)}, {"loss": client.loss})

    def aggregate(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Download]]:
        width = uploads[selected[0]].tables["entity"].values.shape[1]
        total, weight = np.zeros((len(shared.owners), width)), np.zeros((len(shared.owners), 1))
        for upload in uploads.values():
            rows, degree = upload.tables["entity"], upload.tables["degree"].values + 1.0
            total[rows.ids] += degree * rows.values
            weight[rows.ids] += degree
        loss = float(np.mean([upload.scalars["loss"] for upload in uploads.values()]))
        number = float(state["round"][0]) + 1
        found = {}
        for client in selected:
            ids = shared.travelling[client]
            mean = (total[ids] / weight[ids]).astype(np.float32)
            heavy = ids[::2]
            tables = {"entity": Rows(ids, mean), "weight": Rows(heavy, weight[heavy].astype(np.float32))}
            found[client] = Download(tables, {"trust": self.trust / (1 + loss), "round": number})
        return {"round": np.array([number])}, found

    def knowledge(self, client: ClientView, download: Download) -> Rows:
        """Only rows with a weight are mixed; the others stay as they are."""
        rows, known = download.tables["entity"], download.tables["weight"]
        place = np.searchsorted(rows.ids, known.ids)
        own, sent = client.tables.entity[client.local[place]], rows.values[place]
        share = np.float32(download.scalars["trust"] / download.scalars["round"]) * np.tanh(known.values)
        return Rows(known.ids, own + share * (sent - own))


METHOD = Method(
    name="degree-weighted",
    label="Degree-weighted",
    build=lambda settings, threads: DegreeWeighted(settings.trust),
    settings=Settings,
)


class Wider(TransE):
    """TransE whose tables start from a wider range; compiled loops do not know it."""

    @property
    def start_range(self) -> float:
        return 2 * super().start_range


class Logistic:
    """log(1 + e⁻ˢ) of positives, and the mean of log(1 + eˢ) over negatives."""

    def loss(self, positive: Array, negative: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        share = mask / np.maximum(mask.sum(-1, keepdims=True), 1)
        losses = softplus(-positive) + (share * softplus(negative)).sum(-1)
        return losses, -sigmoid(-positive), share * sigmoid(negative)


@dataclass(frozen=True, slots=True)
class Clipped:
    """Gradient descent with gradients clipped to ±1."""

    lr: float = setting(1e-2, "learning rate", above=0)

    def init(self, tables: Tables) -> OptimizerState:
        return {}

    def step(self, tables: Tables, state: OptimizerState, gradient: Tables) -> None:
        for table, change in zip(tables, gradient, strict=True):
            table -= np.float32(self.lr) * np.clip(change, -1, 1)

    def reach(self, steps: int) -> float:
        return self.lr * steps


def _wider(dim: int, settings: Any) -> Wider:
    return Wider(dim, settings.gamma)


MODEL = ModelType(name="wider", label="Wider", build=_wider, settings=MarginSettings)
OBJECTIVE = ObjectiveType(name="logistic", label="Logistic", build=lambda settings: Logistic())
OPTIMIZER = OptimizerType(name="clipped", label="Clipped", build=lambda settings: settings, settings=Clipped)
