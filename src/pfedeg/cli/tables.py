"""Terminal output: progress bars, tables and curves."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from pfedeg.text import duration, printable
from pfedeg.training.evaluation import HITS
from pfedeg.training.progress import LINE_SECONDS, RoundNotes
from pfedeg.training.rounds import Round
from pfedeg.training.run_loop import RunLoop

COLUMNS = ("mrr", *(f"hits@{k}" for k in HITS))

Show = Callable[[float, str, bool], None]


@contextmanager
def progress_bar(console: Console, label: str, total: float | None, every: float = LINE_SECONDS) -> Iterator[Show]:
    """Show progress. Call the result with the amount done, a note, and whether the note is important.

    A terminal shows a bar. Elsewhere, important notes are printed as lines, others every few seconds.
    """
    shown = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[note]}")
    printed = time.monotonic()
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(printable(label), total=total, note="")

        def show(done: float, note: str, important: bool = False) -> None:
            nonlocal printed
            progress.update(task, completed=done, note=printable(note))
            now = time.monotonic()
            if not console.is_terminal and (important or now - printed > every):
                print_line(console, f"{label}: {note}")
                printed = now

        yield show


def print_line(console: Console, text: str) -> None:
    """Print a line, above any progress bar."""
    console.print(printable(text), highlight=False, soft_wrap=True)


def time_left(began: float, done: float, total: float | None) -> str:
    """The estimated time left, to append to a note."""
    if not total or not 0 < done < total:
        return ""
    return f", {duration((time.monotonic() - began) / done * (total - done))} left"


def rounds_with_progress(training: RunLoop, console: Console, label: str) -> Iterator[Round]:
    """Train and show progress, yielding every round."""
    total, before, notes = training.config.rounds, training.rounds_done, RoundNotes(training)
    if before and training.result is None:
        print_line(console, f"{label}: resuming after round {before}")
    with progress_bar(console, label, total) as show:
        show(before, "first round", False)
        for done in training:
            show(done.number, notes.describe(done), done.metrics is not None)
            yield done


def metrics_table(title: str, groups: Mapping[str, Mapping[str, Any]]) -> Table:
    """MRR and Hits per client and weighted, by group (a method or a split). A single group may be unnamed."""
    table = Table(title=title, title_justify="left", title_style="bold")
    named = any(groups)
    if named:
        table.add_column("")
    table.add_column("client")
    for name in (*("MRR" if name == "mrr" else name.capitalize() for name in COLUMNS), "triples"):
        table.add_column(name, justify="right")
    for group, summary in groups.items():
        clients, label = summary["clients"], [group] if named else []
        for client, values in clients.items():
            table.add_row(*label, Text(printable(client)), *_cells(values), f"{values['triples']:,}")
            label = [""] if named else []
        triples = sum(values["triples"] for values in clients.values())
        table.add_row(*label, "weighted", *_cells(summary["weighted"]), f"{triples:,}", style="bold", end_section=True)
    return table


def comparison_table(title: str, results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Weighted test metrics of several methods, with the best of each column highlighted."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("method")
    for name in COLUMNS:
        table.add_column("MRR" if name == "mrr" else name.capitalize(), justify="right")
    best = {name: max(result["test"]["weighted"][name] or 0 for result in results.values()) for name in COLUMNS}
    for method, result in results.items():
        values = result["test"]["weighted"]
        cells = [Text(f"{values[name]:.4f}", "bold green" if values[name] == best[name] else "") for name in COLUMNS]
        table.add_row(method, *cells)
    return table


def affinity_table(affinity: Mapping[str, Mapping[str, float]]) -> Table:
    """The client-wise relation graph: a row per learner, in percent; with many clients only the largest shares."""
    table = Table(
        title="Client-wise relation graph: who learns how much from whom", title_justify="left", title_style="bold"
    )
    table.add_column("learner")
    if len(affinity) > 10:
        table.add_column("learns most from")
        for learner, shares in list(affinity.items())[:30]:
            most = sorted(shares.items(), key=lambda item: -item[1])[:5]
            table.add_row(Text(printable(learner)), Text(", ".join(f"{printable(n)} {s:.0%}" for n, s in most)))
        if len(affinity) > 30:
            table.add_row("…", f"and {len(affinity) - 30} more clients; all are in history.jsonl")
        return table
    others = list(dict.fromkeys(name for shares in affinity.values() for name in shares))
    for name in others:
        table.add_column(printable(name), justify="right")
    for learner, shares in affinity.items():
        cells = [Text(f"{shares.get(name, 0):.0%}", _shade(shares.get(name, 0))) for name in others]
        table.add_row(Text(printable(learner)), *cells)
    return table


def predictions_table(predictions: Sequence[Any]) -> Table:
    """Answers with rank and score, and the split of known ones."""
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column("answer")
    table.add_column("score", justify="right")
    likely = any(prediction.probability is not None for prediction in predictions)
    if likely:
        table.add_column("probability", justify="right")
    mark = any(prediction.known for prediction in predictions)
    if mark:
        table.add_column("known")
    for prediction in predictions:
        known = [prediction.known or ""] if mark else []
        chance = [chance_text(prediction.probability, prediction.cases)] if likely else []
        name = f"{prediction.label} ({prediction.entity})" if prediction.label else prediction.entity
        table.add_row(str(prediction.rank), Text(printable(name)), f"{prediction.score:.3f}", *chance, *known)
    return table


def chance_text(probability: float | None, cases: int | None) -> str:
    """A probability with the number of answers that it rests on; never 0 or 1."""
    if probability is None:
        return ""
    text = "<0.01" if probability < 0.005 else ">0.99" if probability >= 0.995 else f"{probability:.2f}"
    return f"{text} (n = {cases:,})" if cases else text


def curve(points: Sequence[tuple[int, float]], width: int = 60, height: int = 8) -> str:
    """A plot of values over rounds, made of characters."""
    if len(points) < 2:
        return ""
    (first, _), (last, _) = points[0], points[-1]
    low, high = min(value for _, value in points), max(value for _, value in points)
    canvas = [[" "] * width for _ in range(height)]
    for number, value in points:
        column = round((number - first) / (last - first) * (width - 1))
        row = round((high - value) / ((high - low) or 1) * (height - 1))
        canvas[row][column] = "•"
    labels = {0: f"{high:.4f}", height - 1: f"{low:.4f}"}
    lines = [f"{labels.get(i, ''):>8} ┤{''.join(row).rstrip()}" for i, row in enumerate(canvas)]
    axis = f"{'':9}└{'─' * width}"
    scale = f"{'':10}{first}{last:>{width - len(str(first))}}"
    return "\n".join([*lines, axis, scale])


def _cells(values: Mapping[str, float | None]) -> list[str]:
    return ["–" if values[name] is None else f"{values[name]:.4f}" for name in COLUMNS]


def _shade(share: float) -> str:
    return "bold green" if share >= 0.5 else "green" if share >= 0.25 else "" if share >= 0.05 else "dim"
