"""Reads published results from a CSV file."""

import csv
from collections.abc import Mapping
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from pfedeg.text import suggest
from pfedeg.training.evaluation import HITS

METRICS = ("mrr", *(f"hits@{k}" for k in HITS))

Published = Mapping[tuple[str, str, str], Mapping[str, float]]  # data, model, method → metrics


def read_published(
    path: Path, methods: Mapping[str, str] | None = None, models: Mapping[str, str] | None = None
) -> dict[tuple[str, str, str], dict[str, float]]:
    """A file with the columns dataset, model, method, mrr, hits@1, hits@5, hits@10; a metric may be empty.

    `methods` and `models` map identifiers to labels, in addition to the built-in ones.
    """
    known_models = _by_name({name: MODELS[name].label for name in MODELS} | dict(models or {}))
    known_methods = _by_name({name: METHODS[name].label for name in METHODS} | dict(methods or {}))
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in ("dataset", "model", "method", "mrr") if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"{path}, line 1: no column {missing[0]!r}; expected dataset,model,method,mrr,hits@1,…"
                )
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                what = {name: (row[name] or "").strip().casefold() for name in ("dataset", "model", "method")}
                for name, value in what.items():
                    if not value:
                        raise InputError(f"{where}: the column {name!r} is empty")
                data, model, method = what.values()
                if model not in known_models:
                    raise InputError(f"{where}: unknown model {row['model']!r}{suggest(model, known_models)}")
                if method not in known_methods:
                    raise InputError(f"{where}: unknown method {row['method']!r}{suggest(method, known_methods)}")
                try:
                    values = {name: float(row[name]) for name in METRICS if row.get(name)}
                except ValueError as error:
                    raise InputError(f"{where}: {error}") from None
                if not all(0 <= value <= 1 for value in values.values()):
                    raise InputError(f"{where}: metrics are between 0 and 1 (not percent)")
                found.setdefault((data, known_models[model], known_methods[method]), {}).update(values)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    return found


def _by_name(labels: Mapping[str, str]) -> dict[str, str]:
    """Identifiers by lower-case label and identifier."""
    names = {label.casefold(): identifier for identifier, label in labels.items()}
    return names | {identifier.casefold(): identifier for identifier in labels}
