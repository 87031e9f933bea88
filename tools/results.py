"""Reads committed results: run folders without tables below results/, and tables that `pfedeg report` wrote."""

import csv
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@cache
def result(path: str) -> Any:
    """The result.json of a run folder below results/."""
    return json.loads((ROOT / "results" / path / "result.json").read_text(encoding="utf-8"))


@cache
def history(path: str) -> list[Any]:
    """The history of a run folder below results/."""
    lines = (ROOT / "results" / path / "history.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def valid_mrr(path: str, number: int) -> float:
    """The weighted validation MRR after a round."""
    (line,) = [each for each in history(path) if each["round"] == number]
    return float(line["valid"]["weighted"]["mrr"])


@cache
def table(path: str) -> list[dict[str, str]]:
    """The rows of a CSV file below results/."""
    with (ROOT / "results" / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def column(path: str, name: str = "test_mrr", **wanted: str) -> list[float]:
    """A column of a CSV file's rows with the given entries, weighted over clients if no client is given."""
    wanted = {"client": "", **wanted}
    found = [row for row in table(path) if all(row[key] == value for key, value in wanted.items())]
    assert found, f"results/{path} has no row with {wanted}"
    return [float(row[name]) for row in sorted(found, key=lambda row: int(row["seed"]))]


def mrr(path: str, **wanted: str) -> float:
    """The mean test MRR over all seeds in a CSV file."""
    return mean(column(path, **wanted))


def spread(path: str, **wanted: str) -> tuple[float, float]:
    """Mean and standard deviation of the test MRR over seeds."""
    values = column(path, **wanted)
    return mean(values), stdev(values)


def clients(path: str, **wanted: str) -> Sequence[str]:
    """The clients of the rows with the given entries."""
    rows = (row for row in table(path) if all(row[key] == value for key, value in wanted.items()))
    return sorted({row["client"] for row in rows} - {""})
