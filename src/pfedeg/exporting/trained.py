"""The tables of one client of a finished run, as every exporter gets them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import Model, Tables
from pfedeg.settings import Value


@dataclass(frozen=True, eq=False)
class Trained:
    """Tables, the names of their rows, and the model that computes scores from them."""

    client: ClientId
    model_name: str  # as on the command line
    model: Model
    model_settings: Mapping[str, Value]  # such as gamma
    graph: KnowledgeGraph
    tables: Tables

    @property
    def about(self) -> dict[str, Value]:
        """What a reader needs to compute scores."""
        return {"client": self.client, "model": self.model_name, "dim": self.model.dim, **self.model_settings}
