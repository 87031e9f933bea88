"""Export: what is written, read back by each format's own reader, and what is refused."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file

from conftest import ring
from pfedeg.checked_files import read_json
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.exporting import text
from pfedeg.exporting.registry import FORMATS, export
from pfedeg.files import safe_name
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.splitting import split_graph
from pfedeg.graphs.triples import Named
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.saved_run import Run

pytestmark = pytest.mark.filterwarnings("ignore::pfedeg.errors.DataWarning")
ODD = [
    "a b",
    "a\tb",
    "a\nb",
    "a\r\nb",
    " a",
    "a ",
    " ",
    "   ",
    "%20",
    "50%",
    "a\0b",
    "\u00a0",
    "\u2028",
    "NA",
    "007",
    '"q',
    "ü 🌍",
]
SMALL: dict[str, Any] = {"rounds": 2, "dim": 4, "negatives": 2, "batch": 16, "model": "rotate"}
Read = dict[str, tuple[list[str], NDArray[Any]]]


def odd() -> Named:
    return [(ODD[i], "knows\tof" if i % 2 else "likes", ODD[i - 1]) for i in range(len(ODD))]


def train(out: Path, clients: dict[str, KnowledgeGraph], **settings: Any) -> Path:
    Training(Federation(clients), Config(**{**SMALL, **settings}), out=out).run()
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One client has plain names, one has the oddest."""
    clients = {"ash": split_graph(ring(0, 20, ("near", "next")), 1), "Čedar [x]": KnowledgeGraph.from_names(odd())}
    return train(tmp_path_factory.mktemp("runs") / "run", clients)


def read_parquet(folder: Path) -> Read:
    def read(path: Path) -> tuple[list[str], NDArray[Any]]:
        table = pq.read_table(path)
        assert table.schema.field("name").type == pa.string()
        width = table.schema.field("vector").type.list_size
        assert table.schema.field("vector").type == pa.list_(pa.float32(), width)
        vectors = table["vector"].combine_chunks().flatten().to_numpy()
        return table["name"].to_pylist(), vectors.reshape(-1, width)

    return {"entity": read(folder / "entities.parquet"), "relation": read(folder / "relations.parquet")}


