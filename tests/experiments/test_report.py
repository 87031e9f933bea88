"""Reports on a folder of runs: comparisons, significance, output formats."""

import csv
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pfedeg
from conftest import ring
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.experiments.report import figures, render, write
from pfedeg.experiments.report.document import Section, Table, TableCell
from pfedeg.experiments.report.parts import ReportMethod, model_named
from pfedeg.experiments.report.published import read_published
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.sections import build_sections
from pfedeg.experiments.report.significance import (
    Difference,
    PairedTests,
    bootstrap,
    mean_over_seeds,
    paired_tests,
    reciprocal_ranks,
    resampled_means,
)
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.splitting import split_graph
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training

SMALL: dict[str, Any] = {"rounds": 4, "dim": 4, "negatives": 2, "eval_every": 2, "batch": 16}
SCALE = "batch 16, dim 4, negatives 2"
HERE = Setup("trees", model_named("transe"), SCALE)
PAPER = """dataset,model,method,mrr,hits@1,hits@5,hits@10
Trees,TransE,FedE,0.5,0.4,0.6,0.7
Trees,TransE,PFedEG+,0.6,0.5,0.7,0.8
Trees,RotatE,Single,0.3,,,
"""


def train(federation: Federation, out: Path, source: str = "data/trees.parquet", **settings: Any) -> Path:
    Training(federation, Config(**{**SMALL, **settings}), out=out, source=source).run()
    return out


@pytest.fixture(scope="module")
def woods() -> Federation:
    """Names that would break the page without escaping."""
    return Federation(
        {
            "ash": split_graph(ring(0, 20, ("near", "next")), 1),
            "<b>birch</b> | *": split_graph(ring(10, 16, ("next", "over")), 2),
            "cedar": split_graph(ring(14, 12, ("left", "right", "up")), 3),
        }
    )


