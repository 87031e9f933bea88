"""Choosing settings by successive halving on validation triples."""

import json
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pfedeg.cli.main import cli
from pfedeg.errors import DataWarning, InputError, RunError
from pfedeg.experiments.tuning import default_candidates, read_candidates, successive_halving, write_choice
from pfedeg.graphs.federation import Federation
from pfedeg.methods.registry import METHODS
from pfedeg.settings import setting
from pfedeg.training.config import Config, configure
from pfedeg.training.run_folder import RunFolder


@pytest.fixture(scope="module")
def federation() -> Federation:
    graphs = Federation.world().graphs
    return Federation({name: graphs[name] for name in ("atlas", "government")})


SMALL = Config(method="pfedeg-plus", dim=8, negatives=4, rounds=400, eval_every=1, patience=1000, epochs=1, batch=256)


def test_the_better_half_of_the_candidates_continues(federation: Federation) -> None:
    seen, messages = [], list[str]()
    for until, runs in successive_halving(
        federation, SMALL, {"lr": [1e-5, 1e-2, 1e-4, 5e-3]}, 0.01, notify=messages.append
    ):
        seen.append((until, {run.values["lr"]: (run.rounds_done, run.best_mrr) for run in runs}))
        break
    (until, first) = seen[0]
    assert until == 1
    assert messages[2] == "candidate 2 of 4 (lr 0.01), round 1 of 1"
    assert {done for done, _ in first.values()} == {1}
    rungs = list(successive_halving(federation, SMALL, {"lr": [1e-5, 1e-2, 1e-4, 5e-3]}, 6.0))
    runs = rungs[-1][1]
    assert runs[0].values["lr"] in (1e-2, 5e-3)
    assert sorted(run.rounds_done for run in runs)[:2] == [rungs[0][0]] * 2
    assert runs[0].rounds_done > runs[-1].rounds_done
    assert runs[0].best_mrr >= runs[1].best_mrr


def test_where_time_is_short_candidates_are_compared_after_fewer_rounds(federation: Federation) -> None:
    rarely = SMALL.replace(eval_every=50)
    until, runs = next(successive_halving(federation, rarely, {"lr": [1e-4, 1e-2]}, 0.01))
    assert until == 1
    assert all(0 < run.best_mrr < 1 and run.rounds_done == 1 for run in runs)
    assert runs[0].training.config.patience == 50 * SMALL.patience


def test_a_candidate_that_diverges_is_last_and_says_why(federation: Federation) -> None:
    *_, (_, runs) = successive_halving(federation, SMALL, {"lr": [3e38, 1e-2]}, 0.01)
    assert runs[0].values == {"lr": 1e-2}
    assert "diverged" in runs[-1].evidence()["failed"]


class Scripted:
    """In place of a training: with lr 0.01 it is good and stops after two rounds, else it is worse and goes on."""

    def __init__(self, federation: Federation, config: Config, threads: int | None = None) -> None:
        self.config, self.history = config, list[Any]()

    def __iter__(self) -> Iterator[SimpleNamespace]:
        rounds, mrr = (2, 0.9) if self.config.optimizer_settings.lr == 1e-2 else (8, 0.5)
        for number in range(1, rounds + 1):
            self.history.append({"valid": {"weighted": {"mrr": mrr}}})
            yield SimpleNamespace(number=number)


