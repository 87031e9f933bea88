"""Experiments: plans, runs, resuming, failures, filters."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pfedeg.checked_files import read_json
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.experiments.experiment import Experiment
from pfedeg.experiments.plan import Plan, read_only
from pfedeg.experiments.remaining_time import STARTUP_SECONDS
from pfedeg.files import locked
from pfedeg.graphs.federation import Federation, partition
from pfedeg.training.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
PLAN = """
title = "Small"
data = ["one", "two"]
models = ["transe"]
methods = ["fede", "pfedeg-plus"]
seeds = [0]
[settings]
rounds = 2
dim = 4
negatives = 2
eval_every = 1
[vary]
epochs = [1, 2]
[[where]]
data = "two"
method = ["pfedeg-plus"]
set = { p = 0.7 }
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, size in (("one", 20), ("two", 30)):
        triples = [(f"e{i}", f"r{i % 3}", f"e{(i * 7 + 1) % size}") for i in range(2 * size)]
        Federation(partition(triples, 2, 0).graphs).write(tmp_path / "data" / name)
    return tmp_path / "data"


def read(tmp_path: Path, text: str = PLAN) -> Plan:
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    return Plan.read(tmp_path / "plan.toml")


def run(tmp_path: Path, *words: str) -> Any:
    plan, data, out = (str(tmp_path / name) for name in ("plan.toml", "data", "out"))
    return CliRunner().invoke(cli, ["experiment", plan, "--data", data, "--out", out, *words])


def test_runs_are_all_combinations_in_the_order_of_the_plan(tmp_path: Path) -> None:
    plan = read(tmp_path)
    assert [run.name for run in plan.runs][:3] == [
        "one/transe/fede/seed-0/epochs-1",
        "one/transe/fede/seed-0/epochs-2",
        "one/transe/pfedeg-plus/seed-0/epochs-1",
    ]
    assert len(plan.runs) == 8
    assert {run.config.method_settings.p for run in plan.runs if run.method == "pfedeg-plus" and run.data == "two"} == {
        0.7
    }
    assert {run.config.method_settings.p for run in plan.runs if run.method == "pfedeg-plus" and run.data == "one"} == {
        0.5
    }


def test_settings_of_a_grid_are_merged_one_by_one(tmp_path: Path) -> None:
    plan = read(tmp_path, PLAN + "[[grid]]\nsettings = { lr = 0.02 }\n")
    assert {(run.config.optimizer_settings.lr, run.config.dim, run.config.rounds) for run in plan.runs} == {
        (0.02, 4, 2)
    }


def test_a_varied_setting_that_a_method_does_not_use_makes_no_run(tmp_path: Path) -> None:
    plan = read(tmp_path, PLAN.replace("epochs = [1, 2]", "p = [0.5, 0.9]"))
    assert [run.name for run in plan.runs if run.data == "one"] == [
        "one/transe/fede/seed-0",
        "one/transe/pfedeg-plus/seed-0/p-0.5",
        "one/transe/pfedeg-plus/seed-0/p-0.9",
    ]
    with pytest.raises(InputError, match=r"no run has p 'None'; choose from 0\.5, 0\.9"):
        read_only(["p=None"], plan)


def test_missing_choices_are_reported_and_others_checked(tmp_path: Path) -> None:
    chosen = PLAN.replace("[settings]", 'choices = "choices.toml"\n[settings]')
    (remark,) = read(tmp_path, chosen).remarks
    assert "choices.toml does not exist yet" in remark
    (tmp_path / "choices.toml").write_text("[[where]]\nmethod = 'fede'\nset = { lr = 0.5 }\n")
    plan = read(tmp_path, chosen)
    assert {run.config.optimizer_settings.lr for run in plan.runs if run.method == "fede"} == {0.5}
    assert plan.remarks == ()
    (tmp_path / "choices.toml").write_text("x = 1")
    with pytest.raises(InputError, match=r"choices\.toml: expected tables that begin with \[\[where\]\]"):
        read(tmp_path, chosen)


