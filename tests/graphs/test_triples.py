"""Triples as files have them: a sequence that holds each name once, and reading and writing TSV."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.errors import InputError
from pfedeg.graphs.triples import Triples, in_order, read_tsv, write_tsv

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
triples = st.lists(st.tuples(names, names, names), min_size=1, max_size=30, unique=True)
few = st.sampled_from(["a", "b", "A", "é", "e\u0301"])
repeated = st.lists(st.tuples(few, few, few), max_size=20)


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


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
    ordered, places = in_order(some.entities, some.ids[:, [0, 2]], str.lower)
    assert ordered == tuple(sorted({name.lower() for h, _, t in rows[::2] for name in (h, t)}))
    for name, place in zip(some.entities, places.tolist(), strict=True):
        is_used = any(name in (h, t) for h, _, t in rows[::2])
        assert (ordered[place] == name.lower()) if is_used else (place == -1)


def test_tsv_with_byte_order_mark_crlf_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv", b"\xef\xbb\xbfa\tr\tb\r\n\r\n\nc d\tr\t\xc3\xa9\x0b\r\nx\tr\ty")
    assert list(read_tsv(path)) == [("a", "r", "b"), ("c d", "r", "é\x0b"), ("x", "r", "y")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "{}: empty; a triples file has a line head<TAB>relation<TAB>tail per fact"),
        ("\n\r\n", "{}: empty; a triples file has a line head<TAB>relation<TAB>tail per fact"),
        ("a\tr\tb\na\tr\n", "{}, line 2: 2 column(s) instead of head<TAB>relation<TAB>tail"),
        ("\na\tr\tb\tc\n", "{}, line 2: 4 column(s) instead of head<TAB>relation<TAB>tail"),
        ("a r b", "{}, line 1: 1 column(s) instead of head<TAB>relation<TAB>tail"),
        ("\tr\tb", "{}, line 1: the head is empty"),
        ("a\t\tb", "{}, line 1: the relation is empty"),
        ("a\tr\t\r\n", "{}, line 1: the tail is empty"),
        (b"a\tr\tb\n\xff\tr\tb\n", "{}, line 2: not valid UTF-8; save the file as UTF-8"),
    ],
)
def test_bad_tsv_is_refused_with_file_and_line(tmp_path: Path, content: bytes | str, message: str) -> None:
    path = write(tmp_path / "train.tsv", content)
    with pytest.raises(InputError, match=f"^{re.escape(message.format(path))}$"):
        read_tsv(path)


def test_a_missing_file_and_a_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.tsv: cannot be read: No such file or directory$"):
        read_tsv(tmp_path / "none.tsv")
    with pytest.raises(InputError, match=r"cannot be read: Is a directory$"):
        read_tsv(tmp_path)


@given(triples)
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]) -> None:
    path = tmp_path_factory.getbasetemp() / "round.tsv"
    path.unlink(missing_ok=True)
    hard = any(name[0] == "\ufeff" or set(name) & set("\t\r\n") for row in rows for name in row)
    if hard:
        with pytest.raises(InputError, match="TSV cannot carry the name"):
            write_tsv(path, rows)
        assert not path.exists()
    else:
        write_tsv(path, rows)
        assert list(read_tsv(path)) == rows


def test_an_empty_name_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="TSV cannot carry the name ''"):
        write_tsv(tmp_path / "train.tsv", [("a", "r", "")])
