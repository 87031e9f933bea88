"""All runs of a report as one table: a row per run and client, and one for the weighted average of a run."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pfedeg.experiments.report.published import METRICS
from pfedeg.result_table import ResultTable

if TYPE_CHECKING:
    from pfedeg.experiments.report.results import Entry


def run_table(entries: "Iterable[Entry]", published_for: "Callable[[Entry], Mapping[str, float]]") -> ResultTable:
    """Settings, metrics and published metrics of every run; the client "" is the weighted average."""
    measured = [f"{split}_{name}" for split in ("valid", "test") for name in METRICS]
    head = ["data", "model", "scale", "method", "variant", "seed", "client"]
    head += ["rounds", "best_round", "seconds", "test_triples"]
    rows: list[list[object]] = []
    for entry in entries:
        setup = entry.setup
        published = {} if setup.scale else published_for(entry)
        for run, result in zip(entry.runs, entry.results, strict=True):
            what = [setup.data, setup.model.identifier, setup.scale, entry.method.identifier, entry.variant, run.seed]
            duration = [result["rounds"], result["best_round"], result["seconds"]]
            clients = result["test"]["clients"]
            for client in ("", *run.clients):
                splits = [
                    result[split]["clients"][client] if client else result[split]["weighted"]
                    for split in ("valid", "test")
                ]
                triples = clients[client]["triples"] if client else sum(each["triples"] for each in clients.values())
                paper = [None if client else published.get(name) for name in METRICS]
                values = (part[name] for part in splits for name in METRICS)
                rows.append([*what, client, *duration, triples, *values, *paper])
    return ResultTable.of([*head, *measured, *(f"paper_{name}" for name in METRICS)], rows)
