"""Draws the README's picture from the runs of `pfedeg demo`: relation graph and test MRR of each client.

    pfedeg demo --out runs/demo
    python tools/readme_picture.py --runs runs/demo --out docs/plots/demo.svg

`make picture` does both. Needs matplotlib (the extra `plot`). The SVG is drawn in light colours and carries a style
sheet for dark mode.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfedeg.errors import InputError
from pfedeg.extras import require
from pfedeg.files import write_bytes
from pfedeg.plots import draw, short
from pfedeg.training.saved_run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED = ("single", "fede", "pfedeg-plus")  # folders of the demo; the last one has a relation graph
SIZE = (9.6, 3.6)  # inches
TITLE: Any = {"fontsize": 10.5, "weight": "bold"}
PAPER, INK, SOFT, GRID = "#ffffff", "#1f2329", "#59636f", "#d8dee5"
SHADE = "#0072b2"  # cells of the heat map: the same colour with more or less opacity, on either background
FILLS = ("#8a949f", "#e69f00", "#d55e00")  # bars: readable on either background
DARK = {PAPER: "#0d1117", INK: "#e6edf3", SOFT: "#9198a1", GRID: "#30363d", SHADE: "#58a6ff"}
STRONGEST = 0.55  # opacity of the largest share


def main() -> None:
    """Draw the picture from the runs of a demo."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/demo"), help="folder with the runs of `pfedeg demo`")
    parser.add_argument("--out", type=Path, default=Path("docs/plots/demo.svg"), help="the picture: .svg or .png")
    options = parser.parse_args()
    try:
        require("plot", "this picture")
    except InputError as error:
        parser.error(str(error))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(options.out, picture(options.runs, "png" if options.out.suffix == ".png" else "svg"))


def picture(folder: Path, kind: str) -> bytes:
    """The picture as SVG with a dark mode, or as PNG."""
    runs = [Run(folder / name) for name in COMPARED]
    for run in runs:
        run.require_finished()
    drawn, _ = draw(lambda: figure(runs), kind)
    return with_dark_mode(drawn.decode()).encode() if kind == "svg" else drawn


def figure(runs: Sequence[Run]) -> "Figure":
    """The relation graph beside the bars."""
    from matplotlib.figure import Figure

    affinity = runs[-1].affinity()
    assert affinity is not None, f"{COMPARED[-1]} has no relation graph"
    made = Figure(SIZE, layout="constrained", facecolor=PAPER)
    left, right = made.subfigures(1, 2, squeeze=False, width_ratios=(0.82, 1.18), wspace=0.02)[0]
    left.suptitle("Who learns how much from whom", color=INK, **TITLE)
    right.suptitle("What each client gains: test MRR", color=INK, **TITLE)
    draw_shares(shares := left.subplots(), affinity)
    metrics = [(run.label("method"), (run.result or {})["test"]) for run in runs]
    draw_bars(bars := right.subplots(), list(affinity), metrics)
    for axes in (shares, bars):
        axes.tick_params(colors=INK, length=0, labelsize=8)
        axes.set_facecolor("none")
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return made


def draw_shares(axes: Any, affinity: Mapping[str, Mapping[str, float]]) -> None:
    """A row per learner: the shares of the other clients in what it receives."""
    from matplotlib.patches import Rectangle

    names = list(affinity)
    largest = max(max(row.values()) for row in affinity.values())
    for y, learner in enumerate(names):
        for x, teacher in enumerate(names):
            if learner == teacher:
                axes.text(x, y, "·", ha="center", va="center", color=SOFT, fontsize=9)
                continue
            share = affinity[learner][teacher]
            opacity, corner = STRONGEST * share / largest, (x - 0.47, y - 0.47)
            axes.add_patch(Rectangle(corner, 0.94, 0.94, facecolor=SHADE, alpha=opacity, linewidth=0))
            axes.text(x, y, f"{share:.1%}", ha="center", va="center", color=INK, fontsize=7.5)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xticks(range(len(names)), [short(name) for name in names], rotation=28, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.set_ylabel("learner", color=SOFT, fontsize=8)
    axes.set_xlabel("learns from", color=SOFT, fontsize=8)
    axes.xaxis.set_label_position("top")


def draw_bars(axes: Any, names: Sequence[str], metrics: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Test MRR of every client and of all together, a bar per method."""
    width, places = 0.28, [*range(len(names)), len(names) + 0.25]
    for number, (label, summary) in enumerate(metrics):
        heights = [*(summary["clients"][name]["mrr"] for name in names), summary["weighted"]["mrr"]]
        at = [place + (number - (len(metrics) - 1) / 2) * width for place in places]
        axes.bar(at, heights, width * 0.92, color=FILLS[number], label=label, linewidth=0)
        for x, height in zip(at, heights, strict=True):
            axes.text(x, height + 0.008, f"{height:.2f}"[1:], ha="center", va="bottom", color=INK, fontsize=7.5)
    axes.axhline(0, color=SOFT, linewidth=0.8)
    axes.axvline(len(names) - 0.375, color=GRID, linewidth=0.8)
    axes.set_xticks(places, [*(short(name) for name in names), "all"])
    axes.set_yticks([])
    axes.set_ylim(0, 0.92)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(metrics), fontsize=9, labelcolor=INK,
        handlelength=1, handleheight=1, columnspacing=1.6,
    )  # fmt: skip


def with_dark_mode(svg: str) -> str:
    """The SVG with a style sheet that replaces its colours where the reader prefers a dark background."""
    rules = [
        f'[style*="{part}: {light}"] {{ {part}: {dark} !important; }}'
        for light, dark in DARK.items()
        for part in ("fill", "stroke")
    ]
    style = "@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}"
    start = svg.index("<defs>")
    return f'{svg[:start]}<style type="text/css">\n{style}\n</style>\n {svg[start:]}'


if __name__ == "__main__":
    main()
