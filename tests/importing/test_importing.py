"""Graphs of users' own: every form they come in, what becomes of values, labels and blank nodes, and broken input."""

import bz2
import gzip
import json
import os
import pickle
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Quad, RdfFormat, serialize

import pfedeg
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS
from pfedeg.importing.numeric_buckets import bucket_names, number_of

EX = "http://example.org/"
TRIPLES = [("a", "likes", "b"), ("b", "likes", "c"), ("c", "near", "a"), ("ä/ö", "near", "b")]
RDF = {
    "nt": RdfFormat.N_TRIPLES,
    "nq": RdfFormat.N_QUADS,
    "ttl": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "rdf": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}


def bring(*words: Any) -> Any:
    return CliRunner().invoke(cli, ["import", *map(str, words)])


def brought(*words: Any) -> set[tuple[str, str, str]]:
    """The triples that come of it."""
    done = bring(*words)
    assert done.exit_code == 0, done.exception
    return triples(Path(words[words.index("--out") + 1]))


def triples(out: Path) -> set[tuple[str, str, str]]:
    rows = pq.read_table(out / "triples.parquet" if out.is_dir() else out).to_pylist()
    return {(row["head"], row["relation"], row["tail"]) for row in rows}


def refused(*words: Any) -> str:
    """Why something is not brought in; nothing may be left of it."""
    out = Path(words[words.index("--out") + 1])
    before = sorted(out.parent.rglob("*"))
    done = bring(*words)
    assert isinstance(done.exception, InputError), done.output
    assert sorted(out.parent.rglob("*")) == before
    assert "\n" not in str(done.exception)
    return str(done.exception)


def iris(named: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [(EX + h, EX + r, EX + t) for h, r, t in named]


def as_text(format: str, named: list[tuple[str, str, str]]) -> bytes:
    """Triples in some form of text."""
    if format in RDF:
        return serialize((Quad(*map(NamedNode, triple)) for triple in named), format=RDF[format]) or b""
    sign = "\t" if format == "tsv" else ","
    return "".join(sign.join(triple) + "\n" for triple in named).encode()


@pytest.mark.parametrize("format", [*RDF, "tsv", "csv"])
def test_every_form_gives_the_same_triples(tmp_path: Path, format: str) -> None:
    (tmp_path / f"g.{format}").write_bytes(as_text(format, iris(TRIPLES)))
    assert brought(tmp_path / f"g.{format}", "--out", tmp_path / "out") == set(iris(TRIPLES))


@pytest.mark.parametrize("packed", ["gz", "bz2", "zst"])
@pytest.mark.parametrize("format", ["nt", "csv"])
def test_what_is_packed_is_unpacked_whatever_its_name(tmp_path: Path, format: str, packed: str) -> None:
    text = as_text(format, iris(TRIPLES))
    content = {
        "gz": gzip.compress(text) + gzip.compress(b""),  # in two pieces, as some tools write it
        "bz2": bz2.compress(text),
        "zst": pa.compress(text, "zstd", asbytes=True),
    }[packed]
    for name in (f"g.{format}.{packed}", f"h.{format}"):
        (tmp_path / name).write_bytes(content)
        assert brought(tmp_path / name, "--out", tmp_path / f"out-{name[0]}") == set(iris(TRIPLES))


def test_parquet_in_and_out(tmp_path: Path) -> None:
    rows = [dict(zip(("Subject", "rank", "predicate", "object"), (h, 1, r, t), strict=True)) for h, r, t in TRIPLES]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "g.parquet")
    assert brought(tmp_path / "g.parquet", "--out", tmp_path / "out.parquet") == set(TRIPLES)
    assert Federation.read(tmp_path / "out.parquet").graphs["out"].relations == ("likes", "near")


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "one.nt").write_bytes(as_text("nt", iris(TRIPLES[:2])))
    (tmp_path / "in" / "deep" / "two.csv").write_bytes(as_text("csv", iris(TRIPLES[1:])))
    (tmp_path / "in" / "README").write_text("no triples")
    (tmp_path / "in" / ".hidden.nt").write_text("broken")
    done = bring(tmp_path / "in", "--out", tmp_path / "out", "--json")
    assert triples(tmp_path / "out") == set(iris(TRIPLES))
    assert json.loads(done.output)["duplicates"] == 1


def test_standard_input_is_told_by_its_looks(tmp_path: Path) -> None:
    for format in ("nt", "ttl", "csv", "rdf"):
        text = as_text(format, iris(TRIPLES))
        for number, content in enumerate((text, gzip.compress(text))):
            out = tmp_path / f"{format}-{number}"
            words = [sys.executable, "-m", "pfedeg", "import", "-", "--out", str(out)]
            subprocess.run(words, input=content, check=True, capture_output=True)
            assert triples(out) == set(iris(TRIPLES))


