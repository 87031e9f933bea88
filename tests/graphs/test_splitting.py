"""Random splits of one graph."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.graphs.knowledge_graph import SPLITS
from pfedeg.graphs.splitting import split_graph

dense = st.lists(st.tuples(*[st.integers(0, 5).map(str)] * 3), min_size=1, max_size=60, unique=True)


@given(dense, st.integers(0, 3))
def test_a_split_keeps_every_entity_and_relation_in_train(rows: list[tuple[str, str, str]], seed: int) -> None:
    graph = split_graph(rows, seed)
    train = graph.named("train")
    assert {name for h, _, t in train for name in (h, t)} == {name for h, _, t in rows for name in (h, t)}
    assert {r for _, r, _ in train} == {r for _, r, _ in rows}
    assert sorted(train + graph.named("valid") + graph.named("test")) == sorted(rows)
    assert len(graph.valid) + len(graph.test) <= len(rows) // 5
    assert len(graph.valid) - len(graph.test) in (0, 1)


@given(st.permutations(range(12)), st.integers(0, 3))
def test_a_split_depends_on_content_and_seed_alone(order: list[int], seed: int) -> None:
    rows = [(f"{i % 4}", "r", f"{i // 3}") for i in range(12)]
    one, other = split_graph([rows[i] for i in order], seed), split_graph(rows, seed)
    for split in SPLITS:
        np.testing.assert_array_equal(one.triples(split), other.triples(split))


def test_a_dense_graph_is_split_by_the_protocol() -> None:
    rows = [(str(h), str(r), str(t)) for h in range(10) for r in range(2) for t in range(10)]
    graph = split_graph(rows, 0)
    assert [len(graph.triples(split)) for split in SPLITS] == [160, 20, 20]
    assert split_graph(rows, 1).named("test") != graph.named("test")
    assert not graph.valid.flags.writeable
