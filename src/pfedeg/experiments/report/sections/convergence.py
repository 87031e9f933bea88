"""The figure of a setup that shows validation MRR during training."""

from functools import partial

from pfedeg.experiments.report.document import Part, Picture
from pfedeg.experiments.report.figures import curves, file_name
from pfedeg.experiments.report.results import Results, Setup
from pfedeg.experiments.report.significance import PairedTests


def parts(results: Results, setup: Setup, tests: PairedTests) -> list[Part]:
    """One figure, if any run was evaluated during training."""
    entries = [entry for entry in results.at(setup) if any(curves.evaluated(run) for run in entry.runs)]
    title = "Validation MRR during training"
    return [Picture(file_name("convergence", setup), title, partial(curves.convergence, entries))] if entries else []
