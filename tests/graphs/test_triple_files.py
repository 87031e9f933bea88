"""TSV files of triples: what is read, refused and written back."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg.errors import InputError
from pfedeg.graphs.triple_files import read_tsv, write_tsv

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
triples = st.lists(st.tuples(names, names, names), min_size=1, max_size=30, unique=True)


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_tsv_with_byte_order_mark_crlf_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv", b"\xef\xbb\xbfa\tr\tb\r\n\r\n\nc d\tr\t\xc3\xa9\x0b\r\nx\tr\ty")
    assert list(read_tsv(path)) == [("a", "r", "b"), ("c d", "r", "é\x0b"), ("x", "r", "y")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "{}: empty; expected one triple per line, head<TAB>relation<TAB>tail"),
        ("\n\r\n", "{}: empty; expected one triple per line, head<TAB>relation<TAB>tail"),
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
        with pytest.raises(InputError, match="cannot be written to TSV"):
            write_tsv(path, rows)
        assert not path.exists()
    else:
        write_tsv(path, rows)
        assert list(read_tsv(path)) == rows


def test_an_empty_name_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the name '' cannot be written to TSV"):
        write_tsv(tmp_path / "train.tsv", [("a", "r", "")])
