"""Figures of README.md."""

from pathlib import Path
from statistics import mean
from typing import Any

from figures import Quote, claim, quote
from results import column, mrr
from transcript import METRIC

from pfedeg.training.saved_run import Run
from quotes.choosing import SEEN, WORLD
from quotes.paper import PAPER, kept
from quotes.reproduction import LISTED, MAIN

FIXED = (
    "**218 times as fast as PyKEEN**",  # from the table below, which test_readme.py compares with docs/performance.md
    "A processor that rounds differently moves these numbers by up to 0.01",  # see transcript.py
)
DEFAULTS = "choosing/defaults.csv"
QUICK = {"model": "transe"}


def _lead_that_vanishes() -> float:
    """How much of PFedEG+'s lead over FedE the moment of evaluation explains, preset quick, three seeds."""
    before, after = (
        mean(column("choosing/moment.csv", method="fede", variant=f"evaluate {moment}"))
        for moment in ("after_aggregation", "after_training")
    )
    return (after - before) / (mrr("choosing/world.csv", method="pfedeg-plus", **QUICK) - before)


def _paper_row(data: str, label: str, *methods: str | None) -> Quote:
    """A row of the paper's tables: our figure, and the paper's in brackets."""
    cells, values = [], []
    for method in methods:
        cells.append("{} ({})" if method else "not run")
        values += [kept(f"{data}/transe", method), PAPER[f"{data}/transe"][method]] if method else []
    return quote(f"| {label} | " + " | ".join(cells) + " |", *values)


QUOTES = [
    quote(
        "`rankings` loses with PFedEG, too**: {} with PFedEG+, {} alone",
        mrr(DEFAULTS, method="pfedeg-plus", client="rankings"),
        mrr(DEFAULTS, method="single", client="rankings"),
    ),
    claim(
        "With `--lr 5e-3` it does not.",
        abs(
            mrr("choosing/learning-rate.csv", method="pfedeg-plus", client="rankings")
            - mrr("choosing/learning-rate.csv", method="single", client="rankings")
        )
        < SEEN,
    ),
    claim("Most of PFedEG's lead vanishes", 0.5 < _lead_that_vanishes() < 1),
    _paper_row(
        "fb15k-237-fed3", "FB15k-237-Fed3", "single", "fede", "fedec", "collective", "pfedeg-star", "pfedeg-plus"
    ),
    _paper_row("fb15k-237-fed10", "FB15k-237-Fed10", None, "fede", None, None, None, "pfedeg-plus"),
    claim(
        "Only Single deviates by more than 0.004",
        all((abs(kept(MAIN, method) - PAPER[MAIN][method]) > 0.004) == (method == "single") for method in LISTED)
        and all(
            round(abs(kept("fb15k-237-fed10/transe", method) - PAPER["fb15k-237-fed10/transe"][method]), 4) <= 0.004
            for method in ("fede", "pfedeg-plus")
        ),
    ),
]


def made(folder: Path) -> list[Quote]:
    """The figures of the demo that the README runs."""
    runs = {path.name: Run(path) for path in (folder / "runs" / "demo").iterdir()}
    results: dict[str, Any] = {name: run.result for name, run in runs.items()}
    clients = {
        name: {each: m["mrr"] for each, m in found["test"]["clients"].items()} for name, found in results.items()
    }
    gain = {
        name: [values[each] - clients["single"][each] for each in WORLD if each not in ("rankings", "transport")]
        for name, values in clients.items()
    }
    affinity = runs["pfedeg-plus"].affinity() or {}
    shares = [100 * share for learner, row in affinity.items() for teacher, share in row.items() if teacher != learner]
    hits = {name: found["test"]["weighted"]["hits@1"] for name, found in results.items()}
    return [
        quote(
            "(MRR {} alone, {} with FedE), and `transport` ({} alone, {} with FedE)",
            *(clients[method][each] for each in ("rankings", "transport") for method in ("single", "fede")),
            tolerance=METRIC,
        ),
        claim(
            "PFedEG leaves both as good as alone",
            all(
                clients[method][each] > clients["single"][each] - METRIC
                for method in ("pfedeg-star", "pfedeg-plus")
                for each in ("rankings", "transport")
            ),
        ),
        claim(
            "the other four gain nearly as much as with FedE",
            all(sum(gain[method]) > 0.9 * sum(gain["fede"]) for method in ("pfedeg-star", "pfedeg-plus")),
        ),
        claim("FedE has the best Hits@1", max(hits, key=lambda name: hits[name]) == "fede"),
        quote("nearly equal ({} to {} %)", min(shares), max(shares), tolerance=1),
    ]
