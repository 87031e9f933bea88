"""What a folder of runs says: beside the paper's numbers, with significance, curves and the relation graph."""

from collections.abc import Callable
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.experiments.report import render
from pfedeg.experiments.report.content import Differences, sections
from pfedeg.experiments.report.results import Results
from pfedeg.experiments.report.significance import Findings, differences
from pfedeg.files import write_bytes
from pfedeg.plots import need_matplotlib
from pfedeg.text import plural


def write(
    folder: Path,
    out: Path,
    paper: Path | None = None,
    kind: str | None = None,
    title: str = "Results",
    quick: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> str:
    """Write a report on the runs below a folder, by default as what `out` ends with; returns what was written."""
    kind = kind or (out.suffix.lstrip(".").lower() if out.suffix else "png")
    if kind not in render.FORMATS:
        raise InputError(f"{out}: unknown kind of report {kind!r}; expected one of {', '.join(render.FORMATS)}")
    if kind in ("html", "png"):
        need_matplotlib(f"--format {kind}", "--format md and csv do without")
    if kind != "png" and not out.parent.is_dir():
        raise InputError(f"{out}: the folder {out.parent} is not there")
    if kind != "png" and out.is_dir():
        raise InputError(f"{out}: is a folder; expected a file for --format {kind}")
    if kind == "png":
        render.check_folder(out)
    results = Results.read(folder, paper)
    for damage in results.damaged:
        tell(f"left out: {damage}")
    many = sum(len(entry.runs) for entry in results.entries)
    if kind == "csv":
        write_bytes(out, render.numbers(results).encode())
        return f"{out}: {plural(many, 'run')}"
    found: Differences = {}
    if kind != "png":
        several = [place for place in results.places if len(results.at(place)) > 1]
        left_out = Findings(missing=["--quick leaves it out"])
        found = {place: left_out if quick else differences(results.at(place), tell) for place in several}
    made = sections(results, found)
    if kind == "png":
        return f"{out}: {plural(render.pictures(out, made, tell), 'picture')}"
    without = {"not finished": len(results.unfinished), "damaged": len(results.damaged), "repeated": len(results.same)}
    more = ", ".join(f"{number} {why}" for why, number in without.items() if number)
    subtitle = f"{plural(many, 'finished run')} in {folder.resolve().name}{f'; left out: {more}' if more else ''}"
    text = render.page(title, subtitle, made, tell) if kind == "html" else render.markdown(title, subtitle, made)
    write_bytes(out, text.encode())
    return f"{out}: {plural(many, 'run')}"
