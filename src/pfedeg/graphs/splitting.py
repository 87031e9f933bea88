"""Random splits: one graph into train, valid and test, or a graph's relations into the clients of a federation."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pfedeg import randomness
from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triples import Named, Triples, normal, sort_names


def split_graph(triples: Named, seed: int, *, origin: str = "graph") -> KnowledgeGraph:
    """Split 0.8 / 0.1 / 0.1 at random, keeping every entity and relation in train, as in FedE's protocol.

    Walk through the shuffled triples and hold one out if its head, tail and relation all still occur elsewhere in
    train, until a fifth is held out. Half of that is valid, half test.
    """
    graph = KnowledgeGraph.from_names(triples, origin=origin)
    ids = graph.train
    entities = np.bincount(ids[:, [0, 2]].ravel(), minlength=len(graph.entities)).tolist()
    relations = np.bincount(ids[:, 1], minlength=len(graph.relations)).tolist()
    goal = int(0.2 * len(ids))
    held: list[int] = []
    for index in randomness.permutation(randomness.key("split", seed), len(ids)).tolist():
        if len(held) == goal:
            break
        h, r, t = ids[index].tolist()
        entities[h] -= 1
        entities[t] -= 1
        if min(entities[h], entities[t]) > 0 and relations[r] > 1:
            relations[r] -= 1
            held.append(index)
        else:
            entities[h] += 1
            entities[t] += 1
    out = np.array(held, np.int64)
    valid, test = np.sort(out[len(out) // 2 :]), np.sort(out[: len(out) // 2])
    train = np.delete(ids, out, axis=0)
    parts = [train, ids[valid], ids[test]]
    for part in parts:
        part.flags.writeable = False
    return KnowledgeGraph(graph.entities, graph.relations, *parts)


def partition_relations(
    triples: Named, clients: int, seed: int, labels: Mapping[str, str] | None = None
) -> dict[str, KnowledgeGraph]:
    """Distribute the relations evenly at random over this number of clients, and split each client's triples anew."""
    whole = Triples.of(triples)
    relations, position = sort_names(whole.relations, whole.ids[:, 1], normal)
    if not 1 <= clients <= len(relations):
        limit = f"the graph has {len(relations)} relations, so 1 to {len(relations)} clients are possible"
        raise InputError(f"--clients {clients}: {limit}")
    order = randomness.permutation(randomness.key("partition", seed), len(relations))
    owner_of_relation = np.empty(len(relations), np.int64)
    owner_of_relation[order] = np.arange(len(relations)) % clients
    owner = owner_of_relation[position[whole.ids[:, 1]]]
    width = len(str(clients - 1))
    graphs = {}
    for client in range(clients):
        name = f"client-{client:0{width}}"
        graph = split_graph(whole.select(owner == client), seed, origin=name)
        graphs[name] = replace(graph, labels=labels or {})
    return graphs
