"""Reports on a folder of runs: what is compared with what, significance, and what is written."""

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

from conftest import ring
from pfedeg.cli import cli
from pfedeg.config import Config
from pfedeg.errors import InputError
from pfedeg.federation import Federation
from pfedeg.graph import split_graph
from pfedeg.report import write
from pfedeg.report.content import sections
from pfedeg.report.results import Entry, Results, read_paper
from pfedeg.report.significance import compare, differences, reciprocal_ranks, resampled_means
from pfedeg.training import Training

SMALL: dict[str, Any] = {"rounds": 4, "dim": 4, "negatives": 2, "eval_every": 2, "batch": 16}
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
    """A name that a page must not take for its own."""
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


def told(path: Path, key: str = "mrr") -> float:
    return float(json.loads((path / "result.json").read_text())["test"]["weighted"][key])


class Page(HTMLParser):
    """The text of a page, its tables, and whatever it would load from elsewhere."""

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
    assert results.places == [("trees", "transe")]
    assert [entry.label for entry in results.at(("trees", "transe"))] == ["Single", "FedE", "PFedEG+ (p 0.5)"]
    (study,) = results.studies()
    assert [(entry.variant, len(entry.runs)) for entry in study] == [("p 0.5", 2), ("p 0.9", 1)]


def test_seeds_give_mean_and_standard_deviation(runs: Path) -> None:
    plus = Results.read(runs).at(("trees", "transe"))[-1]
    values = [told(runs / f"plus-{seed}") for seed in (0, 1)]
    assert values[0] != values[1]
    assert plus.mean("mrr") == pytest.approx(np.mean(values))
    assert plus.sd("mrr") == pytest.approx(np.std(values, ddof=1))
    assert Results.read(runs).at(("trees", "transe"))[0].sd("mrr") is None


def test_other_data_of_the_same_name_are_told_apart(runs: Path, synthetic: Federation, tmp_path: Path) -> None:
    shutil.copytree(runs / "fede", tmp_path / "one")
    train(synthetic, tmp_path / "two", method="fede")
    names = [place[0] for place in Results.read(tmp_path).places]
    assert len(names) == 2
    assert all(re.fullmatch(r"trees \([0-9a-f]{6}\)", name) for name in names)


def test_the_same_run_twice_is_refused(runs: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(runs / "fede", tmp_path / name)
    with pytest.raises(InputError, match=r"two: the same run as .*one; remove one of them"):
        Results.read(tmp_path)


def test_runs_that_are_not_finished_are_named(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "fede", tmp_path / "one")
    shutil.copytree(runs / "single", tmp_path / "two")
    (tmp_path / "two" / "result.json").unlink()
    results = Results.read(tmp_path)
    assert results.unfinished == [tmp_path / "two"]
    write(tmp_path, tmp_path / "r.md")
    assert "1 more not finished" in (tmp_path / "r.md").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data,model\n", r"line 1: no column 'dataset'"),
        (PAPER.replace("RotatE", "Rotate3"), r"line 4: unknown model 'Rotate3'.*rotate"),
        (PAPER.replace("FedE,", "FedX,"), r"line 2: unknown method 'FedX'"),
        (PAPER.replace("0.6,0.7\n", "0.6,x\n"), r"line 2: could not convert string to float: 'x'"),
        (PAPER.replace("0.5,0.4", "50,0.4"), r"line 2: metrics are between 0 and 1"),
        (PAPER.replace("0.5,0.4", "nan,0.4"), r"line 2: metrics are between 0 and 1"),
    ],
)
def test_a_bad_file_of_reported_results_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "paper.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_paper(tmp_path / "paper.csv")


def entry(name: str) -> Entry:
    return Entry(name, {"method": "fede", "model": "transe"})


def test_bootstrap_sees_what_is_there_and_nothing_else() -> None:
    random = np.random.default_rng(5)
    base = random.random(3000)
    noise = random.normal(0, 0.05, 3000)
    better, same = base + 0.01 + noise, base + noise - noise.mean()
    found = {(d.first.data, d.second.data): d for d in compare([*map(entry, "abc")], np.stack([base, better, same]))}
    up = found["a", "b"]
    assert up.mean == pytest.approx(-0.01, abs=0.004)
    assert up.clear
    assert up.p < 0.002
    assert not found["a", "c"].clear
    assert found["a", "c"].p > 0.5
    # the interval of a mean of paired differences: 1.96 standard errors to each side
    error = (base - better).std() / np.sqrt(3000)
    assert up.high - up.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_bootstrap_of_equal_methods_is_certain_of_nothing() -> None:
    (difference,) = compare([entry("a"), entry("b")], np.ones((2, 50)) * 0.3)
    assert (difference.mean, difference.low, difference.high, difference.p) == (0, 0, 0, 1)
    assert not difference.clear


