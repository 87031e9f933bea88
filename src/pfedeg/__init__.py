"""Personalised federated knowledge graph embedding: PFedEG, its ablations and its baselines."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfedeg.engine.interface import Absorb as Absorb
    from pfedeg.errors import DataWarning as DataWarning
    from pfedeg.errors import InputError as InputError
    from pfedeg.errors import PfedegError as PfedegError
    from pfedeg.errors import RunError as RunError
    from pfedeg.graphs.alignment import Rows as Rows
    from pfedeg.graphs.alignment import Shared as Shared
    from pfedeg.graphs.federation import Federation as Federation
    from pfedeg.graphs.knowledge_graph import KnowledgeGraph as KnowledgeGraph
    from pfedeg.methods.base import ClientView as ClientView
    from pfedeg.methods.base import Method as Method
    from pfedeg.methods.base import Strategy as Strategy
    from pfedeg.methods.exchange import Contents as Contents
    from pfedeg.methods.exchange import Download as Download
    from pfedeg.methods.exchange import SharedTable as SharedTable
    from pfedeg.methods.exchange import Upload as Upload
    from pfedeg.methods.registry import METHODS as METHODS
    from pfedeg.models.base import Model as Model
    from pfedeg.models.base import ModelType as ModelType
    from pfedeg.models.base import Tables as Tables
    from pfedeg.models.registry import MODELS as MODELS
    from pfedeg.objectives.base import Objective as Objective
    from pfedeg.objectives.base import ObjectiveType as ObjectiveType
    from pfedeg.objectives.registry import OBJECTIVES as OBJECTIVES
    from pfedeg.optimizers.base import Optimizer as Optimizer
    from pfedeg.optimizers.base import OptimizerType as OptimizerType
    from pfedeg.optimizers.registry import OPTIMIZERS as OPTIMIZERS
    from pfedeg.settings import NoSettings as NoSettings
    from pfedeg.settings import setting as setting
    from pfedeg.training.config import Config as Config
    from pfedeg.training.evaluation import Metrics as Metrics
    from pfedeg.training.link_prediction import Prediction as Prediction
    from pfedeg.training.local_run import Training as Training
    from pfedeg.training.local_run import train as train
    from pfedeg.training.rounds import Round as Round
    from pfedeg.training.saved_run import Run as Run

_MODULES = {
    "Absorb": "engine.interface",
    "ClientView": "methods.base",
    "Config": "training.config",
    "Contents": "methods.exchange",
    "DataWarning": "errors",
    "Download": "methods.exchange",
    "Federation": "graphs.federation",
    "InputError": "errors",
    "KnowledgeGraph": "graphs.knowledge_graph",
    "METHODS": "methods.registry",
    "MODELS": "models.registry",
    "Method": "methods.base",
    "Metrics": "training.evaluation",
    "Model": "models.base",
    "ModelType": "models.base",
    "NoSettings": "settings",
    "OBJECTIVES": "objectives.registry",
    "OPTIMIZERS": "optimizers.registry",
    "Objective": "objectives.base",
    "ObjectiveType": "objectives.base",
    "Optimizer": "optimizers.base",
    "OptimizerType": "optimizers.base",
    "PfedegError": "errors",
    "Prediction": "training.link_prediction",
    "Round": "training.rounds",
    "Rows": "graphs.alignment",
    "Run": "training.saved_run",
    "RunError": "errors",
    "Shared": "graphs.alignment",
    "SharedTable": "methods.exchange",
    "Strategy": "methods.base",
    "Tables": "models.base",
    "Training": "training.local_run",
    "Upload": "methods.exchange",
    "setting": "settings",
    "train": "training.local_run",
}
__all__ = [
    "METHODS",
    "MODELS",
    "OBJECTIVES",
    "OPTIMIZERS",
    "Absorb",
    "ClientView",
    "Config",
    "Contents",
    "DataWarning",
    "Download",
    "Federation",
    "InputError",
    "KnowledgeGraph",
    "Method",
    "Metrics",
    "Model",
    "ModelType",
    "NoSettings",
    "Objective",
    "ObjectiveType",
    "Optimizer",
    "OptimizerType",
    "PfedegError",
    "Prediction",
    "Round",
    "Rows",
    "Run",
    "RunError",
    "Shared",
    "SharedTable",
    "Strategy",
    "Tables",
    "Training",
    "Upload",
    "setting",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `import pfedeg` and the command line start quickly."""
    if name in _MODULES:
        return getattr(import_module(f"pfedeg.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'pfedeg' has no attribute {name!r}")
