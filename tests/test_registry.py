"""Names, labels and objects: everything that identifies a method, model, objective or optimiser."""

from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

import pfedeg
from pfedeg import registry
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.experiments.plan import Plan, read_only
from pfedeg.methods.registry import METHODS
from pfedeg.training.config import REGISTRIES, Config, configure
from pfedeg.training.run_folder import RunFolder

MINE = replace(METHODS["fede"], name="mine", label="My Mean")
LABELS = [(part, name, each.label) for part, found in REGISTRIES.items() for name, each in found.loaded().items()]


@pytest.mark.parametrize(("part", "name", "label"), [each for each in LABELS if ":" not in each[1]])
def test_labels_work_in_any_case_wherever_names_do(part: str, name: str, label: str) -> None:
    for spelled in (label, label.upper(), label.lower(), name.upper()):
        assert REGISTRIES[part].identify(spelled) == name
        assert REGISTRIES[part].get(spelled) is REGISTRIES[part].get(name)
        assert getattr(Config(**{part: spelled}), part) == name


def test_entry_points_work_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    added = [EntryPoint("Mean-Of-Mine", f"{__name__}:MINE", "pfedeg.methods")]
    monkeypatch.setattr(registry, "entry_points", lambda group: added if group == "pfedeg.methods" else [])
    monkeypatch.setattr(METHODS, "_loaded", dict(METHODS._loaded))
    assert METHODS.identify("mean-of-mine") == "Mean-Of-Mine"
    assert METHODS.get("mean-of-mine") is MINE
    assert METHODS.identify("MY MEAN") == "Mean-Of-Mine"  # once it is loaded


def test_unknown_names_are_refused_with_similar_ones() -> None:
    with pytest.raises(InputError, match="unknown model 'TransX'; did you mean 'transe'"):
        REGISTRIES["model"].get("TransX")


def test_a_run_made_with_labels_is_saved_with_names(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('objective = "Self-Adversarial"\noptimizer = "ADAM"\nmethod = "FedE"\n')
    words = ["--rounds", "1", "--dim", "4", "--negatives", "2", "--config", str(tmp_path / "my.toml")]
    words += ["--method", "PFedEG+", "--model", "TransE", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(cli, ["train", str(folder), *words])
    assert done.exit_code == 0, done.exception
    saved = RunFolder.open(tmp_path / "run").settings()
    assert [saved[part] for part in REGISTRIES] == ["pfedeg-plus", "transe", "self-adversarial", "adam"]
    assert configure({}, file=tmp_path / "my.toml")[0].method == "fede"


def test_labels_in_python(synthetic: pfedeg.Federation) -> None:
    training = pfedeg.train(synthetic, "PFedEG*", "RotatE", rounds=1, dim=4, negatives=2, optimizer="Adam")
    assert (training.config.method, training.config.model) == ("pfedeg-star", "rotate")


def test_labels_in_plans(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        'data = ["world"]\nmodels = ["TransE"]\nmethods = ["FEDE", "PFedEG+"]\n[vary]\noptimizer = ["Adam"]\n'
        '[[where]]\nmethod = "PFedEG+"\nset = { p = 0.7 }\n'
    )
    plan = Plan.read(tmp_path / "plan.toml")
    assert [run.name for run in plan.runs] == [
        "world/transe/fede/seed-0/optimizer-adam",
        "world/transe/pfedeg-plus/seed-0/optimizer-adam",
    ]
    assert plan.runs[1].config.method_settings.p == 0.7
    assert read_only(["method=PFedEG+", "optimizer=ADAM"], plan) == {"method": ["pfedeg-plus"], "optimizer": ["adam"]}


def test_labels_in_inspect_and_tune() -> None:
    done = CliRunner().invoke(cli, ["inspect", "world", "--no-measure", "--model", "TransE", "--method", "PFedEG+"])
    assert done.exit_code == 0, done.exception
    done = CliRunner().invoke(cli, ["tune", "world", "--method", "FEDE"])
    assert "FedE, TransE: no default values to try" in str(done.exception)