names = st.text("ab,;|\"'\\ \t\nÄ\u0308é\u0301漢😀\u2028", min_size=1, max_size=6)


@given(st.lists(st.tuples(names, names, names), min_size=1, max_size=20))
def test_any_name_survives_from_csv_to_training(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    import csv

    folder = tmp_path_factory.mktemp("csv")
    with open(folder / "g.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    done = bring(folder / "g.csv", "--delimiter", ",", "--no-header", "--on-error", "skip", "--out", folder / "out")
    trimmed = {tuple(unicodedata.normalize("NFC", name.strip()) for name in row) for row in rows}
    wanted = {row for row in trimmed if all(row)}
    assert (done.exit_code == 0) == bool(wanted), done.exception
    if not wanted:
        return
    graph = Federation.read(folder / "out").graphs["out"]
    assert {triple for split in SPLITS for triple in graph.named(split)} == wanted


TTL = """@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
ex:marie ex:knows ex:pierre ; ex:born "1867-11-07"^^<http://www.w3.org/2001/XMLSchema#date> ; ex:note "chemist" ;
  rdfs:label "Maria"@pl, "Marie"@en ; ex:age 34 .
ex:pierre ex:knows ex:marie ; rdfs:label "Pierre" ; skos:prefLabel "Pierre Curie" .
ex:lonely ex:age 5 .
"""


def turtle(tmp_path: Path, text: str = TTL) -> Path:
    (tmp_path / "g.ttl").write_text(text, encoding="utf-8")
    return tmp_path / "g.ttl"


def test_values_are_dropped_and_counted(tmp_path: Path) -> None:
    told = json.loads(bring(turtle(tmp_path), "--out", tmp_path / "out", "--json").output)
    knows = [("marie", "knows", "pierre"), ("pierre", "knows", "marie")]
    assert triples(tmp_path / "out") == set(iris(knows))
    assert told["dropped"] == {"numbers and dates": 3, "texts": 1}
    assert told["isolated_entities"] == 1
    assert (told["statements"], told["triples"], told["entities"]) == (10, 2, 2)


def test_values_are_kept_as_entities(tmp_path: Path) -> None:
    found = brought(turtle(tmp_path), "--literals", "keep", "--out", tmp_path / "out")
    xsd = "http://www.w3.org/2001/XMLSchema#"
    assert (f"{EX}marie", f"{EX}note", '"chemist"') in found
    assert (f"{EX}marie", f"{EX}age", f'"34"^^<{xsd}integer>') in found
    assert len(found) == 6


def test_numbers_and_dates_become_buckets_that_can_be_read(tmp_path: Path) -> None:
    people = "".join(f"ex:p{i} ex:age {20 + i} ; ex:joined '20{i:02}-01-01'^^<{XSD}date> .\n" for i in range(40))
    found = brought(
        turtle(tmp_path, TTL.split("\n")[0] + "\n" + people),
        "--literals",
        "bucket",
        "--buckets",
        4,
        "--out",
        tmp_path / "out",
    )
    ages = {t for _, r, t in found if r == f"{EX}age"}
    assert ages == {"age≈20–29", "age≈30–39", "age≈40–49", "age≈50–59"}
    joined = {t for _, r, t in found if r == f"{EX}joined"}
    assert "joined≈2000-01-01–2009-01-01" in joined
    assert (f"{EX}p5", f"{EX}age", "age≈20–29") in found


XSD = "http://www.w3.org/2001/XMLSchema#"


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=200), st.integers(2, 12))
def test_buckets_hold_what_they_say_and_about_equally_many(values: list[int], many: int) -> None:
    buckets = bucket_names(values, "number", many, "x")
    assert len(buckets) == len(values)
    if len(set(values)) <= many:
        assert buckets == [f"x={value}" for value in values]
        return
    sizes = Counter(buckets)
    assert len(sizes) <= many
    most = max(Counter(values).values())
    assert max(sizes.values()) <= len(values) / many + 2 * most + 1
    for value, bucket in zip(values, buckets, strict=True):
        low, _, high = bucket.removeprefix("x≈").partition("–")
        assert int(low) <= value <= int(high or low)


def test_a_value_on_a_quantile_is_the_last_of_its_bucket() -> None:
    assert bucket_names([1, 2, 3, 4, 5], "number", 2, "x") == ["x≈1–3"] * 3 + ["x≈4–5"] * 2
    assert bucket_names([1, 2, 2, 2, 3, 9], "number", 3, "x") == ["x≈1–2"] * 4 + ["x≈3–9"] * 2


