"""Every command's work from Python: report, inspect, tune, import and export, with results as objects and tables."""

import inspect
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import pfedeg
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.federation_files import read_client
from pfedeg.registry import Registry
from test_result_table import check_latex

TINY: dict[str, Any] = {"rounds": 4, "dim": 4, "negatives": 2, "batch": 16, "eval_every": 2}


def run_cli(*words: Any) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.fixture(scope="module")
def runs(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for method in ("single", "fede", "pfedeg-plus"):
        pfedeg.train(Federation(synthetic.graphs, "woods & trees"), method, out=folder / method, **TINY)
    return folder


def test_a_run_has_its_metrics_and_history_as_tables(runs: Path, synthetic: Federation) -> None:
    training = pfedeg.train(synthetic, "fede", **TINY)
    assert training.result is not None
    for table in (training.metrics_table(), pfedeg.Run(runs / "fede").metrics_table()):
        rows = list(table)
        assert [(row["split"], row["client"]) for row in rows[:2]] == [("valid", ""), ("valid", "ash")]
        assert len(rows) == 2 * (1 + len(synthetic.graphs))
        (whole,) = [row for row in rows if (row["split"], row["client"]) == ("test", "")]
        assert whole["mrr"] == training.result["test"]["weighted"]["mrr"]
        assert whole["triples"] == sum(len(graph.test) for graph in synthetic.graphs.values())
    rounds = list(training.history_table())
    assert [row["round"] for row in rounds] == [1, 2, 3, 4]
    assert [row["valid_mrr"] is None for row in rounds] == [True, False, True, False]
    assert rounds[0]["loss"] == np.mean(list(training.history[0]["loss"].values()))
    assert list(pfedeg.Run(runs / "fede").history_table())[-1]["bytes_up"] == rounds[-1]["bytes_up"]
    with pytest.raises(InputError, match="not finished"):
        pfedeg.Training(synthetic, pfedeg.Config("fede", **TINY)).metrics_table()


def test_report_gives_the_results_and_writes_the_file(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = pfedeg.report(runs, tmp_path / "report.md", quick=True, title="Trees", progress=True)
    assert capsys.readouterr().out == ""
    assert [entry.method.label for entry in results.entries] == ["Single", "FedE", "PFedEG+"]
    assert (tmp_path / "report.md").read_text().startswith("# Trees\n")
    run_cli("report", runs, "--out", tmp_path / "cli.md", "--quick", "--title", "Trees")
    assert (tmp_path / "cli.md").read_bytes() == (tmp_path / "report.md").read_bytes()
    pfedeg.report(runs, tmp_path / "report.csv")
    table = pfedeg.report(runs).table()
    assert table.to_csv() == (tmp_path / "report.csv").read_text()
    assert {row["method"] for row in table} == {"single", "fede", "pfedeg-plus"}
    assert table.to_arrow().num_rows == len(table) == 3 * 4
    check_latex(table.to_latex())


@pytest.mark.parametrize("by_name", [True, False])
def test_report_in_latex(runs: Path, tmp_path: Path, by_name: bool) -> None:
    out = tmp_path / ("report.tex" if by_name else "tables.txt")
    run_cli("report", runs, "--out", out, "--quick", *([] if by_name else ["--format", "tex"]))
    source = out.read_text()
    assert source.startswith("% Results: 3 finished runs in ")
    assert r"\usepackage{booktabs}" in source.splitlines()[1]
    cells = check_latex(source)
    run_cli("report", runs, "--out", tmp_path / "report.md", "--quick")
    bold = sum("\\textbf{" in cell for row in cells for cell in row)
    assert bold == (tmp_path / "report.md").read_text().count("**") // 2
    assert [row[0] for row in cells].count("PFedEG+") >= 1
    labels = re.findall(r"\\label\{(.*?)\}", source)
    assert len(labels) == len(set(labels)) == source.count("\\begin{table}") > 2
    assert all(re.fullmatch("tab:[a-z0-9-]+", label) for label in labels)
    assert "woods \\& trees" in source


def test_inspect_gives_what_the_command_shows(folder: Path) -> None:
    shown = json.loads(run_cli("inspect", folder, "--json", "--no-measure", "--method", "fede", "--model", "transe"))
    found = pfedeg.inspect(Federation.read(folder))
    assert {**json.loads(json.dumps(asdict(found))), "estimates": None} == {**shown, "estimates": None}
    estimates = pfedeg.estimate_cost(Federation.read(folder), pfedeg.Config("fede"), measure=False)
    (estimate,) = estimates.runs
    assert (estimate.method, estimate.model, estimate.seconds_per_round) == ("fede", "transe", None)
    assert estimate.bytes > 0
    measured = pfedeg.estimate_cost(Federation.read(folder), pfedeg.Config("fede", **TINY), threads=1)
    assert (measured.runs[0].seconds_per_round or 0) > 0
    assert pfedeg.estimate_cost(Federation.read(folder), measure=False).runs[0].method == "pfedeg-plus"


def test_tune_gives_settings_to_train_with(synthetic: Federation, capsys: pytest.CaptureFixture[str]) -> None:
    tuning = pfedeg.tune(synthetic, "fede", over={"lr": [0.0001, 0.05]}, minutes=0.01, threads=1, **TINY)
    assert capsys.readouterr() == ("", "")
    assert tuning.chosen["lr"] in (0.0001, 0.05)
    assert tuning.config == pfedeg.Config("fede", **TINY, **tuning.chosen)
    best = max(tuning.evidence, key=lambda entry: (entry["rounds"], entry["valid_mrr"]))
    assert best["lr"] == tuning.chosen["lr"]
    assert tuning.table().column("lr") == [entry["lr"] for entry in tuning.evidence]
    usual = pfedeg.tune(synthetic, "pfedeg-plus", p=0.5, minutes=0.001, progress=True, **TINY)
    assert set(usual.chosen) == {"beta"}
    assert "tuning: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"over": {"learning_rate": [1]}}, "over: no setting 'learning_rate' of FedE, TransE"),
        ({"over": ["lr"]}, "over: expected values by setting, as in {'lr': [0.001, 0.01]}, not ['lr']"),
        ({"over": {"lr": 0.1}}, "over: lr: expected a list of values, not 0.1"),
        ({"over": {"lr": [-1.0]}}, "lr: -1.0 is out of range"),
        ({"over": {"beta": [1.0]}}, "over: no setting 'beta' of FedE, TransE"),
        ({}, "FedE, TransE: no default values to try; name some with over={...}"),
        ({"over": {"lr": [0.1]}, "minutes": 0}, "minutes: 0 is out of range; it must be above 0 and below 100,000"),
        ({"over": {"lr": [0.1]}, "threads": 0}, "threads: 0 is not a number of cores"),
    ],
)
def test_tune_refuses_what_it_cannot_try(synthetic: Federation, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        pfedeg.tune(synthetic, "fede", **options)
    assert message in str(error.value)


def test_import_gives_a_graph_and_writes_the_folder(tmp_path: Path) -> None:
    source = tmp_path / "north.csv"
    source.write_text("".join(f"a{i % 5},r{i % 2},b{i % 8}\n" for i in range(40)))
    found = pfedeg.import_client(source, tmp_path / "data" / "north")
    assert found.summary["triples"] == len(found.triples) == 40
    assert found.graph(seed=1) == read_client(tmp_path / "data" / "north", 1)
    run_cli("import", source, "--out", tmp_path / "cli")
    for name in ("triples.parquet", "import.json"):
        assert (tmp_path / "cli" / name).read_bytes() == (tmp_path / "data" / "north" / name).read_bytes()
    again = pfedeg.import_client([source], header=False, columns=["3", "2", "1"])
    assert next(iter(again.triples))[0].startswith("b")
    pfedeg.train(Federation({"north": found.graph(), "south": again.graph()}), "fede", **TINY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"literal": "keep"}, "unknown option 'literal'; did you mean 'literals'?"),
        ({"format": "cvs"}, "unknown format 'cvs'; did you mean 'csv'?"),
        ({"out": "{tmp}"}, "already exists"),
        ({"sources": "{tmp}/none.csv"}, "none.csv: no such file or folder"),
        ({"sources": []}, "sources: there is nothing to import"),
        ({"literals": "kep"}, "literals: unknown value 'kep'; did you mean 'keep'?"),
        ({"buckets": 1}, "buckets: 1 is out of range; it must be 2 to 1000"),
        ({"columns": "1,2,3"}, "columns: expected head, relation and tail, as in ['1', '2', '3'], not '1,2,3'"),
    ],
)
def test_import_refuses_what_it_cannot_read(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    (tmp_path / "a.csv").write_text("a,r,b\nb,r,c\n")
    given = {"sources": "{tmp}/a.csv", **options}
    with pytest.raises(InputError) as error:
        pfedeg.import_client(
            **{name: value.format(tmp=tmp_path) if isinstance(value, str) else value for name, value in given.items()}
        )
    assert message in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_reports_and_exports_of_other_objects_are_refused(synthetic: Federation, tmp_path: Path) -> None:
    training: Any = pfedeg.Training(synthetic, pfedeg.Config("fede", **TINY))
    with pytest.raises(InputError, match=r"expected a run folder or a Run, not a Training; `pfedeg\.Run\(path\)`"):
        pfedeg.export(training, tmp_path / "out", "parquet")
    with pytest.raises(InputError, match="expected a folder of runs, not a Training"):
        pfedeg.report(training)


def test_export_gives_the_folders(runs: Path, tmp_path: Path) -> None:
    folders = pfedeg.export(pfedeg.Run(runs / "fede"), tmp_path / "all", "parquet")
    assert len(folders) == 3
    assert all(pq.read_table(each / "entities.parquet").num_columns == 2 for each in folders)
    assert pfedeg.export(runs / "fede", tmp_path / "ash", "numpy", client="ash") == [tmp_path / "ash"]
    assert [path.name for path in (tmp_path / "ash").iterdir()] == ["tables.npz"]


@pytest.mark.parametrize(
    "call", [pfedeg.inspect, pfedeg.estimate_cost, pfedeg.tune, pfedeg.train], ids=lambda call: call.__name__
)
def test_a_path_in_place_of_a_federation_is_named(call: Any) -> None:
    with pytest.raises(InputError, match=r"did you mean `pfedeg\.Federation\.world\(\)`\?"):
        call("world")


# help()


def documented(value: Any) -> list[tuple[str, str, list[str]]]:
    """Name, help text and parameters of a public object and of its public methods."""
    if isinstance(value, Registry):
        return []
    found = [(value.__name__, help_text(value), parameters(value))]
    if inspect.isclass(value):
        for name, member in vars(value).items():
            function = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(function):
                found.append((f"{value.__name__}.{name}", inspect.getdoc(function) or "", parameters(function)))
    return found


def help_text(value: Any) -> str:
    """What help() says about it, without signatures: its docstring, and that of __init__ of a class."""
    init = vars(value).get("__init__") if inspect.isclass(value) else None
    return f"{inspect.getdoc(value) or ''} {(inspect.getdoc(init) or '') if init else ''}"


def parameters(value: Any) -> list[str]:
    if inspect.isclass(value) and (getattr(value, "_is_protocol", False) or issubclass(value, Exception)):
        return []  # they are not called by users
    return [name for name in inspect.signature(value).parameters if name not in ("self", "cls")]


@pytest.mark.parametrize("name", pfedeg.__all__)
def test_help_says_every_argument(name: str) -> None:
    missing = [
        f"{path}: {parameter}"
        for path, text, names in documented(getattr(pfedeg, name))
        for parameter in names
        if not re.search(rf"\b{parameter}\b", text)
    ]
    assert missing == []
