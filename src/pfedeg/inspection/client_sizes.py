"""What one client has: how much, what training hardly sees, and how connected its entities are."""

from dataclasses import dataclass

import numpy as np

from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.graphs.triples import sorted_unique

FOREMOST = 3  # entities that are named


@dataclass(frozen=True)
class Connected:
    """An entity of many triples."""

    name: str
    label: str | None
    triples: int


@dataclass(frozen=True)
class Degrees:
    """Triples per entity, over all splits; a triple of an entity with itself counts once."""

    median: int
    ninety: int  # nine tenths of the entities have at most so many
    most: int
    foremost: tuple[Connected, ...]


@dataclass(frozen=True)
class Sizes:
    """One client in numbers."""

    entities: int
    relations: int
    train: int
    valid: int
    test: int
    not_in_train: int  # entities that occur in valid or test only
    of_one_triple: int  # entities that occur in a single triple
    degrees: Degrees


def sizes(graph: KnowledgeGraph) -> Sizes:
    """The numbers of one graph."""
    entities, relations = len(graph.entities), len(graph.relations)
    trained = np.zeros(entities, np.bool_)
    trained[graph.train[:, [0, 2]]] = True
    together = np.concatenate([graph.triples(split) for split in SPLITS])
    heads, _, tails = sorted_unique(together, entities, relations).T
    degree = np.bincount(heads, minlength=entities) + np.bincount(tails[tails != heads], minlength=entities)
    median, ninety, most = np.quantile(degree, (0.5, 0.9, 1), method="inverted_cdf").astype(int).tolist()
    foremost = [(graph.entities[i], int(degree[i])) for i in np.argsort(-degree, kind="stable")[:FOREMOST].tolist()]
    connected = tuple(Connected(name, graph.labels.get(name), number) for name, number in foremost)
    return Sizes(
        entities=entities,
        relations=relations,
        train=len(graph.train),
        valid=len(graph.valid),
        test=len(graph.test),
        not_in_train=int((~trained).sum()),
        of_one_triple=int((degree == 1).sum()),
        degrees=Degrees(median, ninety, most, connected),
    )
