"""Federations from folders and Parquet, their alignment, and partitions."""

import os
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.errors import DataWarning, InputError, RunError
from pfedeg.graphs import federation_files
from pfedeg.graphs.alignment import Rows, token
from pfedeg.graphs.federation import Federation, partition
from pfedeg.graphs.federation_files import read_pooled
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.graphs.splitting import split_graph
from pfedeg.graphs.triple_files import write_tsv
from pfedeg.methods.exchange import Upload

NFD = unicodedata.normalize("NFD", "Kraków")
ROWS = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")]
graph = KnowledgeGraph.from_names


def parquet(path: Path, **columns: Sequence[Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def contents(federation: Federation) -> dict[str, list[list[tuple[str, str, str]]]]:
    return {client: [g.named(split) for split in SPLITS] for client, g in federation.graphs.items()}


# Folders


def test_folder_round_trip(synthetic: Federation, tmp_path: Path) -> None:
    plain = Federation({name: synthetic.graphs[name] for name in ("birch", "ash")})
    plain.write(tmp_path / "deep" / "data")
    again = Federation.read(tmp_path / "deep" / "data")
    assert contents(again) == contents(plain)
    assert list(again.graphs) == ["ash", "birch"]
    assert again.fingerprint == plain.fingerprint


def test_folder_with_any_unicode_as_client_names(tmp_path: Path) -> None:
    for name in ("Österreich", "日本", "a b", "🌍"):
        (tmp_path / name).mkdir()
        write_tsv(tmp_path / name / "train.tsv", ROWS)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "README").touch()
    assert list(Federation.read(tmp_path).graphs) == sorted(["Österreich", "日本", "a b", "🌍"])


def test_folder_that_is_itself_one_client(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", ROWS)
    assert list(Federation.read(tmp_path).graphs) == [tmp_path.name]


def test_folders_that_differ_in_unicode_form_only_are_refused(tmp_path: Path) -> None:
    for name in ("Kraków", NFD):
        (tmp_path / name).mkdir()
        write_tsv(tmp_path / name / "train.tsv", ROWS)
    with pytest.raises(InputError, match="two clients are called 'Kraków'"):
        Federation.read(tmp_path)


def test_folder_names_that_are_not_unicode_are_refused(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(InputError, match=r"xff'?: the folder's name is not valid UTF-8; rename it$"):
        Federation.read(tmp_path)


def test_no_clients_or_a_client_without_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none: no such file or folder$"):
        Federation.read(tmp_path / "none")
    with pytest.raises(InputError, match="no clients found; a client is a subfolder"):
        Federation.read(tmp_path)
    (tmp_path / "idle").mkdir()
    with pytest.raises(InputError, match=r"idle: contains neither train\.tsv nor triples\.tsv$"):
        Federation.read(tmp_path)


def test_unsplit_clients_are_split_by_the_seed(tmp_path: Path) -> None:
    rows = [(f"{h}", "r", f"{t}") for h in range(6) for t in range(6)]
    (tmp_path / "one").mkdir()
    write_tsv(tmp_path / "one" / "triples.tsv", rows)
    for seed in (0, 7):
        assert contents(Federation.read(tmp_path, seed)) == contents(Federation({"one": split_graph(rows, seed)}))


# Federations made in Python


def test_a_federation_needs_clients_that_can_train() -> None:
    with pytest.raises(InputError, match="at least one client"):
        Federation({})
    with pytest.raises(InputError, match="client 'idle' has no training triples"):
        Federation({"idle": graph([], [("a", "r", "b")])})


def test_client_names_are_normalised() -> None:
    assert list(Federation({NFD: graph(ROWS)}).graphs) == ["Kraków"]
    with pytest.raises(InputError, match="two clients have the same name"):
        Federation({NFD: graph(ROWS), "Kraków": graph(ROWS)})


# Parquet


def test_parquet_with_names_or_numbers_as_clients(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "split": ["train", "test", "train", "valid"],
        "head": ["a", "b", "c", "d"],
        "relation": ["r", "r", "s", "s"],
        "tail": ["b", "a", "d", "e"],
    }
    for clients in (["x", "x", "y", "y"], [0, 0, 1, 1]):
        read = Federation.read(parquet(tmp_path / "data.parquet", client=clients, **columns))
        first, second = sorted({str(client) for client in clients})
        assert contents(read) == {
            first: [[("a", "r", "b")], [], [("b", "r", "a")]],
            second: [[("c", "s", "d")], [("d", "s", "e")], []],
        }
        assert read.graphs[second].entities == ("c", "d", "e")


def test_parquet_without_client_and_split_columns(tmp_path: Path) -> None:
    rows = [(f"{h}", "r", f"{t}") for h in range(6) for t in range(6)]
    heads, relations, tails = (list(column) for column in zip(*rows, strict=True))
    path = parquet(tmp_path / "atlas.parquet", head=heads, relation=relations, tail=tails)
    assert contents(Federation.read(path, 3)) == contents(Federation({"atlas": split_graph(rows, 3)}))
    assert list(read_pooled(path)) == rows


def test_parquet_clients_need_training_triples_and_names_of_their_own(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "a"]}
    path = parquet(tmp_path / "x.parquet", client=["idle", "y"], split=["test", "train"], **columns)
    with pytest.raises(InputError, match="client 'idle' has no training triples"):
        Federation.read(path)
    path = parquet(tmp_path / "x.parquet", client=["Kraków", NFD], **columns)
    with pytest.raises(InputError, match=r"x\.parquet: two clients are called 'Kraków'"):
        Federation.read(path)


@pytest.mark.parametrize("split", ["dev", "triples", "Train"])
def test_parquet_with_an_unknown_split(tmp_path: Path, split: str) -> None:
    path = parquet(
        tmp_path / "x.parquet", split=["train", split], head=["a", "b"], relation=["r", "r"], tail=["b", "a"]
    )
    with pytest.raises(InputError, match=f"client 'x', row 2: unknown split '{split}'; expected train, valid or test$"):
        Federation.read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"head": ["a"], "rel": ["r"], "tail": ["b"]}, "no column 'relation' (found: head, rel, tail); expected "),
        ({"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "c"]}, ", row 2: the head is missing"),
        ({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", ""]}, ", row 2: the tail is empty"),
        ({"client": [None], "head": ["a"], "relation": ["r"], "tail": ["b"]}, ", row 1: the client is missing"),
        ({"head": [["a"]], "relation": ["r"], "tail": ["b"]}, "expected text or integers"),
        ({"head": [b"\xff"], "relation": ["r"], "tail": ["b"]}, "column 'head' has type binary; expected text"),
        ({name: pa.array([], pa.string()) for name in ("head", "relation", "tail")}, ": empty; it contains no triples"),
    ],
)
def test_bad_parquet_is_refused_with_file_and_place(tmp_path: Path, columns: Any, message: str) -> None:
    path = parquet(tmp_path / "x.parquet", **columns)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}.*{re.escape(message)}"):
        Federation.read(path)


@pytest.mark.parametrize("content", [b"", b"a\tr\tb\n", b"PAR1 and then nothing of the kind PAR1"])
def test_a_broken_parquet_file_is_refused_on_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"x\.parquet: not a readable Parquet file \([^\n]*\); a federation is a folder [^\n]*$"
    ):
        Federation.read(path)