def test_all_methods_are_drawn_the_same_triples() -> None:
    values = np.random.default_rng(1).random((1, 40))
    means = resampled_means(np.repeat(values, 2, 0), 30)
    assert (means[:, 0] == means[:, 1]).all()
    assert len(set(means[:, 0])) == 30


def test_reciprocal_ranks_are_those_of_the_result(runs: Path) -> None:
    for each in Results.read(runs).entries:
        assert reciprocal_ranks(each).mean() == pytest.approx(each.mean("mrr"), abs=1e-9)


def test_a_result_that_its_tables_do_not_give_is_refused(runs: Path, tmp_path: Path) -> None:
    for name in ("fede", "single"):
        shutil.copytree(runs / name, tmp_path / name)
    result = json.loads((tmp_path / "fede" / "result.json").read_text())
    result["test"]["weighted"]["mrr"] += 0.01
    (tmp_path / "fede" / "result.json").write_text(json.dumps(result))
    with pytest.raises(InputError, match=r"fede: result.json says test MRR .*, its tables give"):
        write(tmp_path, tmp_path / "r.md")


def test_the_page_needs_nothing_else_and_says_it_all(runs: Path, tmp_path: Path) -> None:
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
    assert glance[1][1:3] == [f"{told(runs / 'single'):.4f}", f"{told(runs / 'fede'):.4f}"]
    assert glance[2] == ["trees, RotatE", "not run", "not run", "not run"]
    (table,) = [table for table in page.tables if table[0][-1] == "Hits@10"]
    plus = next(row for row in table if row[0].startswith("PFedEG+"))
    mean = np.mean([told(runs / f"plus-{seed}") for seed in (0, 1)])
    assert plus[1].startswith(f"{mean:.4f} ± ")
    assert plus[5:7] == ["0.6000", f"{mean - 0.6:+.4f}"]
    gains = next(table for table in page.tables if table[0][:2] == ["client", "Single"])
    assert [row[0] for row in gains[1:]] == ["<b>birch</b> | *", "ash", "cedar"]
    for part in ("Paired bootstrap", "Convergence", "Who learns from whom", "Settings compared", "Provenance"):
        assert part in page.text


def test_gains_are_differences_to_single(runs: Path) -> None:
    results = Results.read(runs)
    made = {section.title: section for section in sections(results, {})}
    table: Any = made["What each client gains over being alone"].parts[0]
    clients = [json.loads((runs / n / "result.json").read_text())["test"]["clients"] for n in ("single", "fede")]
    for row in table.rows:
        cells = [getattr(cell, "text", cell) for cell in row]
        assert cells[1] == f"{clients[0][cells[0]]['mrr']:.4f}"
        assert cells[2] == f"{clients[1][cells[0]]['mrr'] - clients[0][cells[0]]['mrr']:+.4f}"


def test_equal_runs_give_equal_pages(runs: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write(runs, tmp_path / name, quick=True)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_text_and_numbers_and_pictures(runs: Path, tmp_path: Path) -> None:
    write(runs, tmp_path / "r.md", runs / "paper.csv")
    text = (tmp_path / "r.md").read_text()
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
    assert float(fede["test_mrr"]) == told(runs / "fede")
    assert fede["paper_hits@5"] == "0.6"
    write(runs, tmp_path / "pictures")
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert "convergence-trees-transe.png" in pictures
    assert "graph-trees-transe-pfedeg-plus.png" in pictures
    assert all((tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG") for name in pictures)


def test_small_files_alone_make_a_report_without_significance(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "small", ignore=shutil.ignore_patterns("clients"))
    assert differences(Results.read(tmp_path / "small").entries) == []
    write(tmp_path / "small", tmp_path / "small.md")
    write(runs, tmp_path / "quick.md", quick=True)
    small, quick = ((tmp_path / name).read_text().splitlines()[3:] for name in ("small.md", "quick.md"))
    assert small == quick


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{tmp}/none", "--out", "{tmp}/r.html"), "no such folder"),
        (("{tmp}", "--out", "{tmp}/r.html"), "no runs in it"),
        (("{runs}", "--out", "{tmp}/r.pdf"), "unknown kind of report 'pdf'; expected one of html, md, csv, png"),
        (("{runs}", "--out", "{tmp}/none/r.html"), "the folder {tmp}/none is not there"),
        (("{runs}", "--out", "{tmp}", "--format", "md"), "is a folder; expected a file"),
        (("{runs}", "--out", "{tmp}/r.md", "--paper", "{tmp}/none.csv"), "none.csv: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
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
    with pytest.raises(InputError, match=r"pip install 'pfedeg\[plot\]'; --format md and csv do without"):
        write(runs, tmp_path / "r.html")
    write(runs, tmp_path / "r.md", quick=True)