def read_safetensors(folder: Path) -> Read:
    arrays = load_file(folder / "tables.safetensors")

    def names(kind: str) -> list[str]:
        raw, ends = arrays[f"{kind}_names"].tobytes(), arrays[f"{kind}_name_ends"].tolist()
        return [raw[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]

    return {kind: (names(kind), arrays[kind]) for kind in ("entity", "relation")}


def read_numpy(folder: Path) -> Read:
    with np.load(folder / "tables.npz", allow_pickle=False) as arrays:
        return {kind: (arrays[f"{kind}_names"].tolist(), arrays[kind]) for kind in ("entity", "relation")}


def read_word2vec(folder: Path) -> Read:
    """As gensim and most others do: words apart by any white space."""
    header, *lines = (folder / "entities.txt").read_text(encoding="utf-8").splitlines()
    many, width = map(int, header.split())
    words = [line.split() for line in lines]
    assert len(words) == many
    assert {len(line) for line in words} == {width + 1}
    return {"entity": ([text.unescaped(line[0]) for line in words], np.array([line[1:] for line in words], np.float32))}


def read_projector(folder: Path) -> Read:
    """As TensorBoard does: blank lines do not count, and a tab in the first line makes it a heading."""
    paths = re.findall(r'_path: "(.*)"', (folder / "projector_config.pbtxt").read_text())
    tensors, metadata = ((folder / path).read_text(encoding="utf-8") for path in paths)
    names = [line for line in metadata.split("\n") if line.strip()]
    assert "\t" not in metadata
    rows = [[float(number) for number in line.split("\t")] for line in tensors.split("\n") if line]
    return {"entity": ([text.unescaped(name) for name in names], np.array(rows, np.float32))}


READERS: dict[str, Callable[[Path], Read]] = {
    "parquet": read_parquet,
    "safetensors": read_safetensors,
    "numpy": read_numpy,
    "word2vec": read_word2vec,
    "projector": read_projector,
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("client", ["ash", "Čedar [x]"])
def test_each_reader_finds_names_and_numbers_again(run: Path, tmp_path: Path, kind: str, client: str) -> None:
    export(run, tmp_path / "out", kind, client)
    opened = Run(run)
    graph, tables = opened.graph(client), opened.tables(client)
    expected = {"entity": (graph.entities, tables.entity), "relation": (graph.relations, tables.relation)}
    read = READERS[kind](tmp_path / "out")
    assert "entity" in read
    for part, (names, table) in read.items():
        assert tuple(names) == expected[part][0]
        assert table.dtype == np.float32
        assert (table.view(np.uint32) == expected[part][1].view(np.uint32)).all()


def test_arrays_say_what_the_model_is(run: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    for kind in ("parquet", "safetensors", "numpy"):
        export(run, tmp_path / kind, kind, "ash")
    about = {"client": "ash", "model": "rotate", "dim": "4", "gamma": "10.0"}
    raw = pq.read_schema(tmp_path / "parquet" / "relations.parquet").metadata
    assert {key.decode(): value.decode() for key, value in raw.items() if key != b"ARROW:schema"} == about
    with safe_open(tmp_path / "safetensors" / "tables.safetensors", "numpy") as file:
        assert {key: str(value) for key, value in json.loads(file.metadata()["about"]).items()} == about
    with np.load(tmp_path / "numpy" / "tables.npz", allow_pickle=False) as arrays:
        assert {key: str(arrays[key]) for key in about} == about


@pytest.mark.parametrize("kind", READERS)
def test_all_clients_get_a_subfolder_each_and_equal_exports_are_equal(run: Path, tmp_path: Path, kind: str) -> None:
    for name in ("one", "two"):
        done = CliRunner().invoke(cli, ["export", str(run), "--to", kind, "--out", str(tmp_path / name)])
        assert done.output == f"wrote 2 clients to {tmp_path / name}\n"
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"ash", safe_name("Čedar [x]")}
    for path in (tmp_path / "one").glob("*/*"):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
    for client in ("ash", "Čedar [x]"):
        names, _ = READERS[kind](tmp_path / "one" / safe_name(client))["entity"]
        assert tuple(names) == Run(run).graph(client).entities


@settings(deadline=None, derandomize=True)
@given(st.text(min_size=1))
def test_any_name_survives_as_a_word_and_as_a_line(name: str) -> None:
    word, line = text.escaped(name), text.escaped(name, text.IN_LINES)
    assert word.split() == [word]
    assert line.splitlines() == [line]
    assert line.strip() == line != ""
    assert text.unescaped(word) == text.unescaped(line) == name


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_any_number_survives_as_text(numbers: list[float]) -> None:
    row = np.array(numbers, np.float32)
    (texts,) = text._rows(row[None])
    for read in (np.array(texts, np.float32), np.array([float(number) for number in texts]).astype(np.float32)):
        assert (read.view(np.uint32) == row.view(np.uint32)).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--client", "Ashe", "--to", "numpy"), "unknown client 'Ashe'; did you mean 'ash'?"),
        (("--to", "parqet"), "--to: unknown format 'parqet'; did you mean 'parquet'?"),
        (("--to", "csv"), "choose from parquet, safetensors, numpy, word2vec, projector, pykeen"),
        (("--to", "numpy", "--out", "{run}"), "{run}: already exists; choose another name"),
        (("--to", "numpy", "--out", "{run}/config.json"), "{run}/config.json: already exists"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(run: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    before = sorted(run.rglob("*"))
    filled = ["--out", str(tmp_path / "out"), *(word.format(run=run) for word in words)]
    refuse(run, filled, message.format(run=run))
    assert list(tmp_path.iterdir()) == []
    assert sorted(run.rglob("*")) == before


def refuse(run: Path, words: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["export", str(run), *words])
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("result.json", "the run is not finished; repeat the `pfedeg train` command with --resume"),
        ("clients", "clients/ash/graph.safetensors: missing; is the run finished and completely copied?"),
        ("clients/ash/tables.safetensors", "clients/ash/tables.safetensors: missing"),
        ("config.json", "not a run"),
    ],
)
def test_a_run_that_is_not_whole_is_refused(run: Path, tmp_path: Path, lost: str, message: str) -> None:
    shutil.copytree(run, tmp_path / "part")
    path = tmp_path / "part" / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    refuse(tmp_path / "part", ["--to", "parquet", "--out", str(tmp_path / "out")], message)
    assert [left.name for left in tmp_path.iterdir()] == ["part"]


def test_a_servers_run_has_no_tables(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "server", ignore=shutil.ignore_patterns("clients"))
    path = tmp_path / "server" / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"federation": "trial"}))
    refuse(
        tmp_path / "server", ["--to", "numpy", "--out", str(tmp_path / "out")], "the clients have the graphs and tables"
    )


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("numpy", "z\0", r"client 'birch', name 'z\x00': numpy would drop the NUL at the end of this name"),
        ("word2vec", "", "client 'birch': an entity has an empty name"),
        ("projector", "", "client 'birch': an entity has an empty name"),
    ],
)
def test_a_name_that_a_format_cannot_carry_leaves_nothing_behind(
    tmp_path: Path, kind: str, name: str, message: str
) -> None:
    facts = [("a", "r", "b"), ("b", "r", name)]
    clients = {"ash": KnowledgeGraph.from_names(facts[:1]), "birch": KnowledgeGraph.from_names(facts)}
    run = train(tmp_path / "run", clients, method="single")
    refuse(run, ["--to", kind, "--out", str(tmp_path / "out")], message)
    assert [left.name for left in tmp_path.iterdir()] == ["run"]
    export(run, tmp_path / "out", "parquet")
    assert name in read_parquet(tmp_path / "out" / "birch")["entity"][0]


