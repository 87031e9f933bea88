"""Figures of docs/tutorial.md."""

from pathlib import Path

import numpy as np
from figures import Quote, claim, quote
from transcript import METRIC

from pfedeg.training.saved_run import Run

FIXED = ("print metrics that differ by 0.01",)  # see transcript.py
CLIENTS = ("ministry", "survey", "transit")
QUESTION = (
    "http://places.example/id/Chiclayo",
    "http://ministry.example/terms#in_country",
    "http://places.example/id/Peru",
)


def made(folder: Path) -> list[Quote]:
    """The figures of the runs that the tutorial makes."""
    alone, together = (Run(folder / "runs" / name) for name in ("single", "together"))
    mrr = {name: [_mrr(run, name) for run in (alone, together)] for name in CLIENTS}
    leaks = {name: _leaks(alone, name) for name in CLIENTS}
    others = [float(np.mean(1 / run.ranks("test")["transit"][~leaks["transit"]])) for run in (alone, together)]
    graph = alone.graph("ministry")
    ids = graph.entity_ids[QUESTION[0]], graph.relation_ids[QUESTION[1]], graph.entity_ids[QUESTION[2]]
    rank = alone.ranks("test")["ministry"][graph.test.tolist().index(list(ids))]
    return [
        quote(
            "of {} % of transit's test triples, and of {} % of survey's",
            *(100 * float(leaks[name].mean()) for name in ("transit", "survey")),
        ),
        quote("The survey gains most ({} alone, {} together)", *mrr["survey"], tolerance=METRIC),
        quote("the ministry gains ({}, {})", *mrr["ministry"], tolerance=METRIC),
        quote("transit stays where it was ({}, {})", *mrr["transit"], tolerance=METRIC),
        claim(
            "gains most",
            mrr["survey"][1] - mrr["survey"][0] > mrr["ministry"][1] - mrr["ministry"][0] > METRIC,
        ),
        claim("transit stays where it was", abs(mrr["transit"][1] - mrr["transit"][0]) < METRIC),
        claim("No client loses here", all(after > before - METRIC for before, after in mrr.values())),
        quote("transit a little ({} alone, {} together)", *others, tolerance=METRIC),
        claim("helps transit a little", others[1] > others[0]),
        quote("the ministry ranks Peru about {}th", rank, tolerance=8),
    ]


def _mrr(run: Run, client: str) -> float:
    return float((run.result or {})["test"]["clients"][client]["mrr"])


def _leaks(run: Run, client: str) -> np.ndarray:
    """Which test triples of a client stand reversed in its train triples."""
    graph = run.graph(client)
    train = {tuple(triple) for triple in graph.train.tolist()}
    return np.array([(tail, relation, head) in train for head, relation, tail in graph.test.tolist()])
