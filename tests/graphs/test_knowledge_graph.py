"""The ids, known answers and equality of one client's graph."""

import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.errors import DataWarning
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph

TRIPLES = [("b", "s", "a"), ("a", "r", "b"), ("a", "r", "c")]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
triples = st.lists(st.tuples(names, names, names), min_size=1, max_size=30, unique=True)
dense = st.lists(st.tuples(*[st.integers(0, 5).map(str)] * 3), min_size=1, max_size=60, unique=True)


def test_ids_are_positions_in_the_sorted_names() -> None:
    graph = KnowledgeGraph.from_names(TRIPLES)
    assert graph.entities == ("a", "b", "c")
    assert graph.relations == ("r", "s")
    assert graph.train.tolist() == [[0, 0, 1], [0, 0, 2], [1, 1, 0]]
    assert graph.train.dtype == np.int32
    assert not graph.train.flags.writeable
    assert graph.named("train") == sorted(TRIPLES)
    assert graph.entity_ids["c"] == 2
    assert graph.relation_ids["s"] == 1


@given(st.permutations(TRIPLES))
def test_the_order_of_rows_does_not_matter(rows: list[tuple[str, str, str]]) -> None:
    one, other = KnowledgeGraph.from_names(rows), KnowledgeGraph.from_names(TRIPLES)
    assert (one.entities, one.relations) == (other.entities, other.relations)
    np.testing.assert_array_equal(one.train, other.train)


def test_duplicates_are_dropped_with_a_warning() -> None:
    with pytest.warns(DataWarning, match=r"^here: dropped 2 duplicate triple\(s\)$"):
        graph = KnowledgeGraph.from_names([*TRIPLES, TRIPLES[0]], [TRIPLES[1]] * 2, origin="here")
    assert (len(graph.train), len(graph.valid)) == (3, 1)


def test_names_that_differ_in_unicode_form_only_are_one() -> None:
    composed, decomposed = "Kraków", unicodedata.normalize("NFD", "Kraków")
    assert composed != decomposed
    graph = KnowledgeGraph.from_names([(composed, "in", "Poland"), (decomposed, "on", "Vistula")])
    assert graph.entities == (composed, "Poland", "Vistula")


def test_an_entity_of_valid_or_test_only_keeps_a_row() -> None:
    graph = KnowledgeGraph.from_names([("a", "r", "b")], [("a", "r", "v")], [("t", "s", "a")])
    assert graph.entities == ("a", "b", "t", "v")
    assert graph.relations == ("r", "s")
    assert [len(graph.triples(split)) for split in SPLITS] == [1, 1, 1]


def test_known_holds_the_true_answers_of_every_question() -> None:
    graph = KnowledgeGraph.from_names(TRIPLES, [("a", "r", "a")])
    tails, heads = graph.known("tail"), graph.known("head", ("train",))
    assert tails.keys.tolist() == [0, 3]  # (a, r) and (b, s)
    assert [tails.answers[i:j].tolist() for i, j in zip(tails.start, tails.start[1:], strict=False)] == [[0, 1, 2], [0]]
    assert heads.keys.tolist() == [1, 2, 4]  # (s, a), (r, b), (r, c)
    assert heads.answers.tolist() == [1, 0, 0]


def test_graphs_are_equal_by_content() -> None:
    graph = KnowledgeGraph.from_names(TRIPLES, TRIPLES[:1])
    assert graph == KnowledgeGraph.from_names(TRIPLES[::-1], TRIPLES[:1])
    assert graph != KnowledgeGraph.from_names(TRIPLES, TRIPLES[1:2])
    assert graph != KnowledgeGraph.from_names([(h.upper(), r, t.upper()) for h, r, t in TRIPLES], TRIPLES[:1])
    assert graph != "graph"
    assert graph != replace(graph, labels={"a": "Alpha"})
    assert graph == replace(graph, labels={"unknown": "?"})  # not a name of this graph
    with pytest.raises(TypeError, match="unhashable"):
        hash(graph)