def test_a_column_of_numbers_with_fractions_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", head=[1.5], relation=["r"], tail=["b"])
    with pytest.raises(InputError, match="column 'head' has type double; expected text or integers"):
        Federation.read(path)


def test_a_repeated_parquet_column_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"])] * 4, names=["head", "relation", "tail", "tail"])
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"Multiple matches for .*tail"):
        Federation.read(tmp_path / "x.parquet")


def test_folder_and_parquet_have_the_same_fingerprint(synthetic: Federation, tmp_path: Path) -> None:
    rows = [(c, split, *t) for c, g in synthetic.graphs.items() for split in SPLITS for t in g.named(split)]
    columns = zip(*reversed(rows), strict=True)
    path = parquet(
        tmp_path / "x.parquet", **dict(zip(("client", "split", "head", "relation", "tail"), columns, strict=True))
    )
    assert Federation.read(path).fingerprint == synthetic.fingerprint


@pytest.mark.parametrize(
    "other",
    [
        {"x": graph(ROWS[:2])},
        {"y": graph(ROWS)},
        {"x": graph(ROWS[:2], ROWS[2:])},
        {"x": graph([("A", r, t) if h == "a" else (h, r, t) for h, r, t in ROWS])},
        {"x": graph(ROWS), "y": graph(ROWS)},
    ],
)
def test_other_data_have_another_fingerprint(other: dict[str, KnowledgeGraph]) -> None:
    assert Federation(other).fingerprint != Federation({"x": graph(ROWS)}).fingerprint


