"""The compiled engine as the benchmarks run it: graphs of any size, and triples per second on them."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from pfedeg import aligned_arrays
from pfedeg.engine.compiled.engine import CompiledEngine
from pfedeg.engine.interface import Absorb, Batches, Knowledge, Positives, Recipe, positives, questions
from pfedeg.errors import InputError
from pfedeg.extras import require
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import Tables, start_rows
from pfedeg.models.registry import MODELS
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam

Sampling = Literal["own", "shared"]
NAMES = {"transe": "TransE", "rotate": "RotatE", "complex": "ComplEx"}
DIM, BATCH, NEGATIVES, CHUNK = 128, 512, 256, 64
PULL = 3e-3


def check_extra(extra: str, what: str, instead: str = "") -> None:
    """End with the line to type if a package of an extra is missing: before anything is measured."""
    try:
        require(extra, what, instead)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def synthetic_graph(
    entities: int = 12_843, triples: int = 92_000, held_out: int = 11_500, relations: int = 79
) -> KnowledgeGraph:
    """A random graph, by default of the size of one client of FB15k-237-Fed3 and skewed as it is."""
    rng = np.random.default_rng(0)
    wanted = triples + 2 * held_out
    drawn = wanted + wanted // 8  # some triples are drawn twice
    h, t = (rng.permutation(entities)[(entities * rng.random(drawn) ** 3).astype(np.int32)] for _ in range(2))
    r = (relations * rng.random(drawn) ** 3).astype(np.int32)
    ids = np.unique(np.stack([h, r, t], 1).astype(np.int32), axis=0)
    ids = ids[rng.permutation(len(ids))]
    if len(ids) < wanted:
        raise InputError(f"{entities} entities are too few for {wanted:,} different triples: use more entities")
    parts = np.split(ids[:wanted], [triples, triples + held_out])
    train, valid, test = (np.ascontiguousarray(part) for part in parts)
    names = [tuple(f"{kind}{i}" for i in range(n)) for kind, n in (("e", entities), ("r", relations))]
    return KnowledgeGraph(names[0], names[1], train, valid, test)


def read_graph(data: Path | None, entities: int | None = None) -> KnowledgeGraph:
    """The first client of FB15k-237-Fed3, or a synthetic graph of its size, or of another number of entities."""
    try:
        if data is None:
            return synthetic_graph(entities) if entities else synthetic_graph()
        return next(iter(Federation.read(data / "fb15k-237-fed3.parquet").graphs.values()))
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def count(text: str) -> int:
    """An option of the command line: a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def thread_count(text: str) -> int:
    """An option of the command line: how many threads, as many as `pfedeg train` takes at most."""
    number = count(text)
    if number > 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 1024")
    return number


def best_of(repeats: int, work: Callable[[], None], least: float = 0.0) -> float:
    """The shortest of several times, measured for at least this number of seconds."""
    times = list[float]()
    while len(times) < repeats or sum(times) < least:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


class Ours:
    """One model's tables on a graph, and the seconds that the compiled engine takes there."""

    def __init__(self, graph: KnowledgeGraph, name: str, threads: int, dim: int = DIM, least: float = 0.0) -> None:
        """Tables at their start; everything is measured for at least this number of seconds."""
        self.graph, self.model, self.least = graph, MODELS[name](dim), least
        self.engine, model = CompiledEngine(threads), self.model
        entity = start_rows(model, model.entity_width, 1, np.arange(len(graph.entities)))
        relation = start_rows(model, model.relation_width, 2, np.arange(len(graph.relations)))
        self.tables, self.positives = Tables(entity, relation), positives(graph)
        self.questions, _ = questions(graph.test, graph.known(), len(graph.relations))

    def train_seconds(
        self,
        sampling: Sampling,
        pull: float,
        repeats: int,
        triples: int | None = None,
        negatives: int = NEGATIVES,
        chunk: int = CHUNK,
    ) -> float:
        """One epoch over the first `triples` triples."""
        batches = Batches(epochs=1, size=BATCH, negatives=negatives, sampling=sampling, chunk=chunk)
        adam = Adam()
        recipe = Recipe(self.model, SelfAdversarial(), adam, batches, Absorb(pull=pull))
        tables = Tables(*(aligned_arrays.copy(table) for table in self.tables))  # else every call copies them
        state = {name: aligned_arrays.copy(array) for name, array in adam.init(tables).items()}
        known = aligned_arrays.copy(tables.entity)
        part = Positives(self.positives.triples[:triples], self.positives.group[:triples], *self.positives[2:])

        def work(part: Positives = part) -> None:
            self.engine.train(recipe, tables, state, Knowledge(known, known[:0]), part, 7)

        work(Positives(part.triples[:BATCH], part.group[:BATCH], *part[2:]))  # compiles
        return best_of(repeats, work, self.least)

    def rank_seconds(self, repeats: int) -> float:
        """Filtered tail ranks of the test triples."""
        given, relation = self.tables.entity[self.questions.given], self.tables.relation[self.questions.relation]
        queries = np.ascontiguousarray(self.model.compose(given, relation), np.float32)

        def work() -> None:
            self.engine.ranks(self.model, self.tables, queries, self.questions)

        work()  # compiles
        return best_of(repeats, work, self.least)
