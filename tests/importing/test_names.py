"""Names, labels and prefixes at import: what each option makes of them, what the summary says, what is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.naming import Naming, decoded, local_name

EX = "http://example.org/"
TTL = """@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:PE ex:borders ex:BR ; rdfs:label "Peru "@en . ex:BR ex:borders ex:S%C3%A3o ; rdfs:label "Brazil" .
ex:x1 ex:borders ex:x2 . ex:x1 rdfs:label "Springfield" . ex:x2 rdfs:label "Springfield" .
ex:borders rdfs:label "shares a border with" .
"""


def bring(*words: Any) -> Any:
    return CliRunner().invoke(cli, ["import", *map(str, words)])


def brought(source: Path, *words: Any) -> set[tuple[str, str, str]]:
    """The triples of an import."""
    out = source.parent / f"out-{len(list(source.parent.iterdir()))}"
    done = bring(source, *words, "--out", out)
    assert done.exit_code == 0, done.exception
    rows = pq.read_table(out / "triples.parquet").to_pylist()
    return {(row["head"], row["relation"], row["tail"]) for row in rows}


def summary(source: Path, *words: Any) -> str:
    done = bring(source, *words, "--out", source.parent / f"out-{len(list(source.parent.iterdir()))}")
    assert done.exit_code == 0, done.exception
    return str(done.output)


def refused(source: Path, *words: Any) -> str:
    before = sorted(source.parent.rglob("*"))
    done = bring(source, *words, "--out", source.parent / "refused")
    assert isinstance(done.exception, InputError), done.output
    assert sorted(source.parent.rglob("*")) == before
    assert "\n" not in str(done.exception)
    return str(done.exception)


@pytest.fixture
def ttl(tmp_path: Path) -> Path:
    (tmp_path / "g.ttl").write_text(TTL, encoding="utf-8")
    return tmp_path / "g.ttl"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "g.csv").write_text(f"ex:PE,near, Lima\n{EX}PE,near,BR\u00a0\nBR,near,Lima\n", encoding="utf-8")
    return tmp_path / "g.csv"


def test_names_by_label(ttl: Path) -> None:
    border = "shares a border with"
    assert brought(ttl, "--names", "label") == {
        ("Peru", border, "Brazil"),
        ("Brazil", border, f"{EX}S%C3%A3o"),  # no label
        (f"{EX}x1", border, f"{EX}x2"),  # one label of two entities
    }
    text = summary(ttl, "--names", "label")
    assert "names replaced by their label: 3, e.g. 'http://example.org/BR' → 'Brazil'" in text
    assert f"labels of several names, which keep their own: 1, e.g. 'Springfield' ('{EX}x1', '{EX}x2')" in text


def test_names_by_local_name(ttl: Path) -> None:
    expected = {("PE", "borders", "BR"), ("BR", "borders", "São"), ("x1", "borders", "x2")}
    assert brought(ttl, "--names", "local") == expected
    assert "names replaced by their local name: 6, e.g. " in summary(ttl, "--names", "local")
    labels = {row["name"]: row["label"] for row in pq.read_table(ttl.parent / "out-2" / "labels.parquet").to_pylist()}
    assert labels["PE"] == "Peru "
    assert "São" not in labels


@pytest.mark.parametrize(
    ("iri", "local"),
    [
        ("http://x/a/b#c", "c"),
        ("http://x/a/b/", "b"),
        ("http://x/A%2FB%20C", "A/B C"),
        ("urn:isbn:123", "123"),
        ("http://x/%FF", "%FF"),
        ("http://places.example/id/city/Peru", "city/Peru"),
    ],
)
def test_local_names(iri: str, local: str) -> None:
    assert local_name(iri, ["http://places.example/id/"]) == local


def test_decoding() -> None:
    assert decoded("http://x/S%C3%A3o") == "http://x/São"
    assert decoded("100%25") == "100%25"
    assert decoded("http://x/%FF") == "http://x/%FF"


def test_cells_are_trimmed_and_counted(table: Path) -> None:
    assert brought(table) == {("ex:PE", "near", "Lima"), (f"{EX}PE", "near", "BR"), ("BR", "near", "Lima")}
    assert "cells trimmed (surrounding spaces): 2, e.g. ' Lima'" in summary(table)
    pq.write_table(pa.table({"head": [" a"], "relation": ["r"], "tail": ["  "]}), table.with_suffix(".parquet"))
    assert "line 1: the tail is empty" in refused(table.with_suffix(".parquet"))


@pytest.mark.parametrize("prefix", [f"ex:{EX}", f"ex: <{EX}>", f"ex={EX}"])
def test_a_declared_prefix_is_expanded_and_shown(table: Path, prefix: str) -> None:
    assert brought(table, "--prefix", prefix) == {
        (f"{EX}PE", "near", "Lima"),
        (f"{EX}PE", "near", "BR"),
        ("BR", "near", "Lima"),
    }
    text = summary(table, "--prefix", prefix)
    assert "names with a declared prefix expanded: 1, e.g. 'ex:PE' → 'http://example.org/PE'" in text
    assert "names that several names became: 1" in text
    assert ("PE", "near", "Lima") in brought(table, "--prefix", prefix, "--names", "local")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--prefix", "ex"), "--prefix 'ex': expected PREFIX:IRI, as in ex:http://example.org/"),
        (("--prefix", "ex:nothing"), "expected PREFIX:IRI"),
        (("--prefix", "e:http://a/", "--prefix", "e:http://b/"), "e: is declared as http://a/ and as http://b/"),
        (("--map", "{tmp}/none.tsv"), "none.tsv: no such file"),
        (("--labels", "{tmp}/none.tsv"), "none.tsv: no such file"),
        (("--label-columns", "1,2"), "--label-columns 1,2: expected three columns"),
        (("--label-columns", ",,who"), "no column 'who' (found: ex:PE, near,  Lima)"),
        (("--label-columns", ",,who", "--no-header"), "column names need a header; remove --no-header"),
    ],
)
def test_wrong_options_are_refused(table: Path, words: tuple[str, ...], message: str) -> None:
    assert message in refused(table, *(word.format(tmp=table.parent) for word in words))


def test_a_map_of_names(table: Path) -> None:
    names = table.parent / "names.tsv"
    names.write_text(f"old\tnew\nBR\tBrasil\nBrasil\tBrazil\n{EX}PE\tPeru\nnear\tclose to\nUSA\tUnited States\n")
    words = ("--map", names, "--prefix", f"ex:{EX}")
    assert brought(table, *words) == {
        ("Peru", "close to", "Lima"),
        ("Peru", "close to", "Brazil"),
        ("Brazil", "close to", "Lima"),
    }
    text = summary(table, *words)
    assert "names changed by the map: 3, e.g. 'BR' → 'Brazil'" in text
    assert "names in the map that do not occur: 2, e.g. 'Brasil'" in text
    assert "names that several names became: 1, e.g. 'Peru' ('http://example.org/PE', 'ex:PE')" in text


@pytest.mark.parametrize("old", ["ex:PE", f"{EX}PE"])
def test_an_old_name_in_a_map_may_have_a_declared_prefix(ttl: Path, old: str) -> None:
    names = ttl.parent / "names.tsv"
    names.write_text(f"{old}\tThe country\n")
    found = {name for h, _, t in brought(ttl, "--map", names, "--prefix", f"ex:{EX}") for name in (h, t)}
    assert "The country" in found
    assert f"{EX}PE" not in found


def test_a_mapped_name_has_its_name_from_the_map_alone(ttl: Path) -> None:
    names = ttl.parent / "names.csv"
    names.write_text(f'{EX}x1,"Springfield, Ohio"\n{EX}PE,{EX}PE\n')
    found = {name for h, _, t in brought(ttl, "--map", names, "--names", "label") for name in (h, t)}
    assert found == {"Springfield, Ohio", "Springfield", f"{EX}PE", "Brazil", f"{EX}S%C3%A3o"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\na\tc\n", "line 2: 'a' has two new names: 'b' (line 1) and 'c'; keep one of them"),
        ("a\tb\nb\tc\nc\ta\n", "line 1: the names form a cycle: 'a' → 'b' → 'c' → 'a'; remove one line"),
        ("x\ta\na\tb\nb\ta\n", "line 2: the names form a cycle: 'a' → 'b' → 'a'; remove one line"),
        ("a\tb\nc\n", "line 2: 1 column(s); expected old and new, separated by a tab"),
        ("a\t \n", "line 1: the second column is empty"),
        ("\n", "empty; expected lines with old and new"),
    ],
)
def test_a_wrong_map_is_refused(table: Path, text: str, message: str) -> None:
    (table.parent / "names.tsv").write_text(text)
    assert f"names.tsv{':' if message.startswith('empty') else ','} {message}" in refused(
        table, "--map", table.parent / "names.tsv"
    )


def test_equal_lines_of_a_map_are_one(table: Path) -> None:
    (table.parent / "names.tsv").write_text("BR\tBrazil\nBR\tBrazil\nLima\tLima\n")
    assert ("Brazil", "near", "Lima") in brought(table, "--map", table.parent / "names.tsv")


# Labels of tables


def labels_of(folder: Path) -> dict[str, str]:
    return {row["name"]: row["label"] for row in pq.read_table(folder / "labels.parquet").to_pylist()}


def test_label_columns_are_found_by_their_headings(tmp_path: Path) -> None:
    rows = "subject_id,subject label,relation,target,target-label\nQ1,Peru,borders,Q2,Brazil\nQ2,Brasil,borders,Q3,\n"
    (tmp_path / "g.csv").write_text(rows)
    done = bring(tmp_path / "g.csv", "--out", tmp_path / "out")
    assert labels_of(tmp_path / "out") == {"Q1": "Peru", "Q2": "Brazil"}
    assert "names with several labels, of which the first is kept: 1, e.g. 'Q2'" in done.output
    assert bring(tmp_path / "g.csv", "--names", "label", "--out", tmp_path / "named").exit_code == 0
    assert Federation.read(tmp_path / "named").graphs["named"].entities == ("Brazil", "Peru", "Q3")


def test_label_columns_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("a,r,b,name of a,name of r\nc,r,b,name of c,\n")
    words = ("--columns", "1,2,3", "--no-header")
    assert bring(tmp_path / "g.csv", *words, "--label-columns", "4,5,", "--out", tmp_path / "out").exit_code == 0
    assert labels_of(tmp_path / "out") == {"a": "name of a", "r": "name of r", "c": "name of c"}
    assert (
        bring(tmp_path / "g.csv", "--columns", "1,2,3", "--label-columns", "4,,", "--out", tmp_path / "x").exit_code
        == 0
    )
    assert labels_of(tmp_path / "x") == {"a": "name of a", "c": "name of c"}
    table = {"h": ["a"], "r": ["r"], "t": ["b"], "what": ["A"], "t_label": [None]}
    pq.write_table(pa.table({name: pa.array(cells, pa.string()) for name, cells in table.items()}), tmp_path / "g.pq")
    assert bring(tmp_path / "g.pq", "--label-columns", "what,,t_label", "--out", tmp_path / "two").exit_code == 0
    assert labels_of(tmp_path / "two") == {"a": "A"}


@pytest.mark.parametrize("name", ["labels.tsv", "labels.csv", "labels.parquet"])
def test_a_file_of_labels(table: Path, name: str) -> None:
    pairs, path = [("BR", "Brazil"), ("ZZ", "nothing"), (f"{EX}PE", "Peru")], table.parent / name
    if name.endswith("parquet"):
        pq.write_table(pa.table(dict(zip(("name", "label"), map(list, zip(*pairs, strict=True)), strict=True))), path)
    else:
        sign = "," if name.endswith("csv") else "\t"
        path.write_text("name" + sign + "label\n" + "".join(f"{one}{sign}{two}\n" for one, two in pairs))
    words = ("--labels", path, "--prefix", f"ex:{EX}", "--names", "label")
    assert brought(table, *words) == {("Peru", "near", "Lima"), ("Peru", "near", "Brazil"), ("Brazil", "near", "Lima")}
    assert "names in --labels that do not occur: 1, e.g. 'ZZ'" in summary(table, *words)


def test_buckets_are_told_by_relation(tmp_path: Path) -> None:
    rows = [f"p{i},age,{i}\np{i},height,{150 + i % 3}\np{i},knows,p{i // 2}" for i in range(1, 25)]
    (tmp_path / "g.csv").write_text("\n".join(rows))
    text = summary(tmp_path / "g.csv", "--literals", "bucket")
    assert "put into buckets: age (24 values, 10 buckets), height (24 values, 3 buckets)" in text
    told = json.loads((tmp_path / "out-1" / "import.json").read_text())
    assert told["bucketed"] == {"age": {"values": 24, "buckets": 10}, "height": {"values": 24, "buckets": 3}}


# Clients and federations that already exist


def write_client(folder: Path, triples: str, labels: str = "", name: str = "triples") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.tsv").write_text(triples, encoding="utf-8")
    if labels:
        (folder / "labels.tsv").write_text(labels, encoding="utf-8")


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    iris = f"{EX}PE\tborders\t{EX}BR\n{EX}BR\tborders\t{EX}PE\n"
    write_client(tmp_path / "fed" / "iris", iris, f"{EX}PE\tPeru\n{EX}BR\tBrazil\n")
    for split in ("train", "valid"):
        write_client(tmp_path / "fed" / "texts", f"Peru\tspeaks\tSpanish {split}\n Peru\tspeaks\tSpanish\n", name=split)
    return tmp_path / "fed"


def test_a_folder_may_hold_labels(federation: Path) -> None:
    graphs = Federation.read(federation).graphs
    assert graphs["iris"].labels == {f"{EX}PE": "Peru", f"{EX}BR": "Brazil"}
    (federation / "iris" / "labels.csv").write_text("name,label\n")
    with pytest.raises(InputError, match=r"contains both labels\.tsv and labels\.csv; keep one of them"):
        Federation.read(federation)


def test_one_parquet_file_may_hold_labels(tmp_path: Path) -> None:
    table = {
        "client": ["a", "b"],
        "head": ["Q1", "Q2"],
        "head_label": ["Peru", None],
        "relation": ["r", "r"],
        "tail": ["Q2", "Q1"],
        "tail_label": ["Brazil", "Peru "],
    }
    pq.write_table(pa.table(table), tmp_path / "g.parquet")
    graphs = Federation.read(tmp_path / "g.parquet").graphs
    assert graphs["a"].labels == {"Q1": "Peru", "Q2": "Brazil"}
    assert bring(tmp_path, "--names", "label", "--out", tmp_path / "x").exit_code == 0
    (tmp_path / "one").mkdir()
    pq.write_table(pa.table({name: table[name] for name in list(table)[1:]}), tmp_path / "one" / "triples.parquet")
    assert Federation.read(tmp_path / "one").graphs["one"].labels == {"Q1": "Peru", "Q2": "Brazil"}


def test_a_federation_gets_other_names_and_keeps_its_splits(federation: Path) -> None:
    done = bring(federation, "--names", "label", "--out", federation.parent / "named")
    assert done.exit_code == 0, done.exception
    graphs = Federation.read(federation.parent / "named").graphs
    assert set(graphs["iris"].entities) == {"Peru", "Brazil"}
    assert graphs["texts"].named("valid") == [("Peru", "speaks", "Spanish"), ("Peru", "speaks", "Spanish valid")]
    assert (federation.parent / "named" / "iris" / "triples.tsv").exists()  # still not split
    assert "iris: 2 triples, 2 entities" in done.output
    assert "names trimmed (surrounding spaces): 1, e.g. ' Peru' → 'Peru'" in done.output
    direct = Federation.read(federation, 0, Naming("label"))
    assert direct.fingerprint == Federation.read(federation.parent / "named").fingerprint


def test_a_client_gets_other_names(federation: Path) -> None:
    out = federation.parent / "named"
    done = bring(federation / "iris", "--names", "local", "--out", out, "--json")
    assert json.loads(done.output)["clients"]["iris"]["renamed"]["formed"]["names"] == 2
    assert (out / "triples.tsv").read_text() == "BR\tborders\tPE\nPE\tborders\tBR\n"
    assert labels_of(out) == {"PE": "Peru", "BR": "Brazil"}
    assert "is a federation or a client; import it alone" in refused(federation / "iris", federation / "texts")
    assert "--literals: has no effect on" in refused(federation, "--literals", "keep")


def test_what_has_no_use_for_new_names_says_so(tmp_path: Path) -> None:
    (tmp_path / "g.pkl").write_bytes(b"\x80\x04]\x94.")
    assert "--map and --prefix: not for FedE's files" in refused(tmp_path / "g.pkl", "--names", "local")


def test_a_parquet_federation_gets_other_names(tmp_path: Path) -> None:
    rows = {"client": ["a", "b"], "split": ["train", "train"], "head": [f"{EX}x", "x"], "relation": ["r", "s"]}
    pq.write_table(pa.table(rows | {"tail": ["y", "y"]}), tmp_path / "fed.parquet")
    (tmp_path / "names.tsv").write_text(f"y\tY\n{EX}z\tZ\n")
    words = ("--names", "local", "--map", tmp_path / "names.tsv", "--federation", "--out", tmp_path / "out")
    done = bring(tmp_path / "fed.parquet", *words)
    assert done.exit_code == 0, done.exception
    assert "names in the map that do not occur: 1, e.g. 'http://example.org/z'" in done.output
    graphs = Federation.read(tmp_path / "out").graphs
    assert [graph.entities for graph in graphs.values()] == [("Y", "x"), ("Y", "x")]


def test_clients_get_no_labels_of_others(tmp_path: Path) -> None:
    rows = {"client": ["a", "b"], "head": ["x", "y"], "relation": ["r", "s"], "tail": ["x2", "y2"]}
    labels = {"head_label": ["X", "Y"]}
    (tmp_path / "fed").mkdir()
    pq.write_table(pa.table(rows | labels), tmp_path / "fed" / "g.parquet")
    (tmp_path / "fed" / "c").mkdir()
    (tmp_path / "fed" / "c" / "train.tsv").write_text("x\tr\ty\n")
    assert bring(tmp_path / "fed", "--out", tmp_path / "out").exit_code == 0
    assert labels_of(tmp_path / "out" / "a") == {"x": "X"}
    assert labels_of(tmp_path / "out" / "b") == {"y": "Y"}
