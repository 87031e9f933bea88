"""Section "Settings compared": runs of one method on the same data that differ only in settings."""

from collections.abc import Mapping, Sequence
from functools import partial

from pfedeg.experiments.report.document import Part, Picture, Row, Section, Table, TableCell
from pfedeg.experiments.report.figures import curves, file_name, sweeps
from pfedeg.experiments.report.metric_cells import METRIC_LABELS, metric_cell, number
from pfedeg.experiments.report.published import METRICS
from pfedeg.experiments.report.results import Entry, Results, Setup, best_by_validation
from pfedeg.experiments.report.significance import PairedTests

TEXT = "Runs that differ only in these settings. An arrow, or bold in a grid, marks the best settings by validation."
CHOSEN = "→"


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """A table and figures for each group of runs."""
    parts = [part for group in results.studies() for part in _parts(results, group)]
    return [Section("Settings compared", TEXT, parts)]


def _parts(results: Results, group: Sequence[Entry]) -> list[Part]:
    first = group[0]
    same = all(entry.setup == first.setup for entry in group)
    setup = first.setup if same else first.setup._replace(scale="")
    heading = results.title(setup) if same else setup.title
    title = f"{heading}, {first.method.label}: {' × '.join(first.varied)}"
    name = partial(file_name, setup=setup, method=first.method)
    parts: list[Part] = [_table(title, group)]
    if sweeps.can_be_drawn(group):
        split = "" if len(first.varied) == 1 else "validation "
        caption = f"{first.method.label}: {split}MRR by {' and '.join(first.varied)}"
        parts.append(Picture(name("sweep"), caption, partial(sweeps.against_settings, group)))
    caption = f"{first.method.label}: validation MRR by round"
    parts.append(Picture(name("settings"), caption, partial(curves.settings_compared, group)))
    return parts


def _table(title: str, group: Sequence[Entry]) -> Table:
    varied = group[0].varied
    best = best_by_validation(group)
    rows: list[Row] = []
    for entry in group:
        row: list[TableCell | str] = [CHOSEN if entry is best else "", *map(entry.setting_text, varied)]
        row.append(number(entry.mean("mrr", "valid")))
        row += [metric_cell(entry, name, False) for name in METRICS]
        rows.append([*row, ", ".join(str(result["best_round"]) for result in entry.results)])
    columns = ["", *varied, "valid MRR", *(f"test {METRIC_LABELS[name]}" for name in METRICS), "best round"]
    return Table(title, columns, rows, text_columns=1 + len(varied))
