"""Commands for research: experiment (grids of runs), tune, report."""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedeg.cli.options import (
    CONTEXT,
    SettingsCommand,
    console,
    force_option,
    json_option,
    preset_option,
    print_note,
    threads_option,
)
from pfedeg.errors import InputError, RunError
from pfedeg.text import plural, printable

if TYPE_CHECKING:
    from pfedeg.experiments.experiment import Experiment
    from pfedeg.experiments.plan import PlannedRun

PROGRESS_SECONDS = 60.0  # between lines of progress without a terminal


@click.command(context_settings=CONTEXT)
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path(),
    help="folder where the plan's data are: NAME.parquet, NAME/ or a path",
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="folder for the runs; finished runs are kept"
)
@click.option("--only", multiple=True, metavar="AXIS=VALUE,…", help="only these runs, e.g. model=transe,rotate")
@click.option("--retry", is_flag=True, help="also repeat failed runs")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, metavar="N", help="runs in parallel")
@click.option("--list", "listed", is_flag=True, help="only list the runs and their states")
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
    """Make all runs of a PLAN.

    A plan combines datasets, models, methods, seeds and settings; each run has its own folder. After an interruption,
    repeat the command to continue. A failed run is reported with its error message and does not affect the others.

    \b
    Examples:
      pfedeg experiment plans/paper-tables.toml --data data --out runs/paper --only model=transe,rotate
      pfedeg experiment plans/paper-tables.toml --data data --out runs/paper --list
    """
    from pfedeg.experiments.experiment import Experiment
    from pfedeg.experiments.plan import Plan, read_only
    from pfedeg.text import duration

    made = Experiment(Plan.read(plan), data, out)
    filters = read_only(only, made.plan)
    runs = [run for run in made.plan.runs if run.matches(filters)]
    for text in made.plan.remarks:
        print_note(text)
    if not runs:
        raise InputError(f"--only {' '.join(only)}: no run of {plan} matches")
    if not listed:
        remaining = made.remaining(filters, retry)
        threads = threads or (max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else None)
        limit = f", at most about {duration(made.seconds_left(remaining) / jobs)}" if remaining else ""
        print_note(f"{made.plan.title}: {plural(len(runs), 'run')}, {len(remaining)} to make{limit}")
        _make(made, remaining, jobs, threads)
    states = {run.name: made.state(run) for run in runs}
    if as_json:
        click.echo(json.dumps({"runs": states, "mrr": {r.name: made.mrr(r) for r in runs}}, ensure_ascii=False))
    else:
        for run in runs:
            state, reason = made.status(run)
            click.echo(printable(f"{state:7} {made.mrr(run):>6} {run.name}{reason and ': '}{reason}"))
    if listed:
        return
    failed, others = (plural(list(states.values()).count(state), "run") for state in ("failed", "other"))
    if "failed" in states.values():
        raise RunError(f"{failed} failed; repeat the command with --retry to try again")
    if "other" in states.values():
        raise RunError(f"{others} left as is, made with other settings: choose another --out, or remove their folders")


def _make(experiment: "Experiment", remaining: "list[PlannedRun]", jobs: int, threads: int | None) -> None:
    """Make runs and show progress."""
    from pfedeg.cli.tables import print_line, progress_bar
    from pfedeg.text import duration

    began, ended, screen = time.monotonic(), 0, console(stderr=True)
    with progress_bar(screen, plural(len(remaining), "run"), len(remaining), PROGRESS_SECONDS) as show:
        for run, state in experiment.make(remaining, jobs, threads, lambda text: print_line(screen, text)):
            rest = [other for other in remaining if experiment.state(other) in ("open", "started")]
            limit = duration(experiment.seconds_left(rest) / jobs)
            times = f"{duration(time.monotonic() - began)} so far, at most about {limit} left"
            if state == "running":
                show(ended, f"{ended} ended; {run.name} at {experiment.progress(run)}; {times}", False)
                continue
            ended += 1
            outcome = experiment.mrr(run) if state == "done" else experiment.status(run)[1]
            print_line(screen, f"{ended}/{len(remaining)} {run.name}: {state}, {outcome}; {times}")


