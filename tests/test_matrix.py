"""Thinned test matrices leave only combinations to `make test-all`."""

import itertools

import pytest

from matrix import covering, matrix


@pytest.mark.parametrize(("strength", "most"), [(1, 4), (2, 14), (3, 30)])
def test_every_combination_of_this_many_values_occurs(strength: int, most: int) -> None:
    rows = list(itertools.product("abcd", [1, 2], [1.5, None, "x"], [True, False]))
    usual = covering(rows, strength)
    assert len(usual) <= most
    for columns in itertools.combinations(range(4), strength):
        assert {tuple(rows[i][c] for c in columns) for i in usual} == {tuple(row[c] for c in columns) for row in rows}


def test_rows_outside_the_thinned_matrix_are_marked_full() -> None:
    names, params = matrix(1, name=["a", "b", "c"], threads=[1, 2]).args
    assert names == ["name", "threads"]
    assert [param.values for param in params] == list(itertools.product("abc", [1, 2]))
    usual = [param.values for param in params if not param.marks]
    assert len(usual) == 3
    assert {values[0] for values in usual} == {"a", "b", "c"}
    assert {values[1] for values in usual} == {1, 2}
