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
from pfedeg.checked_files import read_json
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.experiments.report import page, page_style, write
from pfedeg.experiments.report.document import Picture, Section, Table, TableCell
from pfedeg.experiments.report.figures import client_bars, curves, relation_graph, sweeps
from pfedeg.experiments.report.noise import clear_winner, differs
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
    return float(read_json(path / "result.json")["test"]["weighted"][key])


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
    assert [results.title(setup) for setup in results.setups] == [
        "trees, TransE (dim 4)",
        "trees, TransE",
        "trees, TransE (sampling shared, chunk 4)",
    ]
    text = written(tmp_path, tmp_path / "r.md")
    assert "unless a heading says otherwise: batch 16, dim 8, negatives 2, " in text
    assert "## trees, TransE (sampling shared, chunk 4)" in text
    assert "Comparison with the baselines" not in text  # there is nothing to compare with
    assert "| better | worse |" in text.split("## trees, TransE (dim 4)")[1].split("\n## ")[0]


def with_settings(path: Path, **settings: Any) -> None:
    """As if a run had been made with other settings."""
    config = read_json(path / "config.json")
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


def with_results(path: Path, **splits: Any) -> None:
    """As if a run had other weighted metrics."""
    result = read_json(path / "result.json")
    for split, values in splits.items():
        result[split]["weighted"] |= values
    (path / "result.json").write_text(json.dumps(result))


def test_every_method_has_the_settings_that_are_best_by_validation(runs: Path, tmp_path: Path) -> None:
    """Not the default ones, and baselines neither: FedE evaluated after training would be left out."""
    for moment, valid, test in (("after_aggregation", 0.5, 0.9), ("after_training", 0.6, 0.7)):
        shutil.copytree(runs / "fede", tmp_path / moment, ignore=shutil.ignore_patterns("clients"))
        with_settings(tmp_path / moment, evaluate=moment)
        with_results(tmp_path / moment, valid={"mrr": valid}, test={"mrr": test})
    for p, rate, valid in ((0.5, 0.001, 0.5), (0.8, 0.001, 0.6), (0.8, 0.01, 0.7), (0.9, 0.01, 0.65)):
        path = tmp_path / f"plus-{p}-{rate}"
        shutil.copytree(runs / "plus-p", path, ignore=shutil.ignore_patterns("clients"))
        with_settings(path, p=p, lr=rate)
        with_results(path, valid={"mrr": valid}, test={"mrr": 0.8})
    shutil.copytree(runs / "single", tmp_path / "single", ignore=shutil.ignore_patterns("clients"))
    results = Results.read(tmp_path)
    chosen = ["Single", "FedE (evaluate after_training)", "PFedEG+ (p 0.8, lr 0.01)"]
    assert [entry.label for entry in results.at(HERE)] == chosen
    overview = written(tmp_path, tmp_path / "r.md", quick=True).split("\n## ")[1]
    assert re.search(r"\| trees, TransE \| 0\.\d+ \| 0\.7000 \| \**0\.8000\** \|", overview)
    assert "| trees, TransE | FedE (evaluate after\\_training) | 2 |" in overview
    assert "| trees, TransE | PFedEG+ (p 0.8, lr 0.01) | 4 |" in overview
    (metrics, *_) = tables(build_sections(results, {}), "trees, TransE")
    assert [row[1] for row in metrics.rows] == ["1", "2", "4"]
    assert metrics.columns[1] == "settings tried"


def test_settings_are_compared_over_the_seeds_that_all_of_them_have(runs: Path, tmp_path: Path) -> None:
    for p, seed, valid in ((0.5, 0, 0.5), (0.5, 1, 0.1), (0.9, 0, 0.4)):
        path = tmp_path / f"{p}-{seed}"
        shutil.copytree(runs / "plus-p", path, ignore=shutil.ignore_patterns("clients"))
        with_settings(path, p=p, seed=seed)
        with_results(path, valid={"mrr": valid})
    (entry,) = Results.read(tmp_path).at(HERE)
    assert entry.label == "PFedEG+ (p 0.5)"


