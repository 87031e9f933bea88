"""A heat map of the entities that clients share. Needs matplotlib."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pfedeg.errors import InputError
from pfedeg.files import check_output, write_bytes
from pfedeg.inspection.overlap import Overlap
from pfedeg.plots import draw, new_figure, require_matplotlib, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CLIENTS = 40  # whose names stay readable
MAX_NUMBERS = 12  # clients up to which cells show numbers


def check_picture(path: Path, force: bool = False) -> None:
    """Raise InputError early if the picture could not be drawn or written."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"--picture {path}: expected a file name ending in .png or .svg")
    if not path.parent.is_dir():
        raise InputError(f"--picture {path}: no such folder: {path.parent}")
    check_output(path, force)
    require_matplotlib("--picture", "or omit --picture")


def write_picture(path: Path, overlap: Overlap) -> None:
    """Write the heat map as PNG or SVG, depending on the extension."""
    write_bytes(path, draw(partial(picture, overlap), path.suffix.lower().lstrip("."))[0])


def picture(overlap: Overlap) -> "Figure":
    """A cell for every two clients, as dark as the share of the row's entities that the column's client has too."""
    from matplotlib import colormaps

    both = np.array(overlap.entities)
    own = both.diagonal()
    share = np.divide(both, own[:, None], out=np.zeros(both.shape), where=own[:, None] > 0)
    np.fill_diagonal(share, np.nan)
    many = len(own)
    kept = np.sort(np.argsort(-(both.sum(1) - own), kind="stable")[:MAX_CLIENTS])
    share, both = share[np.ix_(kept, kept)], both[np.ix_(kept, kept)]
    names = [short(overlap.clients[place]) for place in kept]
    side = max(3.6, min(9.0, 0.52 * len(names) if len(names) <= MAX_NUMBERS else 0.24 * len(names)))
    figure, axes = new_figure((side + 2.2, side + 1.3))
    figure.set_layout_engine("compressed")  # keeps cells square and leaves room for names
    most = float(np.nan_to_num(share).max()) or 1.0
    squares = axes.imshow(share, cmap=colormaps["Blues"].with_extremes(bad="#eeeeee"), vmin=0, vmax=most)
    axes.grid(False)
    size = 8 if len(names) <= MAX_NUMBERS else 6
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), names, fontsize=size)
    if len(names) <= MAX_NUMBERS:
        for (row, column), number in np.ndenumerate(both):
            colour = "white" if share[row, column] > 0.6 * most else "#222222"
            axes.text(column, row, f"{number:,}", ha="center", va="center", fontsize=6.5, color=colour)
    figure.colorbar(squares, ax=axes, fraction=0.04, label="share of the row's entities that the column also has")
    first = f"{overlap.different:,} entities: {overlap.owners[0]:,} of one client, {overlap.common:,} of several"
    last = f"\nthe {len(names)} of {many} clients that share most" if len(names) < many else ""
    axes.set_title(f"{first}, {overlap.owners[-1]:,} of all{last}" if many > 1 else first, fontsize=9)
    return figure
