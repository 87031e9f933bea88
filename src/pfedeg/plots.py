"""Common style of all figures, and drawing them to SVG or PNG without a display, byte for byte reproducibly."""

from collections.abc import Callable
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfedeg.errors import InputError
from pfedeg.extras import require
from pfedeg.files import check_output, write_bytes
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
    "svg.hashsalt": "pfedeg",  # the same figure gets the same ids
}


def short(name: str) -> str:
    """A name shortened to fit on an axis, without TeX markup."""
    text = printable(name)
    return escaped(text if len(text) <= 14 else text[:13] + "…")


def escaped(text: str) -> str:
    """A text without TeX markup."""
    return printable(text).replace("$", r"\$")


def new_figure(size: tuple[float, float], count: int = 0, columns: int = 0) -> tuple["Figure", Any]:
    """A figure with one plot, or with a list of `count` plots, `columns` per row (default: all in one row)."""
    from matplotlib.figure import Figure

    figure = Figure(size, layout="constrained")
    if not count:
        return figure, figure.add_subplot()
    columns = columns or count
    grid = figure.subplots(ceil(count / columns), columns, sharex=True, sharey=True, squeeze=False).flatten()
    for empty in grid[count:]:
        empty.remove()
    return figure, list(grid[:count])


def check_picture(path: Path, force: bool = False) -> None:
    """Raise InputError, before any work, if a picture could not be drawn or written there; `force` replaces one."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"--picture {path}: expected a file name ending in .png or .svg")
    if not path.parent.is_dir():
        raise InputError(f"--picture {path}: no such folder: {path.parent}")
    check_output(path, force)
    require("plot", "--picture", "or omit --picture")


def write_picture(path: Path, make: Callable[[], "Figure"]) -> None:
    """Write a figure as PNG or SVG, depending on the extension."""
    write_bytes(path, draw(make, path.suffix.lower().lstrip("."))[0])


def draw(make: Callable[[], "Figure"], format: str) -> tuple[bytes, int]:
    """A figure as an SVG or PNG file, and its width in pixels on a screen."""
    from matplotlib import rc_context

    file = BytesIO()
    with rc_context(STYLE):
        figure = make()
        figure.savefig(file, format=format, dpi=160, metadata={"Date": None} if format == "svg" else None)
    return file.getvalue(), round(figure.get_size_inches()[0] * 96)