def test_one_setting_each_is_said_once(runs: Path, tmp_path: Path) -> None:
    for name in ("single", "fede"):
        shutil.copytree(runs / name, tmp_path / name)
    text = written(tmp_path, tmp_path / "r.md", quick=True)
    assert text.count("One combination of settings was tried for each method.") == 1
    assert "Settings tried" not in text
    assert text.count("batch 16") == 2  # in the overview and under Settings


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
    table = tables(build_sections(results, {HERE: PairedTests(found)}), "trees, TransE")[1]
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
    result = read_json(tmp_path / "fede" / "result.json")
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
    assert glance[0][0] == ""
    assert len(glance) == 2
    assert "In brackets: published results" in page.text
    assert "Published, but not run: trees, RotatE." in page.text
    (table,) = [table for table in page.tables if table[0][-1] == "published MRR"]
    plus = next(row for row in table if row[0].startswith("PFedEG+"))
    mean = np.mean([mrr_of(runs / f"plus-{seed}") for seed in (0, 1)])
    assert plus[3].replace("\xa0", " ").startswith(f"{mean:.4f} ± ")
    assert plus[7:] == ["0.6000"]
    clients = next(table for table in page.tables if table[0][:2] == ["client", "Single"])
    assert [row[0] for row in clients[1:]] == ["<b>birch</b> | *", "ash", "cedar"]
    assert re.search(r"PFedEG\+: who learns how much from whom(, round \d)?, seed 0", page.text)
    for part in ("paired bootstrap", "Validation MRR during", "Cost", "Data of the clients", "Settings compared"):
        assert part in page.text


def named_table(runs: Path, title: str) -> Table:
    """A table of the report by its title."""
    made = [part for section in build_sections(Results.read(runs), {}) for part in section.parts]
    made += [part.table for part in made if isinstance(part, Picture) and part.table]
    return next(part for part in made if isinstance(part, Table) and part.title.startswith(title))


def texts(row: Any) -> list[str]:
    return [getattr(cell, "text", cell) for cell in row]


def test_clients_have_their_mrr_and_its_difference_to_single(runs: Path) -> None:
    clients = [read_json(runs / n / "result.json")["test"]["clients"] for n in ("single", "fede")]
    for row in named_table(runs, "Clients: test MRR").rows:
        name, single, fede, *_, triples = texts(row)
        alone, together = (each[name]["mrr"] for each in clients)
        assert [single, fede] == [f"{alone:.4f}", f"{together:.4f} ({together - alone:+.4f})"]
        assert triples == str(clients[0][name]["triples"])


def marked(row: Any) -> list[str]:
    return [cell.text for cell in row if isinstance(cell, TableCell) and cell.emphasis == "best"]


def test_only_what_differs_beyond_noise_is_marked(runs: Path, tmp_path: Path) -> None:
    """Of 1,000 triples, 0.30 and 0.40 differ; 0.39 and 0.40 do not."""
    for name in ("single", "fede"):
        shutil.copytree(runs / name, tmp_path / name, ignore=shutil.ignore_patterns("clients"))

    def put(single: float, fede: float, triples: int) -> list[str]:
        for name, value in (("single", single), ("fede", fede)):
            result = read_json(tmp_path / name / "result.json")
            result["test"]["clients"]["ash"] |= {"mrr": value, "triples": triples}
            with_results(tmp_path / name)
            (tmp_path / name / "result.json").write_text(json.dumps(result))
            with_results(tmp_path / name, test={"mrr": value})
        rows = named_table(tmp_path, "Clients: test MRR").rows
        return marked(next(row for row in rows if row[0] == "ash"))

    assert put(0.39, 0.4, 1000) == []
    assert put(0.3, 0.4, 1000) == ["0.4000 (+0.1000)"]
    assert put(0.4, 0.3, 1000) == ["0.4000"]
    assert put(0.3, 0.4, 100) == []
    one, two = Results.read(tmp_path).at(HERE)
    assert clear_winner([one, two], "mrr") is None
    assert not differs(one, two, "mrr")
    found = PairedTests([Difference(one, two, -0.1, -0.2, -0.05, 0.001)])  # the bootstrap decides where there is one
    assert clear_winner([one, two], "mrr", found) is two
    for name, value in (("single", 0.3), ("fede", 0.4)):
        with_results(tmp_path / name, test={"hits@1": value})
        result = read_json(tmp_path / name / "result.json")
        result["test"]["clients"]["ash"]["triples"] = 1000
        (tmp_path / name / "result.json").write_text(json.dumps(result))
    assert clear_winner(Results.read(tmp_path).at(HERE), "hits@1") is not None


