"""Triples as a sequence that stores each name once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.graphs.triples import Triples, sort_names

few = st.sampled_from(["a", "b", "A", "é", "e\u0301"])
repeated = st.lists(st.tuples(few, few, few), max_size=20)


@given(repeated, st.integers(0, 20), st.integers(0, 20))
def test_triples_are_a_sequence_as_any_other(rows: list[tuple[str, str, str]], first: int, last: int) -> None:
    held = Triples.of(rows)
    assert (len(held), list(held), Triples.of(held)) == (len(rows), rows, held)
    assert list(held[first:last]) == rows[first:last]
    assert [held[place] for place in range(len(rows))] == rows
    assert len(set(held.entities)) == len(held.entities) == len({name for h, _, t in rows for name in (h, t)})
    with pytest.raises(IndexError):
        held[len(rows)]


@given(st.lists(repeated, min_size=1, max_size=4))
def test_parts_are_joined_one_after_the_other(parts: list[list[tuple[str, str, str]]]) -> None:
    rows = [row for part in parts for row in part]
    assert list(Triples.joined([Triples.of(part) for part in parts])) == rows
    whole = Triples.of(rows)
    again = Triples.joined([whole[: len(parts[0])], whole[len(parts[0]) :]])
    assert list(again) == rows
    assert again.entities is whole.entities


@given(repeated)
def test_names_are_put_in_order_and_unused_ones_have_no_place(rows: list[tuple[str, str, str]]) -> None:
    held = Triples.of(rows)
    some = held[::2]
    ordered, places = sort_names(some.entities, some.ids[:, [0, 2]], str.lower)
    assert ordered == tuple(sorted({name.lower() for h, _, t in rows[::2] for name in (h, t)}))
    for name, place in zip(some.entities, places.tolist(), strict=True):
        is_used = any(name in (h, t) for h, _, t in rows[::2])
        assert (ordered[place] == name.lower()) if is_used else (place == -1)
