"""Small files that ask for much memory or time are refused, with the option that would allow them."""

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from pfedeg.cli.main import cli
from pfedeg.errors import InputError

HEAD = b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:x='http://x/'>"
ENTITIES = b"".join(b'<!ENTITY a%d "%s">' % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, 10))
STAR = b"<http://a> <http://b> " + b"<<( <http://a> <http://b> " * 24000 + b"<http://a>" + b" )>>" * 24000 + b" .\n"
ATTACKS = {
    "entities.rdf": (b'<!DOCTYPE r [<!ENTITY a0 "aaaaaaaaaa">' + ENTITIES + b"]>" + HEAD, "--max-expansion"),
    "deep.rdf": (HEAD + b"<rdf:Description><x:y>" * 9000, "--max-depth"),
    "comment.rdf": (HEAD + b"<!--" + b"x" * (17 << 20), "--max-line"),
    "deep.jsonld": (b'{"http://b":' * 4000 + b"1" + b"}" * 4000, "--max-depth"),
    "star.nt": (STAR, "--max-depth"),
    "star.ttl": (b'<http://a> <http://b> "<<" .\n' * 300 + STAR, "--max-depth"),
    "line.nt.zst": (pa.compress(b"a" * (1 << 25), "zstd", asbytes=True), "--max-line"),
    "line.csv.zst": (pa.compress(b"a" * (1 << 25), "zstd", asbytes=True), "--max-line"),
    "name.tsv": (b"a\tb\t" + b"c" * 70_000 + b"\n", "--max-name"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_that_asks_for_too_much_is_refused(name: str, tmp_path: Path) -> None:
    content, option = ATTACKS[name]
    (tmp_path / name).write_bytes(content)
    words = ["import", str(tmp_path / name), "--no-header", "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(cli, words).exception
    assert isinstance(refused, InputError)
    assert f"if the file is trusted, {option} allows more" in str(refused)


def test_texts_with_brackets_are_no_nesting(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text('<http://a> <http://b> "a << b" .\n' * 600 + "<http://a> <http://b> <http://c> .\n")
    done = CliRunner().invoke(cli, ["import", str(tmp_path / "g.ttl"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.exception