def test_shares_that_hardly_differ_do_not_stand_out(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "plus-0", tmp_path / "plus")
    shares = {
        "ash": {"cedar": 0.211, "elm": 0.21},
        "cedar": {"ash": 0.7, "elm": 0.3},
        "elm": {"ash": 0.55, "cedar": 0.45},
    }
    lines = [json.dumps({"round": number, "affinity": shares}) + "\n" for number in range(1, 5)]
    (tmp_path / "plus" / "history.jsonl").write_text("".join(lines))
    (entry,) = Results.read(tmp_path).entries
    assert relation_graph.standing_out(entry) == {("cedar", "ash")}
    assert [marked(row) for row in named_table(tmp_path, "PFedEG+: who").rows] == [[], ["70.0%"], []]
    pictures = [part.name for section in build_sections(Results.read(tmp_path), {}) for part in section.parts
                if isinstance(part, Picture)]  # fmt: skip
    assert any(name.startswith("arrows-") for name in pictures)
    patches = relation_graph.arrows(shares, {("cedar", "ash")}).axes[0].patches
    assert len(patches) == 1


def test_each_seed_has_a_curve_with_a_dot_where_its_tables_are_from(runs: Path) -> None:
    results = Results.read(runs)
    for draw in (curves.convergence, curves.settings_compared):
        figure = draw([results.at(HERE)[-1]])
        (axes,) = figure.axes
        lines = [line for line in axes.lines if line.get_marker() == "None"]
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        for run, curve, dot in zip(results.at(HERE)[-1].runs, lines, dots, strict=True):
            assert list(zip(*curve.get_data(), strict=True)) == curves.evaluated(run)
            assert dot.get_data()[0] == [(run.result or {})["best_round"]]
        assert axes.get_ylim()[0] == 0  # a cut axis would make noise look like a trend
        (legend,) = figure.legends
        assert len(legend.get_texts()) == 1


def test_axes_of_rounds_have_whole_numbers_and_shares_start_at_zero(runs: Path) -> None:
    results = Results.read(runs)
    kept = relation_graph.affinities(results.at(HERE)[-1].runs[0])
    for figure in (curves.convergence(results.at(HERE)), relation_graph.shares_by_round(kept)):
        for axes in figure.axes:
            assert all(float(tick).is_integer() for tick in axes.get_xticks())
            assert axes.get_ylim()[0] == 0


def test_bars_have_values_and_many_become_dots(runs: Path) -> None:
    entries = Results.read(runs).at(HERE)
    names = entries[0].runs[0].clients
    (axes,) = client_bars.client_mrr(names, entries).axes
    values = {f"{entry.mean('mrr', client=name):.3f}" for entry in entries for name in names}
    assert {text.get_text().strip() for text in axes.texts} == values
    (axes,) = client_bars.client_mrr(names, entries * 10).axes
    assert not axes.texts
    assert len(axes.lines) == len(entries) * 10


def test_a_sweep_is_drawn_against_its_setting(runs: Path) -> None:
    (study,) = Results.read(runs).studies()
    (axes,) = sweeps.against_settings(study).axes
    assert (axes.get_xlabel(), [tick.get_text() for tick in axes.get_xticklabels()]) == ("p", ["0.5", "0.9"])
    shown = {f"{entry.mean('mrr', split):.4f}" for entry in study for split in ("valid", "test")}
    assert {text.get_text() for text in axes.texts} == shown
    assert axes.get_ylim()[0] == 0
    for entry, rate in zip(study, (0.1, 0.2), strict=True):
        entry.settings = {**entry.settings, "lr": rate}
        entry.varied = ("p", "lr")
    (axes,) = sweeps.against_settings(study).axes
    assert {text.get_text() for text in axes.texts} == {f"{entry.mean('mrr', 'valid'):.4f}" for entry in study}


