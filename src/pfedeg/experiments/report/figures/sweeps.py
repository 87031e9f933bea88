"""A metric against the settings that vary between runs of one method."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pfedeg.experiments.report.figures import WIDTH, metric_axis
from pfedeg.experiments.report.results import Entry
from pfedeg.plots import escaped, new_figure, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 8  # times the smallest value, from which an axis is logarithmic
LETTERS = 60  # along an axis
MAX_VALUES = 8  # along an axis


def can_be_drawn(entries: Sequence[Entry]) -> bool:
    """Whether one or two settings vary, and with two the values form a grid of a readable size."""
    varied = entries[0].varied
    return 0 < len(varied) < 3 and all(len(_values(entries, name)) <= MAX_VALUES for name in varied)


def against_settings(entries: Sequence[Entry]) -> "Figure":
    """Points with values for one varied setting; a heat map with numbers for two."""
    varied = entries[0].varied
    return _points(entries, varied[0]) if len(varied) == 1 else _grid(entries, *varied)


def _values(entries: Sequence[Entry], name: str) -> list[Any]:
    """The values of a setting, in the order of the entries."""
    found = list(dict.fromkeys(entry.setting_text(name) for entry in entries))
    return sorted(found, key=float) if all(_is_number(text) for text in found) else found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _points(entries: Sequence[Entry], name: str) -> "Figure":
    """Validation and test MRR, with a line from the lowest to the highest seed."""
    figure, axes = new_figure((WIDTH, 3.0))
    texts = _values(entries, name)
    numeric = all(map(_is_number, texts))
    places = [float(text) for text in texts] if numeric else [float(at) for at in range(len(texts))]
    at = dict(zip(texts, places, strict=True))
    for split, label, marker, color in (("valid", "validation", "o", "#0072b2"), ("test", "test", "s", "#d55e00")):
        points = [(at[entry.setting_text(name)], entry.values("mrr", split)) for entry in entries]
        known = sorted((x, sum(values) / len(values), values) for x, values in points if values)
        axes.plot(
            [x for x, _, _ in known], [y for _, y, _ in known],
            linestyle="-" if numeric else "none", color=color, linewidth=1, marker=marker, markersize=4, label=label,
        )  # fmt: skip
        for x, y, values in known:
            axes.plot([x, x], [min(values), max(values)], color=color, linewidth=1)
            above = split == "valid"
            offset, height = (0, 5 if above else -5), "bottom" if above else "top"
            axes.annotate(
                f"{y:.4f}", (x, y), offset, textcoords="offset points", ha="center", va=height, fontsize=8, color=color
            )
    if numeric and places[0] > 0 and places[-1] >= WIDE * places[0]:
        axes.set_xscale("log")
    letters = LETTERS // len(texts)
    axes.set_xticks(places, [escaped(text if len(text) <= letters else text[: letters - 1] + "…") for text in texts])
    axes.minorticks_off()
    if numeric:
        axes.margins(x=0.12)
    else:
        axes.set_xlim(-0.6, len(texts) - 0.4)
    metric_axis(
        axes, max(value for entry in entries for split in ("valid", "test") for value in entry.values("mrr", split))
    )
    axes.set_xlabel(escaped(name))
    axes.set_ylabel("MRR")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _grid(entries: Sequence[Entry], row: str, column: str) -> "Figure":
    """Validation MRR for all pairs of values; the best is bold."""
    rows, columns = _values(entries, row), _values(entries, column)
    figure, axes = new_figure((min(1.6 + 0.75 * len(columns), 8.0), 0.9 + 0.4 * len(rows)))
    found = {(entry.setting_text(row), entry.setting_text(column)): entry.mean("mrr", "valid") for entry in entries}
    known = [value for value in found.values() if value is not None]
    values = [[found.get((y, x)) for x in columns] for y in rows]
    most = max(known, default=0.0) or 1.0
    shaded = [[float("nan") if value is None else value for value in line] for line in values]
    axes.imshow(shaded, cmap="Blues", vmin=0, vmax=1.8 * most, aspect="auto")
    axes.grid(False)
    axes.tick_params(length=0)
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            if value is not None:
                weight = "bold" if value == most else "normal"
                axes.text(x, y, f"{value:.4f}", ha="center", va="center", fontsize=8, weight=weight)
    axes.set_xticks(range(len(columns)), [short(text) for text in columns])
    axes.set_yticks(range(len(rows)), [short(text) for text in rows])
    axes.set_xlabel(escaped(column))
    axes.set_ylabel(escaped(row))
    return figure
