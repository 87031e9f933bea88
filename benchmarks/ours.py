"""Our kernels as the benchmarks run them: graphs of any size, and triples per second on them."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from pfedeg.engine.compiled.engine import CompiledEngine
from pfedeg.engine.interface import Absorb, Knowledge, Local, Moments, Positives, Tables, positives, questions
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import Tables, start_rows
from pfedeg.models.registry import MODELS

Sampling = Literal["own", "shared"]
NAMES = {"transe": "TransE", "rotate": "RotatE", "complex": "ComplEx"}
DIM, BATCH, NEGATIVES, CHUNK = 128, 512, 256, 64
PULL = 3e-3


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
        raise InputError(f"{entities} entities are too few for {wanted:,} different triples: ask for more entities")
    parts = np.split(ids[:wanted], [triples, triples + held_out])
    train, valid, test = (np.ascontiguousarray(part) for part in parts)
    names = [tuple(f"{kind}{i}" for i in range(n)) for kind, n in (("e", entities), ("r", relations))]
    return KnowledgeGraph(names[0], names[1], train, valid, test)


def read_graph(data: Path | None, entities: int | None = None) -> KnowledgeGraph:
    """The first client of FB15k-237-Fed3, or a synthetic graph of its size or of so many entities."""
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
    """The shortest of several times, in at least so many seconds: where machines are noisy, haste is no help."""
    times = list[float]()
    while len(times) < repeats or sum(times) < least:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


class Ours:
    """One model's tables on a graph, and the seconds that our kernels take there."""

    def __init__(self, graph: KnowledgeGraph, name: str, threads: int, dim: int = DIM, least: float = 0.0) -> None:
        """Tables at their start; everything is measured for at least so many seconds."""
        self.graph, self.model, self.kernels, self.least = graph, MODELS[name](dim), CompiledEngine(threads), least
        model = self.model
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
        local = Local(epochs=1, batch=BATCH, negatives=negatives, sampling=sampling, chunk=chunk)
        tables = self.tables.copy()
        moments, known = Moments.zeros(tables), self.tables.copy().entity
        part = Positives(self.positives.triples[:triples], self.positives.group[:triples], *self.positives[2:])
        knowledge = Knowledge(known, known[:0])

        def work(part: Positives = part) -> None:
            self.kernels.train(self.model, local, Absorb(pull=pull), tables, moments, knowledge, part, 7)

        work(Positives(part.triples[:BATCH], part.group[:BATCH], *part[2:]))  # compiles
        return best_of(repeats, work, self.least)

    def rank_seconds(self, repeats: int) -> float:
        """Filtered tail ranks of the test triples."""
        given, relation = self.tables.entity[self.questions.given], self.tables.relation[self.questions.relation]
        queries = np.ascontiguousarray(self.model.compose(given, relation), np.float32)

        def work() -> None:
            self.kernels.ranks(self.model, self.tables, queries, self.questions)

        work()  # compiles
        return best_of(repeats, work, self.least)