PLANS = sorted(path.relative_to(ROOT) for path in (ROOT / "plans").glob("**/*.toml") if path.name != "choices.toml")


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_plans_of_the_repository_can_be_read(plan: Path) -> None:
    runs = Plan.read(ROOT / plan).runs
    assert len({run.name for run in runs}) == len(runs)
    if plan.parent == Path("plans"):  # the paper's settings; those in folders are short, or vary them
        assert all(run.config.dim == 128 and run.config.negatives == 256 for run in runs)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_command_in_a_plan_names_its_files(plan: Path) -> None:
    (command,) = re.findall(r"^# (pfedeg experiment .*)$", (ROOT / plan).read_text(encoding="utf-8"), re.M)
    _, _, path, _, data, _, out = command.split()
    assert path == plan.as_posix()
    assert out == f"runs/{plan.relative_to('plans').with_suffix('').as_posix()}"
    if data != "DIR":
        Experiment(Plan.read(ROOT / plan), ROOT / data, ROOT / out)  # all datasets are there


def test_the_papers_tables_are_all_there() -> None:
    runs = Plan.read(ROOT / "plans" / "paper-tables.toml").runs
    assert len(runs) == 4 * 3 * 6
    assert {(run.data, run.model) for run in runs[:6]} == {("fb15k-237-fed3", "transe")}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("dta = ['x']", "unknown entry 'dta'; did you mean 'data'"),
        ("models = ['transe']", "data: expected a list of names"),
        (PLAN.replace('"transe"', '"transf"'), "models: unknown model 'transf'; did you mean 'transe'"),
        (PLAN.replace("dim = 4", "dim = 0"), "one, transe, fede: dim: 0 is out of range"),
        (PLAN.replace("epochs = [1, 2]", "epochs = 3"), "vary: expected lists"),
        (PLAN.replace("set = { p = 0.7 }", "p = 0.7"), "where"),
        (PLAN.replace("set = { p = 0.7 }", "set = { q = 0.7 }"), "unknown setting 'q'"),
        ("data = [", "not valid TOML"),
        (PLAN.replace("[settings]", "grid = 'x'\n[settings]"), "grid: expected tables"),
        (PLAN.replace("[settings]", "grid = []\n[settings]"), "grid: expected tables"),
        (PLAN.replace("[settings]", "choices = 3\n[settings]"), "choices: expected the name of a file"),
        (PLAN.replace('"Small"', "3"), "title: expected a text"),
        (PLAN.replace("dim = 4", "dimm = 4"), "settings: unknown setting 'dimm'; did you mean 'dim'"),
        (PLAN.replace("dim = 4", "seed = 4"), "settings: seed cannot be set here"),
        (PLAN.replace("epochs = [1, 2]", "epoch = [1]"), "vary: unknown setting 'epoch'; did you mean 'epochs'"),
        (PLAN.replace("epochs = [1, 2]", "method = ['fede']"), "vary: method cannot be set here"),
        (
            PLAN.replace('method = ["pfedeg-plus"]', 'model = "transee"'),
            r"\[\[where\]\]: model: unknown model 'transee'",
        ),
        (PLAN.replace('method = ["pfedeg-plus"]', "model = 3"), r"\[\[where\]\]: model: 3 is not a name"),
        (PLAN.replace('data = "two"', 'data = "tow"'), r"no dataset 'tow' in this plan; did you mean 'two'"),
        (PLAN.replace("set = { p = 0.7 }", "set = { seed = 3 }"), "seed cannot be set here"),
        (PLAN.replace('"one", "two"', '".."'), r"data: '\.\.' has no name; expected a name or a path"),
        (PLAN.replace('"one", "two"', '""'), "data: '' has no name"),
        (PLAN.replace('"one", "two"', '"a/two", "b/two.parquet"'), "'a/two' and 'b/two.parquet' would have the same"),
        (PLAN + "[[grid]]\nvary = { p = [0.5] }\n", r"\[\[grid\]\]: unknown entry 'vary'"),
        (PLAN + "[[grid]]\n[[grid]]\nsettings = { dim = 8 }\n", "appears twice with different settings"),
    ],
)
def test_a_wrong_plan_is_one_line(tmp_path: Path, wrong: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, wrong)