@pytest.fixture(scope="module")
def runs(woods: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods, one of them with two seeds and two values of p."""
    folder = tmp_path_factory.mktemp("runs")
    train(woods, folder / "single", method="single", epochs=1)
    train(woods, folder / "fede", method="fede")
    for seed in (0, 1):
        train(woods, folder / f"plus-{seed}", method="pfedeg-plus", seed=seed)
    train(woods, folder / "plus-p", method="pfedeg-plus", p=0.9)
    (folder / "paper.csv").write_text(PAPER)
    return folder


def written(folder: Path, out: Path, paper: Path | None = None, quick: bool = False) -> str:
    write(folder, out, paper, quick=quick, force=True)
    return unwrapped(out) if out.suffix == ".md" else out.read_text()


def unwrapped(report: Path) -> str:
    """A Markdown report with each paragraph on one line, so that a path's length does not matter."""
    return re.sub(r"(?<=[^\n])\n(?=[^\n|#])", " ", report.read_text())


def numbers(folder: Path, paper: Path | None = None) -> list[dict[str, str]]:
    return list(csv.DictReader(written(folder, folder.parent / "numbers.csv", paper).splitlines()))


def mrr_of(path: Path, key: str = "mrr") -> float:
    return float(json.loads((path / "result.json").read_text())["test"]["weighted"][key])


class Page(HTMLParser):
    """The text of a page, its tables, and the external resources it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tables, self.loads, self.open = "", list[list[list[str]]](), list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def test_runs_are_sorted_by_what_can_be_compared(runs: Path) -> None:
    results = Results.read(runs)
    assert results.setups == [HERE]
    assert [entry.label for entry in results.at(HERE)] == ["Single", "FedE", "PFedEG+ (p 0.5)"]
    (study,) = results.studies()
    assert [(entry.variant, len(entry.runs)) for entry in study] == [("p 0.5", 2), ("p 0.9", 1)]


def test_seeds_give_mean_and_standard_deviation(runs: Path) -> None:
    plus = Results.read(runs).at(HERE)[-1]
    values = [mrr_of(runs / f"plus-{seed}") for seed in (0, 1)]
    assert values[0] != values[1]
    assert plus.mean("mrr") == pytest.approx(np.mean(values))
    assert plus.sd("mrr") == pytest.approx(np.std(values, ddof=1))
    assert Results.read(runs).at(HERE)[0].sd("mrr") is None


def test_different_data_of_the_same_name_are_distinguished(runs: Path, synthetic: Federation, tmp_path: Path) -> None:
    shutil.copytree(runs / "fede", tmp_path / "one")
    train(synthetic, tmp_path / "two", method="fede")
    names = [setup.data for setup in Results.read(tmp_path).setups]
    assert len(names) == 2
    assert all(re.fullmatch(r"trees \([0-9a-f]{6}\)", name) for name in names)


def test_data_that_the_seed_splits_are_the_same_data(tmp_path: Path) -> None:
    triples = {"ash": ring(0, 20, ("near", "next")), "birch": ring(10, 16, ("next", "over"))}
    for seed in (0, 1):
        federation = Federation({name: split_graph(named, seed) for name, named in triples.items()})
        for method in ("fede", "single"):
            train(federation, tmp_path / f"{method}-{seed}", "data/tsv", method=method, seed=seed, epochs=1)
    results = Results.read(tmp_path)
    assert [(each.data, each.label, len(each.runs)) for each in results.entries] == [
        ("tsv", "Single", 2),
        ("tsv", "FedE", 2),
    ]
    ranks = reciprocal_ranks(results.entries[0])
    assert ranks[0][0] != ranks[1][0]
    assert mean_over_seeds(ranks, (0, 1)).tolist() == [
        *ranks[0][1],
        *ranks[1][1],
    ]  # different triples
    assert len(paired_tests(results.entries).differences) == 1


def test_other_clients_are_other_data_whatever_the_seed(runs: Path, synthetic: Federation, tmp_path: Path) -> None:
    shutil.copytree(runs / "fede", tmp_path / "one")
    train(synthetic, tmp_path / "two", method="fede", seed=1)
    assert len(Results.read(tmp_path).setups) == 2


def test_only_runs_with_the_same_common_settings_are_compared(runs: Path, woods: Federation, tmp_path: Path) -> None:
    for name in ("single", "fede"):
        shutil.copytree(runs / name, tmp_path / name)
    train(woods, tmp_path / "plus", method="pfedeg-plus", dim=8, sampling="shared", chunk=4)
    train(woods, tmp_path / "wide", method="fede", dim=8, chunk=4)
    results = Results.read(tmp_path)
    scales = [SCALE, "batch 16, dim 8, negatives 2", "batch 16, dim 8, negatives 2, sampling shared, chunk 4"]
    assert [setup.scale for setup in results.setups] == scales
    assert [[entry.label for entry in results.at(setup)] for setup in results.setups] == [
        ["Single", "FedE"],
        ["FedE"],
        ["PFedEG+"],
    ]
    assert [[entry.setup.scale for entry in group] for group in results.studies()] == [scales[:2]]
    assert [setup.scale for setup in results.compared] == [scales[0], scales[2]]  # the other is in the study
    shutil.rmtree(tmp_path / "single")
    assert [setup.scale for setup in Results.read(tmp_path).compared] == [scales[0], scales[2]]  # one of the study
    shutil.copytree(runs / "single", tmp_path / "single")
    text = written(tmp_path, tmp_path / "r.md")
    assert f"## trees, TransE ({scales[2]})" in text
    assert "Comparison with the baselines" not in text  # there is nothing to compare with
    assert "| better | worse |" in text.split(f"## trees, TransE ({SCALE})")[1].split("\n## ")[0]


def with_settings(path: Path, **settings: Any) -> None:
    """As if a run had been made with other settings."""
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **settings}))


def test_numbers_are_set_against_the_papers_only_at_its_settings(runs: Path, tmp_path: Path) -> None:
    for name in ("fede", "plus-0"):
        shutil.copytree(runs / name, tmp_path / "runs" / name, ignore=shutil.ignore_patterns("clients"))
    text = written(tmp_path / "runs", tmp_path / "r.md", runs / "paper.csv")
    assert "| published MRR |\n" in text
    assert "difference |" not in text
    assert "The published results have other settings." in text
    assert "1 of 1 pairs" in text or "0 of 1 pairs" in text
    assert {row["paper_mrr"] for row in numbers(tmp_path / "runs", runs / "paper.csv")} == {""}
    for name in ("fede", "plus-0"):
        with_settings(tmp_path / "runs" / name, batch=512, dim=128, negatives=256)
    text = written(tmp_path / "runs", tmp_path / "r.md", runs / "paper.csv")
    assert "| published MRR | difference |" in text
    assert "at other settings.\n\n### Test metrics" not in text
    rows = numbers(tmp_path / "runs", runs / "paper.csv")
    assert {(row["scale"], row["paper_mrr"]) for row in rows if not row["client"]} == {("", "0.5"), ("", "0.6")}


def test_names_of_data_match_the_papers_in_upper_or_lower_case(woods: Federation, runs: Path, tmp_path: Path) -> None:
    train(woods, tmp_path / "one", "data/Trees.parquet", method="fede")
    results = Results.read(tmp_path, runs / "paper.csv")
    assert results.published_for(results.entries[0])["mrr"] == 0.5


def test_of_equally_usual_settings_the_best_by_validation_is_shown(runs: Path, tmp_path: Path) -> None:
    for value in (0.7, 0.8, 0.9):
        shutil.copytree(runs / "plus-p", tmp_path / f"p-{value}")
        with_settings(tmp_path / f"p-{value}", p=value)
        result = json.loads((tmp_path / f"p-{value}" / "result.json").read_text())
        result["valid"]["weighted"]["mrr"] = 0.9 if value == 0.8 else 0.5
        (tmp_path / f"p-{value}" / "result.json").write_text(json.dumps(result))
    shutil.copytree(runs / "fede", tmp_path / "fede")
    assert [entry.label for entry in Results.read(tmp_path).at(HERE)] == ["FedE", "PFedEG+ (p 0.8)"]
    glance = written(tmp_path, tmp_path / "r.md", quick=True).split("\n## ")[1]
    assert f"the best by validation: trees, TransE ({SCALE}): PFedEG+ (p 0.8)." in glance
    shutil.copytree(runs / "plus-0", tmp_path / "usual")
    assert [entry.label for entry in Results.read(tmp_path).at(HERE)] == ["FedE", "PFedEG+ (p 0.5)"]


def test_of_runs_that_are_the_same_the_first_is_taken(runs: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(runs / "fede", tmp_path / name)
    assert [run.path.name for run in Results.read(tmp_path).entries[0].runs] == ["one"]
    text = written(tmp_path, tmp_path / "r.md")
    assert (
        f"Skipped (same data, settings and seed as another run): {tmp_path / 'two'} (as {tmp_path / 'one'})."
        in text.replace("\\", "")
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("result.json", "{", "result.json: damaged (Expecting"),
        ("result.json", "{}", "result.json: damaged (no 'rounds')"),
        (
            "result.json",
            '{"rounds": 4, "best_round": 4, "seconds": null}',
            "result.json: damaged (None is not a number)",
        ),
        ("result.json", '{"rounds": 4, "best_round": 4, "seconds": 1, "valid": []}', "result.json: damaged (list"),
        ("config.json", "[]", "config.json: damaged (not a JSON object)"),
        ("config.json", "{}", "damaged, or made by another version"),
        ("config.json", '{"method": "fede", "model": "transe", "seed": 0, "dim": 0}', "dim: 0 is out of range"),
        ("provenance.json", "{}", "damaged, or made by another version"),
        ("history.jsonl", '{"round": 1}\n{\n', "history.jsonl, line 2: damaged"),
        ("history.jsonl", "[]\n", "history.jsonl, line 1: damaged"),
        ("history.jsonl", "{}\n", "history.jsonl, line 1: damaged"),
        ("history.jsonl", '{"round": 1, "affinity": {"ash": {"elm": 1}}}\n', "affinity to an unknown client"),
    ],
)
def test_damaged_runs_are_reported(runs: Path, tmp_path: Path, name: str, content: str, message: str) -> None:
    for each in ("fede", "single"):
        shutil.copytree(runs / each, tmp_path / each, ignore=shutil.ignore_patterns("clients"))
    (tmp_path / "fede" / name).write_text(content)
    said: list[str] = []
    write(tmp_path, tmp_path / "r.md", notify=said.append, force=True)
    (remark,) = said
    assert remark.startswith("skipped: ")
    assert message in remark
    text = unwrapped(tmp_path / "r.md").replace("\\", "")
    assert "1 finished run in" in text
    assert "skipped: 1 damaged" in text
    assert message in text.split("Skipped (damaged): ")[1]
    shutil.rmtree(tmp_path / "single")
    with pytest.raises(InputError, match="no run can be used; .*" + re.escape(message)):
        Results.read(tmp_path)


def test_runs_that_are_not_finished_are_named(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "fede", tmp_path / "one")
    shutil.copytree(runs / "single", tmp_path / "two")
    (tmp_path / "two" / "result.json").unlink()
    results = Results.read(tmp_path)
    assert results.unfinished == [tmp_path / "two"]
    write(tmp_path, tmp_path / "r.md", force=True)
    assert "skipped: 1 not finished" in unwrapped(tmp_path / "r.md")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data,model\n", r"line 1: no column 'dataset'"),
        (PAPER.replace("RotatE", "Rotate3"), r"line 4: unknown model 'Rotate3'.*rotate"),
        (PAPER.replace("FedE,", "FedX,"), r"line 2: unknown method 'FedX'"),
        (PAPER.replace("RotatE", " "), r"line 4: the column 'model' is empty"),
        (PAPER + "Trees,TransE\n", r"line 5: the column 'method' is empty"),
        (PAPER + ",TransE,FedE,0.5\n", r"line 5: the column 'dataset' is empty"),
        (PAPER.replace("0.6,0.7\n", "0.6,x\n"), r"line 2: could not convert string to float: 'x'"),
        (PAPER.replace("0.5,0.4", "50,0.4"), r"line 2: metrics are between 0 and 1"),
        (PAPER.replace("0.5,0.4", "nan,0.4"), r"line 2: metrics are between 0 and 1"),
    ],
)
def test_a_bad_file_of_reported_results_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "paper.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_published(tmp_path / "paper.csv")


def entry(name: str) -> Entry:
    return Entry(name, ReportMethod("fede", "FedE"), model_named("transe"), {"method": "fede", "model": "transe"})


def test_bootstrap_finds_real_differences_only() -> None:
    random = np.random.default_rng(5)
    base = random.random(3000)
    noise = random.normal(0, 0.05, 3000)
    better, same = base + 0.01 + noise, base + noise - noise.mean()
    found = {(d.first.data, d.second.data): d for d in bootstrap([*map(entry, "abc")], np.stack([base, better, same]))}
    up = found["a", "b"]
    assert up.mean == pytest.approx(-0.01, abs=0.004)
    assert up.significant
    assert up.p < 0.002
    assert not found["a", "c"].significant
    assert found["a", "c"].p > 0.5
    # the interval of a mean of paired differences: 1.96 standard errors to each side
    error = (base - better).std() / np.sqrt(3000)
    assert up.high - up.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_bootstrap_of_equal_methods_is_not_significant() -> None:
    (difference,) = bootstrap([entry("a"), entry("b")], np.ones((2, 50)) * 0.3)
    assert (difference.mean, difference.low, difference.high, difference.p) == (0, 0, 0, 1)
    assert not difference.significant


def test_all_methods_are_drawn_the_same_triples() -> None:
    values = np.random.default_rng(1).random((1, 40))
    means = resampled_means(np.repeat(values, 2, 0), 30)
    assert (means[:, 0] == means[:, 1]).all()
    assert len(set(means[:, 0])) == 30


def test_reciprocal_ranks_are_those_of_the_result(runs: Path) -> None:
    for each in Results.read(runs).entries:
        ranks = reciprocal_ranks(each)
        assert mean_over_seeds(ranks, list(ranks)).mean() == pytest.approx(each.mean("mrr"), abs=1e-9)


def test_methods_are_compared_over_the_seeds_that_both_have(runs: Path, woods: Federation, tmp_path: Path) -> None:
    for name in ("single", "plus-0", "plus-1"):
        shutil.copytree(runs / name, tmp_path / name)
    train(woods, tmp_path / "fede", method="fede", seed=1)
    results = Results.read(tmp_path)
    tested = paired_tests(results.at(HERE))
    found = {(each.first.method.identifier, each.second.method.identifier): each for each in tested.differences}
    assert {pair: each.mean for pair, each in found.items()} == {
        ("single", "pfedeg-plus"): pytest.approx(mrr_of(runs / "single") - mrr_of(runs / "plus-0")),
        ("fede", "pfedeg-plus"): pytest.approx(mrr_of(tmp_path / "fede") - mrr_of(runs / "plus-1")),
    }
    assert tested.missing == ["no common seed: Single and FedE"]
    assert "Not tested: no common seed: Single and FedE." in written(tmp_path, tmp_path / "r.md")


def test_small_differences_are_not_shown_as_zero(runs: Path) -> None:
    results = Results.read(runs)
    one, two, three = results.at(HERE)
    found = [Difference(one, two, 3e-5, 1.2e-5, 5e-5, 0.001), Difference(one, three, 0.2, 0.0, 0.3, 0.04)]
    table = tables(build_sections(results, {HERE: PairedTests(found)}), f"trees, TransE ({SCALE})")[1]
    assert [row[2:4] for row in table.rows] == [
        ["0.2000", "+0.0000 … +0.3000"],
        ["0.00003", "+0.00001 … +0.00005"],
    ]


def tables(made: list[Section], title: str) -> list[Table]:
    (section,) = [section for section in made if section.title == title]
    return [part for part in section.parts if isinstance(part, Table)]


def test_a_result_that_its_tables_do_not_give_is_refused(runs: Path, tmp_path: Path) -> None:
    for name in ("fede", "single"):
        shutil.copytree(runs / name, tmp_path / name)
    result = json.loads((tmp_path / "fede" / "result.json").read_text())
    result["test"]["weighted"]["mrr"] += 0.01
    (tmp_path / "fede" / "result.json").write_text(json.dumps(result))
    with pytest.raises(InputError, match=r"fede: result.json has test MRR .*, but its tables give"):
        write(tmp_path, tmp_path / "r.md", force=True)


def test_the_page_is_self_contained_and_complete(runs: Path, tmp_path: Path) -> None:
    write(runs, tmp_path / "r.html", runs / "paper.csv", title="Trees & <woods>")
    text = (tmp_path / "r.html").read_text()
    page = Page(text)
    assert not page.open
    assert page.loads
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in page.loads)
    assert "@import" not in text
    assert "url(" not in text
    assert "Trees & <woods>" in page.text
    glance = page.tables[0]
    assert glance[0] == ["", "Single", "FedE", "PFedEG+"]
    assert glance[1][1:3] == [f"{mrr_of(runs / 'single'):.4f}", f"{mrr_of(runs / 'fede'):.4f} (0.5000)"]
    assert len(glance) == 2
    assert "In brackets: published results" in page.text
    assert "Published, but not run: trees, RotatE." in page.text
    (table,) = [table for table in page.tables if table[0][-1] == "published MRR"]
    plus = next(row for row in table if row[0].startswith("PFedEG+"))
    mean = np.mean([mrr_of(runs / f"plus-{seed}") for seed in (0, 1)])
    assert plus[1].startswith(f"{mean:.4f} ± ")
    assert plus[5:] == ["0.6000"]
    gains = next(table for table in page.tables if table[0][:2] == ["client", "Single"])
    assert [row[0] for row in gains[1:]] == ["<b>birch</b> | *", "ash", "cedar"]
    assert "PFedEG+ (p 0.5), seed 0 of 2 seeds: relation graph" in page.text
    for part in ("Paired bootstrap", "Convergence", "Relation graph", "Settings compared", "Provenance"):
        assert part in page.text


def test_gains_are_differences_to_single(runs: Path) -> None:
    results = Results.read(runs)
    made = {section.title: section for section in build_sections(results, {})}
    table: Any = made["Gain of each client over training alone"].parts[0]
    clients = [json.loads((runs / n / "result.json").read_text())["test"]["clients"] for n in ("single", "fede")]
    for row in table.rows:
        cells = [getattr(cell, "text", cell) for cell in row]
        assert cells[1] == f"{clients[0][cells[0]]['mrr']:.4f}"
        assert cells[2] == f"{clients[1][cells[0]]['mrr'] - clients[0][cells[0]]['mrr']:+.4f}"


def marked(row: Any) -> list[str]:
    return [cell.text for cell in row if isinstance(cell, TableCell) and cell.emphasis == "best"]


def test_a_loss_is_not_marked_as_the_best_gain(runs: Path, tmp_path: Path) -> None:
    for name in ("single", "fede", "plus-0"):
        shutil.copytree(runs / name, tmp_path / name)
    result = json.loads((tmp_path / "single" / "result.json").read_text())
    result["test"]["clients"]["ash"]["mrr"], result["test"]["clients"]["cedar"]["mrr"] = 1.0, 0.0
    (tmp_path / "single" / "result.json").write_text(json.dumps(result))
    (table,) = tables(build_sections(Results.read(tmp_path), {}), "Gain of each client over training alone")
    marks = {row[0]: len(marked(row)) for row in table.rows}
    assert marks["ash"] == 0
    assert marks["cedar"] > 0


def test_shares_shown_as_equal_are_not_marked(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "plus-0", tmp_path / "plus")
    shares = {"ash": {"cedar": 0.50001, "elm": 0.49999}, "cedar": {"ash": 0.6, "elm": 0.4}, "elm": {"ash": 1.0}}
    lines = [json.dumps({"round": number, "affinity": shares}) + "\n" for number in range(1, 5)]
    (tmp_path / "plus" / "history.jsonl").write_text("".join(lines))
    (table,) = tables(build_sections(Results.read(tmp_path), {}), "Relation graph: who learns from whom")
    assert [marked(row) for row in table.rows] == [[], ["60.0%"], ["100.0%"]]


def test_each_seed_has_a_curve_with_a_dot_where_its_tables_are_from(runs: Path) -> None:
    results = Results.read(runs)
    for draw in (figures.convergence, figures.settings_compared):
        (axes,) = draw([results.at(HERE)[-1]]).axes
        curves = [line for line in axes.lines if line.get_marker() == "None"]
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        for run, curve, dot in zip(results.at(HERE)[-1].runs, curves, dots, strict=True):
            assert list(zip(*curve.get_data(), strict=True)) == figures.evaluated(run)
            assert dot.get_data()[0] == [(run.result or {})["best_round"]]
        legend = axes.get_legend()
        assert legend is not None
        assert len(legend.get_texts()) == 1


def test_pictures_keep_a_width_at_which_they_can_be_read(runs: Path, tmp_path: Path) -> None:
    text = written(runs, tmp_path / "r.html", quick=True)
    found = re.findall(r'<img [^>]*width="(\d+)" style="min-width: (\d+)px"', text)
    assert len(found) == text.count("<img ")
    assert all(int(least) == round(int(width) * 2 / 3) for width, least in found)


def test_all_sizes_of_text_follow_that_of_the_page_which_is_wide_enough_for_tables() -> None:
    sizes = re.findall(r"(\S+) \{[^{}]*font(?:-size)?: ([\d.]+)px", render.STYLE)
    assert [(what, float(size)) for what, size in sizes] == [("html", 15), ("html", 10)]
    (width,) = re.findall(r"body \{[^}]*max-width: (\d+)rem", render.STYLE)
    assert int(width) * 15 > 1300


def test_only_long_tables_are_split_between_pages(runs: Path, tmp_path: Path) -> None:
    rows = [[f"client {number}", "0.5"] for number in range(40)]
    made = render.page("", "", [Section("", parts=[Table("", ["", ""], rows), Table("", ["", ""], rows[:9])])], print)
    assert re.findall(r'<div class="(.*?)">', made) == ["scroll", "scroll short"]


def test_equal_runs_give_equal_pages(runs: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write(runs, tmp_path / name, quick=True)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_text_and_numbers_and_pictures(runs: Path, tmp_path: Path) -> None:
    write(runs, tmp_path / "r.md", runs / "paper.csv")
    text = unwrapped(tmp_path / "r.md")
    assert "| \\<b>birch\\</b> \\| \\* |" in text
    widths = {
        len(re.findall(r"(?<!\\)\|", line))
        for line in text.split("### Test metrics")[1].split("###")[0].splitlines()
        if line
    }
    assert len(widths) == 1
    write(runs, tmp_path / "r.csv", runs / "paper.csv")
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    whole = [row for row in rows if not row["client"]]
    assert len(whole) == 5
    assert len(rows) == 5 * 4
    fede = next(row for row in whole if row["method"] == "fede")
    assert float(fede["test_mrr"]) == mrr_of(runs / "fede")
    assert fede["scale"] == SCALE
    write(runs, tmp_path / "pictures")
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert "convergence-trees-transe-batch-16-dim-4-negatives-2.png" in pictures
    assert "graph-trees-transe-batch-16-dim-4-negatives-2-pfedeg-plus.png" in pictures
    assert all((tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    write(runs, tmp_path / "pictures", force=True)
    with pytest.raises(InputError, match=r"already exists; choose another name, or replace it with --force"):
        write(runs, tmp_path / "pictures")
    with pytest.raises(InputError, match=r"contains r\.(md|csv), which this command did not write"):
        write(runs, tmp_path, kind="png", force=True)
    assert not list(tmp_path.glob("*.png"))


def test_where_significance_is_missing_the_report_says_why(runs: Path, tmp_path: Path) -> None:
    why = "Significance is not tested: "
    assert why + "skipped with --quick." in written(runs, tmp_path / "quick.md", quick=True)
    shutil.copytree(runs, tmp_path / "small", ignore=shutil.ignore_patterns("clients"))
    small = written(tmp_path / "small", tmp_path / "small.md")
    assert why + "these run folders contain no embedding tables." in small
    shutil.copytree(runs, tmp_path / "some")
    for name in ("fede", "plus-0"):
        shutil.rmtree(tmp_path / "some" / name / "clients")
    tested = paired_tests(Results.read(tmp_path / "some").at(HERE))
    assert not tested.differences
    assert tested.missing == [
        "no embedding tables in the run folders of FedE, seed 0; PFedEG+ (p 0.5), seed 0",
        "no common seed: Single and PFedEG+ (p 0.5)",
    ]
    assert "no embedding tables in the run folders of FedE, seed 0" in written(tmp_path / "some", tmp_path / "some.md")
    shutil.copytree(runs / "fede", tmp_path / "one" / "fede", ignore=shutil.ignore_patterns("clients"))
    assert why not in written(tmp_path / "one", tmp_path / "one.md")  # there are no differences


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{tmp}/none", "--out", "{tmp}/r.html"), "no such folder"),
        (("{tmp}", "--out", "{tmp}/r.html"), "no runs found"),
        (("{runs}", "--out", "{tmp}/r.pdf"), "unknown format 'pdf'; expected one of html, md, csv, png"),
        (("{runs}", "--out", "{tmp}/none/r.html"), "no such folder: {tmp}/none"),
        (("{runs}", "--out", "{tmp}", "--format", "md"), "is a folder; expected a file"),
        (("{runs}", "--out", "{tmp}/r.md", "--paper", "{tmp}/none.csv"), "none.csv: cannot be read: No such file"),
    ],
)
def test_invalid_requests_give_one_line_errors(
    runs: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    filled = [word.format(tmp=tmp_path, runs=runs) for word in words]
    done = CliRunner().invoke(cli, ["report", *filled])
    assert isinstance(done.exception, InputError)
    assert message.format(tmp=tmp_path) in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_a_page_is_refused_at_once_and_text_is_not(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'pfedeg\[plot\]'; --format md and csv work without it"):
        write(runs, tmp_path / "r.html")
    write(runs, tmp_path / "r.md", quick=True)


def parts_module(folder: Path, name: str) -> None:
    """A module with a method and a model of a user."""
    (folder / f"{name}.py").write_text(
        "from dataclasses import replace\n"
        "from pfedeg.methods.fede import METHOD as FEDE\n"
        "from pfedeg.models.transe import MODEL as TRANSE\n"
        'METHOD = replace(FEDE, name="by-size", label="BySize", role="proposed", color="")\n'
        'POOLED = replace(FEDE, name="pool", label="Pool", trains="pooled", defaults={})\n'
        'MODEL = replace(TRANSE, name="mine", label="MyTransE")\n'
    )


@pytest.fixture
def plugin_runs(woods: Federation, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """FedE and two methods of a user, of a module that is not installed afterwards."""
    parts_module(tmp_path, "report_parts")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "runs"
    shutil.copytree(runs / "single", folder / "single")
    shutil.copytree(runs / "fede", folder / "fede")
    train(woods, folder / "own", method="report_parts:METHOD", epochs=2)
    train(woods, folder / "pooled", method="report_parts:POOLED", epochs=1)
    train(woods, folder / "model", method="fede", model="report_parts:MODEL")
    return folder


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process, where the module of `plugin_runs` is not installed."""
    for registry in (METHODS, MODELS):
        known = {name: part for name, part in registry._loaded.items() if not name.startswith("report_parts")}
        monkeypatch.setattr(registry, "_loaded", known)
    monkeypatch.setitem(sys.modules, "report_parts", None)


def test_user_defined_methods_and_models_are_reported_like_built_in_ones(plugin_runs: Path, tmp_path: Path) -> None:
    text = written(plugin_runs, tmp_path / "r.md")
    glance = text.split("### Test MRR")[1].split("###")[0]
    assert "| Single | FedE | BySize | Pool |" in glance
    assert f"| trees, MyTransE ({SCALE}) |" in glance
    against = text.split("### Comparison with the baselines")[1].split("\n## ")[0]
    assert "| BySize | better: " in against
    assert "significantly better: " in text or "better: 0 of 1" in against
    assert "**" + f"{mrr_of(plugin_runs / 'pooled'):.4f}" not in text  # it pools data
    results = Results.read(plugin_runs)
    assert results.missing == []
    colors = {entry.method.label: entry.method.color for entry in results.entries}
    assert len(set(colors.values())) == len(colors)
    write(plugin_runs, tmp_path / "figures")
    assert "convergence-trees-report-parts-model-batch-16-dim-4-negatives-2.png" in {
        path.name for path in (tmp_path / "figures").iterdir()
    }


def test_runs_whose_plug_in_is_not_installed_keep_their_labels(
    plugin_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Results.read(plugin_runs).setups
    forget(monkeypatch)
    lines: list[str] = []
    write(plugin_runs, tmp_path / "r.md", notify=lines.append)
    assert [line for line in lines if "not installed" in line] == [
        "model report_parts:MODEL (MyTransE) is not installed; 1 run shown with saved labels",
        "method report_parts:METHOD (BySize) is not installed; 1 run shown with saved labels",
        "method report_parts:POOLED (Pool) is not installed; 1 run shown with saved labels",
    ]
    text = unwrapped(tmp_path / "r.md")
    assert "method report\\_parts:METHOD (BySize) is not installed" in text
    assert f"| trees, MyTransE ({SCALE}) |" in text
    assert [setup.title for setup in Results.read(plugin_runs).setups] == [setup.title for setup in before]
    assert re.search(r"\| (BySize \| FedE|FedE \| BySize) \| 0\.\d+ \|", text)  # its model is known, so it is tested
    shutil.copytree(plugin_runs / "model", tmp_path / "more" / "one")
    config = json.loads((tmp_path / "more" / "one" / "config.json").read_text()) | {"method": "fedec"}
    shutil.copytree(plugin_runs / "model", tmp_path / "more" / "two")
    (tmp_path / "more" / "two" / "config.json").write_text(json.dumps(config))
    (tmp_path / "more" / "two" / "provenance.json").write_text(
        (tmp_path / "more" / "one" / "provenance.json").read_text().replace('"FedE"', '"FedEC"')
    )
    more = written(tmp_path / "more", tmp_path / "more.md")
    assert "Significance is not tested: the model of FedE; FedEC is not installed." in more


def test_user_strategies_of_schema_1_are_not_labelled_as_the_method(runs: Path, tmp_path: Path) -> None:
    """Schema 1 saved the method FedE, even if a strategy class replaced it."""
    shutil.copytree(runs / "fede", tmp_path / "fede")
    shutil.copytree(runs / "fede", tmp_path / "own")
    for name, strategy in (("fede", "FedE"), ("own", "BySize")):
        config = json.loads((tmp_path / name / "config.json").read_text())
        for key in ("schema", "objective", "optimizer"):
            del config[key]
        (tmp_path / name / "config.json").write_text(json.dumps({**config, "p": None, "beta": None}))
        provenance = json.loads((tmp_path / name / "provenance.json").read_text())
        del provenance["labels"]
        (tmp_path / name / "provenance.json").write_text(json.dumps({**provenance, "strategy": strategy}))
    results = Results.read(tmp_path)
    assert [entry.label for entry in results.at(HERE)] == ["FedE", "BySize"]
    assert results.duplicates == []
    assert "| FedE | BySize |" in written(tmp_path, tmp_path / "r.md").split("### Test MRR")[1]


def test_runs_from_python_have_the_name_of_their_data(tmp_path: Path, folder: Path, synthetic: Federation) -> None:
    for name, federation in (("read", Federation.read(folder)), ("made", synthetic)):
        pfedeg.train(federation, "fede", out=tmp_path / "runs" / name, **SMALL)
    assert [setup.data for setup in Results.read(tmp_path / "runs").setups] == ["data", "unnamed data"]
    assert Federation.world().source == "world"
