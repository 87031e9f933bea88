"""The registry of optimisers."""

from pfedeg.optimizers.base import OptimizerType
from pfedeg.registry import Registry

OPTIMIZERS = Registry("optimizer", OptimizerType, {"adam": "pfedeg.optimizers.adam:OPTIMIZER"})
