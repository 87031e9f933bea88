"""Personalised federated knowledge graph embedding: PFedEG, its ablations and its baselines."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfedeg.config import Config as Config
    from pfedeg.errors import InputError as InputError
    from pfedeg.errors import PfedegError as PfedegError
    from pfedeg.errors import RunError as RunError
    from pfedeg.federation import Federation as Federation
    from pfedeg.graph import KnowledgeGraph as KnowledgeGraph
    from pfedeg.kernels import Absorb as Absorb
    from pfedeg.prediction import Run as Run
    from pfedeg.shared import Rows as Rows
    from pfedeg.shared import Shared as Shared
    from pfedeg.training import Training as Training
    from pfedeg.training import train as train

_HOMES = {
    "Absorb": "kernels",
    "Config": "config",
    "Federation": "federation",
    "InputError": "errors",
    "KnowledgeGraph": "graph",
    "PfedegError": "errors",
    "Rows": "shared",
    "Run": "prediction",
    "RunError": "errors",
    "Shared": "shared",
    "Training": "training",
    "train": "training",
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