@pytest.mark.parametrize("missing", ["pykeen", "torch"])
def test_without_pykeen_it_is_said_what_to_install(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in ("pykeen", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("pfedeg.extras.is_installed", lambda name: name != missing)
    said = f"--to pykeen needs {missing}: pip install 'pfedeg[pykeen]'"
    refuse(run, ["--to", "pykeen", "--out", str(tmp_path / "out")], said)


def test_help_names_every_format() -> None:
    said = CliRunner().invoke(cli, ["export", "--help"]).output
    for kind in FORMATS:
        assert f"    {kind} " in said


def test_labels_go_along_where_people_look(tmp_path: Path) -> None:
    graph = replace(KnowledgeGraph.from_names([("a", "r", "b"), ("b", "r", "c")]), labels={"a": "Aachen\t1", "r": "by"})
    run = train(tmp_path / "run", {"one": graph}, method="single")
    export(run, tmp_path / "parquet", "parquet", "one")
    assert pq.read_table(tmp_path / "parquet" / "entities.parquet")["label"].to_pylist() == ["Aachen\t1", "b", "c"]
    assert pq.read_table(tmp_path / "parquet" / "relations.parquet")["label"].to_pylist() == ["by"]
    export(run, tmp_path / "projector", "projector", "one")
    assert (tmp_path / "projector" / "metadata.tsv").read_text() == "name\tlabel\na\tAachen%091\nb\tb\nc\tc\n"


def test_export_needs_the_model_but_not_the_method(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_names([("a", "r", "b"), ("b", "r", "c")])
    run = train(tmp_path / "run", {"one": graph}, method="single")
    settings = read_json(run / "config.json")
    (run / "config.json").write_text(json.dumps(settings | {"method": "not_installed:METHOD"}))
    assert export(run, tmp_path / "tables", "safetensors", "one") == [tmp_path / "tables"]
    assert len(load_file(tmp_path / "tables" / "tables.safetensors")["entity"]) == 3
