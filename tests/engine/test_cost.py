"""What the kernels cost, without a stopwatch: vector instructions, bytes, and our own kernels compared in one run."""

import gc
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from matrix import matrix
from pfedeg import aligned_arrays
from pfedeg.engine.compiled.engine import CompiledEngine
from pfedeg.engine.interface import Absorb, Knowledge, Positives, positives, questions
from pfedeg.engine.lowlevel.compile import Team, jit
from pfedeg.engine.reference import NumpyEngine
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import Mat, Tables
from pfedeg.models.registry import MODELS
from recipes import fresh, recipe
from toy import toy_graph, toy_tables

# Arithmetic on single-precision numbers, several at a time and one at a time.
PACKED = re.compile(r"\tv?(?:add|sub|mul|fn?m(?:add|sub)\d+)ps\b|\tf(?:add|sub|mul|mla|mls)\tv\d+\.[24]s")
SINGLE = re.compile(r"\tv?(?:add|sub|mul|fn?m(?:add|sub)\d+)ss\b|\tf(?:add|sub|mul|madd|msub)\ts\d+")


def train(
    kernels: Any, name: str, graph: KnowledgeGraph, local: dict[str, Any], dim: int, part: int | None = None
) -> None:
    """One call on fresh tables, with the pull where negatives are own ones."""
    model = MODELS[name](dim)
    tables = toy_tables(1, model, graph)
    known: Mat = tables.entity * np.float32(0.9)
    absorb = Absorb(pull=0.03 if local.get("sampling", "own") == "own" else 0.0)
    triples, group, start, tails = positives(graph)
    chosen = Positives(triples[:part], group[:part], start, tails)
    kernels.train(recipe(model, absorb, **local), tables, fresh(tables), Knowledge(known, known[:0]), chosen, 5)


def rank(kernels: Any, name: str, graph: KnowledgeGraph, dim: int, part: int | None = None) -> None:
    model = MODELS[name](dim)
    tables = toy_tables(1, model, graph)
    asked, _ = questions(graph.train[:part], graph.known(), len(graph.relations))
    queries = model.compose(tables.entity[asked.given], tables.relation[asked.relation])
    kernels.ranks(model, tables, np.ascontiguousarray(queries, np.float32), asked)


