"""Choosing settings by successive halving on validation triples."""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pfedeg.cli.main import cli
from pfedeg.errors import DataWarning, InputError, RunError
from pfedeg.experiments.tuning import halve, papers_candidates, read_candidates, write_choice
from pfedeg.graphs.federation import Federation
from pfedeg.training.config import Config


@pytest.fixture(scope="module")
def federation() -> Federation:
    graphs = Federation.world().graphs
    return Federation({name: graphs[name] for name in ("atlas", "government")})


SMALL = Config(method="pfedeg-plus", dim=8, negatives=4, rounds=400, eval_every=1, patience=1000, epochs=1, batch=256)


def test_half_of_the_candidates_goes_on_and_the_better_half(federation: Federation) -> None:
    seen, told = [], list[str]()
    for until, runs in halve(federation, SMALL, {"lr": [1e-5, 1e-2, 1e-4, 5e-3]}, 0.01, tell=told.append):
        seen.append((until, {run.chosen["lr"]: (run.done, run.best) for run in runs}))
        break
    (until, first) = seen[0]
    assert until == 1
    assert told[2] == "candidate 2 of 4 (lr 0.01), round 1 of 1"
    assert {done for done, _ in first.values()} == {1}
    rungs = list(halve(federation, SMALL, {"lr": [1e-5, 1e-2, 1e-4, 5e-3]}, 6.0))
    runs = rungs[-1][1]
    assert runs[0].chosen["lr"] in (1e-2, 5e-3)
    assert sorted(run.done for run in runs)[:2] == [rungs[0][0]] * 2
    assert runs[0].done > runs[-1].done
    assert runs[0].best >= runs[1].best


def test_where_time_is_short_candidates_are_compared_after_fewer_rounds(federation: Federation) -> None:
    rarely = replace(SMALL, eval_every=50)
    until, runs = next(halve(federation, rarely, {"lr": [1e-4, 1e-2]}, 0.01))
    assert until == 1
    assert all(0 < run.best < 1 and run.done == 1 for run in runs)
    assert runs[0].training.config.patience == 50 * SMALL.patience


def test_a_candidate_that_diverges_is_last_and_says_why(federation: Federation) -> None:
    *_, (_, runs) = halve(federation, SMALL, {"lr": [3e38, 1e-2]}, 0.01)
    assert runs[0].chosen == {"lr": 1e-2}
    assert "diverged" in runs[-1].evidence()["failed"]


class Scripted:
    """In place of a training: with lr 0.01 it is good and stops after two rounds, else it is worse and goes on."""

    def __init__(self, federation: Federation, config: Config, threads: int | None = None) -> None:
        self.config, self.history = config, list[Any]()

    def __iter__(self) -> Iterator[SimpleNamespace]:
        rounds, mrr = (2, 0.9) if self.config.lr == 1e-2 else (8, 0.5)
        for number in range(1, rounds + 1):
            self.history.append({"valid": {"weighted": {"mrr": mrr}}})
            yield SimpleNamespace(number=number)


