"""The size of one client: triples, entities that training hardly sees, and triples per entity."""

from dataclasses import dataclass

import numpy as np

from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.graphs.triples import sorted_unique

TOP = 3  # most connected entities that are listed


@dataclass(frozen=True)
class ConnectedEntity:
    """One of the entities with most triples."""

    name: str
    label: str | None
    triples: int


@dataclass(frozen=True)
class Degrees:
    """Triples per entity in all splits; a triple that links an entity to itself counts once."""

    median: int
    percentile_90: int
    maximum: int
    top: tuple[ConnectedEntity, ...]


@dataclass(frozen=True)
class ClientSize:
    """The size of one client."""

    entities: int
    relations: int
    train: int
    valid: int
    test: int
    not_in_train: int  # entities that occur in valid or test only
    in_one_triple: int  # entities that occur in a single triple
    degrees: Degrees


def client_size(graph: KnowledgeGraph) -> ClientSize:
    """The size of a client with this graph."""
    entities, relations = len(graph.entities), len(graph.relations)
    trained = np.zeros(entities, np.bool_)
    trained[graph.train[:, [0, 2]]] = True
    together = np.concatenate([graph.triples(split) for split in SPLITS])
    heads, _, tails = sorted_unique(together, entities, relations).T
    degree = np.bincount(heads, minlength=entities) + np.bincount(tails[tails != heads], minlength=entities)
    median, percentile_90, maximum = np.quantile(degree, (0.5, 0.9, 1), method="inverted_cdf").astype(int).tolist()
    top = [(graph.entities[i], int(degree[i])) for i in np.argsort(-degree, kind="stable")[:TOP].tolist()]
    connected = tuple(ConnectedEntity(name, graph.labels.get(name), number) for name, number in top)
    return ClientSize(
        entities=entities,
        relations=relations,
        train=len(graph.train),
        valid=len(graph.valid),
        test=len(graph.test),
        not_in_train=int((~trained).sum()),
        in_one_triple=int((degree == 1).sum()),
        degrees=Degrees(median, percentile_90, maximum, connected),
    )