def least(work: Callable[[], None], repeats: int = 5) -> float:
    """The least processor time of several runs: what others do on the machine hardly counts."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def peak_bytes(work: Callable[[], None]) -> int:
    """Most memory that is allocated at a time while working."""
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- instructions ---


@matrix(1, name=["transe", "rotate", "complex"], task=["own", "shared", "rank"])
def test_compiled_kernels_compute_with_vectors(name, task, monkeypatch):
    compiled, graph, kernels = [], toy_graph(1), CompiledEngine(1)
    run = Team.run

    def watched(team: Team, function: Any, *arguments: Any) -> None:
        compiled.append((function, arguments))
        run(team, function, *arguments)

    monkeypatch.setattr(Team, "run", watched)
    if task == "rank":
        rank(kernels, name, graph, 4)
    else:
        train(kernels, name, graph, {"batch": 8, "negatives": 5, "sampling": task}, 4)
    instructions = assembly(*compiled[-1])
    packed, single = len(PACKED.findall(instructions)), len(SINGLE.findall(instructions))
    assert packed > 2 * single


def assembly(function: Any, arguments: tuple[Any, ...]) -> str:
    """Machine code as text, compiled anew: what comes from the cache cannot be read."""
    again: Any = jit(function.py_func)
    again.compile(tuple(numba.typeof(each) for each in (0, 1, np.zeros(1, np.int64), *arguments)))
    (text,) = again.inspect_asm().values()
    return str(text)


def test_the_count_of_vector_instructions_tells_vectors_from_single_numbers():
    @jit
    def together(a, b):
        for k in range(len(a)):
            a[k] = a[k] * b[k] + b[k]

    @jit
    def alone(a, b):
        for k in range(1, len(a)):
            a[k] = a[k - 1] * b[k] + b[k]  # each waits for the one before

    counts = []
    for function in (together, alone):
        kind: Any = function
        kind.compile("(float32[::1], float32[::1])")
        text = str(next(iter(kind.inspect_asm().values())))
        counts.append((len(PACKED.findall(text)), len(SINGLE.findall(text))))
    assert counts[0][0] > 0
    assert counts[1][0] == 0
    assert counts[1][1] > 0


# --- bytes ---


def aligned(tables: Tables) -> Tables:
    """Tables that the engine takes as they are."""
    return Tables(*(aligned_arrays.copy(table) for table in tables))


@pytest.mark.parametrize("sampling", ["own", "shared"])
def test_training_needs_no_second_table(sampling):
    """Neither gradients of the size of the table nor anything per pair and dimension."""
    graph, model = toy_graph(2, entities=20_000, relations=3, triples=256), MODELS["transe"](128)
    local = {"epochs": 1, "batch": 128, "negatives": 16, "sampling": sampling}
    tables = aligned(toy_tables(1, model, graph))
    known, facts, kernels = aligned_arrays.copy(tables.entity), positives(graph), CompiledEngine(1)
    moments = {name: aligned_arrays.copy(array) for name, array in fresh(tables).items()}

    def work() -> None:
        kernels.train(recipe(model, Absorb(pull=0.03), **local), tables, moments, Knowledge(known, known[:0]), facts, 5)

    assert peak_bytes(work) < tables.entity.nbytes / 2


def test_ranking_keeps_no_scores_of_all_candidates():
    graph, model = toy_graph(2, entities=20_000, relations=3, triples=500), MODELS["transe"](32)  # no copy to pad rows
    tables = aligned(toy_tables(1, model, graph))
    asked, _ = questions(graph.train, graph.known(), len(graph.relations))
    queries = model.compose(tables.entity[asked.given], tables.relation[asked.relation])
    sixteen = 4 * 16 * len(graph.entities)
    assert peak_bytes(lambda: discard(CompiledEngine(1).ranks(model, tables, queries, asked))) < sixteen / 4


def test_memory_does_not_grow_from_call_to_call():
    graph, kernels = toy_graph(3, entities=1_000, triples=2_000), CompiledEngine(1)
    local = {"epochs": 1, "batch": 64, "negatives": 8}
    table = 4 * 64 * len(graph.entities)
    train(kernels, "transe", graph, local, 64)
    tracemalloc.start()
    try:
        before = held_bytes()
        for _ in range(10):
            train(kernels, "transe", graph, local, 64)
        assert held_bytes() - before < table
    finally:
        tracemalloc.stop()


def held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def discard(_: object) -> None:
    """Take a result and keep nothing of it."""


# --- our kernels compared with each other, by processor time and with generous ratios ---


@matrix(1, name=["transe", "rotate", "complex"], sampling=["own", "shared"])
def test_compiled_training_is_several_times_faster_than_numpy(name, sampling):
    graph, local = (
        toy_graph(4, entities=2_000, triples=256),
        {"epochs": 1, "batch": 128, "negatives": 128, "sampling": sampling},
    )
    compiled = CompiledEngine(1)
    train(compiled, name, graph, local, 64)
    numpy_time = least(lambda: train(NumpyEngine(), name, graph, local, 64), repeats=2)
    assert least(lambda: train(compiled, name, graph, local, 64)) < numpy_time / 4


@pytest.mark.parametrize("name", ["transe", "rotate", "complex"])
def test_compiled_ranking_is_faster_than_numpy(name):
    graph, compiled = toy_graph(4, entities=2_000, triples=256), CompiledEngine(1)
    rank(compiled, name, graph, 64)
    numpy_time = least(lambda: rank(NumpyEngine(), name, graph, 64), repeats=3)
    assert least(lambda: rank(compiled, name, graph, 64)) < numpy_time / 2


@pytest.mark.parametrize("sampling", ["own", "shared"])
def test_four_times_the_triples_cost_four_times_as_much(sampling):
    """Within a factor of two: what is quadratic would cost sixteen times as much."""
    graph, compiled = toy_graph(5, entities=1_000, triples=16_384), CompiledEngine(1)
    local = {"epochs": 1, "batch": 128, "negatives": 32, "sampling": sampling}
    train(compiled, "transe", graph, local, 32, part=128)
    few, many = (least(lambda part=part: train(compiled, "transe", graph, local, 32, part)) for part in (4_096, 16_384))
    assert many < 8 * few
