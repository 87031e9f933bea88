"""FedEC (Chen et al. 2022): FedE with a contrastive term between the received and the previous table."""

from dataclasses import dataclass
from typing import Literal

from pfedeg.engine.interface import Absorb
from pfedeg.methods.base import Method
from pfedeg.methods.fede import FedE
from pfedeg.settings import setting


@dataclass(frozen=True, slots=True)
class Settings:
    """The contrastive term μ · mean over entities of softplus((s_l − s_g) / τ)."""

    mu: float = setting(0.1, "weight μ of the contrastive term", above=0)
    tau: float = setting(0.2, "temperature τ of the contrastive term", above=0)
    contrast: Literal["per_entity", "pooled"] = setting(
        "per_entity", "contrast the cosines of each entity, or their averages over entities"
    )


def build(settings: Settings, threads: int | None) -> FedE:
    """FedE's mean, absorbed with the contrastive term."""
    pooled = settings.contrast == "pooled"
    return FedE(Absorb(True, contrast=settings.mu, temperature=settings.tau, pooled=pooled), threads)


METHOD = Method(
    name="fedec",
    label="FedEC",
    summary="FedE with a contrastive term",
    reference="Chen et al. 2022",
    build=build,
    settings=Settings,
    role="baseline",
    defaults={"evaluate": "after_aggregation"},
    color="#cc79a7",
)
