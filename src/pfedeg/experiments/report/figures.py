"""The figures of a report: curves, the client-wise relation graph, gains. Needs matplotlib."""

from collections.abc import Mapping, Sequence
from math import ceil, cos, pi, sin
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pfedeg.experiments.report.parts import ReportMethod
from pfedeg.experiments.report.results import Entry, Setup
from pfedeg.plots import new_figure, short
from pfedeg.training.saved_run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Affinity = Mapping[str, Mapping[str, float]]  # learner → teacher → weight
Affinities = Sequence[tuple[int, Affinity]]  # by round

SIZE = (5.0, 3.4)
LETTER = 0.075  # inches per letter of a tick label
MAX_LINES = 6  # more are hard to distinguish


def file_name(kind: str, setup: Setup, method: ReportMethod | None = None) -> str:
    """The name of a figure's file, without its extension."""
    parts = [kind, setup.data, setup.model.identifier, setup.scale, method.identifier if method else ""]
    return "-".join(filter(None, parts))


def evaluated(run: Run) -> list[tuple[int, float]]:
    """Round and validation MRR."""
    found = [(line["round"], line.get("valid", {}).get("weighted", {}).get("mrr")) for line in run.history]
    return [(number, mrr) for number, mrr in found if mrr is not None]


def convergence(entries: Sequence[Entry]) -> "Figure":
    """Validation MRR of methods by epoch; by round if all federated methods have the same epochs per round."""
    figure, axes = new_figure(SIZE)
    epochs = {entry.label: entry.settings.get("epochs", 1) for entry in entries}
    federated = {epochs[entry.label] for entry in entries if entry.method.trains == "federated"}
    unit = federated.pop() if len(federated) == 1 else 1
    for entry in entries:
        _curves(axes, entry, epochs[entry.label] / unit, entry.label, entry.method.color)
    axes.set_xlabel("epochs" if unit == 1 else f"rounds of {unit} epochs")
    axes.set_ylabel("validation MRR")
    axes.legend(loc="best", fontsize=8)
    return figure


def settings_compared(entries: Sequence[Entry]) -> "Figure":
    """Validation MRR of one method with several settings."""
    from matplotlib import colormaps

    figure, axes = new_figure(SIZE)
    shades = colormaps["viridis"]
    for at, entry in enumerate(entries):
        _curves(axes, entry, 1.0, entry.variant, shades(0.9 * at / max(1, len(entries) - 1)))
    axes.set_xlabel("round")
    axes.set_ylabel("validation MRR")
    axes.legend(loc="best", fontsize=8)
    return figure


def _curves(axes: "Axes", entry: Entry, unit: float, label: str, color: Any) -> None:
    """A line for every seed, with a dot at the best round; one label for all seeds."""
    width = 1.4 if len(entry.runs) == 1 else 0.8
    for run, result in zip(entry.runs, entry.results, strict=True):
        points = [(number * unit, mrr, number == result["best_round"]) for number, mrr in evaluated(run)]
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], label=label, color=color, linewidth=width)
        for x, y, _ in filter(itemgetter(2), points):
            axes.plot(x, y, "o", color=color, markersize=4)
        label = "_"  # not in the legend


def affinities(entry: Entry) -> list[tuple[int, Affinity]]:
    """The client-wise relation graph of the first seed by round, up to the best round."""
    best = entry.results[0]["best_round"]
    return [
        (line["round"], line["affinity"])
        for line in entry.runs[0].history
        if line.get("affinity") and line["round"] <= best
    ]


def changes(graphs: Affinities) -> bool:
    """Whether the relation graph changes during training."""
    return any(affinity != graphs[0][1] for _, affinity in graphs)


