"""Section "Settings compared": runs of one method on the same data that differ only in settings."""

from collections.abc import Mapping, Sequence
from functools import partial

from pfedeg.experiments.report import figures
from pfedeg.experiments.report.document import Picture, Row, Section, Table, TableCell
from pfedeg.experiments.report.metric_cells import METRIC_LABELS, metric_cell, number
from pfedeg.experiments.report.published import METRICS
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.significance import PairedTests

TEXT = "Runs that differ only in these settings. Bold: best by validation."


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """A table and a figure for each group of runs."""
    parts: list[Table | Picture] = []
    for group in results.studies():
        first = group[0]
        scale = first.setup.scale if all(entry.setup == first.setup for entry in group) else ""
        title = f"{first.setup._replace(scale=scale).title}, {first.method.label}"
        parts.append(_table(title, group))
        name = figures.file_name("settings", first.setup._replace(scale=""), first.method)
        parts.append(Picture(name, f"{title}: validation MRR by round", partial(figures.settings_compared, group)))
    return [Section("Settings compared", TEXT, parts)]


def _table(title: str, group: Sequence[Entry]) -> Table:
    varied = group[0].varied
    best = max(entry.mean("mrr", "valid") or 0 for entry in group)
    rows: list[Row] = []
    for entry in group:
        valid = entry.mean("mrr", "valid")
        row: list[TableCell | str] = [entry.setting_text(name) for name in varied]
        row.append(TableCell(number(valid), "best" if valid == best else ""))
        row += [metric_cell(entry, name, None) for name in METRICS]
        rows.append([*row, ", ".join(str(result["best_round"]) for result in entry.results)])
    columns = [*varied, "valid MRR", *(f"test {METRIC_LABELS[name]}" for name in METRICS), "best round"]
    return Table(f"{title}: {' × '.join(varied)}", columns, rows, text_columns=len(varied))
