"""The metrics and the history of a run as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from pfedeg.errors import InputError
from pfedeg.result_table import ResultTable
from pfedeg.training.evaluation import HITS

METRICS = ("mrr", *(f"hits@{k}" for k in HITS))


def metrics_table(result: Mapping[str, Any] | None) -> ResultTable:
    """Metrics of the best round: a row per split and client. The client "" is the average weighted by triples."""
    if result is None:
        raise InputError("the run is not finished, so that it has no metrics yet")
    rows = []
    for split in ("valid", "test"):
        clients = result[split]["clients"]
        whole = {**result[split]["weighted"], "triples": sum(values["triples"] for values in clients.values())}
        for client, values in {"": whole, **clients}.items():
            rows.append([split, client, *(values[name] for name in METRICS), values["triples"]])
    return ResultTable.of(["split", "client", *METRICS, "triples"], rows)


def history_table(history: Sequence[Mapping[str, Any]]) -> ResultTable:
    """A row per round: mean loss over clients, weighted validation metrics if evaluated, seconds, exchanged bytes."""
    rows = []
    for line in history:
        loss, valid = line["loss"].values(), line.get("valid", {}).get("weighted", {})
        row = [line["round"], sum(loss) / len(loss) if loss else None, *(valid.get(name) for name in METRICS)]
        rows.append([*row, line["seconds"], line["bytes_up"], line["bytes_down"]])
    columns = ["round", "loss", *(f"valid_{name}" for name in METRICS), "seconds", "bytes_up", "bytes_down"]
    return ResultTable.of(columns, rows)
