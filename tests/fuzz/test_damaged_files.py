"""Damaged files of every kind: one line and exit code 2, or a result; no crash, in bounded memory. `make test-fuzz`."""

import bz2
import gzip
import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, serialize

from fuzz.hostile import Runner, complaint, ends, mutated

pytestmark = pytest.mark.fuzz
SEED, EACH = 23, 20  # mutations of each file
EX = "http://example.org/"
ROWS = [(f"e{i % 7}", f"r{i % 3}", f"e{i % 5}") for i in range(40)]
RDF = {
    "nt": RdfFormat.N_TRIPLES,
    "nq": RdfFormat.N_QUADS,
    "ttl": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "rdf": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("runner"))
    yield made
    made.close()


def sources() -> dict[str, bytes]:
    """A valid file of each format."""
    quads = [Quad(*(NamedNode(EX + name) for name in row)) for row in ROWS]
    quads.append(Quad(NamedNode(EX + "e1"), NamedNode(EX + "note"), Literal('a "text"', language="en")))
    found = {f"g.{name}": serialize(quads, format=format) or b"" for name, format in RDF.items()}
    found["g.csv"] = "".join(",".join(f'"{name}"' for name in row) + "\n" for row in ROWS).encode()
    found["g.tsv"] = "".join("\t".join(row) + "\n" for row in ROWS).encode()
    table = pa.table(dict(zip(("head", "relation", "tail"), map(pa.array, zip(*ROWS, strict=True)), strict=True)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    found["g.parquet"] = sink.getvalue().to_pybytes()
    part = {"edge_index_ori": np.arange(8).reshape(2, 4), "edge_type_ori": np.arange(4)}
    for protocol in (0, 2, 5):
        client = {"train": part, "valid": dict(part), "test": dict(part)}
        found[f"g{protocol}.pkl"] = pickle.dumps([client], protocol)
    found["g.nt.gz"] = gzip.compress(found["g.nt"])
    found["g.csv.bz2"] = bz2.compress(found["g.csv"])
    found["g.ttl.zst"] = pa.compress(found["g.ttl"], "zstd", asbytes=True)
    return found


@pytest.mark.parametrize("name", sources())
def test_imports_of_damaged_files(name: str, tmp_path: Path, runner: Runner) -> None:
    random, content, wrong = Random(f"{SEED} {name}"), sources()[name], []
    for number in range(EACH):
        (tmp_path / name).write_bytes(mutated(content, random))
        out = tmp_path / "out"
        words = ["--literals", random.choice(("drop", "keep", "bucket")), "--on-error", random.choice(("stop", "skip"))]
        header = ["--no-header"] if ".pkl" not in name else []
        code, errors = runner.run("import", tmp_path / name, "--out", out, *words, *header)
        if problem := complaint(code, errors):
            shutil.copy(tmp_path / name, tmp_path / f"failed-{number}-{name}")
            wrong.append(f"{number}: {problem}")
        left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
        assert not left
        ends(out)
    assert not wrong, f"{len(wrong)} of {EACH}, kept in {tmp_path}:\n" + "\n".join(wrong[:3])


CONFIG = """preset = "quick"
method = "fede"
model = "rotate"
rounds = 2
dim = 8
lr = 0.005
negatives = 4
seed = 3
"""
ODD = (
    "9" * 5000,
    "2" * 20,
    "-1",
    "0",
    "nan",
    "inf",
    "[" * 3000,
    '"x"',
    "[1]",
    "{a = 1}",
    "1979-05-27",
    "true",
    "1e400",
)


def test_damaged_configs(tmp_path: Path, runner: Runner) -> None:
    random, wrong = Random(SEED), []
    data = tmp_path / "data" / "one"
    data.mkdir(parents=True)
    (data / "triples.tsv").write_text("".join("\t".join(row) + "\n" for row in ROWS))
    lines = CONFIG.splitlines()
    texts = [
        "\n".join(f"{line.split(' = ')[0]} = {odd}" if place == at else line for place, line in enumerate(lines))
        for at in range(len(lines))
        for odd in ODD
    ]
    texts += [mutated(CONFIG.encode(), random).decode("latin1") for _ in range(EACH)]
    for number, text in enumerate(texts):
        (tmp_path / "c.toml").write_bytes(text.encode("latin1"))
        words = ["--rounds", 1, "--dim", 4] if number >= len(lines) * len(ODD) else ["--secret", tmp_path / "missing"]
        code, errors = runner.run(
            "train", tmp_path / "data", "--config", tmp_path / "c.toml", *words, "--out", tmp_path / "run"
        )
        if problem := complaint(code, errors):
            wrong.append(f"{text[:300]!r}: {problem}")
        ends(tmp_path / "run")
    assert not wrong, f"{len(wrong)} of {len(texts)}:\n" + "\n".join(wrong[:5])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, runner: Runner) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    for client, shift in (("one", 0), ("two", 3)):
        home = folder / "data" / client
        home.mkdir(parents=True)
        rows = [(f"e{(int(h[1:]) + shift) % 9}", r, t) for h, r, t in ROWS]
        (home / "triples.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    small = ["--dim", 4, "--negatives", 2, "--rounds", 2, "--eval-every", 1, "--threads", 1]
    code, errors = runner.run("train", folder / "data", *small, "--out", folder / "run")
    assert code == 0, errors
    code, errors = runner.run("calibrate", folder / "run", "--client", "one")
    return folder


def test_damaged_questions(tmp_path: Path, trained: Path, runner: Runner) -> None:
    random, wrong = Random(SEED), []
    valid = "head,relation,tail\n" + "".join(f"e{i % 5},r{i % 3},\n" for i in range(5))
    contents = [mutated(valid.encode(), random) for _ in range(EACH)]
    contents.append(b"head,relation\n" + b"a" * 140_000 + b",r0\n")
    table = pa.table({"head": ["e1"], "relation": ["r1"]})
    pq.write_table(table, tmp_path / "q.parquet")
    raw = (tmp_path / "q.parquet").read_bytes()
    for number, content in enumerate([*contents, *(mutated(raw, random) for _ in range(EACH))]):
        path = tmp_path / ("q.csv" if number < len(contents) else "q.parquet")
        path.write_bytes(content)
        code, errors = runner.run("predict", trained / "run", "--client", "one", "--questions", path, "--threads", 1)
        if problem := complaint(code, errors):
            wrong.append(f"{content[:200]!r}: {problem}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:5])


COMMANDS: tuple[tuple[Any, ...], ...] = (
    ("show",),
    ("evaluate", "--threads", 1),
    ("predict", "--client", "one", "--relation", "r1", "--head", "e1", "--threads", 1),
    ("export", "--client", "one", "--to", "numpy", "--out", "out"),
    ("report", "--out", "out"),
)
VALUES: tuple[Any, ...] = (None, True, -1, 1.5, "x", [], {}, [1], {"a": 1}, {"a": None}, [None], 10**30)


def changes(content: Any, random: Random) -> Any:
    """JSON with one value of another type."""
    places: list[tuple[Any, Any]] = []

    def visit(part: Any) -> None:
        for key in list(part) if isinstance(part, dict) else range(len(part)):
            places.append((part, key))
            if isinstance(part[key], dict | list):
                visit(part[key])

    visit(content)
    part, key = random.choice(places)
    if isinstance(part, dict) and random.random() < 0.2:
        del part[key]
    else:
        part[key] = random.choice(VALUES)
    return content


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "provenance.json",
        "result.json",
        "history.jsonl",
        "calibration.json",
        "graph.safetensors",
        "tables.safetensors",
        "mix.safetensors",
    ],
)
def test_damaged_run_folders(name: str, tmp_path: Path, trained: Path, runner: Runner) -> None:
    random, wrong = Random(f"{SEED} {name}"), []
    for number in range(EACH // 2):
        run = tmp_path / "run"
        shutil.copytree(trained / "run", run)
        file = next(iter(run.rglob(name)), None)
        if file is None:
            pytest.skip(f"the run has no {name}")
        raw = file.read_bytes()
        if ".json" in name and number % 3:
            lines = raw.splitlines(keepends=True) if name.endswith("l") else [raw]
            at = random.randrange(len(lines))
            content = json.loads(lines[at])
            content.pop(
                "sha256", None
            )  # of the file: a value of the wrong type may have been written by an older version
            lines[at] = json.dumps(changes(content, random)).encode() + b"\n"
            file.write_bytes(b"".join(lines))
        else:
            file.write_bytes(mutated(raw, random))
        command = COMMANDS[number % len(COMMANDS)]
        words = [str(tmp_path / word) if word == "out" else word for word in command[1:]]
        code, errors = runner.run(command[0], run, *words)
        if problem := complaint(code, errors):
            wrong.append(f"{number} {command[0]} {file.read_bytes()[:200]!r}: {problem}")
        ends(run)
        ends(tmp_path / "out")
    assert not wrong, f"{len(wrong)} of {EACH // 2}:\n" + "\n".join(wrong[:6])
