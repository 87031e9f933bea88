"""What a client has learned, as every format writes it."""

from dataclasses import dataclass

from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import Model, Tables


@dataclass(frozen=True)
class Trained:
    """Tables, the names of their rows, and the model that gives them a meaning."""

    client: ClientId
    kind: str  # of the model, by the name it has on the command line
    model: Model
    graph: KnowledgeGraph
    tables: Tables

    @property
    def about(self) -> dict[str, str | int | float]:
        """What a reader must know to compute scores."""
        return {"client": self.client, "model": self.kind, "dim": self.model.dim, "gamma": self.model.gamma}