@click.command(cls=SettingsCommand, context_settings=CONTEXT)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--over",
    multiple=True,
    metavar="NAME=VALUE,…",
    help="values to try  [default: those that the method suggests]",
)
@click.option("--minutes", type=click.FloatRange(0.01), default=30.0, metavar="N", help="time limit")
@click.option("--out", type=click.Path(path_type=Path), help="write the settings to a TOML file, for train --config")
@force_option
@click.option("--choices", type=click.Path(path_type=Path), help="TOML file to add the result to, for use in plans")
@preset_option
@threads_option
@json_option
def tune(
    path: Path,
    over: tuple[str, ...],
    minutes: float,
    out: Path | None,
    force: bool,
    choices: Path | None,
    preset: str | None,
    threads: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Choose settings for the federation at PATH.

    The criterion is validation MRR. All candidates run for a few rounds; the better half continues for twice as many,
    until one is left. Without --over, the candidates are the values that the method suggests (for PFedEG: the paper's
    values of β and p). A setting given as a flag is not tuned. At the end it prints the command that trains with the
    best settings.

    \b
    Examples:
      pfedeg tune my-folder --method pfedeg-plus --minutes 20 --out best.toml
      pfedeg train my-folder --config best.toml
      pfedeg tune data/nell-995-fed3.parquet --method pfedeg-plus --minutes 20 --choices plans/choices.toml
    """
    from pfedeg.cli.tables import print_line, progress_bar
    from pfedeg.experiments.tuning import (
        MAX_MINUTES,
        check_choices,
        chosen_settings,
        default_candidates,
        describe,
        read_candidates,
        successive_halving,
        train_command,
        write_choice,
        write_settings,
    )
    from pfedeg.files import check_output
    from pfedeg.graphs.federation import Federation
    from pfedeg.text import duration
    from pfedeg.training.config import DEFAULT_PARTS, configure

    if not minutes < MAX_MINUTES:  # also refuses nan
        raise InputError(f"--minutes {minutes}: expected less than {MAX_MINUTES:,} (ten weeks)")
    if out is not None:
        check_output(out, force)
    if choices is not None:
        check_choices(choices)
    config = configure(flags, preset)[0]
    given = [name for name, value in flags.items() if value is not None]
    candidates = read_candidates(over, config) or default_candidates(config, given)
    if not candidates:
        raise InputError(f"{config.title}: no default values to try; name some with --over")
    federation = Federation.read(path, config.seed)
    name = path.stem if path.suffix == ".parquet" else path.resolve().name
    began, limit, screen = time.monotonic(), 60 * minutes, console(stderr=True)
    runs: list[Any] = []

    def spent() -> str:
        return f"{duration(time.monotonic() - began)} of {duration(limit)}"

    with progress_bar(screen, "tuning", limit) as show:

        def notify(text: str) -> None:
            show(time.monotonic() - began, f"{text}; {spent()}", False)

        for rounds, runs in successive_halving(
            federation, config, candidates, limit, threads, notify, lambda text: print_line(screen, text)
        ):
            best = f"best so far {describe(runs[0].values)}, valid MRR {runs[0].best_mrr:.4f}"
            print_line(screen, f"round {rounds}: {best}; {spent()}")
    others = {part: getattr(config, part) for part in ("objective", "optimizer")}
    chosen = {part: name for part, name in others.items() if name != DEFAULT_PARTS[part]} | dict(runs[0].values)
    evidence = [run.evidence() for run in runs]
    settings = chosen_settings(config, preset, flags, runs[0].values)
    command = train_command(str(path), settings, out)
    try:
        if out is not None:
            write_settings(out, settings, str(path), evidence)
            print_note(f"wrote {out}")
        if choices is not None:
            write_choice(choices, {"data": name, "model": config.model, "method": config.method}, chosen, evidence)
            print_note(f"added to {choices}")
    finally:  # print the result even if the file cannot be written
        if as_json:
            found = {"chosen": chosen, "evidence": evidence, "settings": settings, "train": command}
            click.echo(json.dumps(found, ensure_ascii=False))
        else:
            for entry in evidence:
                click.echo(printable(describe(entry)))
            click.echo(f"train with the best: {printable(command)}")


@click.command(context_settings=CONTEXT)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="file to write; with png a folder")
@click.option("--paper", type=click.Path(path_type=Path), metavar="CSV", help="published results to compare with")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md", "csv", "tex", "png"]),
    help="web page, Markdown, CSV (a line per run and client), LaTeX tables, or figures  "
    "[default: from the extension of --out]",
)
@click.option("--title", default="Results", metavar="TEXT", help="heading")
@click.option("--quick", is_flag=True, help="skip significance tests, which rank all test triples again")
@force_option
def report(folder: Path, out: Path, paper: Path | None, kind: str | None, title: str, quick: bool, force: bool) -> None:
    """Write a report on the finished runs in DIR.

    It shows metrics, significance, curves, relation graphs and gains, for runs in DIR and its subfolders. Published
    results are a CSV file with the columns dataset, model, method, mrr, hits@1, hits@5, hits@10.

    \b
    Examples:
      pfedeg report runs/demo --out report.html
      pfedeg report runs/paper-tables --paper paper-results.csv --out report.html
      pfedeg report runs/paper-tables --format png --out figures
    """
    from pfedeg.experiments.report import write

    click.echo(f"wrote {write(folder, out, paper, kind, title, quick, print_note, force)}")
