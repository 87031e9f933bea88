"""Personalised federated knowledge graph embedding: PFedEG, its ablations and its baselines."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfedeg.engine.interface import Absorb as Absorb
    from pfedeg.errors import InputError as InputError
    from pfedeg.errors import PfedegError as PfedegError
    from pfedeg.errors import RunError as RunError
    from pfedeg.graphs.alignment import Rows as Rows
    from pfedeg.graphs.alignment import Shared as Shared
    from pfedeg.graphs.federation import Federation as Federation
    from pfedeg.graphs.knowledge_graph import KnowledgeGraph as KnowledgeGraph
    from pfedeg.training.config import Config as Config
    from pfedeg.training.local_run import Training as Training
    from pfedeg.training.local_run import train as train
    from pfedeg.training.saved_run import Run as Run

_HOMES = {
    "Absorb": "engine.interface",
    "Config": "training.config",
    "Federation": "graphs.federation",
    "InputError": "errors",
    "KnowledgeGraph": "graphs.knowledge_graph",
    "PfedegError": "errors",
    "Rows": "graphs.alignment",
    "Run": "training.saved_run",
    "RunError": "errors",
    "Shared": "graphs.alignment",
    "Training": "training.local_run",
    "train": "training.local_run",
}
__all__ = [
    "Absorb",
    "Config",
    "Federation",
    "InputError",
    "KnowledgeGraph",
    "PfedegError",
    "Rows",
    "Run",
    "RunError",
    "Shared",
    "Training",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first asked for, so that the command line answers at once."""
    if name in _HOMES:
        return getattr(import_module(f"pfedeg.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'pfedeg' has no attribute {name!r}")
