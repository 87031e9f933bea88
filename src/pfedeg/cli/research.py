"""Commands for research: a grid of runs, a choice of settings, a report on what came out."""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedeg.cli.options import CONTEXT, Settings, console, json_option, say, threads_option
from pfedeg.errors import InputError, RunError
from pfedeg.text import plural, printable

if TYPE_CHECKING:
    from pfedeg.experiments.grid import Grid
    from pfedeg.experiments.plan import Cell

LINE_SECONDS = 60.0  # between lines about a grid, which takes hours
MOST_MINUTES = 100_000


@click.command(context_settings=CONTEXT)
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--data", type=click.Path(path_type=Path), required=True, help="folder with NAME.parquet for each dataset"
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="folder for the runs; what is done is kept")
@click.option("--only", multiple=True, metavar="AXIS=VALUE,…", help="only such cells, e.g. model=transe,rotate")
@click.option("--retry", is_flag=True, help="also run cells again that have failed")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, metavar="N", help="cells side by side  [1]")
@click.option("--list", "listed", is_flag=True, help="show the cells and how they stand, and run nothing")
@threads_option
@json_option
def experiment(
    plan: Path,
    data: Path,
    out: Path,
    only: tuple[str, ...],
    retry: bool,
    jobs: int,
    listed: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Run the grid of a PLAN: datasets × models × methods × seeds × settings, each cell a run directory of its own.

    Stopped at any point, the same command goes on. A cell that fails is told, and does not keep others from running.

    \b
    Examples:
      pfedeg experiment plans/paper-tables.toml --data data --out runs/paper --only model=transe,rotate
      pfedeg experiment plans/paper-tables.toml --data data --out runs/paper --list
    """
    from pfedeg.experiments.grid import Grid
    from pfedeg.experiments.plan import Plan, read_only
    from pfedeg.text import duration

    grid = Grid(Plan.read(plan), data, out)
    wanted = read_only(only, grid.plan)
    cells = [cell for cell in grid.plan.cells if cell.fits(wanted)]
    for note in grid.plan.remarks:
        say(note)
    if not cells:
        raise InputError(f"--only {' '.join(only)}: no cell of {plan} is such")
    if not listed:
        left = grid.left(wanted, retry)
        threads = threads or (max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else None)
        ahead = f", at most about {duration(grid.seconds_left(left) / jobs)}" if left else ""
        say(f"{grid.plan.title}: {plural(len(cells), 'cell')}, {len(left)} to run{ahead}")
        _run(grid, left, jobs, threads)
    states = {cell.name: grid.state(cell) for cell in cells}
    if as_json:
        click.echo(json.dumps({"cells": states, "mrr": {c.name: grid.mrr(c) for c in cells}}, ensure_ascii=False))
    else:
        for cell in cells:
            reason = f": {grid.reason(cell)}" if grid.reason(cell) else ""
            click.echo(printable(f"{states[cell.name]:7} {grid.mrr(cell):>6} {cell.name}{reason}"))
    if listed:
        return
    failed, others = (plural(list(states.values()).count(state), "cell") for state in ("failed", "other"))
    if "failed" in states.values():
        raise RunError(f"{failed} failed; run them again with --retry")
    if "other" in states.values():
        raise RunError(f"{others} left alone, run with other settings: take another --out, or remove their folders")


def _run(grid: "Grid", left: "list[Cell]", jobs: int, threads: int | None) -> None:
    """Run cells, and show how far they have come."""
    from pfedeg.cli.tables import meter, remark
    from pfedeg.text import duration

    began, ended, screen = time.monotonic(), 0, console(stderr=True)
    with meter(screen, plural(len(left), "cell"), len(left), LINE_SECONDS) as show:
        for cell, state in grid.run(left, jobs, threads, lambda text: remark(screen, text)):
            rest = [other for other in left if grid.state(other) in ("open", "begun")]
            ahead = duration(grid.seconds_left(rest) / jobs)
            pace = f"{duration(time.monotonic() - began)} so far, at most about {ahead} left"
            if state == "running":
                show(ended, f"{ended} ended; {cell.name} at {grid.progress(cell)}; {pace}", False)
                continue
            ended += 1
            note = grid.mrr(cell) if state == "done" else grid.reason(cell)
            remark(screen, f"{ended}/{len(left)} {cell.name}: {state}, {note}; {pace}")


@click.command(cls=Settings, context_settings=CONTEXT)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--over", multiple=True, metavar="NAME=VALUE,…", help="what to choose from  [the paper's β and p]")
@click.option("--minutes", type=click.FloatRange(0.01), default=30.0, metavar="N", help="time to spend  [30]")
@click.option("--choices", type=click.Path(path_type=Path), help="a TOML file to add the choice to, for plans")
@click.option("--preset", metavar="NAME", help="settings to start from: paper (default) or quick")
@threads_option
@json_option
def tune(
    path: Path,
    over: tuple[str, ...],
    minutes: float,
    choices: Path | None,
    preset: str | None,
    threads: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Choose settings for the federation at PATH by validation MRR: of many short runs, the better half goes on.

    \b
    Example:
      pfedeg tune data/nell-995-fed3.parquet --method pfedeg-plus --minutes 20 --choices plans/choices.toml
    """
    from pfedeg.cli.tables import meter, remark
    from pfedeg.experiments.tuning import (
        check_choices,
        describe,
        halve,
        papers_candidates,
        read_candidates,
        write_choice,
    )
    from pfedeg.graphs.federation import Federation
    from pfedeg.text import duration
    from pfedeg.training.config import configure

    if not minutes < MOST_MINUTES:  # nor is it not a number
        raise InputError(f"--minutes {minutes}: expected less than {MOST_MINUTES:,} (ten weeks)")
    if choices is not None:
        check_choices(choices)
    config = configure(flags, preset)[0]
    federation = Federation.read(path, config.seed)
    name = path.stem if path.suffix == ".parquet" else path.resolve().name
    candidates = read_candidates(over, config.method) or papers_candidates(name, config)
    if not candidates:
        raise InputError(f"{config.method} has neither beta nor p to choose; name settings by --over")
    began, budget, out = time.monotonic(), 60 * minutes, console(stderr=True)
    runs: list[Any] = []

    def spent() -> str:
        return f"{duration(time.monotonic() - began)} of {duration(budget)}"

    with meter(out, "tuning", budget) as show:

        def tell(note: str) -> None:
            show(time.monotonic() - began, f"{note}; {spent()}", False)

        for rounds, runs in halve(
            federation, config, candidates, budget, threads, tell, lambda text: remark(out, text)
        ):
            best = f"best so far {describe(runs[0].chosen)}, valid MRR {runs[0].best:.4f}"
            remark(out, f"round {rounds}: {best}; {spent()}")
    chosen, evidence = dict(runs[0].chosen), [run.evidence() for run in runs]
    try:
        if choices is not None:
            write_choice(choices, {"data": name, "model": config.model, "method": config.method}, chosen, evidence)
            say(f"added to {choices}")
    finally:  # it took long to find out
        if as_json:
            click.echo(json.dumps({"chosen": chosen, "evidence": evidence}))
        else:
            for entry in evidence:
                click.echo(", ".join(f"{key} {value}" for key, value in entry.items()))


@click.command(context_settings=CONTEXT)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="the file to write; for png a folder")
@click.option("--paper", type=click.Path(path_type=Path), metavar="CSV", help="reported results to compare with")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md", "csv", "png"]),
    help="a page, text, a line per run and client, or pictures  [by --out]",
)
@click.option("--title", default="Results", metavar="TEXT", help="the heading  [Results]")
@click.option("--quick", is_flag=True, help="leave out significance, for which all test triples are ranked again")
def report(folder: Path, out: Path, paper: Path | None, kind: str | None, title: str, quick: bool) -> None:
    """Write a report on all finished runs below DIR: tables, significance, curves, who learns from whom.

    Reported results are a CSV file with the columns dataset, model, method, mrr, hits@1, hits@5, hits@10.

    \b
    Examples:
      pfedeg report runs/demo --out report.html
      pfedeg report runs/paper-tables --paper paper-results.csv --out report.html
      pfedeg report runs/paper-tables --format png --out pictures
    """
    from pfedeg.experiments.report import write

    click.echo(f"wrote {write(folder, out, paper, kind, title, quick, say)}")
