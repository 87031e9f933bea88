"""Formats metrics for tables: four digits, ± over seeds."""

from pfedeg.experiments.report.document import TableCell
from pfedeg.experiments.report.published import METRICS
from pfedeg.experiments.report.results import Entry

NOT_RUN = "not run"
METRIC_LABELS = {name: "MRR" if name == "mrr" else name.capitalize() for name in METRICS}


def number(value: float | None) -> str:
    """A metric; a dash if there is none."""
    return "–" if value is None else f"{value:.4f}"


def metric_cell(entry: Entry, name: str, best: bool) -> TableCell:
    """Mean and standard deviation over seeds; in bold if it is the best."""
    mean, sd = entry.mean(name), entry.sd(name)
    spread = f" ± {sd:.4f}" if sd is not None else ""
    tooltip = f"{len(entry.runs)} seeds" if sd is not None else ""
    return TableCell(number(mean) + spread, "best" if best else "", tooltip)