@pytest.mark.parametrize(
    ("text", "datatype", "value"),
    [
        ("34", None, 34.0),
        ("-3.5e2", None, -350.0),
        ("1970-01-02", None, 1.0),
        ("1970-01-01T12:00:00Z", f"{XSD}dateTime", 0.5),
        ("1e999", None, None),
        ("nan", f"{XSD}double", None),
        ("0x10", None, None),
        ("12 a", None, None),
        ("2020-13-01", None, None),
        ("34", f"{XSD}string", None),
    ],
)
def test_what_counts_as_a_number(text: str, datatype: str | None, value: float | None) -> None:
    found = number_of(text, datatype)
    assert (found[0] if found else None) == value


def test_a_column_with_names_among_numbers_is_not_cut(tmp_path: Path) -> None:
    rows = [f"p{i},room,{i}\np{i},age,{i}" for i in range(30)] + ["p1,room,attic"]
    (tmp_path / "g.csv").write_text("\n".join(rows))
    found = brought(tmp_path / "g.csv", "--literals", "bucket", "--buckets", 3, "--out", tmp_path / "out")
    assert {t for _, r, t in found if r == "room"} == {*(str(i) for i in range(30)), "attic"}
    assert len({t for _, r, t in found if r == "age"}) == 3


def test_labels_and_prefixes_are_for_the_eye_only(tmp_path: Path) -> None:
    brought(turtle(tmp_path), "--out", tmp_path / "out")
    labels = {row["name"]: row["label"] for row in pq.read_table(tmp_path / "out" / "labels.parquet").to_pylist()}
    assert labels == {f"{EX}marie": "Marie", f"{EX}pierre": "Pierre Curie", f"{EX}knows": "ex:knows"}
    brought(tmp_path / "g.ttl", "--language", "pl", "--out", tmp_path / "polish")
    labels = {row["name"]: row["label"] for row in pq.read_table(tmp_path / "polish" / "labels.parquet").to_pylist()}
    assert labels[f"{EX}marie"] == "Maria"


def test_blank_nodes_of_two_sources_are_never_the_same(tmp_path: Path) -> None:
    for name, tail in (("one", "b"), ("two", "c")):
        (tmp_path / f"{name}.nt").write_text(f"_:x <{EX}p> <{EX}{tail}> .\n")
    (tmp_path / "three.nt.gz").write_bytes(gzip.compress((tmp_path / "one.nt").read_bytes()))
    heads = {}
    for name in ("one.nt", "two.nt", "three.nt.gz"):
        ((heads[name], _, _),) = brought(tmp_path / name, "--out", tmp_path / f"out-{name}")
    assert heads["one.nt"].startswith("_:")
    assert heads["one.nt"] != heads["two.nt"]
    assert heads["one.nt"] == heads["three.nt.gz"]
    both = brought(tmp_path / "one.nt", tmp_path / "two.nt", "--out", tmp_path / "both")
    assert {h for h, _, _ in both} == {heads["one.nt"], heads["two.nt"]}
    (tmp_path / "more.nt").write_text(f"_:x <{EX}p> <{EX}b> .\n<{EX}a> <{EX}p> <{EX}b> .\n")
    assert brought(tmp_path / "more.nt", "--blank", "drop", "--out", tmp_path / "none") == {
        (f"{EX}a", f"{EX}p", f"{EX}b")
    }


def test_two_spellings_of_a_name_are_one_and_told(tmp_path: Path) -> None:
    composed, apart = "é", unicodedata.normalize("NFD", "é")
    (tmp_path / "g.tsv").write_text(f"{composed}\tr\tx\n{apart}\tr\ty\n", encoding="utf-8")
    done = bring(tmp_path / "g.tsv", "--out", tmp_path / "out")
    assert triples(tmp_path / "out") == {("é", "r", "x"), ("é", "r", "y")}
    assert "Unicode normal form C: 1, e.g. 'e\\u0301'" in done.output


