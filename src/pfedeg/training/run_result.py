"""The content of result.json and of the history: made by a run, and checked when it is read."""

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import Split
from pfedeg.training.config import Config
from pfedeg.training.evaluation import HITS, Metrics, weighted

METRICS = ("mrr", *(f"hits@{k}" for k in HITS))
RESTORE = "restore it from a copy, or train anew with --force"


def make_result(
    config: Config,
    rounds: int,
    best_round: int,
    history: Sequence[Mapping[str, Any]],
    measured: Mapping[Split, Mapping[ClientId, Metrics]],
) -> dict[str, Any]:
    """The content of result.json."""
    return {
        "method": config.method,
        "model": config.model,
        "seed": config.seed,
        "rounds": rounds,
        "best_round": best_round,
        "seconds": round(sum(line["seconds"] for line in history), 3),
        **{split: summary(metrics) for split, metrics in measured.items()},
    }


def summary(metrics: Mapping[ClientId, Metrics]) -> dict[str, Any]:
    """Metrics, weighted and per client, as in result.json."""
    clients = {name: m.as_dict() | {"triples": m.triples} for name, m in sorted(metrics.items())}
    return {"weighted": weighted(metrics).as_dict(), "clients": clients}


def check_result(path: Path, result: Mapping[str, Any], history: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The content of a result.json if it is complete; its rounds must be those of the history, if there is one."""
    try:
        for name in ("rounds", "best_round"):
            if type(result[name]) is not int or result[name] < 1:
                raise ValueError(f"{name} {result[name]!r} is not a number of rounds")
        if result["best_round"] > result["rounds"]:
            raise ValueError(f"best_round {result['best_round']} is after the last of {result['rounds']} rounds")
        if history and history[-1]["round"] != result["rounds"]:
            raise ValueError(f"{result['rounds']} rounds, but history.jsonl ends with round {history[-1]['round']}")
        _check_numbers([result["seconds"]])
        for split in ("valid", "test"):
            for metrics in (result[split]["weighted"], *result[split]["clients"].values()):
                _check_numbers(metrics[name] for name in METRICS if metrics[name] is not None)
    except KeyError as error:
        raise InputError(f"{path}: damaged (no {error}); {RESTORE}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}); {RESTORE}") from None
    return dict(result)


def check_rounds(path: Path, history: Sequence[Mapping[str, Any]], until: int = 0) -> None:
    """Raise InputError if a round is missing from a history, or is there twice; it must reach the round `until`."""
    for number, line in enumerate(history, 1):
        if line["round"] != number:
            text = f"line {number}: damaged (round {line['round']} in place of round {number})"
            raise InputError(f"{path}, {text}; {RESTORE}")
    if len(history) < until:
        text = f"ends with round {len(history)}, but the checkpoint is of round {until}"
        raise InputError(f"{path}: {text}; {RESTORE}")


def _check_numbers(values: Any) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError(f"{value!r} is not a number")
