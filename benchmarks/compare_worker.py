"""One checkout's half of compare.py: reads a column per line, answers with seconds. It runs in a separate process.

Checkouts differ in their modules: `current` imports the layout of today, `former` that of 32c9117 and before.
"""

# mypy: ignore-errors
# (it imports modules of two checkouts, of which only one is there)
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

DIM, BATCH, NEGATIVES, CHUNK, PULL = 128, 512, 256, 64, 3e-3
ENTITIES, RELATIONS, TRIPLES, HELD_OUT = 12_843, 79, 92_000, 4_000  # as one client of FB15k-237-Fed3
Work = Callable[[], object]


# ruff: noqa: F401 (imports are returned as they are)


def current() -> dict[str, Any]:
    """What the worker needs of today's modules."""
    from pfedeg import aligned_arrays
    from pfedeg.engine.compiled.engine import CompiledEngine as Fused
    from pfedeg.engine.interface import Absorb, Batches, Knowledge, Positives, Recipe, positives, questions
    from pfedeg.graphs.alignment import Rows, Shared
    from pfedeg.graphs.federation import Federation
    from pfedeg.graphs.knowledge_graph import KnowledgeGraph
    from pfedeg.methods import affinity, mixing
    from pfedeg.models.base import Tables, start_rows
    from pfedeg.models.registry import MODELS
    from pfedeg.objectives.self_adversarial import SelfAdversarial
    from pfedeg.optimizers.adam import Adam

    def train(engine: Any, model: Any, tables: Any, pull: float, known: Any, part: Any, sampling: Any) -> Work:
        adam = Adam()
        batches = Batches(epochs=1, size=BATCH, negatives=NEGATIVES, sampling=sampling, chunk=CHUNK)
        recipe = Recipe(model, SelfAdversarial(), adam, batches, Absorb(pull=pull))
        tables = Tables(*(aligned_arrays.copy(table) for table in tables))  # else each call copies them
        known = aligned_arrays.copy(known)
        state = {name: aligned_arrays.copy(array) for name, array in adam.init(tables).items()}
        return lambda: engine.train(recipe, tables, state, Knowledge(known, known[:0]), part, 7)

    mix, mean, weights = mixing.mix, mixing.mean, affinity.distance_weights
    return locals()


def former() -> dict[str, Any]:
    """The same at 32c9117."""
    names = ("federation", "graph", "kernels", "kernels.fused", "models", "shared", "strategies", "strategies.affinity")
    api = {name: value for module in names for name, value in vars(import_module(f"pfedeg.{module}")).items()}

    def train(engine: Any, model: Any, tables: Any, pull: float, known: Any, part: Any, sampling: str) -> Work:
        local = api["Local"](epochs=1, batch=BATCH, negatives=NEGATIVES, sampling=sampling, chunk=CHUNK)
        state, absorb = api["Moments"].zeros(tables), api["Absorb"](pull=pull)
        knowledge = api["Knowledge"](known, known[:0])
        return lambda: engine.train(model, local, absorb, tables, state, knowledge, part, 7)

    return api | {"train": train, "weights": api["distance_weights"]}


def synthetic_graph(kind: Any) -> Any:
    """A random graph of the size of one client of FB15k-237-Fed3, as skewed as it is."""
    rng = np.random.default_rng(0)
    wanted = TRIPLES + 2 * HELD_OUT
    drawn = wanted + wanted // 8  # some triples are drawn twice
    h, t = (rng.permutation(ENTITIES)[(ENTITIES * rng.random(drawn) ** 3).astype(np.int32)] for _ in range(2))
    r = (RELATIONS * rng.random(drawn) ** 3).astype(np.int32)
    ids = np.unique(np.stack([h, r, t], 1).astype(np.int32), axis=0)
    ids = ids[rng.permutation(len(ids))][:wanted]
    parts = np.split(ids, [len(ids) - 2 * HELD_OUT, len(ids) - HELD_OUT])
    names = [tuple(f"{letter}{i}" for i in range(n)) for letter, n in (("e", ENTITIES), ("r", RELATIONS))]
    return kind(*names, *(np.ascontiguousarray(part) for part in parts))


class Worker:
    """One checkout, with everything that it has prepared so far."""

    def __init__(self, api: dict[str, Any], data: str | None, triples: int) -> None:
        """Reads or draws the graph."""
        self.api, self.triples = api, triples
        kind = api["KnowledgeGraph"]
        self.graph = next(iter(api["Federation"].read(Path(data)).graphs.values())) if data else synthetic_graph(kind)
        self.positives = api["positives"](self.graph)
        self.prepare = cache(self._prepare)

    def seconds(self, column: str) -> float:
        """Do the work of a column once; the first time also compiles and is not measured."""
        work = self.prepare(column)
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def _prepare(self, column: str) -> Work:
        task, what, number = column.split("/")
        work = self._server(task, int(what)) if task in ("mix", "mean", "weights") else self._client(task, what, number)
        work()
        return work

    def _client(self, task: str, name: str, threads: str) -> Work:
        api, graph = self.api, self.graph
        model, engine = api["MODELS"][name](DIM), api["Fused"](int(threads))
        entity = api["start_rows"](model, model.entity_width, 1, np.arange(len(graph.entities)))
        relation = api["start_rows"](model, model.relation_width, 2, np.arange(len(graph.relations)))
        tables = api["Tables"](entity, relation).copy()
        if task == "rank":
            asked, _ = api["questions"](graph.test[:HELD_OUT], graph.known(), len(graph.relations))
            queries = np.ascontiguousarray(model.compose(entity[asked.given], relation[asked.relation]), np.float32)
            return lambda: engine.ranks(model, tables, queries, asked)
        triples, group, start, tails = self.positives
        part = api["Positives"](triples[: self.triples], group[: self.triples], start, tails)
        pull = PULL if task == "own" else 0.0
        work: Work = api["train"](engine, model, tables, pull, tables.copy().entity, part, task)
        return work

    def _server(self, task: str, clients: int) -> Work:
        """Ids with three owners each, at random distances around the circle of clients."""
        api, rng, owners, ids = self.api, np.random.default_rng(0), 3, 60_000
        first = rng.integers(0, clients, (ids, 1))
        gaps = rng.integers(1, max(2, (clients - 1) // owners + 1), (ids, owners - 1))
        owner = ((first + np.cumsum(np.append(0 * first, gaps, 1), 1)) % clients).ravel()
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(1, clients))
        parts = np.split((order // owners).astype(np.int32), ends)
        shared = api["Shared"]({f"c{i:04}": part for i, part in enumerate(parts)})
        latest = {
            client: api["Rows"](own, rng.random((len(own), DIM), np.float32) - np.float32(0.5))
            for client, own in shared.travelling.items()
        }
        even = np.full((clients, clients), 1 / clients)
        works: dict[str, Work] = {
            "mix": lambda: api["mix"](shared, latest, even, 0.5, shared.clients, None),
            "mean": lambda: api["mean"](shared, latest, shared.clients, None),
            "weights": lambda: api["weights"](shared, latest, "sum", None),
        }
        return works[task]


def main() -> None:
    """Answer until the input ends."""
    data, triples = json.loads(sys.argv[1])
    try:
        api = current()
    except ImportError:
        api = former()
    worker = Worker(api, data, triples)
    for line in sys.stdin:
        print(worker.seconds(line.strip()), flush=True)


if __name__ == "__main__":
    main()
