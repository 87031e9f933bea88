"""A client's folder: its splits, one unsplit file, and what is refused."""

from pathlib import Path

import pytest

from pfedeg.errors import InputError
from pfedeg.graphs.federation_files import read_client
from pfedeg.graphs.knowledge_graph import SPLITS
from pfedeg.graphs.splitting import split_graph
from pfedeg.graphs.triple_files import write_tsv


def write(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_folder_with_splits(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "a\tr\tb\n")
    write(tmp_path / "test.tsv", "b\tr\tc\n")
    graph = read_client(tmp_path, 0)
    assert [graph.named(split) for split in SPLITS] == [[("a", "r", "b")], [], [("b", "r", "c")]]


def test_folder_with_one_unsplit_file_is_split_by_seed(tmp_path: Path) -> None:
    rows = [(f"{h}", "r", f"{t}") for h in range(6) for t in range(6)]
    write_tsv(tmp_path / "triples.tsv", rows)
    for seed in (0, 1):
        graph, expected = read_client(tmp_path, seed), split_graph(rows, seed)
        assert [graph.named(split) for split in SPLITS] == [expected.named(split) for split in SPLITS]


@pytest.mark.parametrize("split", SPLITS)
def test_folder_with_both_kinds_is_refused(tmp_path: Path, split: str) -> None:
    for name in ("triples", split):
        write(tmp_path / f"{name}.tsv", "a\tr\tb\n")
    with pytest.raises(InputError, match=f"contains both triples.tsv and {split}.tsv; keep one of them$"):
        read_client(tmp_path, 0)


def test_folder_without_training_triples_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "valid.tsv", "a\tr\tb\n")
    with pytest.raises(InputError, match=r"contains neither train\.tsv nor triples\.tsv$"):
        read_client(tmp_path, 0)
    write(tmp_path / "train.tsv", "a\tr\tb\n")
    write(tmp_path / "test.tsv", "")
    with pytest.raises(InputError, match=r"test\.tsv: empty"):
        read_client(tmp_path, 0)
