"""Draws the cost curves: one picture per curve, lines labelled where they end."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ours import BATCH, DIM, NAMES, NEGATIVES

if TYPE_CHECKING:
    from curves import Point

LABELS = {**NAMES, "star": "PFedEG*", "plus": "PFedEG+", "fede": "FedE"}
COLOURS = dict(zip(LABELS, ("#0072b2", "#d55e00", "#009e73") * 2, strict=True))  # colour-blind readers tell them apart
DASHES = {"own": "-", "shared": (0, (4, 2)), "": "-"}
MARKS = {"own": "o", "shared": "s", "": "o"}
FIXED = f"dim {DIM}, batch {BATCH}"
TITLES = {  # title, what is fixed, x axis, y axis
    "train-triples": (
        "Training time against triples",
        f"{FIXED}, {NEGATIVES} negatives",
        "triples",
        "seconds per epoch",
    ),
    "train-negatives": ("Training time against negatives", FIXED, "negatives per triple", "µs per triple"),
    "train-dimension": (
        "Training time against dimension",
        f"batch {BATCH}, {NEGATIVES} negatives",
        "dimension",
        "µs per triple",
    ),
    "train-entities": (
        "Training time against entities",
        f"{FIXED}, {NEGATIVES} negatives",
        "entities",
        "µs per triple",
    ),
    "rank-entities": ("Ranking time against entities", f"dim {DIM}", "entities", "ms per ranked triple"),
    "server-ids": ("The server's update against aligned ids", "3 clients own every id, rows of 128", "ids", "ms"),
    "server-owners": (
        "The server's update against owners per id",
        "1,000 clients, 300,000 rows of 128 in all",
        "owners of each id",
        "ns per pair of owners",
    ),
    "sampling": (
        "What own and shared negatives learn",
        "FB15k-237-Fed3, PFedEG*, the paper's settings otherwise",
        "round",
        "validation MRR",
    ),
    "memory-entities": (
        "Peak memory of a process that trains and ranks",
        f"dim {DIM}; rows of RotatE and ComplEx are equally wide",
        "entities",
        "MB",
    ),
}
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "pfedeg",  # the same points give the same file
}
LINEAR = {"memory-entities": 0.0, "sampling": 0.7}  # not logarithmic: where the axis begins, of the greatest value
PER_PAIR = ("server-owners",)  # proportional growth is level there
APART = 0.058  # of the axis's height between two labels


def draw(points: Sequence["Point"], folder: Path, kind: str) -> None:
    """Every curve among the points, as folder/CURVE.kind."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    with pyplot.rc_context(STYLE):
        for curve in dict.fromkeys(point["curve"] for point in points):
            figure, axes = pyplot.subplots(figsize=(7.2, 4.2), layout="constrained")
            _draw_curve(axes, [point for point in points if point["curve"] == curve])
            _caption(axes, curve)
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(folder / f"{curve}.{kind}", dpi=110, metadata=metadata)
            pyplot.close(figure)


def _draw_curve(axes: Any, points: Sequence["Point"]) -> None:
    """One line per model and sampling; on log axes also a grey one as steep as proportional growth."""
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for point in points:
        lines.setdefault((point["model"], point["sampling"]), []).append((point["x"], point["y"]))
    both = len({sampling for _, sampling in lines}) > 1
    ends = []
    for (model, sampling), line in lines.items():
        x, y = zip(*sorted(line), strict=True)
        style = {"linestyle": DASHES[sampling], "marker": MARKS[sampling], "markersize": 4.5, "linewidth": 1.8}
        axes.plot(x, y, color=COLOURS[model], **style)
        ends.append((y[-1], LABELS[model] + (f", {sampling}" if both else ""), COLOURS[model]))
    xs, ys = sorted({point["x"] for point in points}), [point["y"] for point in points]
    if points[0]["curve"] in LINEAR:
        axes.set_xlim(0, 1.03 * xs[-1])
        axes.set_ylim(LINEAR[points[0]["curve"]] * max(ys), 1.1 * max(ys))
        axes.yaxis.set_major_formatter("{x:,.10g}")
    else:
        _logarithmic(axes, xs, 0.6 * min(ys), 1.4 * max(ys))
        if points[0]["curve"] not in PER_PAIR:
            _guide(axes, xs, 0.75 * min(point["y"] / point["x"] for point in points), 0.6 * min(ys))
    axes.set_xticks(xs, [f"{x:,}" for x in xs])
    _label_ends(axes, ends)


def _logarithmic(axes: Any, xs: Sequence[int], low: float, high: float) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_xlim(xs[0] / 1.1, xs[-1] * 1.1)
    ticks = [float(f"{step}e{power}") for power in range(-6, 8) for step in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    axes.minorticks_off()


def _guide(axes: Any, xs: Sequence[int], slope: float, low: float) -> None:
    """A line y = slope · x, below all others."""
    x = [max(xs[0], low / slope), xs[-1]]
    axes.plot(x, [slope * each for each in x], color="#9a9a9a", linewidth=1, linestyle=":", zorder=1)
    axes.text(1.015, 0.0, "··· proportional", transform=axes.transAxes, color="#707070", fontsize=9, va="bottom")


def _label_ends(axes: Any, ends: list[tuple[float, str, str]]) -> None:
    """Names right of the lines' last points, moved apart where they would overlap."""
    places: list[float] = []
    height = axes.transAxes.inverted()
    for y, text, colour in sorted(ends):
        place = float(height.transform(axes.transData.transform((1.0, y)))[1])
        place = max(place, places[-1] + APART) if places else place
        places.append(place)
        axes.text(1.015, place, text, color=colour, transform=axes.transAxes, va="center", fontsize=9.5)


def _caption(axes: Any, curve: str) -> None:
    title, fixed, x, y = TITLES[curve]
    axes.set_title(title, loc="left", fontweight="bold", fontsize=11.5, pad=22)
    axes.text(0, 1.03, fixed, transform=axes.transAxes, color="#606060", fontsize=9)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
