"""The figures of a report, and what they have in common. Needs matplotlib."""

from typing import TYPE_CHECKING

from pfedeg.experiments.report.parts import ReportMethod
from pfedeg.experiments.report.results import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 5.0  # inches: wide enough to read, and narrow enough for a telephone


def file_name(kind: str, setup: Setup, method: ReportMethod | None = None) -> str:
    """The name of a figure's file, without its extension."""
    parts = [kind, setup.data, setup.model.identifier, setup.scale, method.identifier if method else ""]
    return "-".join(filter(None, parts))


def whole_numbers(axes: "Axes", ticks: int = 8) -> None:
    """Ticks at whole rounds only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=ticks, integer=True, min_n_ticks=1))


def metric_axis(axes: "Axes", highest: float) -> None:
    """A metric from 0 to above its highest value: a cut axis would make noise look like a trend."""
    axes.set_ylim(0, min(1.0, 1.15 * highest) or 1.0)