RDF_XML = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">
<rdf:Description rdf:about="http://x/a"><x:n rdf:resource="http://x/b"/></rdf:Description>
</rdf:RDF>
"""
BROKEN = {
    "nt": (f"<{EX}a> <{EX}p> <{EX}b> .\n<{EX}a> oops .\n<{EX}c> <{EX}p> <{EX}b> .\n", 2),
    "nq": (f"<{EX}a> <{EX}p> <{EX}b> <{EX}g> .\n\n<{EX}a> <{EX}p> <{EX}b>\n<{EX}c> <{EX}p> <{EX}b> .\n", 3),
    "tsv": (f"{EX}a\t{EX}p\t{EX}b\n{EX}a\t{EX}p\n{EX}c\t{EX}p\t{EX}b\n", 2),
    "csv": (f"{EX}a,{EX}p,{EX}b\n{EX}a,{EX}p,\n{EX}c,{EX}p,{EX}b\n", 2),
}


@pytest.mark.parametrize("format", BROKEN)
def test_a_broken_line_stops_with_its_number_or_is_counted(tmp_path: Path, format: str) -> None:
    text, line = BROKEN[format]
    (tmp_path / f"g.{format}").write_text(text)
    assert f"g.{format}, line {line}: " in refused(tmp_path / f"g.{format}", "--out", tmp_path / "out")
    done = bring(tmp_path / f"g.{format}", "--on-error", "skip", "--out", tmp_path / "out", "--json")
    told = json.loads(done.output)
    assert told["dropped"] == {"invalid lines": 1}
    assert f"line {line}" in told["examples"]["invalid lines"]
    assert triples(tmp_path / "out") == {(f"{EX}a", f"{EX}p", f"{EX}b"), (f"{EX}c", f"{EX}p", f"{EX}b")}


def test_what_follows_a_broken_line_is_read_and_nothing_is_made_up(tmp_path: Path) -> None:
    lines = [f"<{EX}e{i % 97}> <{EX}r{i % 7}> <{EX}e{(i * 31) % 101}> ." for i in range(5000)]
    wrong = {11: f'<{EX}a> <{EX}p> "never closed .', 12: f"<{EX}a> <{EX}p", 4000: f"<{EX}a> <{EX}p> <{EX}b>"}
    whole = {(f"{EX}e{i % 97}", f"{EX}r{i % 7}", f"{EX}e{(i * 31) % 101}") for i in range(5000) if i not in wrong}
    (tmp_path / "g.nt").write_text("\n".join(wrong.get(i, line) for i, line in enumerate(lines)) + "\n")
    assert "line 12: " in refused(tmp_path / "g.nt", "--out", tmp_path / "out")
    assert brought(tmp_path / "g.nt", "--on-error", "skip", "--out", tmp_path / "out") == whole
    assert json.loads((tmp_path / "out" / "import.json").read_text())["dropped"] == {"invalid lines": 3}


def test_a_quote_that_is_never_closed_breaks_its_line_alone(tmp_path: Path) -> None:
    rows = [f"e{i % 997},r{i % 7},e{(i * 31) % 1009}" for i in range(20_000)]
    rows[10] = 'x,y,"oops'
    rows[500] = 'a,b,"two\nlines"'
    (tmp_path / "g.csv").write_text("\n".join(rows) + "\n")
    assert "g.csv, line 11: " in refused(tmp_path / "g.csv", "--out", tmp_path / "out")
    found = brought(tmp_path / "g.csv", "--on-error", "skip", "--out", tmp_path / "out")
    whole = {(f"e{i % 997}", f"r{i % 7}", f"e{(i * 31) % 1009}") for i in range(20_000) if i not in (10, 500)}
    assert found == whole | {("a", "b", "two\nlines")}
    (tmp_path / "g.csv").write_text("\n".join([*rows[:10], *rows[11:600], "x,y"]) + "\n")
    assert "g.csv, line 601: 2 column(s)" in refused(tmp_path / "g.csv", "--out", tmp_path / "again")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "g.ttl",
            f"<{EX}d> <{EX}p> <{EX}e> .\n<{EX}a> <{EX}p>\n<{EX}b> <{EX}q> <{EX}c> .\n",
        ),
        ("g.rdf", RDF_XML[: RDF_XML.index("</rdf:RDF>")]),
        ("g.rdf", RDF_XML.replace("</rdf:RDF>", '<rdf:Description rdf:about="http://x/a"><x:n>')),
    ],
)
def test_where_nothing_can_be_left_out_a_broken_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    for words in ((), ("--on-error", "skip")):
        message = refused(tmp_path / name, *words, "--out", tmp_path / "out")
        assert re.search(rf"{name}, line \d: .*; the rest of the file cannot be read reliably", message)


def test_bytes_that_are_no_text_are_a_broken_line(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_bytes(b"a,r,b\n" * 500 + b"\xff,r,b\n" + "ä,r,b\n".encode() * 3)
    assert "line 501: not valid UTF-8" in refused(tmp_path / "g.csv", "--out", tmp_path / "out")
    assert len(brought(tmp_path / "g.csv", "--on-error", "skip", "--out", tmp_path / "out")) == 2


def test_a_missing_value_in_parquet_names_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"head": ["a", "b"], "relation": ["r", None], "tail": ["c", "d"]}), tmp_path / "g.parquet")
    assert "line 2: the relation is empty" in refused(tmp_path / "g.parquet", "--out", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.jsonld", b'{"@context": "https://schema.org/", "name": "A"}', "contexts are not downloaded"),
        ("g.rdf", b"<?xml version='1.0'?><rdf:RDF><oops>", "Unknown prefix rdf:; the rest of the file cannot be read"),
        ("g.rdf", b"<?xml version='1.0'?>\n<a>\n<b>\n</a>", "the rest of the file cannot be read reliably"),
        ("g.csv", b"a b c\nd e f\n", "cannot split into three columns by comma, semicolon, tab, bar: 'a b c'; add"),
        ("g.csv", b"id,who,rel,tail,score\n1,a,r,b,3\n", "5 columns (id, who, rel, tail, score); add --columns"),
        ("g.csv", b"a,r,b\na,r,c\nd;e;f\n", "line 3: 1 column(s); the first line has 3"),
        ("g.parquet", b"a,r,b\n", "not a Parquet file; rename it"),
        ("g.csv", b"PAR1\x00", "a Parquet file, not csv"),
        ("g.nt.gz", b"no gzip at all", "line 1"),
        ("g.nt", b"", "empty"),
        ("g.nt", b"# nothing\n", "no triples to import"),
        (
            "g.ttl",
            b"<http://a/b> <http://a/c> 'text' .",
            "no triples to import (dropped: texts: 1); to keep literals",
        ),
        ("g.what", b"\x00\x01", "unknown format; add --format"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in refused(tmp_path / name, "--out", tmp_path / "out")


def test_columns_by_name_and_number(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("id;who;what;whom\n1;a;likes;b\n2;b;likes;c\n")
    wanted = {("a", "likes", "b"), ("b", "likes", "c")}
    assert brought(tmp_path / "g.csv", "--columns", "who,what,whom", "--out", tmp_path / "one") == wanted
    assert brought(tmp_path / "g.csv", "--columns", "2,3,4", "--header", "--out", tmp_path / "two") == wanted
    assert "no column 'x'" in refused(tmp_path / "g.csv", "--columns", "who,what,x", "--out", tmp_path / "out")
    assert "the table has 4 columns" in refused(tmp_path / "g.csv", "--columns", "1,2,5", "--out", tmp_path / "out")
    assert "expected three" in refused(tmp_path / "g.csv", "--columns", "1,2", "--out", tmp_path / "out")


def test_a_place_that_is_taken_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "g.nt").write_bytes(as_text("nt", iris(TRIPLES)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    assert "already exists" in refused(tmp_path / "g.nt", "--out", tmp_path / "out")
    assert "unknown" in refused(tmp_path / "g.nt", "--format", "turtel", "--out", tmp_path / "other")
    assert "no such file" in refused(tmp_path / "none.nt", "--out", tmp_path / "other")


def fede(**changes: Any) -> list[dict[str, Any]]:
    part = {
        "edge_index": np.array([[0, 1], [1, 2]]),
        "edge_type": np.array([0, 0]),
        "edge_index_ori": np.array([[7, 8], [8, 9]]),
        "edge_type_ori": np.array([3, 3]),
    } | changes
    empty = {name: array[..., :0] for name, array in part.items()}
    return [{"train": part, "valid": empty, "test": empty}, {"train": part, "valid": part, "test": empty}]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_fedes_files_are_federations(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "g.pkl").write_bytes(pickle.dumps(fede(), protocol))
    (tmp_path / "entity2id.txt").write_text("2\nseven\t7\neight h\t8\n")
    assert bring(tmp_path / "g.pkl", "--out", tmp_path / "out").exit_code == 0
    graphs = Federation.read(tmp_path / "out").graphs
    assert list(graphs) == ["client-0", "client-1"]
    assert graphs["client-0"].named("train") == [("eight h", "r3", "e9"), ("seven", "r3", "eight h")]
    assert len(graphs["client-1"].valid) == 2
    told = json.loads(bring(tmp_path / "g.pkl", "--json", "--out", tmp_path / "again").output)
    assert told["clients"]["client-1"] == {"train": 2, "valid": 2, "test": 0}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (b"\xff\t7\n", "entity2id.txt: cannot be read as UTF-8 text"),
        ("seven\t7\nA\t²\n".encode(), "entity2id.txt, line 2: expected NAME<TAB>ID"),
        (b"seven\t7\nother\t7\n", "entity2id.txt, line 2: id 7 already has the name 'seven'"),
        (b"same\t7\nsame\t8\n", "entity2id.txt: two ids have the name 'same'"),
    ],
)
def test_wrong_lists_of_names_are_told_with_their_line(tmp_path: Path, names: bytes, message: str) -> None:
    (tmp_path / "g.pkl").write_bytes(pickle.dumps(fede()))
    (tmp_path / "entity2id.txt").write_bytes(names)
    assert message in refused(tmp_path / "g.pkl", "--out", tmp_path / "out")


class Evil:
    """What a pickle from a stranger may do."""

    def __reduce__(self) -> Any:
        return os.system, ("touch evil",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"train": Evil()}], r"it contains \w+\.system"),
        ([{"train": {"edge_index_ori": np.array([Evil()], object)}}], r"it contains \w+\.system"),
        ({"a": 1}, "expected a list with a dict per client"),
        ([{"train": {}}], "client 0, train: edge_index_ori and edge_type_ori must be integer arrays"),
        (fede(edge_type_ori=np.array([1])), r"expected \(2, n\) and \(n,\)"),
        (fede(edge_type_ori=np.array([1.5, 2])), "must be integer arrays"),
        (fede(edge_type_ori=np.array([-1, 2])), "an id is negative"),
    ],
)
def test_a_pickle_may_hold_arrays_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(cli, ["import", "g.pkl", "--out", "out"], standalone_mode=False, catch_exceptions=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.pkl"]


def test_a_pickle_cannot_ask_for_memory_it_does_not_bring(tmp_path: Path) -> None:
    big = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I1000000000000\ntS'b'\ntR."
    (tmp_path / "g.pkl").write_bytes(big)
    assert "more than plain arrays" in refused(tmp_path / "g.pkl", "--out", tmp_path / "out")
    (tmp_path / "g.pkl").write_bytes(b"cnumpy\nndarray\n((I1000000000000\nttR.")
    assert "more than plain arrays" in refused(tmp_path / "g.pkl", "--out", tmp_path / "out")


def test_labels_are_shown_and_understood_where_answers_are_given(tmp_path: Path) -> None:
    people = "".join(
        f'ex:p{i} ex:knows ex:p{(i + 1) % 12}, ex:p{(i + 2) % 12} ; rdfs:label "Person {i % 11}"@en .\n'
        for i in range(12)
    )
    brought(turtle(tmp_path, "\n".join(TTL.split("\n")[:2]) + "\n" + people), "--out", tmp_path / "fed" / "one")
    words = ["train", tmp_path / "fed", "--method", "single", "--rounds", 1, "--dim", 4, "--negatives", 2]
    assert CliRunner().invoke(cli, [*map(str, words), "--out", str(tmp_path / "run")]).exit_code == 0
    ask = [
        "predict",
        str(tmp_path / "run"),
        "--client",
        "one",
        "--relation",
        "ex:knows",
        "--known",
        "-k",
        "20",
        "--head",
    ]
    by_label, by_name = (CliRunner().invoke(cli, [*ask, name, "--json"]) for name in ("Person 5", f"{EX}p5"))
    answers = json.loads(by_label.output)["predictions"]
    assert answers == json.loads(by_name.output)["predictions"]
    assert {answer["entity"]: answer["label"] for answer in answers}[f"{EX}p7"] == "Person 7"
    assert "Person 7 (http://example.org/p7)" in CliRunner().invoke(cli, [*ask, "Person 5"]).output
    for other in (" Person 5 ", f"{EX}%705"):  # spaces, and an IRI that is encoded without need
        assert json.loads(CliRunner().invoke(cli, [*ask, other, "--json"]).output)["predictions"] == answers
    assert "2 have this label" in str(CliRunner().invoke(cli, [*ask, "Person 0"]).exception)
    assert "did you mean 'Person 5'" in str(CliRunner().invoke(cli, [*ask, "Person5"]).exception)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a;"x, y, z";b\nc;"q, r, s";d\n', {("a", "x, y, z", "b"), ("c", "q, r, s", "d")}),
        ("a|p|b;c;d\ne|p|f;g;h\n", {("a", "p", "b;c;d"), ("e", "p", "f;g;h")}),
        ("a;p;b,c,d\ne;p;f,g,h\n", {("a", "p", "b,c,d"), ("e", "p", "f,g,h")}),
        ("a,p,b;c;d\ne,p,f\n", {("a", "p", "b;c;d"), ("e", "p", "f")}),
        ("a\tp\tb,c,d\n", {("a", "p", "b,c,d")}),
    ],
)
def test_the_delimiter_is_told_by_the_looks(tmp_path: Path, text: str, expected: set[tuple[str, str, str]]) -> None:
    (tmp_path / "g.csv").write_text(text)
    assert brought(tmp_path / "g.csv", "--out", tmp_path / "out") == expected


def test_an_unusual_delimiter_is_told_and_short_lines_do_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("a;r;b\nc;d\ne;r;f\ng;h\n")
    done = bring(tmp_path / "g.csv", "--on-error", "skip", "--out", tmp_path / "out")
    assert "delimiter detected: semicolon" in done.output
    assert triples(tmp_path / "out") == {("a", "r", "b"), ("e", "r", "f")}


@pytest.mark.parametrize("name", ["g.csv", "g.tsv"])
def test_more_columns_than_the_first_line_has_are_no_triple(tmp_path: Path, name: str) -> None:
    sign = "\t" if name.endswith("tsv") else ","
    (tmp_path / name).write_text(sign.join("aab") + "\n" + sign.join("cddef") + "\n")
    assert "line 2: 5 column(s); the first line has 3" in refused(tmp_path / name, "--out", tmp_path / "out")
    (tmp_path / name).write_text(sign.join("aab") + "\n" + sign.join("cde") + sign + "\n")
    assert len(brought(tmp_path / name, "--out", tmp_path / "out")) == 2  # nothing but an end


def test_a_heading_is_known_under_chosen_columns_too(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("id,subj,pred,obj\n1,a,p,b\n2,a,q,c\n")
    path, expected = tmp_path / "g.csv", {("a", "p", "b"), ("a", "q", "c")}
    assert brought(path, "--columns", "2,3,4", "--out", tmp_path / "one") == expected
    assert len(brought(path, "--columns", "2,3,4", "--no-header", "--out", tmp_path / "two")) == 3
    assert "column names need a header" in refused(
        path, "--columns", "subj,pred,obj", "--no-header", "--out", tmp_path / "out"
    )
    assert "need three different columns" in refused(path, "--columns", "2,2,4", "--out", tmp_path / "out")


def test_names_with_odd_first_signs_stay_names(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_bytes(b"\0c,p,b\na,p,\0000\0007\n")
    assert brought(tmp_path / "g.csv", "--out", tmp_path / "out") == {("\0c", "p", "b"), ("a", "p", "\x000\x007")}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.csv", "a,p,b\n".encode("utf-16"), "cannot import UTF-16 text; save it as UTF-8"),
        ("g.csv", b"\x89PNG\r\n\x1a\n", "cannot import a PNG image"),
        ("g.csv.xz", b"\xfd7zXZ\0", "an xz-compressed file"),
        ("g.ttl", RDF_XML.encode(), "looks like rdf, not ttl; rename it, or add --format rdf"),
        ("g.csv", f"<{EX}a> <{EX}p> <{EX}b> .\n".encode(), "looks like nt, not csv"),
    ],
)
def test_a_file_that_is_something_else_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in refused(tmp_path / name, "--out", tmp_path / "out")


def test_frequent_names_are_told_apart_where_labels_are_not(tmp_path: Path) -> None:
    facts = [f"<{EX}{i}> <{EX}p> <{EX}o> .\n" for i in range(3)] + [f"<{EX}{i}> <{EX}q> <{EX}o> .\n" for i in range(5)]
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    (tmp_path / "g.nt").write_text("".join(facts) + "".join(f'<{EX}{r}> <{label}> "rel" .\n' for r in "pq"))
    done = bring(tmp_path / "g.nt", "--out", tmp_path / "out")
    assert f"most frequent relations: rel, {EX}q (5), rel, {EX}p (3)" in done.output
    assert "nothing was left" not in done.output  # relations that have a label are no lost entities
    told = json.loads((tmp_path / "out" / "import.json").read_text())
    assert told["frequent_relations"] == {f"{EX}q": 5, f"{EX}p": 3}


@pytest.mark.parametrize(
    ("tails", "many"),
    [
        ([f"2001-01-01 {hour:02}:30:00" for hour in range(24)], 10),
        ([f"{48 + i * 1e-7:.7f}" for i in range(50)], 10),
        ([f"2001-01-01T00:00:{i:02}" for i in range(4)], 4),
    ],
)
def test_buckets_are_told_apart(tmp_path: Path, tails: list[str], many: int) -> None:
    (tmp_path / "g.csv").write_text("".join(f"e{i},t,{tail}\n" for i, tail in enumerate(tails)))
    found = brought(tmp_path / "g.csv", "--literals", "bucket", "--out", tmp_path / "out")
    assert len({tail for _, _, tail in found}) == many


def test_the_language_of_labels_may_be_a_regional_one(tmp_path: Path) -> None:
    label = f"<{EX}a> <http://www.w3.org/2000/01/rdf-schema#label> "
    texts = ['"plain"', '"deutsch"@de', '"österreichisch"@de-AT', '"  "@de-AT', '"english"@en']
    (tmp_path / "g.nt").write_text("".join(f"{label}{text} .\n" for text in texts) + f"<{EX}a> <{EX}p> <{EX}b> .\n")
    expected = {"de-AT": "österreichisch", "de": "deutsch", "de-CH": "deutsch", "fr": "plain"}
    for place, (language, shown) in enumerate(expected.items()):
        brought(tmp_path / "g.nt", "--language", language, "--out", tmp_path / str(place))
        rows = pq.read_table(tmp_path / str(place) / "labels.parquet").to_pylist()
        assert {row["name"]: row["label"] for row in rows}[f"{EX}a"] == shown


def test_out_is_looked_at_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("broken")
    (tmp_path / "file").write_text("mine")
    assert "is not a folder" in refused(tmp_path / "g.csv", "--out", tmp_path / "file" / "out")
    (tmp_path / "good.csv").write_text("a,r,b\n")
    assert len(brought(tmp_path / "good.csv", "--out", tmp_path / "new" / "one.parquet")) == 1
    assert list(Federation.read(tmp_path / "new").graphs) == ["one"]


def test_a_first_line_that_may_be_a_header_is_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {("ann", "lives", "Rome"), ("bob", "lives", "Oslo")}
    (tmp_path / "g.csv").write_text("name,relation,city\nann,lives,Rome\nbob,lives,Oslo\n")
    message = refused(tmp_path / "g.csv", "--out", tmp_path / "out")
    assert "g.csv, line 1: (name, relation, city) may be a header; add --header if it is one, or --no-header" in message
    assert brought(tmp_path / "g.csv", "--header", "--out", tmp_path / "one") == facts
    whole = facts | {("name", "relation", "city")}
    assert brought(tmp_path / "g.csv", "--no-header", "--out", tmp_path / "two") == whole
    monkeypatch.setattr("pfedeg.cli.importing.sys", SimpleNamespace(stdin=Terminal(), stderr=Terminal()))
    for answer, expected in (("y", facts), ("", facts), ("n", whole)):
        out = tmp_path / f"answer-{answer}"
        done = CliRunner().invoke(cli, ["import", str(tmp_path / "g.csv"), "--out", str(out)], input=f"{answer}\n")
        assert "line 1 is (name, relation, city). Is it a header?" in done.stderr
        assert triples(out) == expected


class Terminal:
    """Where somebody can answer."""

    def isatty(self) -> bool:
        return True


def test_a_header_of_unusual_words_is_asked_about_if_the_table_is_long(tmp_path: Path) -> None:
    rows = [f"p{i},age,{i % 7}" for i in range(20)]
    (tmp_path / "g.csv").write_text("\n".join(["patient,what,how much", *rows]))
    assert "(patient, what, how much) may be a header" in refused(tmp_path / "g.csv", "--out", tmp_path / "out")
    (tmp_path / "g.csv").write_text("\n".join(["p1,sister of,p2", *rows]))
    assert len(brought(tmp_path / "g.csv", "--out", tmp_path / "one")) == 21
    (tmp_path / "g.csv").write_text("\n".join(["Entity,Property,Value", *rows]))
    assert "may be a header" in refused(tmp_path / "g.csv", "--out", tmp_path / "out")
    (tmp_path / "g.csv").write_text("\n".join(["Subject,Property,Value", *rows]))
    assert len(brought(tmp_path / "g.csv", "--out", tmp_path / "two")) == 20


def test_a_few_words_among_numbers_are_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("".join(f"e{i},age,{20 + i}\n" for i in range(40)) + "x,age,n/a\n")
    done = bring(tmp_path / "g.csv", "--literals", "bucket", "--out", tmp_path / "out")
    assert "age: 40 values are numbers or dates, 1 are not, so all are kept as names; correct those" in done.output
    assert ("e3", "age", "23") in triples(tmp_path / "out")


def test_a_federation_in_one_file_is_pointed_at(tmp_path: Path) -> None:
    table = {"client": ["one"], "split": ["train"], "head": ["a"], "relation": ["r"], "tail": ["b"]}
    pq.write_table(pa.table({name: pa.array(column) for name, column in table.items()}), tmp_path / "g.parquet")
    done = bring(tmp_path / "g.parquet", "--out", tmp_path / "out")
    assert "columns client and split ignored; `pfedeg train` reads this file without import" in done.output


@pytest.mark.parametrize("name", ["g.nt", "g.ttl", "g.csv", "g.jsonld", "g.rdf"])
def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path: Path, name: str) -> None:
    content = {
        "csv": "http://x/a,http://x/n,http://x/b\n",
        "jsonld": '{"@id": "http://x/a", "http://x/n": {"@id": "http://x/b"}}',
        "rdf": RDF_XML,
    }.get(name[2:], "<http://x/a> <http://x/n> <http://x/b> .\n")
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert brought(tmp_path / name, "--out", tmp_path / "out") == {("http://x/a", "http://x/n", "http://x/b")}


def test_a_file_of_bytes_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(bytes(range(128, 256)) * 3)
    with pytest.raises(InputError, match=r"bytes\.csv, line 1: not valid UTF-8; is this file a table\?$"):
        pfedeg.import_client(tmp_path / "bytes.csv")
