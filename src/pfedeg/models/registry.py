"""The registry of models."""

from pfedeg.models.base import ModelType
from pfedeg.registry import Registry

MODELS = Registry(
    "model",
    ModelType,
    {
        "transe": "pfedeg.models.transe:MODEL",
        "rotate": "pfedeg.models.rotate:MODEL",
        "complex": "pfedeg.models.complex:MODEL",
        "distmult": "pfedeg.models.distmult:MODEL",
    },
)
