"""Section "Gain of each client": test MRR of every client against training alone."""

from collections.abc import Mapping, Sequence
from functools import partial

from pfedeg.experiments.report import figures
from pfedeg.experiments.report.document import Picture, Row, Section, Table, TableCell
from pfedeg.experiments.report.results import Entry, Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """A table and a figure for each setup with a method in which every client trains alone."""
    parts: list[Table | Picture] = []
    for setup in results.setups:
        entries = results.at(setup)
        alone = next((entry for entry in entries if entry.method.trains == "alone"), None)
        others = [entry for entry in entries if entry is not alone]
        if alone is None or not others:
            continue
        clients = [name for name in alone.runs[0].clients if alone.mean("mrr", client=name) is not None]
        parts.append(_table(setup, clients, alone, others))
        draw = partial(figures.gains, clients, alone, others)
        parts.append(Picture(figures.file_name("gains", setup), f"{setup.title}: gain of each client", draw))
    return [Section("Gain of each client over training alone", "", parts)]


def _table(setup: Setup, clients: Sequence[str], alone: Entry, others: Sequence[Entry]) -> Table:
    rows: list[Row] = []
    for name in clients:
        base = alone.mean("mrr", client=name) or 0.0
        values = [entry.mean("mrr", client=name) for entry in others]
        gains = [None if value is None else value - base for value in values]
        comparable = [gain for gain, entry in zip(gains, others, strict=True) if not entry.method.pools_data]
        largest = max((gain for gain in comparable if gain is not None), default=0.0)
        row: list[TableCell | str] = [name, f"{base:.4f}"]
        for gain, entry in zip(gains, others, strict=True):
            bold = not entry.method.pools_data and gain is not None and gain == largest and round(gain, 4) > 0
            row.append("–" if gain is None else TableCell(f"{gain:+.4f}", "best" if bold else ""))
        triples = alone.results[0]["test"]["clients"][name]["triples"]
        rows.append([*row, f"{triples:,}"])
    columns = ["client", alone.label, *(entry.label for entry in others), "test triples"]
    return Table(f"{setup.title}: test MRR, difference to {alone.method.label}", columns, rows)