def relation_graph(graphs: Affinities) -> "Figure":
    """The relation graph at the start, in the middle and at the end; the width of an arrow is its weight."""
    shown = list(dict.fromkeys((0, len(graphs) // 2, len(graphs) - 1))) if changes(graphs) else [len(graphs) - 1]
    figure, all_axes = new_figure((3.4 * len(shown), 2.9), len(shown))
    heaviest = max(weight for at in shown for _, _, weight in _arrows(graphs[at][1]))
    for axes, at in zip(all_axes, shown, strict=True):
        number, affinity = graphs[at]
        _draw_graph(axes, affinity, heaviest)
        if len(shown) > 1:
            axes.set_title(f"round {number}", fontsize=9)
    return figure


def _arrows(affinity: Affinity) -> list[tuple[str, str, float]]:
    """Teacher, learner and weight, lightest first; among many clients only each learner's three largest."""
    found = []
    for learner, row in affinity.items():
        others = sorted((weight, teacher) for teacher, weight in row.items() if teacher != learner)
        largest = others if len(affinity) <= MAX_LINES else others[-3:]
        found += [(teacher, learner, weight) for weight, teacher in largest]
    return sorted(found, key=lambda arrow: arrow[2])


def _draw_graph(axes: "Axes", affinity: Affinity, heaviest: float) -> None:
    from matplotlib.patches import FancyArrowPatch

    names = list(affinity)
    angle = {name: pi / 2 - 2 * pi * number / len(names) for number, name in enumerate(names)}
    point = {name: (cos(turn), sin(turn)) for name, turn in angle.items()}
    for teacher, learner, weight in _arrows(affinity):
        share = weight / heaviest if heaviest else 0.0
        axes.add_patch(
            FancyArrowPatch(
                point[teacher],
                point[learner],
                connectionstyle="arc3,rad=0.14",
                arrowstyle="-|>",
                mutation_scale=4 + 8 * share,
                linewidth=0.3 + 3.2 * share**2,
                color="#0072b2",
                alpha=0.08 + 0.8 * share**3,
                shrinkA=9,
                shrinkB=9,
            )
        )
    for name in names:
        x, y = point[name]
        axes.plot(x, y, "o", markersize=13, color="white", markeredgecolor="#333333")
        side = "left" if x > 0.2 else "right" if x < -0.2 else "center"
        height = "bottom" if y > 0.9 else "top" if y < -0.9 else "center"
        axes.text(1.18 * x, 1.18 * y, short(name), ha=side, va=height, fontsize=8)
    axes.set_xlim(-1.75, 1.75)
    axes.set_ylim(-1.35, 1.35)
    axes.set_aspect("equal")
    axes.axis("off")


def shares_by_round(graphs: Affinities) -> "Figure":
    """Each learner's shares by round; with many clients, heat maps of the first and last graph."""
    names = list(graphs[-1][1])
    if len(names) > MAX_LINES:
        return _heat_maps([graphs[0], graphs[-1]])
    across = min(3, len(names))
    figure, all_axes = new_figure((2.6 * across, 2.1 * ceil(len(names) / across) + 0.4), len(names), across)
    colors = {teacher: f"C{number}" for number, teacher in enumerate(names)}
    for axes, learner in zip(all_axes, names, strict=True):
        for teacher in names:
            if teacher != learner:
                shares = [affinity[learner].get(teacher, 0.0) for _, affinity in graphs]
                axes.plot([number for number, _ in graphs], shares, color=colors[teacher], linewidth=1.4)
        axes.set_title(f"{short(learner)} learns from", fontsize=8)
    lines = [all_axes[0].plot([], [], color=colors[name], label=short(name))[0] for name in names]
    figure.legend(handles=lines, loc="outside upper center", ncols=min(6, len(names)), fontsize=8)
    figure.supxlabel("round", fontsize=8)
    figure.supylabel("share", fontsize=8)
    return figure


def _heat_maps(shown: Affinities) -> "Figure":
    names = list(shown[-1][1])
    figure, all_axes = new_figure((3.9 * len(shown) + 1, 4.2), len(shown))
    most = max(weight for _, affinity in shown for row in affinity.values() for weight in row.values())
    for axes, (number, affinity) in zip(all_axes, shown, strict=True):
        values = [[affinity[learner].get(teacher, 0.0) for teacher in names] for learner in names]
        image = axes.imshow(values, cmap="Blues", vmin=0, vmax=most)
        axes.grid(False)
        axes.set_xlabel("teacher", fontsize=8)
        axes.set_title(f"round {number}", fontsize=9)
        if len(names) <= 30:
            axes.set_xticks(range(len(names)), [short(name) for name in names], rotation=90, fontsize=7)
            axes.set_yticks(range(len(names)), [short(name) for name in names], fontsize=7)
    all_axes[0].set_ylabel("learner", fontsize=8)
    figure.colorbar(image, ax=all_axes, fraction=0.03, label="share")
    return figure


def gains(names: Sequence[str], alone: Entry, entries: Sequence[Entry]) -> "Figure":
    """The difference in test MRR to training alone, for every client and method."""
    inches = max(5.0, min(12.0, 0.16 * len(names) * (len(entries) + 1)))
    figure, axes = new_figure((inches, 3.4))
    width = 0.8 / len(entries)
    for at, entry in enumerate(entries):
        heights = [(entry.mean("mrr", client=name) or 0.0) - (alone.mean("mrr", client=name) or 0.0) for name in names]
        offsets = [x + (at - (len(entries) - 1) / 2) * width for x in range(len(names))]
        axes.bar(offsets, heights, width, label=entry.method.label, color=entry.method.color)
    axes.axhline(0, color="#333333", linewidth=0.8)
    axes.grid(False, axis="x")
    axes.set_ylabel(f"test MRR, difference to {alone.method.label}")
    crowded = LETTER * max(len(short(name)) for name in names) > 0.8 * inches / len(names)
    axes.set_xticks(range(len(names)), [short(name) for name in names], rotation=90 if crowded else 0, fontsize=8)
    axes.legend(fontsize=8, ncols=min(3, len(entries)), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
