"""How the package draws: one style, figures without a screen, the same bytes for the same figure. Needs matplotlib."""

from collections.abc import Callable
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Any

from pfedeg.errors import InputError
from pfedeg.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "pfedeg",  # equal reports for equal runs
}


def short(name: str) -> str:
    """A name that fits on an axis; a dollar is no formula."""
    text = printable(name)
    return (text if len(text) <= 14 else text[:13] + "…").replace("$", r"\$")


def new_figure(size: tuple[float, float], many: int = 0, across: int = 0) -> tuple["Figure", Any]:
    """A figure with one pair of axes, or with a list of them in rows of so many (all in one if not told)."""
    from matplotlib.figure import Figure

    figure = Figure(size, layout="constrained")
    if not many:
        return figure, figure.add_subplot()
    across = across or many
    grid = figure.subplots(ceil(many / across), across, sharex=True, sharey=True, squeeze=False).flatten()
    for empty in grid[many:]:
        empty.remove()
    return figure, list(grid[:many])


def draw(make: Callable[[], "Figure"], kind: str) -> tuple[bytes, int]:
    """A figure as svg or png, the same bytes for the same figure, and its width on a screen."""
    from matplotlib import rc_context

    file = BytesIO()
    with rc_context(STYLE):
        figure = make()
        figure.savefig(file, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue(), round(figure.get_size_inches()[0] * 96)


def need_matplotlib(what: str, otherwise: str) -> None:
    """Refuse at once, not after minutes, what cannot be drawn."""
    try:
        import matplotlib  # noqa: F401 (whether it can be imported is the question)
    except ImportError:
        raise InputError(f"{what} draws with matplotlib: pip install 'pfedeg[plot]'; {otherwise}") from None
