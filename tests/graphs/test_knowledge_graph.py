"""Reading, numbering and splitting one client's triples."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.errors import DataWarning, InputError
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph, read_folder, split_graph
from pfedeg.graphs.triples import write_tsv

TRIPLES = [("b", "s", "a"), ("a", "r", "b"), ("a", "r", "c")]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
triples = st.lists(st.tuples(names, names, names), min_size=1, max_size=30, unique=True)
dense = st.lists(st.tuples(*[st.integers(0, 5).map(str)] * 3), min_size=1, max_size=60, unique=True)


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


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


def test_a_dense_graph_is_split_as_told() -> None:
    rows = [(str(h), str(r), str(t)) for h in range(10) for r in range(2) for t in range(10)]
    graph = split_graph(rows, 0)
    assert [len(graph.triples(split)) for split in SPLITS] == [160, 20, 20]
    assert split_graph(rows, 1).named("test") != graph.named("test")
    assert not graph.valid.flags.writeable


def test_folder_with_splits(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "a\tr\tb\n")
    write(tmp_path / "test.tsv", "b\tr\tc\n")
    graph = read_folder(tmp_path, 0)
    assert [graph.named(split) for split in SPLITS] == [[("a", "r", "b")], [], [("b", "r", "c")]]


def test_folder_with_one_unsplit_file_is_split_by_seed(tmp_path: Path) -> None:
    rows = [(f"{h}", "r", f"{t}") for h in range(6) for t in range(6)]
    write_tsv(tmp_path / "triples.tsv", rows)
    for seed in (0, 1):
        graph, expected = read_folder(tmp_path, seed), split_graph(rows, seed)
        assert [graph.named(split) for split in SPLITS] == [expected.named(split) for split in SPLITS]


@pytest.mark.parametrize("split", SPLITS)
def test_folder_with_both_kinds_is_refused(tmp_path: Path, split: str) -> None:
    for name in ("triples", split):
        write(tmp_path / f"{name}.tsv", "a\tr\tb\n")
    with pytest.raises(InputError, match=f"holds both triples.tsv and {split}.tsv; keep one of them$"):
        read_folder(tmp_path, 0)


def test_folder_without_training_triples_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "valid.tsv", "a\tr\tb\n")
    with pytest.raises(InputError, match=r"holds neither train\.tsv nor triples\.tsv$"):
        read_folder(tmp_path, 0)
    write(tmp_path / "train.tsv", "a\tr\tb\n")
    write(tmp_path / "test.tsv", "")
    with pytest.raises(InputError, match=r"test\.tsv: empty"):
        read_folder(tmp_path, 0)
