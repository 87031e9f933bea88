"""Figures of the client-wise relation graph: a heat map, the arrows that stand out, shares during training."""

from collections.abc import Mapping, Sequence
from math import ceil, cos, pi, sin
from typing import TYPE_CHECKING, Any

from pfedeg.experiments.report.figures import WIDTH, whole_numbers
from pfedeg.experiments.report.results import Entry
from pfedeg.plots import new_figure, short
from pfedeg.training.saved_run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Affinity = Mapping[str, Mapping[str, float]]  # learner → teacher → weight
Affinities = Sequence[tuple[int, Affinity]]  # by round
Arrow = tuple[str, str]  # learner, teacher

STANDS_OUT = 1.2  # times the mean of a learner's shares from others
NOTHING = 5e-4  # a smaller share of a client's own is shown as none
VISIBLE = 0.01  # a smaller change of a share is not drawn
MAX_LINES = 6  # clients; more lines are hard to distinguish
MAX_NUMBERS = 12  # clients, in a heat map with numbers


def affinities(run: Run) -> list[tuple[int, Affinity]]:
    """The relation graph of a run by round, up to the best round."""
    best = (run.result or {})["best_round"]
    return [(line["round"], line["affinity"]) for line in run.history if line.get("affinity") and line["round"] <= best]


def changes(graphs: Affinities) -> bool:
    """Whether a share changes visibly between the first and the last graph."""
    first, last = graphs[0][1], graphs[-1][1]
    return any(
        abs(share - first.get(learner, {}).get(teacher, 0.0)) >= VISIBLE
        for learner, row in last.items()
        for teacher, share in row.items()
    )


def standing_out(entry: Entry) -> set[Arrow]:
    """The shares that are clearly above the mean of the learner's shares, at the best round of every seed."""
    found = [_above_mean(graphs[-1][1]) for graphs in map(affinities, entry.runs) if graphs]
    return set.intersection(*found) if found else set()


def _above_mean(affinity: Affinity) -> set[Arrow]:
    found: set[Arrow] = set()
    for learner, row in affinity.items():
        others = {teacher: share for teacher, share in row.items() if teacher != learner}
        mean = sum(others.values()) / max(1, len(affinity) - 1)
        found |= {(learner, teacher) for teacher, share in others.items() if share >= STANDS_OUT * mean > 0}
    return found


def heat_map(affinity: Affinity, marked: set[Arrow]) -> "Figure":
    """A row for each learner and a column for each teacher, with shares in percent; marked ones are bold."""
    names = list(affinity)
    cell = 0.46 if len(names) <= MAX_NUMBERS else 0.24
    side, longest = max(2.6, cell * len(names)), max(map(len, names))
    figure, axes = new_figure((min(side + 1.4, 12.0), min(side + 1.2, 12.0)))
    values = [[affinity[learner].get(teacher, 0.0) for teacher in names] for learner in names]
    most = max(map(max, values)) or 1.0
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1.4 * most)  # the darkest blue would hide the numbers
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(len(names)), [short(name) for name in names], rotation=90 if longest > 3 else 0, fontsize=8)
    axes.set_yticks(range(len(names)), [short(name) for name in names], fontsize=8)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("learns from", fontsize=8, color="#666666")
    axes.set_ylabel("learner", fontsize=8, color="#666666")
    if len(names) <= MAX_NUMBERS:
        for y, learner in enumerate(names):
            for x, teacher in enumerate(names):
                text = f"{affinity[learner].get(teacher, 0.0):.0%}" if y != x or values[y][x] > NOTHING else "·"
                weight = "bold" if (learner, teacher) in marked else "normal"
                axes.text(x, y, text, ha="center", va="center", fontsize=8, weight=weight, color="#222222")
    return figure


def arrows(affinity: Affinity, shown: set[Arrow]) -> "Figure":
    """The clients in a circle, with an arrow from teacher to learner for each share that stands out."""
    from matplotlib.patches import FancyArrowPatch

    figure, axes = new_figure((4.2, 3.2))
    names = list(affinity)
    angle = {name: pi / 2 - 2 * pi * number / len(names) for number, name in enumerate(names)}
    point = {name: (cos(turn), sin(turn)) for name, turn in angle.items()}
    heaviest = max(affinity[learner][teacher] for learner, teacher in shown)
    for learner, teacher in sorted(shown):
        share = affinity[learner][teacher] / heaviest
        ends: Any = {"connectionstyle": "arc3,rad=0.14", "arrowstyle": "-|>", "mutation_scale": 12, "shrinkA": 9}
        style: Any = {"linewidth": 0.6 + 2.2 * share**2, "color": "#0072b2", "alpha": 0.3 + 0.6 * share, "shrinkB": 9}
        axes.add_patch(FancyArrowPatch(point[teacher], point[learner], **ends, **style))
    for name, (x, y) in point.items():
        axes.plot(x, y, "o", markersize=13, color="white", markeredgecolor="#333333")
        side = "left" if x > 0.2 else "right" if x < -0.2 else "center"
        height = "bottom" if y > 0.9 else "top" if y < -0.9 else "center"
        axes.text(1.18 * x, 1.18 * y, short(name), ha=side, va=height, fontsize=8)
    axes.set_xlim(-1.9, 1.9)
    axes.set_ylim(-1.45, 1.45)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def shares_by_round(graphs: Affinities) -> "Figure":
    """A plot for each learner, with a line for each client that it learns from."""
    names = list(graphs[-1][1])
    across = min(3, len(names))
    rows = ceil(len(names) / across)
    figure, all_axes = new_figure((WIDTH, 1.5 * rows + 0.6), len(names), across)
    colors = {teacher: f"C{number}" for number, teacher in enumerate(names)}
    for axes, learner in zip(all_axes, names, strict=True):
        for teacher in names:
            if teacher != learner:
                shares = [affinity[learner].get(teacher, 0.0) for _, affinity in graphs]
                axes.plot([number for number, _ in graphs], shares, color=colors[teacher], linewidth=1.4)
        axes.set_title(short(learner), fontsize=8)
        axes.set_ylim(0, None)
        axes.tick_params(labelsize=7)
        whole_numbers(axes, 4)
    lines = [all_axes[0].plot([], [], color=colors[name], label=short(name))[0] for name in names]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=8)
    for axes in all_axes[-across:]:
        axes.set_xlabel("round", fontsize=8)
    for axes in all_axes[::across]:
        axes.set_ylabel("share", fontsize=8)
    return figure
