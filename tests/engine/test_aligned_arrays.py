"""Arrays that begin with a line of the cache."""

import numpy as np
import pytest

from pfedeg.models.base import Tables
from pfedeg.engine.lowlevel import aligned_arrays
from pfedeg.models.transe import TransE
from recipes import fresh
from toy import toy_graph, toy_tables


@pytest.mark.parametrize("shape", [(0, 8), (1, 1), (3, 5), (7, 128)])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_arrays_begin_with_a_line(shape, kind):
    for _ in range(5):
        for array in (aligned_arrays.empty(shape, kind), aligned_arrays.zeros(shape, kind)):
            assert array.shape == shape
            assert array.dtype == kind
            assert aligned_arrays.begins_line(array)
    assert not aligned_arrays.zeros(shape, kind).any()


def test_a_copy_is_its_own():
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    copy = aligned_arrays.copy(rows)
    np.testing.assert_array_equal(copy, rows)
    assert copy.dtype == rows.dtype
    copy[0, 0] = 9
    assert rows[0, 0] == 0


def test_what_does_not_begin_a_line_is_told_apart():
    memory = aligned_arrays.zeros((4, 16), np.float32)
    assert aligned_arrays.begins_line(memory[1:])
    assert not aligned_arrays.begins_line(memory[:, 1:])
    assert not aligned_arrays.begins_line(memory.reshape(-1)[1:])


def test_what_clients_train_with_begins_with_a_line():
    tables = toy_tables(1, TransE(8), toy_graph(1))
    for array in (*tables.copy(), *fresh(Tables(*tables))[:4], *fresh(tables).copy()[:4]):
        assert aligned_arrays.begins_line(array)
