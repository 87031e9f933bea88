"""Curves of validation MRR over training: of methods, and of settings of one method."""

import textwrap
from collections.abc import Sequence
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pfedeg.experiments.report.figures import WIDTH, metric_axis, whole_numbers
from pfedeg.experiments.report.results import Entry
from pfedeg.plots import escaped, new_figure
from pfedeg.training.saved_run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 3.0  # inches, without the legend
LINE = 0.2  # inches of a line in the legend
LONG = 24  # letters of a label from which a legend has one column
WIDEST = 56  # letters in a line of a label


def evaluated(run: Run) -> list[tuple[int, float]]:
    """Round and validation MRR."""
    found = [(line["round"], line.get("valid", {}).get("weighted", {}).get("mrr")) for line in run.history]
    return [(number, mrr) for number, mrr in found if mrr is not None]


def convergence(entries: Sequence[Entry]) -> "Figure":
    """Validation MRR of methods by round; by epoch if their rounds differ in epochs."""
    epochs = [entry.settings.get("epochs", 1) for entry in entries]
    same = len(set(epochs)) == 1
    lines = [
        (entry, 1 if same else each, entry.label, entry.method.color)
        for entry, each in zip(entries, epochs, strict=True)
    ]
    return _curves(lines, "round" if same else "epochs of local training")


def settings_compared(entries: Sequence[Entry]) -> "Figure":
    """Validation MRR of one method with several settings."""
    from matplotlib import colormaps

    shades = colormaps["viridis"]
    last = max(1, len(entries) - 1)
    return _curves([(entry, 1, entry.variant, shades(0.9 * at / last)) for at, entry in enumerate(entries)], "round")


def _curves(lines: Sequence[tuple[Entry, int, str, Any]], unit: str) -> "Figure":
    """A line for every seed, with a dot at the best round; the legend has one label for all seeds."""
    columns = 1 if max(len(label) for _, _, label, _ in lines) > LONG else 2
    labels = [_label(entry, label) for entry, _, label, _ in lines]
    rows = sum(label.count("\n") + 1 for label in labels) if columns == 1 else ceil(len(lines) / 2)
    figure, axes = new_figure((WIDTH, HEIGHT + LINE * rows))
    highest, handles = 0.0, []
    for (entry, step, _, color), label in zip(lines, labels, strict=True):
        width = 1.4 if len(entry.runs) == 1 else 0.8
        for run, result in zip(entry.runs, entry.results, strict=True):
            points = [(number * step, mrr, number == result["best_round"]) for number, mrr in evaluated(run)]
            (line,) = axes.plot([x for x, _, _ in points], [y for _, y, _ in points], color=color, linewidth=width)
            for x, y, _ in filter(itemgetter(2), points):
                axes.plot(x, y, "o", color=color, markersize=4)
            highest = max([highest, *(y for _, y, _ in points)])
        line.set_label(label)
        handles.append(line)
    axes.set_xlabel(unit)
    axes.set_ylabel("validation MRR")
    axes.set_xlim(0, None)
    whole_numbers(axes)
    metric_axis(axes, highest)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def _label(entry: Entry, label: str) -> str:
    """The label with the MRR of the best round, wrapped."""
    best = entry.mean("mrr", "valid")
    return textwrap.fill(escaped(label) + ("" if best is None else f": {best:.4f}"), WIDEST)
