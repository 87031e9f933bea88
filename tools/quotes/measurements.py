"""Figures of docs/measurements.md."""

import json
from functools import cache

from figures import Quote, claim, row
from results import ROOT, result, valid_mrr

PAPER_RUNS = "paper-tables/fb15k-237-fed3/transe"
ROUNDS = (10, 20, 40, 60, 80)
FIXED = ()
MODELS = ("transe", "rotate", "complex")


@cache
def _curve(model: str, sampling: str) -> dict[int, float]:
    points = json.loads((ROOT / "docs" / "plots" / "sampling.json").read_text(encoding="utf-8"))
    return {point["x"]: point["y"] for point in points if (point["model"], point["sampling"]) == (model, sampling)}


def _sampling(label: str) -> Quote:
    """Shared minus own negatives by round, and own after the last."""
    own, shared = (_curve(label.lower(), sampling) for sampling in ("own", "shared"))
    return row(label, *(shared[at] - own[at] for at in (2, 4, 6, 8, 10, 12)), own[12])


def _valid(method: str, at: int) -> float:
    return valid_mrr(f"{PAPER_RUNS}/{method}/seed-0", at)


def _over_rounds(label: str, method: str, epochs: int = 1) -> Quote:
    run = f"{PAPER_RUNS}/{method}/seed-0"
    final = result(run)["test"]["weighted"]["mrr"]
    return row(label, *(valid_mrr(run, epochs * number) for number in ROUNDS), final)


QUOTES = [
    claim(
        "After 12 rounds the difference is below 0.003 for all three models",
        all(abs(_curve(model, "shared")[12] - _curve(model, "own")[12]) < 0.003 for model in MODELS),
    ),
    claim(
        "FedE leads for the first 20 rounds",
        all(
            (valid_mrr(f"{PAPER_RUNS}/fede/seed-0", at) > valid_mrr(f"{PAPER_RUNS}/pfedeg-plus/seed-0", at))
            == (at <= 20)
            for at in ROUNDS
        ),
    ),
    *(_sampling(label) for label in ("TransE", "RotatE", "ComplEx")),
    _over_rounds("Single", "single", epochs=3),
    _over_rounds("FedE", "fede"),
    _over_rounds("FedEC", "fedec"),
    _over_rounds("PFedEG\\*", "pfedeg-star"),
    _over_rounds("PFedEG+", "pfedeg-plus"),
]
