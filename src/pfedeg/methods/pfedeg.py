"""PFedEG* and PFedEG+: personalised knowledge, mixed along the client-wise relation graph; and their ablations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pfedeg.engine.interface import Absorb
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.methods.affinity import distance_weights, overlap_weights
from pfedeg.methods.base import Method, State, Strategy, Weights
from pfedeg.methods.exchange import Download, Upload
from pfedeg.methods.mixing import mix
from pfedeg.settings import setting

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

    absorb: Absorb
    p: float = 0.5
    threads: int | None = None  # of the server; by default all cores

    def relation_graph(self, state: State) -> Weights | None:
        """W of the last aggregation."""
        return state.get("weights")

    def shares(
        self, learner: ClientId, owners: Sequence[ClientId], weights: Mapping[ClientId, float]
    ) -> dict[ClientId, float]:
        """The shares p · W_ij / Σ_{k owns e} W_ik, largest first."""
        total = sum(weights.get(name, 0.0) for name in owners)
        if not total:
            return {}
        found = {name: self.p * weights.get(name, 0.0) / total for name in owners if name != learner}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

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


def _star(replace: bool, settings: Any, threads: int | None) -> PFedEGStar:
    return PFedEGStar(Absorb(replace, pull=getattr(settings, "beta", 0.0)), settings.p, threads)


def _plus(replace: bool, settings: Any, threads: int | None) -> PFedEGPlus:
    absorb = Absorb(replace, pull=getattr(settings, "beta", 0.0))
    return PFedEGPlus(absorb, settings.p, threads, settings.reduce)


STAR = Method(
    name="pfedeg-star",
    label="PFedEG*",
    summary="personalised knowledge, by the number of shared entities",
    build=lambda settings, threads: _star(True, settings, threads),
    settings=Settings,
    role="proposed",
    color="#0072b2",
)
STAR_REG = Method(
    name="pfedeg-star-reg",
    label="PFedEG*_Reg",
    summary="PFedEG* that only pulls towards the knowledge",
    build=lambda settings, threads: _star(False, settings, threads),
    settings=Settings,
    role="ablation",
    color="#56b4e9",
)
STAR_INIT = Method(
    name="pfedeg-star-init",
    label="PFedEG*_Init",
    summary="PFedEG* that only starts from the knowledge",
    build=lambda settings, threads: _star(True, settings, threads),
    settings=InitSettings,
    role="ablation",
    color="#009e73",
)
PLUS = Method(
    name="pfedeg-plus",
    label="PFedEG+",
    summary="personalised knowledge, by the distance of shared embeddings",
    build=lambda settings, threads: _plus(True, settings, threads),
    settings=PlusSettings,
    role="proposed",
    color="#d55e00",
)
PLUS_REG = Method(
    name="pfedeg-plus-reg",
    label="PFedEG+_Reg",
    summary="PFedEG+ that only pulls towards the knowledge",
    build=lambda settings, threads: _plus(False, settings, threads),
    settings=PlusSettings,
    role="ablation",
    color="#b2182b",
)
PLUS_INIT = Method(
    name="pfedeg-plus-init",
    label="PFedEG+_Init",
    summary="PFedEG+ that only starts from the knowledge",
    build=lambda settings, threads: _plus(True, settings, threads),
    settings=PlusInitSettings,
    role="ablation",
    color="#f0a58f",
)