def test_the_best_is_first_even_if_another_ran_longer(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.experiments.tuning.Training", Scripted)
    *_, (_, runs) = successive_halving(federation, SMALL, {"lr": [1e-3, 1e-2]}, 1.0)
    assert [(run.values["lr"], run.rounds_done, run.best_mrr) for run in runs] == [(1e-2, 2, 0.9), (1e-3, 8, 0.5)]


def test_no_choice_without_validation_results(federation: Federation) -> None:
    with pytest.raises(RunError, match=r"no candidate can be chosen: .*diverged"):
        list(successive_halving(federation, SMALL.replace(model="complex"), {"lr": [3e38, 2e38]}, 0.01))
    graphs = {name: replace(graph, valid=graph.valid[:0]) for name, graph in federation.graphs.items()}
    with (
        pytest.warns(DataWarning),
        pytest.raises(RunError, match="no candidate can be chosen: no client has valid triples"),
    ):
        list(successive_halving(Federation(graphs), SMALL, {"lr": [1e-3, 1e-2]}, 0.01))


def test_too_little_time_is_reported(federation: Federation) -> None:
    messages = list[str]()
    next(successive_halving(federation, SMALL, {"lr": [1e-3, 1e-2]}, 1e-6, warn=messages.append))
    (message,) = messages
    assert message.startswith("too little time for 2 candidates: they are first compared after 1 round, which favours")


def test_no_shortage_is_reported_if_only_the_first_round_was_slow(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it had to be compiled: the candidates then get more than one round."""
    now, messages = [0.0], list[str]()

    class Slow(Scripted):
        made = 0

        def __iter__(self) -> Iterator[SimpleNamespace]:
            Slow.made += 1
            first = Slow.made == 1
            for done in super().__iter__():
                now[0] += 20.0 if first else 0.1
                yield done

    monkeypatch.setattr("pfedeg.experiments.tuning.Training", Slow)
    monkeypatch.setattr("pfedeg.experiments.tuning.time", SimpleNamespace(monotonic=lambda: now[0]))
    until, _ = next(successive_halving(federation, SMALL, {"lr": [1e-3, 1e-2]}, 4.0, warn=messages.append))
    assert until > 1
    assert messages == []


def test_candidates_are_those_of_the_settings_and_the_present_value() -> None:
    found = default_candidates(Config(method="pfedeg-plus"))
    assert found == {"p": [0.5, 0.6, 0.7, 0.8, 0.9], "beta": [3e-3, 3e-4, 4e-4, 5e-4, 6e-4, 1e-3]}
    assert default_candidates(Config(method="fede")) == {}
    assert list(default_candidates(Config(method="pfedeg-star-init"))) == ["p"]
    assert list(default_candidates(Config(), given=["beta"])) == ["p"]


@dataclass(frozen=True, slots=True)
class Strength:
    strength: float = setting(0.3, "how strong", least=0, candidates=(0.1, 1.0))


OWN = replace(METHODS["fede"], name="own", label="Own", settings=Strength)


def test_user_defined_methods_suggest_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_candidates(Config(method=OWN)) == {"strength": [0.3, 0.1, 1.0]}
    assert read_candidates(["strength=0.2,0.5"], Config(method=OWN)) == {"strength": [0.2, 0.5]}


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("q=1", "expected NAME=VALUE"),
        ("p", "expected NAME=VALUE"),
        ("mu=1", "not used by"),
        ("p=x", "not values of p"),
        ("p=0.5,2", "p: 2.0 is out of range"),
        ("p=0.5 p=0.9", "p is given twice"),
        ("rounds=2,4", "expected NAME=VALUE"),
        ("seed=0,1", "expected NAME=VALUE"),
    ],
)
def test_wrong_candidates_are_refused(over: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_candidates(over.split(), Config(method="pfedeg-plus"))


@pytest.mark.parametrize("words", [["--minutes", "nan"], ["--minutes", "inf"], ["--choices", "missing/x.toml"]])
def test_invalid_requests_are_refused_at_once(words: list[str]) -> None:
    done = CliRunner().invoke(cli, ["tune", "world", *words])
    assert isinstance(done.exception, InputError)
    assert words[1] in str(done.exception)


def test_an_invalid_choices_file_is_not_changed(tmp_path: Path) -> None:
    for content, message in ((b"not toml at all [[[", "not valid TOML"), (b"\xff\xfe", "not valid UTF-8")):
        (tmp_path / "choices.toml").write_bytes(content)
        done = CliRunner().invoke(cli, ["tune", "world", "--choices", str(tmp_path / "choices.toml")])
        assert isinstance(done.exception, InputError)
        assert message in str(done.exception)
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
    printed = json.loads(done.output.splitlines()[-1])
    (rule,) = tomllib.loads((tmp_path / "choices.toml").read_text())["where"]
    assert rule["set"] == printed["chosen"]
    assert rule["data"] == "world"
    assert len(rule["evidence"]) == 2


def test_the_result_is_a_train_command_and_a_settings_file(tmp_path: Path) -> None:
    tiny = ["--rounds", "2", "--eval-every", "1", "--dim", "4", "--epochs", "1", "--model", "RotatE"]
    words = ["tune", "world", "--preset", "quick", *tiny, "--over", "p=0.5,0.9", "--minutes", "0.01"]
    printed = CliRunner().invoke(cli, words)
    assert printed.exit_code == 0, printed.exception
    command = printed.output.splitlines()[-1].partition("train with the best: pfedeg ")[2]
    trained = CliRunner().invoke(cli, [*shlex.split(command), "--out", str(tmp_path / "one")])
    assert trained.exit_code == 0, trained.exception
    file = tmp_path / "best.toml"
    done = CliRunner().invoke(cli, [*words, "--out", str(file), "--json"])
    assert done.exit_code == 0, done.exception
    found = json.loads(done.output.splitlines()[-1])
    assert found["train"] == f"pfedeg train world --config {file}"
    assert tomllib.loads(file.read_text()) == found["settings"]
    assert found["settings"].items() >= {"preset": "quick", "method": "pfedeg-plus", "model": "rotate"}.items()
    assert file.read_text().count("valid_mrr") == 2  # the evidence, in comments
    config = configure({}, file=file)[0]
    assert (config.dim, config.negatives, config.model) == (4, 64, "rotate")
    assert config.method_settings.p == found["chosen"]["p"]
    assert config.as_dict().items() >= {"rounds": 2, "eval_every": 1}.items()
    assert RunFolder(tmp_path / "one").config() in (config, config.replace(p=0.5), config.replace(p=0.9))
    refused = CliRunner().invoke(cli, [*words, "--out", str(file)])
    assert "best.toml: already exists" in str(refused.exception)