def test_what_is_exchanged_and_the_sizes_and_overlap_of_clients_are_reported(runs: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (runs / "fede" / "history.jsonl").read_text().splitlines()]
    rows = {texts(row)[0]: texts(row) for row in named_table(runs, "Cost").rows}
    assert rows["FedE"][4] == f"{sum(line['bytes_up'] for line in lines) / 1000:.3g} kB"
    assert rows["Single"][4:] == ["–", "–", "–"]
    graph = Results.read(runs).entries[0].runs[0].graph("cedar")
    (sizes,) = tables(build_sections(Results.read(runs), {}), "Data of the clients")
    table = {texts(row)[0]: texts(row) for row in sizes.rows}
    assert table["cedar"][1:6] == [str(len(part)) for part in
                                   (graph.train, graph.valid, graph.test, graph.entities, graph.relations)]  # fmt: skip
    small = tmp_path / "small"  # copies of the small files say less
    shutil.copytree(runs / "fede", small / "fede", ignore=shutil.ignore_patterns("clients"))
    assert "the run folders contain no graphs" in written(small, tmp_path / "r.md")
    shutil.copytree(runs / "fede", tmp_path / "damaged" / "fede")
    (tmp_path / "damaged" / "fede" / "clients" / "ash" / "graph.safetensors").write_bytes(b"{")
    assert "graph.safetensors" in written(tmp_path / "damaged", tmp_path / "r.md").split("Other sizes are unknown")[1]


def test_pictures_keep_a_width_at_which_they_can_be_read(runs: Path, tmp_path: Path) -> None:
    text = written(runs, tmp_path / "r.html", quick=True)
    found = re.findall(r'<img [^>]*width="(\d+)" style="min-width: (\d+)px"', text)
    assert len(found) == text.count("<img ")
    assert all(int(least) == round(int(width) * 2 / 3) for width, least in found)


def test_all_sizes_of_text_follow_that_of_the_page_which_is_wide_enough_for_tables() -> None:
    sizes = re.findall(r"(\S+) \{[^{}]*font(?:-size)?: ([\d.]+)px", page_style.STYLE)
    assert [(what, float(size)) for what, size in sizes] == [("html", 15), ("html", 10)]
    (width,) = re.findall(r"body \{[^}]*max-width: (\d+)rem", page_style.STYLE)
    assert int(width) * 15 > 1300


def test_only_long_tables_are_split_between_pages(runs: Path, tmp_path: Path) -> None:
    rows = [[f"client {number}", "0.5"] for number in range(40)]
    made = page.page("", "", [Section("", parts=[Table("", ["", ""], rows), Table("", ["", ""], rows[:9])])], print)
    assert re.findall(r'<div class="(part|part .*?)">', made) == ["part", "part short"]


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
        for line in text.split("### Metrics")[1].split("###")[0].splitlines()
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
        (("{runs}", "--out", "{tmp}/r.pdf"), "unknown format 'pdf'; expected one of html, md, csv, tex, png"),
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
    with pytest.raises(InputError, match=r"pip install 'pfedeg\[plot\]'; --format md, csv and tex work without it"):
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
    for module in ("report_parts", "report_parts_own"):
        monkeypatch.setitem(sys.modules, module, None)


def test_user_defined_methods_and_models_are_reported_like_built_in_ones(plugin_runs: Path, tmp_path: Path) -> None:
    text = written(plugin_runs, tmp_path / "r.md")
    glance = text.split("### Test MRR")[1].split("###")[0]
    assert "| Single | FedE | BySize | Pool |" in glance
    assert "| trees, MyTransE |" in glance
    against = text.split("### Comparison with the baselines")[1].split("\n## ")[0]
    assert "| BySize | better: " in against
    assert "beyond noise: " in against or "better: 0 of 1" in against
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
    assert "| trees, MyTransE |" in text
    results = Results.read(plugin_runs)
    assert [setup.title for setup in results.setups] == [setup.title for setup in before]
    traits = {entry.method.label: (entry.method.role, entry.method.pools_data) for entry in results.entries}
    assert traits["BySize"] == ("proposed", False)
    assert traits["Pool"] == ("baseline", True)  # it must not become the best because its plug-in is missing
    assert re.search(r"\| (BySize \| FedE|FedE \| BySize) \| 0\.\d+ \|", text)  # its model is known, so it is tested
    shutil.copytree(plugin_runs / "model", tmp_path / "more" / "one")
    config = read_json(tmp_path / "more" / "one" / "config.json") | {"method": "fedec"}
    shutil.copytree(plugin_runs / "model", tmp_path / "more" / "two")
    (tmp_path / "more" / "two" / "config.json").write_text(json.dumps(config))
    provenance = json.dumps(read_json(tmp_path / "more" / "one" / "provenance.json"))
    (tmp_path / "more" / "two" / "provenance.json").write_text(provenance.replace('"FedE"', '"FedEC"'))
    more = written(tmp_path / "more", tmp_path / "more.md")
    assert "Significance is not tested: the model of FedE; FedEC is not installed." in more