# Alignment


def test_aligned_ids_are_positions_among_the_sorted_tokens(synthetic: Federation) -> None:
    for secret in (b"", b"between us"):
        shared = synthetic.shared(secret=secret)
        every = {name for g in synthetic.graphs.values() for name in g.entities}
        tokens = sorted(token(name, secret) for name in every)
        for client, g in synthetic.graphs.items():
            assert shared.ids[client].tolist() == [tokens.index(token(name, secret)) for name in g.entities]


def test_alignment_of_relations(synthetic: Federation) -> None:
    shared = synthetic.shared("relation")
    ash, birch = (shared.ids[client] for client in ("ash", "birch"))
    assert ash[synthetic.graphs["ash"].relation_ids["next"]] == birch[synthetic.graphs["birch"].relation_ids["next"]]
    assert sorted(shared.owners.tolist()) == [1] * 5 + [2]


def test_the_order_of_clients_does_not_matter(synthetic: Federation) -> None:
    turned = Federation(dict(reversed(synthetic.graphs.items())))
    assert turned.shared().clients == synthetic.shared().clients == tuple(sorted(synthetic.graphs))
    assert turned.fingerprint == synthetic.fingerprint
    for client, ids in synthetic.shared().ids.items():
        np.testing.assert_array_equal(turned.shared().ids[client], ids)


def test_only_ids_that_another_client_owns_travel(synthetic: Federation) -> None:
    shared = synthetic.shared()
    for client, g in synthetic.graphs.items():
        others = {name for c, o in synthetic.graphs.items() if c != client for name in o.entities}
        expected = sorted(int(i) for i, name in zip(shared.ids[client], g.entities, strict=True) if name in others)
        assert shared.travelling[client].tolist() == expected


def test_clients_that_share_nothing_have_nothing_that_travels() -> None:
    shared = Federation({"x": graph(ROWS), "y": graph([("d", "r", "e")])}).shared()
    assert [len(ids) for ids in shared.travelling.values()] == [0, 0]
    assert [len(part) for part in shared.ownership] == [1, 0, 0]


def test_ownership_lists_every_travelling_row_once_by_id(synthetic: Federation) -> None:
    shared = synthetic.shared()
    start, clients, rows = shared.ownership
    listed = []
    for first, last in pairwise(start.tolist()):
        owners = list(zip(clients[first:last].tolist(), rows[first:last].tolist(), strict=True))
        ids = {int(shared.travelling[shared.clients[client]][row]) for client, row in owners}
        assert len(ids) == 1
        assert owners == sorted(owners)
        listed += ids
        assert len(owners) == shared.owners[listed[-1]] > 1
    assert listed == sorted(set(np.concatenate(list(shared.travelling.values())).tolist()))


def test_merged_is_the_union_of_training_triples_and_all_names(synthetic: Federation) -> None:
    merged = synthetic.merged()
    graphs = synthetic.graphs.values()
    assert merged.named("train") == sorted({t for g in graphs for t in g.named("train")})
    assert merged.entities == tuple(sorted({name for g in graphs for name in g.entities}))
    assert merged.relations == tuple(sorted({name for g in graphs for name in g.relations}))
    assert not len(merged.valid)
    assert not len(merged.test)


# Partition


@given(st.integers(1, 7), st.integers(0, 3))
def test_partition_deals_relations_evenly_and_loses_nothing(clients: int, seed: int) -> None:
    rows = [(f"e{i % 9}", f"r{i % 7}", f"e{i % 4}") for i in range(63)]
    federation = partition(sorted(set(rows)), clients, seed)
    dealt = [set(g.relations) for g in federation.graphs.values()]
    assert len(dealt) == clients
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    assert sorted(r for part in dealt for r in part) == sorted({r for _, r, _ in rows})
    pooled = [t for g in federation.graphs.values() for split in SPLITS for t in g.named(split)]
    assert sorted(pooled) == sorted(set(rows))


def test_partition_follows_the_seed() -> None:
    rows = [(f"e{i % 9}", f"r{i % 7}", f"e{i % 4}") for i in range(63)]
    assert contents(partition(rows, 3, 1)) == contents(partition(list(reversed(rows)), 3, 1))
    assert contents(partition(rows, 3, 1)) != contents(partition(rows, 3, 2))
    assert list(partition([("a", f"r{i}", "b") for i in range(12)], 11, 0).graphs)[:2] == ["client-00", "client-01"]


