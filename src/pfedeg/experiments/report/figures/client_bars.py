"""The test MRR of every client with every method, as bars with values; as dots if there are many."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pfedeg.experiments.report.figures import WIDTH
from pfedeg.experiments.report.results import Entry
from pfedeg.plots import escaped, new_figure, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BARS = 64  # with values beside them
COLUMNS = 4  # of the legend
BAR, ROW = 0.155, 0.24  # inches of a bar, and of a row of dots


def client_mrr(names: Sequence[str], entries: Sequence[Entry]) -> "Figure":
    """A group of bars per client; above many bars, a row of dots per client."""
    many = len(names) * len(entries) > MAX_BARS
    group = ROW if many else BAR * (len(entries) + 0.9)
    figure, axes = new_figure((WIDTH, 0.5 + group * len(names) + 0.2 * -(-len(entries) // COLUMNS) + 0.2))
    for at, entry in enumerate(entries):
        values = [entry.mean("mrr", client=name) or 0.0 for name in names]
        if many:
            axes.plot(values, range(len(names)), "o", markersize=4, color=entry.method.color, label=_label(entry))
        else:
            _bars(axes, values, at, entry, len(entries))
    highest = max(entry.mean("mrr", client=name) or 0.0 for entry in entries for name in names)
    axes.set_xlim(0, 1.14 * highest or 1.0)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_yticks(range(len(names)), [short(name) for name in names], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=many, axis="y")
    axes.set_xlabel("test MRR")
    figure.legend(loc="outside lower center", fontsize=8, ncols=min(COLUMNS, len(entries)), columnspacing=1.2)
    return figure


def _bars(axes: "Axes", values: Sequence[float], at: int, entry: Entry, entries: int) -> None:
    height = 1 / (entries + 0.9)
    places = [row + (at - (entries - 1) / 2) * height for row in range(len(values))]
    axes.barh(places, values, 0.9 * height, color=entry.method.color, label=_label(entry))
    for place, value in zip(places, values, strict=True):
        axes.text(value, place, f" {value:.3f}", va="center_baseline", fontsize=7.5)


def _label(entry: Entry) -> str:
    return escaped(entry.method.label)