def test_a_missing_plug_in_does_not_change_which_settings_are_shown(
    woods: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its defaults are unknown then, so that the choice and the groups must not depend on them."""
    (tmp_path / "report_parts_own.py").write_text(
        "from dataclasses import replace\n"
        "from pfedeg.methods.pfedeg import PLUS\n"
        "from pfedeg.models.transe import MODEL as TRANSE\n"
        'METHOD = replace(PLUS, name="own", label="Own", defaults={"p": 0.9, "lr": 0.02})\n'
        'MODEL = replace(TRANSE, name="mine", label="Mine", defaults={"gamma": 5.0, "dim": 4})\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    for p in (0.3, 0.9):
        for gamma in (5.0, 7.0):
            settings = {"p": p, "gamma": gamma, "model": "report_parts_own:MODEL"}
            train(woods, tmp_path / "runs" / f"{p}-{gamma}", method="report_parts_own:METHOD", **settings)
    with_results(tmp_path / "runs" / "0.3-7.0", valid={"mrr": 0.99})

    def shown() -> list[tuple[str, list[str]]]:
        results = Results.read(tmp_path / "runs")
        return [(setup.scale, [entry.label for entry in results.at(setup)]) for setup in results.setups]

    installed = shown()
    assert installed == [(SCALE, ["Own (p 0.3, gamma 7.0)"])]
    forget(monkeypatch)
    assert len(Results.read(tmp_path / "runs").missing) == 2
    assert shown() == installed


def test_user_strategies_of_schema_1_are_not_labelled_as_the_method(runs: Path, tmp_path: Path) -> None:
    """Schema 1 saved the method FedE, even if a strategy class replaced it."""
    shutil.copytree(runs / "fede", tmp_path / "fede")
    shutil.copytree(runs / "fede", tmp_path / "own")
    for name, strategy in (("fede", "FedE"), ("own", "BySize")):
        config = read_json(tmp_path / name / "config.json")
        for key in ("schema", "objective", "optimizer"):
            del config[key]
        (tmp_path / name / "config.json").write_text(json.dumps({**config, "p": None, "beta": None}))
        provenance = read_json(tmp_path / name / "provenance.json")
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


def test_runs_on_equal_data_are_set_side_by_side(tmp_path: Path, folder: Path) -> None:
    """However the data were read: by the command line, from Python, or made in memory."""
    graphs = Federation.read(folder).graphs
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    out = tmp_path / "runs"
    result = CliRunner().invoke(cli, ["train", str(folder), "--method", "fede", *flags, "--out", str(out / "cli")])
    assert result.exit_code == 0, result.output
    pfedeg.train(Federation.read(folder), "single", out=out / "read", **SMALL)
    pfedeg.train(Federation(graphs), "pfedeg-plus", out=out / "memory", **SMALL)
    pfedeg.train(Federation(graphs, "copy"), "pfedeg-star", out=out / "copy", **SMALL)
    results = Results.read(out)
    assert [setup.data for setup in results.setups] == ["data"]
    assert len(results.at(results.setups[0])) == 4
    other = {name: graph for name, graph in graphs.items() if name != "ash"}
    pfedeg.train(Federation(other), "fede", out=out / "other", **SMALL)
    assert {setup.data for setup in Results.read(out).setups} == {"data", "unnamed data"}


def test_the_world_from_python_is_set_beside_the_world_of_the_command_line(tmp_path: Path) -> None:
    settings = {"rounds": 1, "dim": 4, "negatives": 1}
    flags = [f"--{name}={value}" for name, value in settings.items()]
    result = CliRunner().invoke(cli, ["train", "world", "--method", "fede", *flags, "--out", str(tmp_path / "cli")])
    assert result.exit_code == 0, result.output
    pfedeg.train(Federation.world(), "single", out=tmp_path / "python", **settings)
    pfedeg.train(Federation(Federation.world().graphs), "pfedeg-plus", out=tmp_path / "memory", **settings)
    results = Results.read(tmp_path)
    assert [setup.data for setup in results.setups] == ["world"]
    assert [entry.method.label for entry in results.at(results.setups[0])] == ["Single", "FedE", "PFedEG+"]
