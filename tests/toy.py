"""Small random graphs, tables and federations that tests share."""

import numpy as np

from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triples import Ids, sorted_unique
from pfedeg.models.base import Mat, Model, Tables


def toy_graph(
    seed: int, entities: int = 12, relations: int = 3, triples: int = 40, held_out: int = 0, first: int = 0
) -> KnowledgeGraph:
    """Distinct random triples, `held_out` of them in valid and as many in test; names start at e{first}."""
    rng = np.random.default_rng(seed)
    total = entities * relations * entities
    packed = rng.choice(total, min(triples, total), replace=False)
    rest, tail = np.divmod(packed, entities)
    return graph_of(
        np.stack([rest // relations, rest % relations, tail], 1), entities, relations, held_out=held_out, first=first
    )


def graph_of(triples: Ids, entities: int, relations: int, held_out: int = 0, first: int = 0) -> KnowledgeGraph:
    """A graph of given triples: the first `held_out` are valid, the next test, the rest train."""
    valid, test, train = np.split(np.asarray(triples, np.int32), [held_out, 2 * held_out])
    splits = (sorted_unique(part, entities, relations) for part in (train, valid, test))
    names = tuple(f"e{first + i:03}" for i in range(entities))
    return KnowledgeGraph(names, tuple(f"r{i}" for i in range(relations)), *splits)


def toy_tables(seed: int, model: Model, graph: KnowledgeGraph) -> Tables:
    """Random tables, uniform in ±[0.3, 1]: no row is so small that its cosines are badly conditioned."""
    rng = np.random.default_rng(seed)

    def rows(number: int, width: int) -> Mat:
        return (rng.uniform(0.3, 1, (number, width)) * rng.choice([-1, 1], (number, width))).astype(np.float32)

    return Tables(
        rows(len(graph.entities), model.entity_width),
        rows(len(graph.relations), model.relation_width),
    )


def toy_federation(clients: int = 3, entities: int = 14, triples: int = 60, held_out: int = 6) -> Federation:
    """Clients whose ranges of entities overlap by two thirds, and whose relations differ but have the same names."""
    step = entities // 3
    return Federation(
        {f"client-{c}": toy_graph(c, entities, 2 + c % 2, triples, held_out, first=c * step) for c in range(clients)}
    )
