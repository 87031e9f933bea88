"""A grid of runs: plans, cells, resuming, failures, filters."""

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

from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.experiments.grid import START, Grid
from pfedeg.experiments.plan import Plan, read_only
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


def test_cells_are_all_combinations_in_the_plans_order(tmp_path: Path) -> None:
    plan = read(tmp_path)
    assert [cell.name for cell in plan.cells][:3] == [
        "one/transe/fede/seed-0/epochs-1",
        "one/transe/fede/seed-0/epochs-2",
        "one/transe/pfedeg-plus/seed-0/epochs-1",
    ]
    assert len(plan.cells) == 8
    assert {cell.config.p for cell in plan.cells if cell.method == "pfedeg-plus" and cell.data == "two"} == {0.7}
    assert {cell.config.p for cell in plan.cells if cell.method == "pfedeg-plus" and cell.data == "one"} == {0.5}


def test_a_grids_settings_are_taken_one_by_one(tmp_path: Path) -> None:
    plan = read(tmp_path, PLAN + "[[grid]]\nsettings = { lr = 0.02 }\n")
    assert {(cell.config.lr, cell.config.dim, cell.config.rounds) for cell in plan.cells} == {(0.02, 4, 2)}


def test_what_a_method_does_not_use_makes_no_cell(tmp_path: Path) -> None:
    plan = read(tmp_path, PLAN.replace("epochs = [1, 2]", "p = [0.5, 0.9]"))
    assert [cell.name for cell in plan.cells if cell.data == "one"] == [
        "one/transe/fede/seed-0",
        "one/transe/pfedeg-plus/seed-0/p-0.5",
        "one/transe/pfedeg-plus/seed-0/p-0.9",
    ]
    with pytest.raises(InputError, match=r"no cell has p 'None'; choose from 0\.5, 0\.9"):
        read_only(["p=None"], plan)


def test_choices_that_are_not_there_are_told_and_others_checked(tmp_path: Path) -> None:
    chosen = PLAN.replace("[settings]", 'choices = "choices.toml"\n[settings]')
    (told,) = read(tmp_path, chosen).remarks
    assert "choices.toml is not there yet" in told
    (tmp_path / "choices.toml").write_text("[[where]]\nmethod = 'fede'\nset = { lr = 0.5 }\n")
    plan = read(tmp_path, chosen)
    assert {cell.config.lr for cell in plan.cells if cell.method == "fede"} == {0.5}
    assert plan.remarks == ()
    (tmp_path / "choices.toml").write_text("x = 1")
    with pytest.raises(InputError, match=r"choices\.toml: expected tables that begin with \[\[where\]\]"):
        read(tmp_path, chosen)


PLANS = sorted(path.relative_to(ROOT) for path in (ROOT / "plans").glob("**/*.toml") if path.name != "choices.toml")


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_plans_of_the_repository_can_be_read(plan: Path) -> None:
    cells = Plan.read(ROOT / plan).cells
    assert len({cell.name for cell in cells}) == len(cells)
    papers = all(cell.config.dim == 128 and cell.config.negatives == 256 for cell in cells)
    assert papers == (plan.parent == Path("plans"))  # those in folders are short


