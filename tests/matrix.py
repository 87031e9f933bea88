"""Matrices of parameters: `make test` runs a part of the combinations, `make test-all` runs them all."""

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


def matrix(strength: int = 2, **values: Iterable[Any]) -> pytest.MarkDecorator:
    """A parametrisation by all combinations of the values; those that `make test` leaves out are marked `full`.

    Those that it runs have every combination of `strength` values: with 1 every value, with 2 every pair.
    """
    names, rows = list(values), list(itertools.product(*values.values()))
    usual = covering(rows, strength)
    params = [pytest.param(*row, marks=[] if place in usual else pytest.mark.full) for place, row in enumerate(rows)]
    return pytest.mark.parametrize(names, params)


def covering(rows: list[tuple[Any, ...]], strength: int) -> set[int]:
    """Places of a few rows in which every combination of `strength` values occurs that occurs in any row."""
    columns = range(len(rows[0]))
    values = [[(c, repr(row[c])) for c in columns] for row in rows]
    found = [set(itertools.combinations(each, strength)) for each in values]
    missing, usual, uses = set().union(*found), set(), Counter[tuple[int, str]]()
    while missing:  # the row that adds most; of equals, the one whose values occur least so far
        gains = [
            (len(new & missing), -sum(map(uses.__getitem__, each))) for new, each in zip(found, values, strict=True)
        ]
        best = gains.index(max(gains))
        usual.add(best)
        uses.update(values[best])
        missing -= found[best]
    return usual
