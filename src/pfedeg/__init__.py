"""Personalised federated knowledge graph embedding: PFedEG, its ablations and its baselines."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfedeg.engine.interface import Absorb as Absorb
    from pfedeg.errors import DataWarning as DataWarning
    from pfedeg.errors import InputError as InputError
    from pfedeg.errors import PfedegError as PfedegError
    from pfedeg.errors import RunError as RunError
    from pfedeg.experiments.report import report as report
    from pfedeg.experiments.report.results import Results as Results
    from pfedeg.experiments.tuning import Tuning as Tuning
    from pfedeg.experiments.tuning import tune as tune
    from pfedeg.exporting.registry import export as export
    from pfedeg.graphs.alignment import Rows as Rows
    from pfedeg.graphs.alignment import Shared as Shared
    from pfedeg.graphs.federation import Federation as Federation
    from pfedeg.graphs.knowledge_graph import KnowledgeGraph as KnowledgeGraph
    from pfedeg.importing.from_python import Imported as Imported
    from pfedeg.importing.from_python import import_client as import_client
    from pfedeg.inspection.cost_estimate import Estimates as Estimates
    from pfedeg.inspection.findings import Inspection as Inspection
    from pfedeg.inspection.from_python import estimate_cost as estimate_cost
    from pfedeg.inspection.from_python import inspect as inspect
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
    from pfedeg.result_table import ResultTable as ResultTable
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
    "Estimates": "inspection.cost_estimate",
    "Federation": "graphs.federation",
    "Imported": "importing.from_python",
    "InputError": "errors",
    "Inspection": "inspection.findings",
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
    "ResultTable": "result_table",
    "Results": "experiments.report.results",
    "Round": "training.rounds",
    "Rows": "graphs.alignment",
    "Run": "training.saved_run",
    "RunError": "errors",
    "Shared": "graphs.alignment",
    "SharedTable": "methods.exchange",
    "Strategy": "methods.base",
    "Tables": "models.base",
    "Training": "training.local_run",
    "Tuning": "experiments.tuning",
    "Upload": "methods.exchange",
    "estimate_cost": "inspection.from_python",
    "export": "exporting.registry",
    "import_client": "importing.from_python",
    "inspect": "inspection.from_python",
    "report": "experiments.report",
    "setting": "settings",
    "train": "training.local_run",
    "tune": "experiments.tuning",
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
    "Estimates",
    "Federation",
    "Imported",
    "InputError",
    "Inspection",
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
    "ResultTable",
    "Results",
    "Round",
    "Rows",
    "Run",
    "RunError",
    "Shared",
    "SharedTable",
    "Strategy",
    "Tables",
    "Training",
    "Tuning",
    "Upload",
    "estimate_cost",
    "export",
    "import_client",
    "inspect",
    "report",
    "setting",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `import pfedeg` and the command line start quickly."""
    if name in _MODULES:
        return getattr(import_module(f"pfedeg.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'pfedeg' has no attribute {name!r}")