def test_the_papers_tables_are_all_there() -> None:
    cells = Plan.read(ROOT / "plans" / "paper-tables.toml").cells
    assert len(cells) == 4 * 3 * 6
    assert {(c.data, c.model) for c in cells[:6]} == {("fb15k-237-fed3", "transe")}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("dta = ['x']", "unknown entry 'dta'; did you mean 'data'"),
        ("models = ['transe']", "data: expected a list of names"),
        (PLAN.replace('"transe"', '"transf"'), "models: unknown 'transf'; did you mean 'transe'"),
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
        (PLAN.replace("dim = 4", "seed = 4"), "settings: seed is no setting here"),
        (PLAN.replace("epochs = [1, 2]", "epoch = [1]"), "vary: unknown setting 'epoch'; did you mean 'epochs'"),
        (PLAN.replace("epochs = [1, 2]", "method = ['fede']"), "vary: method is no setting here"),
        (PLAN.replace('method = ["pfedeg-plus"]', 'model = "transee"'), r"\[\[where\]\]: model: unknown 'transee'"),
        (PLAN.replace('method = ["pfedeg-plus"]', "model = 3"), r"\[\[where\]\]: model: unknown 3"),
        (PLAN.replace('data = "two"', 'data = "tow"'), r"no such dataset 'tow' here; did you mean 'two'"),
        (PLAN.replace("set = { p = 0.7 }", "set = { seed = 3 }"), "seed is no setting here"),
        (PLAN.replace('"one", "two"', '"../one"'), "data: '../one' is no name"),
        (PLAN.replace('"one", "two"', '""'), "data: '' is no name"),
        (PLAN + "[[grid]]\nvary = { p = [0.5] }\n", r"\[\[grid\]\]: unknown entry 'vary'"),
        (PLAN + "[[grid]]\n[[grid]]\nsettings = { dim = 8 }\n", "is meant twice, with other settings"),
    ],
)
def test_a_wrong_plan_is_one_line(tmp_path: Path, wrong: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, wrong)


