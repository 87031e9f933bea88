"""A picture of who shares how many entities with whom. Needs matplotlib."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pfedeg.errors import InputError
from pfedeg.files import write_bytes
from pfedeg.inspection.overlap import Overlap
from pfedeg.plots import draw, need_matplotlib, new_figure, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 40  # clients whose names can be read
NUMBERS = 12  # clients among which there is room for numbers


def check_picture(path: Path) -> None:
    """Refuse early what could not be drawn or written later."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"--picture {path}: expected a name that ends in .png or .svg")
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"--picture {path}: {'is a folder' if path.is_dir() else f'no folder {path.parent}'}")
    need_matplotlib("--picture", "the tables do without")


def write_picture(path: Path, overlap: Overlap) -> None:
    """As PNG or SVG, by the ending."""
    write_bytes(path, draw(partial(picture, overlap), path.suffix.lower().lstrip("."))[0])


def picture(overlap: Overlap) -> "Figure":
    """A square for every two clients, as dark as the share of the row's entities that the column's client has too."""
    from matplotlib import colormaps

    both = np.array(overlap.entities)
    own = both.diagonal()
    share = np.divide(both, own[:, None], out=np.zeros(both.shape), where=own[:, None] > 0)
    np.fill_diagonal(share, np.nan)
    many = len(own)
    kept = np.sort(np.argsort(-(both.sum(1) - own), kind="stable")[:MOST])
    share, both = share[np.ix_(kept, kept)], both[np.ix_(kept, kept)]
    names = [short(overlap.clients[place]) for place in kept]
    side = max(3.6, min(9.0, 0.52 * len(names) if len(names) <= NUMBERS else 0.24 * len(names)))
    figure, axes = new_figure((side + 2.2, side + 1.3))
    figure.set_layout_engine("compressed")  # squares stay squares, and names have room
    most = float(np.nan_to_num(share).max()) or 1.0
    squares = axes.imshow(share, cmap=colormaps["Blues"].with_extremes(bad="#eeeeee"), vmin=0, vmax=most)
    axes.grid(False)
    size = 8 if len(names) <= NUMBERS else 6
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), names, fontsize=size)
    if len(names) <= NUMBERS:
        for (row, column), number in np.ndenumerate(both):
            colour = "white" if share[row, column] > 0.6 * most else "#222222"
            axes.text(column, row, f"{number:,}", ha="center", va="center", fontsize=6.5, color=colour)
    figure.colorbar(squares, ax=axes, fraction=0.04, label="share of the row's entities that the column has too")
    first = f"{overlap.different:,} entities: {overlap.owners[0]:,} of one client, {overlap.common:,} of several"
    last = f"\nthe {len(names)} clients that share most, of {many}" if len(names) < many else ""
    axes.set_title(f"{first}, {overlap.owners[-1]:,} of all{last}" if many > 1 else first, fontsize=9)
    return figure
