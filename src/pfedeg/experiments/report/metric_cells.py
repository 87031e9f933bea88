"""Formats metrics for tables: four digits, ± over seeds, the best in bold."""

from collections.abc import Sequence

from pfedeg.experiments.report.document import TableCell
from pfedeg.experiments.report.published import METRICS
from pfedeg.experiments.report.results import Entry

NOT_RUN = "not run"
METRIC_LABELS = {name: "MRR" if name == "mrr" else name.capitalize() for name in METRICS}


def number(value: float | None) -> str:
    """A metric; a dash if there is none."""
    return "–" if value is None else f"{value:.4f}"


def metric_cell(entry: Entry, name: str, best: float | None) -> TableCell:
    """Mean and standard deviation over seeds, in bold if it is the best."""
    mean, sd = entry.mean(name), entry.sd(name)
    spread = f" ± {sd:.4f}" if sd is not None else ""
    bold = not entry.method.pools_data and best is not None and mean == best
    tooltip = f"{len(entry.runs)} seeds" if sd is not None else ""
    return TableCell(number(mean) + spread, "best" if bold else "", tooltip)


def best_value(entries: Sequence[Entry], metric: str) -> float | None:
    """The best value of the methods that do not pool data, if there are several."""
    values = [entry.mean(metric) for entry in entries if not entry.method.pools_data]
    known = [value for value in values if value is not None]
    return max(known) if len(known) > 1 else None


def best_entry(entries: Sequence[Entry]) -> Entry | None:
    """The best by test MRR of the methods that do not pool data, if there are several."""
    candidates = [entry for entry in entries if not entry.method.pools_data and entry.mean("mrr") is not None]
    return max(candidates, key=lambda entry: entry.mean("mrr") or 0.0) if len(candidates) > 1 else None
