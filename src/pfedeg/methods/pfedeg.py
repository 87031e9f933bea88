"""PFedEG* and PFedEG+: personalised knowledge, mixed along the client-wise relation graph; and their ablations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.methods.affinity import distance_weights, overlap_weights
from pfedeg.methods.base import Method, Shares, State, Strategy, Weights
from pfedeg.methods.exchange import Download, Upload
from pfedeg.methods.mixing import mix
from pfedeg.settings import setting, setting_fields

REFERENCE = "Zhang et al. 2025"
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)  # the values that the paper tries for p and β
BETAS = (3e-4, 4e-4, 5e-4, 6e-4, 1e-3)


@dataclass(frozen=True, slots=True)
class InitSettings:
    """Settings of the variants without the pull."""

    p: float = setting(0.5, "share of the others in a client's knowledge", least=0, most=1, candidates=SHARES)


@dataclass(frozen=True, slots=True)
class Settings(InitSettings):
    """Adds the pull towards the knowledge."""

    beta: float = setting(3e-3, "strength β of the pull towards the knowledge", least=0, candidates=BETAS)


@dataclass(frozen=True, slots=True)
class PlusInitSettings(InitSettings):
    """Adds the setting of PFedEG+."""

    reduce: Literal["sum", "mean"] = setting("sum", "how PFedEG+ reduces exp(cos) over shared entities")


@dataclass(frozen=True, slots=True)
class PlusSettings(Settings):
    """Adds the pull and the setting of PFedEG+."""

    reduce: Literal["sum", "mean"] = setting("sum", "how PFedEG+ reduces exp(cos) over shared entities")


@dataclass(frozen=True, slots=True)
class Mixing(Strategy):
    """K_i[e] = p · Σ_j W_ij E_j[e] / Σ_j W_ij + (1 − p) · E_i[e]: common to PFedEG* and PFedEG+."""

    averages: ClassVar[bool] = True
    absorb: Absorb
    p: float = 0.5
    threads: int | None = None  # of the server; by default all cores

    def relation_graph(self, state: State) -> Weights | None:
        """W of the last aggregation."""
        return state.get("weights")

    def shares(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], learner: ClientId
    ) -> dict[ClientId, Shares]:
        """The shares p · W_ij / Σ_{k owns e} W_ik of the owners j of each shared id e; 0 if that sum is 0."""
        weights = dict(zip(shared.clients, state["weights"][shared.clients.index(learner)].tolist(), strict=True))
        given = {name: weights[name] * shared.owned(learner, name) for name in shared.clients}
        total = np.sum(list(given.values()), 0)
        share = np.divide(self.p, total, out=np.zeros_like(total), where=total > 0)
        return {name: share * weight for name, weight in given.items() if name != learner}

    def _mix(
        self, shared: Shared, uploads: Mapping[ClientId, Upload], weights: Weights, selected: Sequence[ClientId]
    ) -> Mapping[ClientId, Download]:
        latest = {client: upload.tables["entity"] for client, upload in uploads.items()}
        rows = mix(shared, latest, weights, self.p, selected, self.threads)
        return {client: Download({"entity": rows[client]}) for client in selected}


@dataclass(frozen=True, slots=True)
class PFedEGStar(Mixing):
    """Weights from the number of shared entities, computed once."""

    def init(self, shared: Shared) -> State:
        """Compute W, which stays the same in every round."""
        return {"weights": overlap_weights(shared, self.threads)}

    def aggregate(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Download]]:
        """Mix the uploads by W."""
        return state, self._mix(shared, uploads, state["weights"], selected)


@dataclass(frozen=True, slots=True)
class PFedEGPlus(Mixing):
    """Weights from the distance of shared embeddings, recomputed from the latest uploads in every round."""

    reduce: Literal["sum", "mean"] = "sum"

    def aggregate(
        self, state: State, shared: Shared, uploads: Mapping[ClientId, Upload], selected: Sequence[ClientId]
    ) -> tuple[State, Mapping[ClientId, Download]]:
        """Recompute W, then mix the uploads by it."""
        latest = {client: upload.tables["entity"] for client, upload in uploads.items()}
        weights = distance_weights(shared, latest, self.reduce, self.threads)
        return {"weights": weights}, self._mix(shared, uploads, weights, selected)


def _star(settings: Any, threads: int | None, replace: bool) -> PFedEGStar:
    return PFedEGStar(Absorb(replace, pull=getattr(settings, "beta", 0.0)), settings.p, threads)


def _plus(settings: Any, threads: int | None, replace: bool) -> PFedEGPlus:
    return PFedEGPlus(Absorb(replace, pull=getattr(settings, "beta", 0.0)), settings.p, threads, settings.reduce)


def _method(name: str, label: str, summary: str, settings: type, color: str, **rest: Any) -> Method:
    """One of the variants: both halves of "start from the knowledge, and pull towards it", or one of them."""
    build = partial(_plus if "reduce" in setting_fields(settings) else _star, replace=rest.pop("replace", True))
    return Method(name, label, build, settings, summary, REFERENCE, color=color, **{"role": "ablation", **rest})


BY_SIZE = "personalised knowledge, by the number of shared entities"
BY_DISTANCE = "personalised knowledge, by the distance of shared embeddings"
STAR = _method("pfedeg-star", "PFedEG*", BY_SIZE, Settings, "#0072b2", role="proposed")
STAR_REG = _method("pfedeg-star-reg", "PFedEG*_Reg", "PFedEG* with the pull only", Settings, "#56b4e9", replace=False)
STAR_INIT = _method("pfedeg-star-init", "PFedEG*_Init", "PFedEG* without the pull", InitSettings, "#009e73")
PLUS = _method("pfedeg-plus", "PFedEG+", BY_DISTANCE, PlusSettings, "#d55e00", role="proposed")
PLUS_REG = _method(
    "pfedeg-plus-reg", "PFedEG+_Reg", "PFedEG+ with the pull only", PlusSettings, "#b2182b", replace=False
)
PLUS_INIT = _method("pfedeg-plus-init", "PFedEG+_Init", "PFedEG+ without the pull", PlusInitSettings, "#f0a58f")
