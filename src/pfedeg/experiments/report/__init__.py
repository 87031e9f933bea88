"""Reports on a folder of runs: metrics, published results, significance, curves, relation graphs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.experiments.report import page, render
from pfedeg.experiments.report.latex import latex
from pfedeg.experiments.report.results import Results
from pfedeg.experiments.report.sections import build_sections
from pfedeg.experiments.report.significance import PairedTests, paired_tests
from pfedeg.extras import require
from pfedeg.files import check_output, write_bytes
from pfedeg.text import plural
from pfedeg.training.progress import ProgressLine


def write(
    folder: Path,
    out: Path,
    published: Path | None = None,
    kind: str | None = None,
    title: str = "Results",
    quick: bool = False,
    notify: Callable[[str], None] = lambda text: None,
    force: bool = False,
) -> str:
    """Write a report on the runs below a folder, by default in the format of `out`'s extension.

    Returns a line for the user. `force` replaces an earlier report.
    """
    kind = kind or (out.suffix.lstrip(".").lower() if out.suffix else "png")
    _check_target(out, kind, force)
    results = Results.read(folder, published)
    for reason in results.damaged:
        notify(f"skipped: {reason}")
    for line in results.missing:
        notify(line)
    runs = plural(sum(len(entry.runs) for entry in results.entries), "run")
    if kind == "csv":
        write_bytes(out, results.table().to_csv().encode())
        return f"{out}: {runs}"
    tests = {}
    if kind != "png":
        skipped = PairedTests(missing=["skipped with --quick"])
        several = [setup for setup in results.setups if len(results.at(setup)) > 1]
        tests = {setup: skipped if quick else paired_tests(results.at(setup), notify) for setup in several}
    sections = build_sections(results, tests)
    if kind == "png":
        return f"{out}: {plural(render.pictures(out, sections, notify, force), 'figure')}"
    subtitle = _subtitle(results, folder)
    if kind == "html":
        text = page.page(title, subtitle, sections, notify)
    else:
        text = (latex if kind == "tex" else render.markdown)(title, subtitle, sections)
    write_bytes(out, text.encode())
    return f"{out}: {runs}"


def report(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    published: str | Path | None = None,
    format: str | None = None,
    title: str = "Results",
    quick: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Results:
    """The finished runs in a `folder` and its subfolders, grouped for comparison; `table()` has them all.

    With `out`, a report is written, too: in the `format` html, md, csv, tex or png (default: from the extension), with
    this `title`, compared with results in the CSV file `published`. `quick` skips significance tests, `force` replaces
    an existing report, and `progress` shows on stderr what is done.
    """
    if not isinstance(folder, str | Path):
        raise InputError(f"expected a folder of runs, not a {type(folder).__name__}")
    found = Path(published) if published is not None else None
    line = ProgressLine("report")
    notify: Callable[[str], None] = (lambda text: line.show(text, True)) if progress else lambda text: None
    if out is not None:
        try:
            write(Path(folder), Path(out), found, format, title, quick, notify, force)
        finally:
            line.clear()
    return Results.read(Path(folder), found)


def _check_target(out: Path, kind: str, force: bool) -> None:
    """Check before long work that the report can be written."""
    if kind not in render.FORMATS:
        raise InputError(f"{out}: unknown format {kind!r}; expected one of {', '.join(render.FORMATS)}")
    if kind in ("html", "png"):
        require("plot", f"--format {kind}", "--format md, csv and tex work without it")
    check_output(out, force, render.FIGURES if kind == "png" else ())
    if kind != "png" and not out.parent.is_dir():
        raise InputError(f"{out}: no such folder: {out.parent}")


def _subtitle(results: Results, folder: Path) -> str:
    runs = plural(sum(len(entry.runs) for entry in results.entries), "finished run")
    left_out: dict[str, Sequence[object]] = {
        "not finished": results.unfinished,
        "damaged": results.damaged,
        "repeated": results.duplicates,
    }
    listed = ", ".join(f"{len(found)} {reason}" for reason, found in left_out.items() if found)
    return f"{runs} in {folder.resolve().name}{f'; skipped: {listed}' if listed else ''}"
