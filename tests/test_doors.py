"""The four doors: a user-defined method, model, objective and optimiser in every command."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner, Result

import pfedeg
from loopback import SECRET, Network, make_agents, start_run
from pfedeg.checked_files import read_json
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.training.config import REGISTRIES
from pfedeg.training.run_folder import CHECKPOINT, RunFolder

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY: dict[str, Any] = {"dim": 6, "negatives": 4, "batch": 16, "rounds": 4, "eval_every": 2, "epochs": 1, "lr": 0.02}


class Part(NamedTuple):
    """An example of one of the four kinds, and one of its settings."""

    kind: str
    identifier: str
    label: str
    setting: str
    values: tuple[float, float]  # two that differ from the default

    @property
    def settings(self) -> dict[str, Any]:
        return {**TINY, self.kind: self.identifier, **({self.setting: self.values[0]} if self.setting else {})}

    @property
    def flags(self) -> list[str]:
        return [word for name, value in self.settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


PARTS = [
    Part("method", "own_method:METHOD", "ByEvidence", "power", (2.0, 0.5)),
    Part("model", "own_model:MODEL", "SimplE", "", (0, 0)),
    Part("objective", "own_objective:OBJECTIVE", "cross entropy", "smoothing", (0.1, 0.2)),
    Part("optimizer", "own_optimizer:OPTIMIZER", "Adagrad", "lr", (0.1, 0.2)),
]


@pytest.fixture(scope="module", params=PARTS, ids=lambda part: part.kind)
def part(request: pytest.FixtureRequest) -> Part:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module", autouse=True)
def _examples() -> Any:
    """Make the examples importable, as from a user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(EXAMPLES)
        yield


