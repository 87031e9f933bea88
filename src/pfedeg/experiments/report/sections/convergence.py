"""Section "Convergence": validation MRR over training."""

from collections.abc import Mapping
from functools import partial

from pfedeg.experiments.report import figures
from pfedeg.experiments.report.document import Picture, Section, Table
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def build(results: Results, tests: Mapping[Setup, PairedTests]) -> list[Section]:
    """A figure for each setup."""
    parts: list[Table | Picture] = []
    for setup in results.compared:
        entries = [entry for entry in results.at(setup) if any(figures.evaluated(run) for run in entry.runs)]
        if entries:
            name = figures.file_name("convergence", setup)
            parts.append(Picture(name, setup.title, partial(figures.convergence, entries)))
    text = "Validation MRR during training, weighted over clients. A dot marks the best round, whose tables are kept."
    if any(len(entry.runs) > 1 for entry in results.entries):
        text += " Each seed has its own line."
    return [Section("Convergence", text, parts)]