def test_the_best_is_first_even_if_another_ran_longer(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.experiments.tuning.Training", Scripted)
    *_, (_, runs) = halve(federation, SMALL, {"lr": [1e-3, 1e-2]}, 1.0)
    assert [(run.chosen["lr"], run.done, run.best) for run in runs] == [(1e-2, 2, 0.9), (1e-3, 8, 0.5)]


def test_nothing_is_chosen_where_there_is_nothing_to_choose_by(federation: Federation) -> None:
    with pytest.raises(RunError, match=r"nothing to choose by: .*diverged"):
        list(halve(federation, replace(SMALL, model="complex"), {"lr": [3e38, 2e38]}, 0.01))
    graphs = {name: replace(graph, valid=graph.valid[:0]) for name, graph in federation.graphs.items()}
    with pytest.warns(DataWarning), pytest.raises(RunError, match="nothing to choose by: no client has valid triples"):
        list(halve(Federation(graphs), SMALL, {"lr": [1e-3, 1e-2]}, 0.01))


def test_too_little_time_is_told(federation: Federation) -> None:
    told = list[str]()
    next(halve(federation, SMALL, {"lr": [1e-3, 1e-2]}, 1e-6, warn=told.append))
    assert "2 candidates are many for the time" in told[0]


def test_the_papers_sets() -> None:
    assert papers_candidates("fb15k-237-fed3", Config(model="transe"))["beta"] == [3e-3]
    assert len(papers_candidates("nell-995-fed3", Config(model="transe"))["beta"]) == 5
    assert len(papers_candidates("fb15k-237-fed3", Config(model="complex"))["beta"]) == 5
    assert papers_candidates("fb15k-237-fed3", Config(method="fede")) == {}
    assert list(papers_candidates("x", Config(method="pfedeg-star-init"))) == ["p"]


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("q=1", "expected NAME=VALUE"),
        ("p", "expected NAME=VALUE"),
        ("mu=1", "not used by"),
        ("p=x", "not values of p"),
        ("p=0.5 p=0.9", "p is there twice"),
        ("rounds=2,4", "expected NAME=VALUE"),
        ("seed=0,1", "expected NAME=VALUE"),
    ],
)
def test_wrong_candidates_are_refused(over: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_candidates(over.split(), "pfedeg-plus")


@pytest.mark.parametrize("words", [["--minutes", "nan"], ["--minutes", "inf"], ["--choices", "missing/x.toml"]])
def test_what_could_not_end_well_is_refused_at_once(words: list[str]) -> None:
    done = CliRunner().invoke(cli, ["tune", "world", *words])
    assert isinstance(done.exception, InputError)
    assert words[1] in str(done.exception)


def test_a_file_of_choices_that_is_none_is_left_alone(tmp_path: Path) -> None:
    for content in (b"not toml at all [[[", b"\xff\xfe"):
        (tmp_path / "choices.toml").write_bytes(content)
        done = CliRunner().invoke(cli, ["tune", "world", "--choices", str(tmp_path / "choices.toml")])
        assert isinstance(done.exception, InputError)
        assert "not valid TOML" in str(done.exception)
        assert (tmp_path / "choices.toml").read_bytes() == content


def test_choices_are_kept_side_by_side_and_replaced_by_newer_ones(tmp_path: Path) -> None:
    path = tmp_path / "choices.toml"
    one = {"data": "a", "model": "transe", "method": "pfedeg-plus"}
    write_choice(path, one, {"p": 0.5}, [{"p": 0.5, "rounds": 5, "valid_mrr": 0.1}])
    write_choice(path, one | {"data": "b"}, {"p": 0.6, "beta": 3e-4}, [{"p": 0.6, "failed": 'a "word"'}])
    write_choice(path, one, {"p": 0.9}, [{"p": 0.9, "rounds": 10, "valid_mrr": 0.2}])
    found = {rule["data"]: rule for rule in tomllib.loads(path.read_text())["where"]}
    assert found["a"]["set"] == {"p": 0.9}
    assert found["b"]["set"] == {"p": 0.6, "beta": 3e-4}
    assert found["b"]["evidence"][0]["failed"] == 'a "word"'


def test_a_choice_in_the_first_line_is_replaced_too(tmp_path: Path) -> None:
    path, axes = tmp_path / "choices.toml", {"data": "a", "model": "transe", "method": "pfedeg-plus"}
    path.write_text(
        "[[where]]\n" + "".join(f'{axis} = "{value}"\n' for axis, value in axes.items()) + "set = { p = 1 }\n"
    )
    write_choice(path, axes, {"p": 0.9}, [])
    assert [rule["set"] for rule in tomllib.loads(path.read_text())["where"]] == [{"p": 0.9}]


def test_the_command_chooses_and_records(tmp_path: Path) -> None:
    words = ["tune", "world", "--preset", "quick", "--rounds", "2", "--eval-every", "1", "--dim", "4", "--epochs", "1"]
    words += ["--over", "p=0.5,0.9", "--minutes", "0.01", "--choices", str(tmp_path / "choices.toml"), "--json"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    told = json.loads(done.output.splitlines()[-1])
    (rule,) = tomllib.loads((tmp_path / "choices.toml").read_text())["where"]
    assert rule["set"] == told["chosen"]
    assert rule["data"] == "world"
    assert len(rule["evidence"]) == 2
