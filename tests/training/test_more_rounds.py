"""A finished run continues with more rounds, and is then the same as one that had them from the start."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_local_run import assert_same_run, start, tiny

from pfedeg.checked_files import read_json
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.training import run_folder
from pfedeg.training.config import Config
from pfedeg.training.run_folder import CHECKPOINT, RunFolder
from pfedeg.training.saved_run import Run


@pytest.mark.parametrize("first", [2, 3, 1], ids=lambda rounds: f"after-{rounds}-rounds")
@pytest.mark.parametrize(
    "config",
    [
        tiny("pfedeg-plus", moments="keep", lr=0.2),
        tiny("pfedeg-star", fraction=0.5),
        tiny("fede", evaluate="after_aggregation"),
        tiny("single", lr=0.2),
        tiny("collective"),
    ],
    ids=lambda config: config.method,
)
def test_more_rounds_give_the_same_as_all_at_once(
    synthetic: Federation, tmp_path: Path, config: Config, first: int
) -> None:
    start(synthetic, config, out=tmp_path / "whole").run()
    for rounds in (first, 4, 6):
        start(synthetic, config.replace(rounds=rounds), out=tmp_path / "parts", resume=True).run()
        assert Run(tmp_path / "parts").config.rounds == rounds
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_an_interrupted_continuation_resumes(synthetic: Federation, tmp_path: Path) -> None:
    start(synthetic, tiny(), out=tmp_path / "whole").run()
    start(synthetic, tiny(rounds=3), out=tmp_path / "parts").run()
    (tmp_path / "parts" / "clients" / "ash" / "calibration.json").write_text("{}")
    for done in start(synthetic, tiny(), out=tmp_path / "parts", resume=True):
        if done.number == 5:
            break
    assert Run(tmp_path / "parts").result is None
    assert not (tmp_path / "parts" / "clients" / "ash" / "calibration.json").exists()  # of other tables
    start(synthetic, tiny(), out=tmp_path / "parts", resume=True).run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("step", ["write_history", "write_json", "save_checkpoint"])
def test_a_crash_at_the_beginning_of_a_continuation_loses_nothing(
    synthetic: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    start(synthetic, tiny(), out=tmp_path / "whole").run()
    start(synthetic, tiny(rounds=3), out=tmp_path / "parts").run()

    def crash(*arguments: Any) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(run_folder if step == "write_json" else RunFolder, step, crash)
        with pytest.raises(OSError):  # noqa: PT011 (of the stand-in)
            start(synthetic, tiny(), out=tmp_path / "parts", resume=True).run()
    start(synthetic, tiny(), out=tmp_path / "parts", resume=True).run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_an_unfinished_run_may_get_more_rounds(synthetic: Federation, tmp_path: Path) -> None:
    start(synthetic, tiny(), out=tmp_path / "whole").run()
    for done in start(synthetic, tiny(rounds=4), out=tmp_path / "parts"):
        if done.number == 2:
            break
    start(synthetic, tiny(), out=tmp_path / "parts", resume=True).run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_opening_a_finished_run_with_more_rounds_changes_nothing_yet(synthetic: Federation, tmp_path: Path) -> None:
    start(synthetic, tiny(rounds=2), out=tmp_path / "run").run()
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    start(synthetic, tiny(), out=tmp_path / "run", resume=True)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_a_run_that_stopped_early_stays_as_it_is(synthetic: Federation, tmp_path: Path) -> None:
    config = tiny(patience=1, lr=0.3, rounds=50, eval_every=1)
    stopped = start(synthetic, config, out=tmp_path / "run").run()
    assert stopped.rounds_done < 50
    assert not (tmp_path / "run" / CHECKPOINT).exists()
    again = start(synthetic, config.replace(rounds=60), out=tmp_path / "run", resume=True).run()
    assert again.result == stopped.result
    assert start(synthetic, config.replace(rounds=60), out=tmp_path / "other").run().rounds_done == stopped.rounds_done


def test_fewer_rounds_and_deleted_checkpoints_are_refused(synthetic: Federation, tmp_path: Path) -> None:
    start(synthetic, tiny(rounds=4), out=tmp_path / "run").run()
    with pytest.raises(InputError, match="contains a run with rounds = 4, not 2"):
        start(synthetic, tiny(rounds=2), out=tmp_path / "run", resume=True)
    with pytest.raises(InputError, match=r"contains a run with p = 0\.5, not 0\.6"):
        start(synthetic, tiny(p=0.6), out=tmp_path / "run", resume=True)
    (tmp_path / "run" / CHECKPOINT).unlink()
    with pytest.raises(InputError, match="finished, and cannot continue, since its checkpoint was deleted"):
        start(synthetic, tiny(), out=tmp_path / "run", resume=True)
    assert start(synthetic, tiny(rounds=4), out=tmp_path / "run", resume=True).rounds_done == 4


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_the_command(folder: Path, tmp_path: Path) -> None:
    words = ("train", folder, "--dim", 4, "--negatives", 2, "--lr", 1e-4, "--out", tmp_path / "run", "--rounds")
    assert call(*words, 5).exit_code == 0
    done = call(*words, 10, "--resume")
    assert done.exit_code == 0, done.exception
    assert "resuming after round 5" in done.stderr
    assert read_json(tmp_path / "run" / "result.json")["rounds"] == 10


DAMAGE: list[tuple[str, Any, str]] = [
    ("", {}, "no 'rounds'"),
    ("rounds", "many", "rounds 'many' is not a number of rounds"),
    ("rounds", 3, "3 rounds, but history.jsonl ends with round 2"),
    ("rounds", True, "rounds True is not"),
    ("best_round", 9, "best_round 9 is after the last of 2 rounds"),
    ("seconds", None, "None is not a number"),
    ("test", {}, "no 'weighted'"),
    ("valid", {"weighted": {"mrr": 0.1}, "clients": {}}, "no 'hits@1'"),
    ("test", [], "list indices"),
]


@pytest.mark.parametrize(("name", "value", "message"), DAMAGE, ids=[message for *_, message in DAMAGE])
def test_a_damaged_result_is_refused_everywhere(
    synthetic: Federation, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    out, config = tmp_path / "run", tiny(rounds=2)
    start(synthetic, config, out=out).run()
    result = read_json(out / "result.json")
    (out / "result.json").write_text(json.dumps(result | {name: value} if name else value))
    pattern = f"result.json: damaged .*{message}"
    with pytest.raises(InputError, match=pattern):
        start(synthetic, config, out=out, resume=True)
    with pytest.raises(InputError, match=pattern):
        start(synthetic, tiny(), out=out, resume=True)
    assert isinstance(call("show", out).exception, InputError)


def test_a_history_with_a_hole_is_refused(synthetic: Federation, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for done in start(synthetic, tiny(), out=out):
        if done.number == 4:
            break
    lines = (out / "history.jsonl").read_text().splitlines(keepends=True)
    for kept in (lines[:1] + lines[2:], [*lines, lines[-1]]):
        (out / "history.jsonl").write_text("".join(kept))
        with pytest.raises(InputError, match=r"history\.jsonl, line \d: damaged \(round \d in place of round \d\)"):
            Run(out)
    (out / "history.jsonl").write_text("".join(lines[:1] + lines[2:]))
    with pytest.raises(InputError, match=r"line 2: damaged \(round 3 in place of round 2\)"):
        start(synthetic, tiny(), out=out, resume=True)
    (out / "history.jsonl").write_text("".join(lines))
    assert RunFolder(out).history() == Run(out).history