@pytest.mark.parametrize("clients", [0, -1, 3])
def test_partition_needs_a_relation_per_client(clients: int) -> None:
    with pytest.raises(InputError, match=f"--clients {clients}: the graph has 2 relations, so 1 to 2 clients"):
        partition(ROWS, clients, 0)


def test_read_pooled_takes_a_file_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_pooled(tmp_path / "none.tsv")
    with pytest.raises(InputError, match="contains neither"):
        read_pooled(tmp_path)
    write_tsv(tmp_path / "train.tsv", ROWS[:1])
    write_tsv(tmp_path / "test.tsv", ROWS[1:])
    assert sorted(read_pooled(tmp_path)) == ROWS
    assert list(read_pooled(tmp_path / "test.tsv")) == ROWS[1:]


def test_a_triple_that_is_in_two_splits_is_pooled_once(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", ROWS)
    write_tsv(tmp_path / "test.tsv", ROWS[:1])
    with pytest.warns(DataWarning, match="client-0: dropped 1 duplicate"):
        assert len(partition(read_pooled(tmp_path), 1, 0).graphs["client-0"].train) == 3


# Whole or not at all


def test_names_that_tsv_cannot_carry_are_written_as_parquet(tmp_path: Path) -> None:
    odd = [("tab\there", "r", "two\nlines"), ("two\nlines", "r", "\ufeffmark")]
    federation = Federation({"a": graph(ROWS), "b": graph(odd, ROWS[:1])})
    federation.write(tmp_path / "new")
    assert contents(Federation.read(tmp_path / "new")) == contents(federation)
    found = sorted(str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").glob("*/*"))
    assert found == ["a/train.tsv", "b/train.parquet", "b/valid.parquet"]


def test_labels_are_written_and_dealt_to_those_who_know_the_name(tmp_path: Path) -> None:
    labels = {"a": "Aachen", "r": "is by", "s": "sees", "nobody": "Nobody"}
    rows = [("a", "r", "b"), ("b", "r", "c"), ("b", "s", "c"), ("c", "s", "b")]
    federation = partition(rows, 2, 0, labels)
    federation.write(tmp_path / "new")
    graphs = Federation.read(tmp_path / "new").graphs.values()
    assert [dict(graph.labels) for graph in graphs if "a" in graph.entities] == [{"a": "Aachen", "r": "is by"}]
    assert [dict(graph.labels) for graph in graphs if "a" not in graph.entities] == [{"s": "sees"}]


def test_a_federation_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = Federation({"a": graph(ROWS), "b": graph(ROWS[1:])})

    def full(folder: Path, name: str, triples: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(federation_files, "write_triples", full)
    with pytest.raises(RunError, match="No space left on device"):
        federation.write(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_or_file_in_the_way_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis").write_text("mine")
    for name in ("file", "full"):
        with pytest.raises(InputError, match=f"{name}: already exists; choose another --out or another folder$"):
            Federation({"a": graph(ROWS)}).write(tmp_path / name)
    with pytest.raises(InputError, match="cannot be created"):
        Federation({"a": graph(ROWS)}).write(tmp_path / "file" / "new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full", "thesis"]


def test_an_empty_folder_may_be_filled_and_others_may_read_it(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    Federation({"a": graph(ROWS)}).write(tmp_path / "new")
    (tmp_path / "other").mkdir()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert list(Federation.read(tmp_path / "new").graphs) == ["a"]


def test_rows_are_equal_by_content() -> None:
    rows = Rows(np.array([1, 4], np.int32), np.ones((2, 3), np.float32))
    assert rows == Rows(rows.ids.copy(), rows.values.copy())
    assert rows != Rows(rows.ids, rows.values * 2)
    assert rows != Rows(rows.ids[:1], rows.values[:1])
    assert rows != "rows"
    assert Upload({"entity": rows}) == Upload({"entity": Rows(rows.ids.copy(), rows.values.copy())})
    with pytest.raises(TypeError, match="unhashable"):
        hash(rows)


def test_the_embedded_federation_reads() -> None:
    world = Federation.world()
    assert len(world.graphs) >= 3
    assert all(len(g.valid) and len(g.test) for g in world.graphs.values())
    assert all(len(ids) for ids in world.shared().travelling.values())