def test_a_grid_runs_and_goes_on_where_it_stands(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    first = run(tmp_path, "--only", "data=one", "--only", "method=fede")
    assert first.exit_code == 0, first.output
    assert "1/2 one/transe/fede/seed-0/epochs-1: done" in first.output
    result = tmp_path / "out" / "one" / "transe" / "fede" / "seed-0" / "epochs-1" / "result.json"
    before = result.stat().st_mtime_ns
    second = run(tmp_path, "--only", "data=one", "--json")
    assert second.exit_code == 0, second.output
    states = json.loads(second.output.splitlines()[-1])["cells"]
    assert list(states.values()) == ["done"] * 4
    assert result.stat().st_mtime_ns == before
    assert "open" in run(tmp_path, "--list").output


def test_a_grid_tells_how_far_a_cell_has_come(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.experiments.grid.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("pfedeg.cli.research.LINE_SECONDS", 0.0)
    read(
        tmp_path, PLAN.replace("rounds = 2", "rounds = 200\npatience = 1000").replace("epochs = [1, 2]", "epochs = [1]")
    )
    done = run(tmp_path, "--only", "data=one", "--only", "method=fede")
    assert done.exit_code == 0, done.output
    told = (
        r"1 cell: 0 ended; one/transe/fede/seed-0/epochs-1 at round \d+/200, valid MRR 0\.\d+; .* so far, at most about"
    )
    assert re.search(told, done.output), done.output


def test_a_cell_that_fails_is_told_and_retried_on_request(tmp_path: Path, data: Path) -> None:
    read(tmp_path, PLAN.replace("[settings]", "[settings]\nlr = 3e38").replace("epochs = [1, 2]", "epochs = [1]"))
    done = run(tmp_path, "--only", "data=one")
    assert done.exit_code != 0
    assert "training diverged" in done.output
    again = run(tmp_path, "--only", "data=one")
    assert "0 to run" in again.output
    assert "2 to run" in run(tmp_path, "--only", "data=one", "--retry").output


def test_cells_with_other_settings_are_told_and_left_alone(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    one = ("--only", "data=one", "--only", "method=fede", "--only", "epochs=1")
    assert run(tmp_path, *one).exit_code == 0
    read(tmp_path, PLAN.replace("rounds = 2", "rounds = 3"))
    again = run(tmp_path, *one)
    assert again.exit_code == 1
    assert "0 to run" in again.output
    assert "other          one/transe/fede/seed-0/epochs-1: was run with rounds 2, not 3" in again.output
    assert run(tmp_path, *one, "--list").exit_code == 0


def test_a_damaged_cell_is_named_and_stops_no_other(tmp_path: Path, data: Path) -> None:
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
    note = tmp_path / "out/.cells/one--transe--fede--seed-0--epochs-1.json"
    note.write_text("")
    assert "failed         one/transe/fede/seed-0/epochs-1: for a reason" in run(tmp_path, "--list").output


def test_data_that_cannot_be_read_are_the_failure_of_their_cells_alone(tmp_path: Path, data: Path) -> None:
    (data / "two.parquet").write_bytes(b"PAR1 nothing")
    read(tmp_path)
    done = run(tmp_path, "--only", "epochs=1", "--only", "method=fede", "--json")
    assert done.exit_code == 1
    states = next(json.loads(line)["cells"] for line in done.output.splitlines() if line.startswith("{"))
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


def test_a_cell_that_was_killed_says_so(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    grid = Grid(Plan.read(tmp_path / "plan.toml"), data, tmp_path / "out")
    (tmp_path / "out" / ".cells").mkdir(parents=True)
    job = grid._start(grid.plan.cells[0], 1, print)
    job.process.kill()
    job.process.wait()
    assert grid._end(job) == "failed"
    assert grid.reason(job.cell) == "killed by SIGKILL; out of memory? fewer --jobs need less"


def test_two_grids_do_not_work_in_one_folder(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    (tmp_path / "out" / ".cells").mkdir(parents=True)
    with locked(tmp_path / "out" / ".cells" / ".lock", ""):
        refused = run(tmp_path)
    assert isinstance(refused.exception, InputError)
    assert "another `pfedeg experiment` is at work here" in str(refused.exception)


def test_the_time_that_is_foretold_depends_on_sizes(tmp_path: Path, data: Path) -> None:
    grid = Grid(read(tmp_path, PLAN.replace("epochs = [1, 2]", "dim = [4, 4000]")), data, tmp_path / "out")
    small, large = (grid.seconds_left([cell]) - START for cell in grid.plan.cells[:2])
    assert large == pytest.approx(1000 * small)


def test_cells_run_side_by_side_give_the_same(tmp_path: Path, data: Path) -> None:
    read(tmp_path)
    assert run(tmp_path, "--only", "data=one", "--jobs", "2").exit_code == 0
    alone = tmp_path / "alone"
    plan, grid = tmp_path / "plan.toml", Grid(read(tmp_path), data, tmp_path / "out")
    words = ["experiment", str(plan), "--data", str(data), "--out", str(alone), "--only", "data=one"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    for cell in [cell for cell in grid.plan.cells if cell.data == "one"]:
        results = [json.loads((out / cell.name / "result.json").read_text()) for out in (tmp_path / "out", alone)]
        assert results[0]["test"] == results[1]["test"]


def test_a_grid_that_is_killed_takes_its_cells_along(tmp_path: Path, data: Path) -> None:
    read(tmp_path, PLAN.replace("rounds = 2", "rounds = 1000000").replace("eval_every = 1", "eval_every = 1000000"))
    words = ["experiment", str(tmp_path / "plan.toml"), "--data", str(data), "--out", str(tmp_path / "out")]
    grid = subprocess.Popen([sys.executable, "-m", "pfedeg", *words], stderr=subprocess.DEVNULL)
    cell = RunFolder(tmp_path / "out" / "one/transe/fede/seed-0/epochs-1")

    def is_free() -> bool:
        with suppress(InputError), cell.locked():
            return True
        return False

    try:
        assert within_a_minute(lambda: len(cell.history()) > 1)
        assert not is_free()
    finally:
        grid.kill()
        grid.wait()
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
        ("model=x", "no cell has model 'x'"),
    ],
)
def test_a_filter_that_fits_nothing_is_refused(tmp_path: Path, only: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_only([only], read(tmp_path))


def test_a_dataset_that_is_not_there_is_named(tmp_path: Path, data: Path) -> None:
    with pytest.raises(InputError, match=r"holds no three\.parquet"):
        Grid(read(tmp_path, PLAN.replace('"two"', '"three"')), data, tmp_path / "out")
