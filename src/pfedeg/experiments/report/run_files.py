"""Finds the runs in a folder and checks that their files contain what a report needs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.experiments.report.parts import missing_parts
from pfedeg.experiments.report.published import METRICS
from pfedeg.text import plural
from pfedeg.training.saved_run import Run

UNNAMED = "unnamed data"  # of a Python run without a data name


def find_runs(folder: Path) -> tuple[list[Run], list[str]]:
    """All runs in a folder and its subfolders, and an error message for each damaged one."""
    if not folder.is_dir():
        raise InputError(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
    paths = sorted(path.parent for path in folder.rglob("config.json") if (path.parent / "provenance.json").exists())
    runs, damaged = [], []
    for path in paths:
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            try:
                runs.append(_checked(path))
            except InputError as error:
                damaged.append(str(error))
            except OSError as error:
                damaged.append(f"{path}: cannot be read: {error.strerror}")
    return runs, damaged


def why_empty(runs: Sequence[Run], damaged: Sequence[str]) -> str:
    """The reason why there is nothing to report."""
    if damaged:
        return f"no run can be used; {damaged[0]}"
    return "no run is finished" if runs else "no runs found; make some with `pfedeg train` or `pfedeg experiment`"


def describe_missing(runs: Sequence[Run]) -> list[str]:
    """A line for each plug-in that is used but not installed."""
    users: defaultdict[str, int] = defaultdict(int)
    for run in runs:
        for part, identifier in missing_parts(run).items():
            users[f"{part} {identifier} ({run.label(part)})"] += 1  # type: ignore[arg-type]  # a registry name is a literal
    return [
        f"{name} is not installed; {plural(number, 'run')} shown with saved labels" for name, number in users.items()
    ]


def data_names(runs: Sequence[Run]) -> dict[Path, str]:
    """The name of each run's data, from the file name; a fingerprint is added if different data have the same name.

    Equal data have the same name, the one that most of their runs have. Fingerprints may differ between seeds, since
    data without splits are split by the seed.
    """
    found = {run.path: (_data_name(run), str(run.provenance.get("data_fingerprint", ""))) for run in runs}
    used: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, fingerprint in found.values():
        used[fingerprint][name] += name != UNNAMED
    names = {print: min(counts, key=lambda name: (-counts[name], name)) for print, counts in used.items() if print}
    found = {path: (names.get(print, name), print) for path, (name, print) in found.items()}
    versions: defaultdict[tuple[str, int | None], set[Any]] = defaultdict(set)
    for run in runs:
        name, fingerprint = found[run.path]
        versions[name, run.seed].add(fingerprint)
        versions[name, None].add(run.clients)
    several = {name for (name, _), different in versions.items() if len(different) > 1}
    return {path: f"{name} ({print[:6]})" if name in several else name for path, (name, print) in found.items()}


def _data_name(run: Run) -> str:
    source = Path(str(run.provenance.get("data") or UNNAMED))
    return source.stem if source.suffix == ".parquet" else source.name


def _checked(path: Path) -> Run:
    """Open a run and check its files."""
    run, file = Run(path), "config.json"
    if not missing_parts(run):
        run.config.as_dict()  # raises InputError for invalid settings
    try:
        file = "history.jsonl"
        for line in run.history:
            _check_line(line)
        file = "result.json"
        if (result := run.result) is not None:
            _check_numbers(result[name] for name in ("rounds", "best_round", "seconds"))
            for split in ("valid", "test"):
                clients = [result[split]["clients"][client] for client in run.clients]
                _check_numbers(metrics["triples"] for metrics in clients)
                for metrics in (result[split]["weighted"], *clients):
                    _check_numbers(metrics[name] for name in METRICS if metrics[name] is not None)
    except KeyError as error:
        raise InputError(f"{path / file}: damaged (no {error})") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path / file}: damaged ({error})") from None
    return run


def _check_line(line: Mapping[str, Any]) -> None:
    """Check round, validation MRR and relation graph."""
    mrr, rows = line.get("valid", {}).get("weighted", {}).get("mrr"), line.get("affinity") or {}
    _check_numbers([line["round"], *([] if mrr is None else [mrr])])
    for row in rows.values():
        _check_numbers(row.values())
        if not row.keys() <= rows.keys():
            raise ValueError("affinity to an unknown client")


def _check_numbers(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError(f"{value!r} is not a number")