@pytest.fixture(scope="module")
def data(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "woods"
    synthetic.write(folder)
    return folder


def call(*words: Any) -> Result:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def run(part: Part, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `pfedeg train` with the part."""
    out = tmp_path_factory.mktemp("runs") / "mine"
    printed = call("train", data, *part.flags, "--out", out).stderr
    assert ("it trains with numpy" in printed) == (part.kind != "method")
    return out


def test_train_saves_the_part_and_its_settings(part: Part, run: Path) -> None:
    config = RunFolder.open(run).config()
    assert getattr(config, part.kind) == part.identifier
    assert config.as_dict().items() >= part.settings.items()
    loss = [sum(line["loss"].values()) for line in RunFolder.open(run).history()]
    assert loss[-1] < loss[0]  # it learns


def test_a_resumed_run_equals_an_uninterrupted_one(part: Part, run: Path, data: Path, tmp_path: Path) -> None:
    config, federation = pfedeg.Config(**part.settings), Federation.read(data)
    for _ in range(4):
        for _ in pfedeg.Training(federation, config, out=tmp_path / "parts", resume=True):
            break
    resumed = pfedeg.Training(federation, config, out=tmp_path / "parts", resume=True).run()
    assert (tmp_path / "parts" / CHECKPOINT).exists()  # it may continue with more rounds
    for client in federation.graphs:
        for name, table in RunFolder.open(run).tables(client)._asdict().items():
            np.testing.assert_array_equal(getattr(resumed.tables[client], name), table)


def test_show_and_evaluate(part: Part, run: Path) -> None:
    shown = call("show", run).output
    if part.kind in ("method", "model"):
        assert part.label in shown
    saved = json.loads(call("show", run, "--json").stdout)
    assert saved["config"][part.kind] == part.identifier
    again = json.loads(call("evaluate", run, "--json").stdout)
    assert again["weighted"] == saved["result"]["test"]["weighted"]


def test_predict_explains(part: Part, run: Path) -> None:
    words = ("predict", run, "--client", "ash", "--head", "e12", "--relation", "near", "--known", "--explain")
    lines = json.loads(call(*words, "--json").stdout)["predictions"]
    assert len(lines) == 10
    text = call(*words).output
    assert all(line["influence"] for line in lines)  # the method says who contributed
    assert "without birch: rank " in text


def test_runs_of_schema_1_with_a_strategy_class_do_not_pass_as_the_saved_method(data: Path, tmp_path: Path) -> None:
    """Schema 1 saved the method FedE, even if a strategy class replaced it."""
    pfedeg.Training(Federation.read(data), pfedeg.Config("fede", **TINY), out=tmp_path / "run").run()
    words = ("predict", tmp_path / "run", "--client", "ash", "--head", "e12", "--relation", "near", "--known")
    lines = json.loads(call(*words, "--explain", "--json").stdout)["predictions"]
    assert any(line["influence"] for line in lines)
    for name, drop, add in (
        ("config.json", {"schema", "objective", "optimizer"}, {"p": None}),
        ("provenance.json", {"labels"}, {"strategy": "BySize"}),
    ):
        content = json.loads((tmp_path / "run" / name).read_text())
        content = {key: value for key, value in content.items() if key not in drop} | add
        (tmp_path / "run" / name).write_text(json.dumps(content))
    assert "BySize, TransE" in call("show", tmp_path / "run").output
    lines = json.loads(call(*words, "--explain", "--json").stdout)["predictions"]
    assert lines
    assert all(not line["influence"] for line in lines)
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(InputError, match=r"a strategy of your own, BySize, which cannot be resumed; choose another"):
        pfedeg.train(Federation.read(data), "fede", out=tmp_path / "run", resume=True, **TINY)


def test_report_names_the_part(part: Part, run: Path, data: Path, tmp_path: Path) -> None:
    call("train", data, *[f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()], "--method", "fede",
         "--out", run.parent / "fede")  # fmt: skip
    call("report", run.parent, "--out", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert part.label in text or part.identifier in text
    assert "FedE" in text


@pytest.mark.parametrize("name", ["a-mine", "z-mine"], ids=["before fede", "after fede"])
def test_report_lists_both_runs_whatever_the_folders_are_called(
    part: Part, data: Path, tmp_path: Path, name: str
) -> None:
    """Two runs that differ in nothing but the part."""
    for folder, settings in (("fede", TINY), (name, {**TINY, part.kind: part.identifier})):
        config = pfedeg.Config(**{"method": "fede", **settings})
        pfedeg.Training(Federation.read(data), config, out=tmp_path / "runs" / folder).run()
    call("report", tmp_path / "runs", "--quick", "--format", "csv", "--out", tmp_path / "report.csv")
    with (tmp_path / "report.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["client"]]
    results = [read_json(tmp_path / "runs" / each / "result.json") for each in ("fede", name)]
    expected = [(result["method"], str(result["test"]["weighted"]["mrr"])) for result in results]
    assert sorted((row["method"], row["test_mrr"]) for row in rows) == sorted(expected)
    assert (part.kind == "method") == (part.identifier in {row["method"] for row in rows})
    call("report", tmp_path / "runs", "--quick", "--out", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# Results\n\n2 finished runs")
    assert "(as " not in text  # how a repeated run is listed
    assert part.label in text or part.identifier in text


def test_export(part: Part, run: Path, tmp_path: Path) -> None:
    call("export", run, "--to", "safetensors", "--out", tmp_path / "tables")
    assert len(list((tmp_path / "tables").rglob("tables.safetensors"))) == 3


def test_inspect_estimates_its_cost(part: Part, data: Path) -> None:
    rest = [f"--{kind}={name}" for kind, name in (("method", "fede"), ("model", "transe")) if kind != part.kind]
    found = json.loads(call("inspect", data, *part.flags, *rest, "--json").stdout)
    (estimate,) = found["estimates"]["runs"]
    assert estimate["seconds_per_round"] > 0
    assert part.identifier in estimate.values() or part.kind in ("objective", "optimizer")


def test_tune(part: Part, data: Path) -> None:
    name, values = (part.setting, part.values) if part.setting else ("lr", (0.01, 0.05))
    over = f"{name}={values[0]},{values[1]}"
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in part.settings.items() if key != name]
    found = json.loads(call("tune", data, *flags, "--over", over, "--minutes", "0.01", "--json").stdout)
    assert found["chosen"][name] in values


def test_experiment(part: Part, data: Path, tmp_path: Path) -> None:
    settings = {name: value for name, value in part.settings.items() if name not in ("method", "model")}
    method = part.identifier if part.kind == "method" else "fede"
    model = part.identifier if part.kind == "model" else "transe"
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    plan = f'data = ["woods"]\nmodels = ["{model}"]\nmethods = ["{method}", "single"]\nseeds = [0]\n[settings]\n'
    (tmp_path / "plan.toml").write_text(plan + "\n".join(line for line in lines if not line.startswith("epochs")))
    call("experiment", tmp_path / "plan.toml", "--data", data.parent, "--out", tmp_path / "out")
    runs = [RunFolder.open(path.parent).config() for path in (tmp_path / "out").rglob("result.json")]
    assert len(runs) == 2
    assert part.identifier in {getattr(one, part.kind) for one in runs}
    call("report", tmp_path / "out", "--out", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert part.label in text or part.identifier in text


def test_network_gives_the_same_tables(part: Part, run: Path, synthetic: Federation, tmp_path: Path) -> None:
    home = tmp_path / "clients"
    agents = make_agents(synthetic, home, allowed=[part.identifier])
    start_run(Network(agents), pfedeg.Config(**part.settings), tmp_path / "server").run()
    alone = pfedeg.Training(synthetic, pfedeg.Config(**part.settings), secret=SECRET).run()
    found = read_json(tmp_path / "server" / "result.json")
    assert found["test"] == (alone.result or {})["test"]
    for client, tables in alone.tables.items():
        (folder,) = (home / client).iterdir()
        np.testing.assert_array_equal(RunFolder.open(folder).tables(client).entity, tables.entity)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("own_*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 80


def test_every_kind_has_an_example() -> None:
    assert [part.kind for part in PARTS] == list(REGISTRIES)
