"""Arrays aligned to cache lines; results do not depend on the alignment of a caller's arrays."""

import numpy as np
import pytest

from pfedeg import aligned_arrays
from pfedeg.engine.compiled.engine import CompiledEngine
from pfedeg.engine.interface import Absorb, Knowledge, positives
from pfedeg.models.base import Tables
from pfedeg.models.registry import MODELS
from pfedeg.optimizers.adam import Adam
from recipes import fresh, recipe
from toy import toy_graph, toy_tables


@pytest.mark.parametrize("shape", [(0, 8), (1, 1), (3, 5), (7, 128)])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_arrays_start_on_a_cache_line(shape, kind):
    for _ in range(5):
        for array in (aligned_arrays.empty(shape, kind), aligned_arrays.zeros(shape, kind)):
            assert array.shape == shape
            assert array.dtype == kind
            assert aligned_arrays.is_aligned(array)
    assert not aligned_arrays.zeros(shape, kind).any()


def test_copies_share_no_memory():
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    copy = aligned_arrays.copy(rows)
    np.testing.assert_array_equal(copy, rows)
    assert copy.dtype == rows.dtype
    copy[0, 0] = 9
    assert rows[0, 0] == 0


def test_arrays_that_are_not_aligned_are_recognised():
    memory = aligned_arrays.zeros((4, 16), np.float32)
    assert aligned_arrays.is_aligned(memory[1:])
    assert not aligned_arrays.is_aligned(memory[:, 1:])
    assert not aligned_arrays.is_aligned(memory.reshape(-1)[1:])


def shifted(array, numbers):
    """A copy that starts this many numbers after a cache line boundary."""
    memory = aligned_arrays.zeros((array.size + numbers,), np.float32)[numbers:]
    memory[:] = array.ravel()
    return memory.reshape(array.shape)


@pytest.mark.parametrize("dim", [8, 16])  # rows that the engine copies anyway, and rows that it takes as they are
def test_training_and_ranking_do_not_depend_on_where_arrays_begin(dim):
    model, graph, results = MODELS["complex"](dim), toy_graph(1), []
    for numbers in (0, 1, 5):
        tables, state = toy_tables(1, model, graph), fresh(toy_tables(1, model, graph))
        known = shifted(toy_tables(2, model, graph).entity, numbers)
        tables = Tables(*(shifted(table, numbers) for table in tables))
        state = {name: shifted(array, numbers) if array.ndim == 2 else array for name, array in state.items()}
        settings = {"epochs": 2, "batch": 16, "negatives": 5, "lr": 0.05}
        loss = CompiledEngine(1).train(
            recipe(model, Absorb(pull=0.1), **settings), tables, state, Knowledge(known, known[:0]), positives(graph), 3
        )
        scores = CompiledEngine(1).scores(model, tables, tables.entity[:5])
        results.append([loss, scores.tobytes(), *(array.tobytes() for array in (*tables, *state.values()))])
    assert results[1:] == results[:1] * 2


def test_training_gets_aligned_tables():
    tables = Tables(np.zeros((5, 16), np.float32), np.zeros((2, 16), np.float32)).copy()
    arrays = [*tables, *(array for name, array in Adam().init(tables).items() if name != "steps")]
    assert all(aligned_arrays.is_aligned(array) for array in arrays)