def test_an_experiment_continues_where_it_stopped(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    first = run(tmp_path, "--only", "data=one", "--only", "method=fede")
    assert first.exit_code == 0, first.output
    assert "1/2 one/transe/fede/seed-0/epochs-1: done" in first.output
    result = tmp_path / "out" / "one" / "transe" / "fede" / "seed-0" / "epochs-1" / "result.json"
    before = result.stat().st_mtime_ns
    second = run(tmp_path, "--only", "data=one", "--json")
    assert second.exit_code == 0, second.output
    states = json.loads(second.output.splitlines()[-1])["runs"]
    assert list(states.values()) == ["done"] * 4
    assert result.stat().st_mtime_ns == before
    assert "open" in run(tmp_path, "--list").output


def test_progress_of_a_run_is_shown(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.experiments.experiment.POLL_SECONDS", 0.0)
    monkeypatch.setattr("pfedeg.cli.research.PROGRESS_SECONDS", 0.0)
    read(
        tmp_path, PLAN.replace("rounds = 2", "rounds = 200\npatience = 1000").replace("epochs = [1, 2]", "epochs = [1]")
    )
    done = run(tmp_path, "--only", "data=one", "--only", "method=fede")
    assert done.exit_code == 0, done.output
    expected = (
        r"1 run: 0 ended; one/transe/fede/seed-0/epochs-1 at round \d+/200, valid MRR 0\.\d+; .* so far, at most about"
    )
    assert re.search(expected, done.output), done.output


def test_a_failed_run_is_reported_and_retried_on_request(tmp_path: Path, data: Path) -> None:
    read(tmp_path, PLAN.replace("[settings]", "[settings]\nlr = 3e38").replace("epochs = [1, 2]", "epochs = [1]"))
    done = run(tmp_path, "--only", "data=one")
    assert done.exit_code != 0
    assert "training diverged" in done.output
    again = run(tmp_path, "--only", "data=one")
    assert "0 to make" in again.output
    assert "2 to make" in run(tmp_path, "--only", "data=one", "--retry").output


def test_runs_with_other_settings_are_reported_and_left_as_they_are(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    one = ("--only", "data=one", "--only", "method=fede", "--only", "epochs=1")
    assert run(tmp_path, *one).exit_code == 0
    read(tmp_path, PLAN.replace("rounds = 2", "rounds = 3"))
    again = run(tmp_path, *one)
    assert again.exit_code == 1
    assert "0 to make" in again.output
    assert "other          one/transe/fede/seed-0/epochs-1: run with rounds 2, not 3" in again.output
    assert run(tmp_path, *one, "--list").exit_code == 0


def test_a_damaged_run_is_reported_and_does_not_affect_others(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    assert run(tmp_path, "--only", "data=one", "--only", "epochs=1").exit_code == 0
    result = tmp_path / "out/one/transe/fede/seed-0/epochs-1/result.json"
    for damaged in ("{", "{}"):
        result.write_text(damaged)
        listed = run(tmp_path, "--only", "data=one", "--only", "epochs=1", "--list")
        assert listed.exit_code == 0, listed.output
        assert f"{result}: damaged" in listed.output
        assert listed.output.count("done") == 1
    result.unlink()
    note = tmp_path / "out/.experiment/one--transe--fede--seed-0--epochs-1.json"
    note.write_text("")
    assert (
        "failed         one/transe/fede/seed-0/epochs-1: no error message was saved" in run(tmp_path, "--list").output
    )


def test_only_runs_on_unreadable_data_fail(tmp_path: Path, data: Path) -> None:
    (data / "two.parquet").write_bytes(b"PAR1 nothing")
    read(tmp_path)
    done = run(tmp_path, "--only", "epochs=1", "--only", "method=fede", "--json")
    assert done.exit_code == 1
    states = next(json.loads(line)["runs"] for line in done.output.splitlines() if line.startswith("{"))
    assert states == {"one/transe/fede/seed-0/epochs-1": "done", "two/transe/fede/seed-0/epochs-1": "failed"}
    assert "two.parquet" in done.output


def test_a_federation_without_test_triples_has_no_mrr(tmp_path: Path) -> None:
    for client in ("a", "b"):
        (tmp_path / "data" / "one" / client).mkdir(parents=True)
        (tmp_path / "data" / "one" / client / "train.tsv").write_text("x\tr\ty\ny\tr\tz\nz\tr\tx\n")
        (tmp_path / "data" / "one" / client / "valid.tsv").write_text("x\tr\tz\n")
    read(tmp_path, PLAN.replace('"one", "two"', '"one"').replace('data = "two"', 'data = "one"'))
    done = run(tmp_path, "--only", "epochs=1")
    assert done.exit_code == 0, done.output
    assert done.output.count("done         – one/") == 2


def test_a_killed_run_is_reported(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    experiment = Experiment(Plan.read(tmp_path / "plan.toml"), data, tmp_path / "out")
    (tmp_path / "out" / ".experiment").mkdir(parents=True)
    running = experiment._start(experiment.plan.runs[0], 1, print)
    running.process.kill()
    running.process.wait()
    assert experiment._finish(running) == "failed"
    assert experiment.status(running.run) == ("failed", "killed by SIGKILL; out of memory? try fewer --jobs")


def test_a_folder_is_used_by_one_experiment_at_a_time(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    (tmp_path / "out" / ".experiment").mkdir(parents=True)
    with locked(tmp_path / "out" / ".experiment" / ".lock", ""):
        refused = run(tmp_path)
    assert isinstance(refused.exception, InputError)
    assert "another `pfedeg experiment` is using this folder" in str(refused.exception)


def test_the_estimated_time_depends_on_sizes(tmp_path: Path, data: Path) -> None:
    experiment = Experiment(read(tmp_path, PLAN.replace("epochs = [1, 2]", "dim = [4, 4000]")), data, tmp_path / "out")
    small, large = (experiment.seconds_left([run]) - STARTUP_SECONDS for run in experiment.plan.runs[:2])
    assert large == pytest.approx(1000 * small)


def test_runs_in_parallel_give_the_same(tmp_path: Path, data: Path) -> None:
    text = PLAN.replace("epochs = [1, 2]", "epochs = [1]")
    read(tmp_path, text)
    assert run(tmp_path, "--only", "data=one", "--jobs", "2").exit_code == 0
    alone = tmp_path / "alone"
    plan, experiment = tmp_path / "plan.toml", Experiment(read(tmp_path, text), data, tmp_path / "out")
    words = ["experiment", str(plan), "--data", str(data), "--out", str(alone), "--only", "data=one"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    for planned in [planned for planned in experiment.plan.runs if planned.data == "one"]:
        results = [read_json(out / planned.name / "result.json") for out in (tmp_path / "out", alone)]
        assert results[0]["test"] == results[1]["test"]


def test_the_runs_of_a_killed_experiment_end_with_it(tmp_path: Path, data: Path) -> None:
    read(tmp_path, PLAN.replace("rounds = 2", "rounds = 1000000").replace("eval_every = 1", "eval_every = 1000000"))
    words = ["experiment", str(tmp_path / "plan.toml"), "--data", str(data), "--out", str(tmp_path / "out")]
    process = subprocess.Popen([sys.executable, "-m", "pfedeg", *words], stderr=subprocess.DEVNULL)
    folder = RunFolder(tmp_path / "out" / "one/transe/fede/seed-0/epochs-1")

    def is_free() -> bool:
        with suppress(InputError), folder.locked():
            return True
        return False

    try:
        assert within_a_minute(lambda: len(folder.history()) > 1)
        assert not is_free()
    finally:
        process.kill()
        process.wait()
    assert within_a_minute(is_free)


def within_a_minute(true: Callable[[], bool]) -> bool:
    for _ in range(600):
        if true():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("modle=transe", "AXIS is one of data, model"),
        ("model", "expected AXIS=VALUE"),
        ("model=x", "no run has model 'x'"),
    ],
)
def test_a_filter_that_matches_nothing_is_refused(tmp_path: Path, only: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_only([only], read(tmp_path))


def test_a_missing_dataset_is_named(tmp_path: Path, data: Path) -> None:
    with pytest.raises(InputError, match=r"no three or three\.parquet in this folder; choose from one, two; --data"):
        Experiment(read(tmp_path, PLAN.replace('"two"', '"three"')), data, tmp_path / "out")
    plan = read(tmp_path, PLAN.replace('["one", "two"]', '["elsewhere/two.parquet"]'))
    with pytest.raises(InputError, match=r"elsewhere: no two\.parquet in this folder"):
        Experiment(plan, data, tmp_path / "out")


def test_data_may_be_paths_and_the_embedded_federation(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PLAN.replace('["one", "two"]', f'["data/one", "{data / "two"}", "world"]').replace("[1, 2]", "[1]")
    read(tmp_path, text.replace('"fede", ', "").replace('data = "two"', 'data = "data/two"'))
    words = ["experiment", "plan.toml", "--out", "out"]
    listed = CliRunner().invoke(cli, [*words, "--list", "--json"])
    runs = [f"{name}/transe/pfedeg-plus/seed-0/epochs-1" for name in ("one", "two", "world")]
    assert json.loads(listed.output)["runs"] == dict.fromkeys(runs, "open"), listed.exception
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert read_json(tmp_path / "out" / runs[1] / "config.json")["p"] == 0.7  # of [[where]]
    assert read_json(tmp_path / "out" / runs[2] / "provenance.json")["data"] == "world"


PARTS = """
from dataclasses import replace
from pfedeg.methods.fede import METHOD as FEDE
from pfedeg.models.transe import MODEL as TRANSE

METHOD = replace(FEDE, name="mine", label="My mean", role="other", color="")
MODEL = replace(TRANSE, name="mine", label="My TransE")
"""


def test_user_defined_models_and_methods_are_run(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts_of_mine.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    plan = PLAN.replace('["transe"]', '["parts_of_mine:MODEL"]').replace('"fede"', '"parts_of_mine:METHOD"')
    read(tmp_path, plan)
    done = run(tmp_path, "--only", "data=one", "--only", "epochs=1", "--only", "method=parts_of_mine:METHOD", "--json")
    assert done.exit_code == 0, done.output
    assert "at most about" in done.output
    states = json.loads(done.output.splitlines()[-1])["runs"]
    assert states == {"one/parts_of_mine-MODEL/parts_of_mine-METHOD/seed-0/epochs-1": "done"}  # no : on Windows
    reported = CliRunner().invoke(cli, ["report", str(tmp_path / "out"), "--out", str(tmp_path / "r.md")])
    assert reported.exit_code == 0, reported.output
    text = (tmp_path / "r.md").read_text()
    assert "| one, My TransE |" in text
    assert "unless a heading says otherwise: dim 4, negatives 2, " in text
    with pytest.raises(InputError, match=r"methods: method 'parts_of_mine:METHODS': .* did you mean 'METHOD'"):
        read(tmp_path, plan.replace(":METHOD", ":METHODS"))


def test_objectives_and_optimisers_can_be_varied(tmp_path: Path) -> None:
    plan = read(tmp_path, PLAN.replace("epochs = [1, 2]", 'objective = ["self-adversarial"]\noptimizer = ["adam"]'))
    assert plan.runs[0].name == "one/transe/fede/seed-0/objective-self-adversarial-optimizer-adam"
    with pytest.raises(InputError, match="vary: optimizer: unknown optimizer 'adamm'; did you mean 'adam'"):
        read(tmp_path, PLAN.replace("epochs = [1, 2]", 'optimizer = ["adamm"]'))


def test_experiments_run_without_fcntl(tmp_path: Path, data: Path) -> None:
    """As on Windows, which has no such module."""
    read(tmp_path)
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    words = [
        "experiment",
        str(plan),
        "--data",
        str(data),
        "--out",
        str(out),
        "--only",
        "data=one",
        "--only",
        "epochs=1",
    ]
    windows = "sys.modules['msvcrt'] = SimpleNamespace(locking=lambda *arguments: None, LK_NBLCK=2)"
    imports = "import subprocess, sys; from types import SimpleNamespace; sys.modules['fcntl'] = None"
    code = f"{imports}; {windows}; from pfedeg.cli.main import cli; cli({words!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2
