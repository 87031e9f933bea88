"""One rule for existing outputs: nothing is overwritten without --force, and --force deletes no other files."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.files import check_output, create_folder
from pfedeg.graphs.federation import Federation
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture(scope="module")
def run(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mine"
    Training(synthetic, Config(rounds=1, dim=4, negatives=2), out=out).run()
    return out


QUESTION = ("--client", "ash", "--head", "e00", "--relation", "near")
COMMANDS: dict[str, Callable[[Path, Path, Path], tuple[object, ...]]] = {
    "a.csv": lambda run, data, out: ("predict", run, *QUESTION, "--out", out),
    "b.md": lambda run, data, out: ("report", run.parent, "--quick", "--out", out),
    "figures": lambda run, data, out: ("report", run.parent, "--format", "png", "--out", out),
    "tables": lambda run, data, out: ("export", run, "--to", "numpy", "--out", out),
    "c.png": lambda run, data, out: ("inspect", data, "--no-measure", "--method", "fede", "--picture", out),
    "imported": lambda run, data, out: ("import", data / "ash" / "train.tsv", "--out", out),
    "e.parquet": lambda run, data, out: ("import", data / "ash" / "train.tsv", "--out", out),
    "divided": lambda run, data, out: ("partition", data / "ash", "--clients", 2, "--out", out),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_existing_output_is_replaced_only_with_force(run: Path, folder: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    words = COMMANDS[name](run, folder, out)
    first = call(*words)
    assert first.exit_code == 0, first.exception
    files = [path for path in (out.rglob("*") if out.is_dir() else [out]) if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(b"old")
    refused = call(*words)
    assert isinstance(refused.exception, InputError)
    assert str(refused.exception) == f"{out}: already exists; choose another name, or replace it with --force"
    assert {path.read_bytes() for path in files} == {b"old"}
    again = call(*words, "--force")
    assert again.exit_code == 0, again.exception
    assert b"old" not in {path.read_bytes() for path in files}
    if out.is_dir():
        (out / "notes.txt").write_text("mine")
        refused = call(*words, "--force")
        assert "contains notes.txt, which this command did not write; --force does not" in str(refused.exception)
        assert (out / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_existing_reliability_plot_is_replaced_only_with_force(run: Path, tmp_path: Path) -> None:
    (tmp_path / "d.svg").write_text("old")
    words = ("calibrate", run, "--client", "ash", "--picture", tmp_path / "d.svg")
    assert "d.svg: already exists; choose another name" in str(call(*words).exception)
    assert (tmp_path / "d.svg").read_text() == "old"
    assert "already exists" not in str(call(*words, "--force").exception)


def test_a_replaced_folder_keeps_nothing_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.png").touch()
    create_folder(tmp_path / "out", lambda folder: (folder / "new.png").touch(), ("*.png",))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new.png"]


def test_files_and_folders_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file; expected a folder"):
        check_output(tmp_path / "file", True, ("*.png",))
    with pytest.raises(InputError, match="is a folder; expected a file"):
        check_output(tmp_path, True)
    with pytest.raises(InputError, match="cannot be created"):
        check_output(tmp_path / "file" / "new", True)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="already exists"):
        check_output(tmp_path / "link", False)


def test_train_starts_anew_with_force(folder: Path, tmp_path: Path) -> None:
    words = ["train", folder, "--dim", 4, "--negatives", 2, "--out", tmp_path / "run", "--rounds"]
    assert call(*words, 1).exit_code == 0
    assert "already contains a run" in str(call(*words, 2).exception)
    assert "choose one" in str(call(*words, 2, "--force", "--resume").exception)
    assert call(*words, 2, "--force").exit_code == 0
    assert len((tmp_path / "run" / "history.jsonl").read_text().splitlines()) == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    refused = call(*words[:-2], tmp_path / "other", "--force")
    assert "already exists" in str(refused.exception)
    assert (tmp_path / "other" / "notes.txt").exists()


def test_an_earlier_demo_is_kept_without_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.cli.demo.show_demo", lambda out, *rest: None)
    (tmp_path / "fede").mkdir()
    for name in ("config.json", "provenance.json"):
        (tmp_path / "fede" / name).write_text("{}")
    assert call("demo", "--out", tmp_path).exit_code == 0
    assert (tmp_path / "fede").exists()
    assert call("demo", "--out", tmp_path, "--force").exit_code == 0
    assert not (tmp_path / "fede").exists()
