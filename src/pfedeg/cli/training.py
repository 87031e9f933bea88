"""The commands that train on a federation: train, demo."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedeg.cli.options import (
    CONTEXT,
    SettingsCommand,
    config_option,
    console,
    json_option,
    preset_option,
    print_note,
    threads_option,
)
from pfedeg.errors import InputError
from pfedeg.text import plural

if TYPE_CHECKING:
    from pfedeg.graphs.federation import Federation
    from pfedeg.training.config import Config
    from pfedeg.training.local_run import Training


@click.command(context_settings=CONTEXT)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/demo"), help="folder for the runs")
@click.option("--force", is_flag=True, help="delete the runs of an earlier demo and train again")
@threads_option
def demo(out: Path, force: bool, threads: int | None) -> None:
    """Compare four methods on a small real federation.

    The embedded federation "world" has six clients that know different things about the same places. An interrupted
    demo continues where it stopped.

    \b
    Example:
      pfedeg demo --out /tmp/demo
    """
    from pfedeg.cli.demo import COMPARED, show_demo

    if force:
        for method in COMPARED:
            _delete_run(out / method)
    show_demo(out, threads, console(), console(stderr=True))


@click.command(cls=SettingsCommand, context_settings=CONTEXT)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="the run folder  [default: runs/DATA-METHOD-MODEL-SEED]")
@click.option("--resume", is_flag=True, help="continue the run in --out, or start it if there is none")
@click.option("--force", is_flag=True, help="delete the run in --out and start anew")
@preset_option
@config_option
@click.option("--secret", type=click.Path(path_type=Path), help="alignment secret, to reproduce a network run exactly")
@threads_option
@json_option
def train(
    path: Path,
    out: Path | None,
    resume: bool,
    force: bool,
    preset: str | None,
    file: Path | None,
    secret: Path | None,
    threads: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train on the federation at PATH.

    PATH is a folder with a subfolder per client, a Parquet file, or "world", the embedded federation. A client's
    subfolder contains train.tsv (valid.tsv, test.tsv), or triples.tsv, which is split at random by the seed.

    \b
    Examples:
      pfedeg train world --method pfedeg-plus --model rotate --preset quick --out runs/mine
      pfedeg train fb15k-237-fed3.parquet --method pfedeg-star --rounds 100 --out runs/star --resume
    """
    from pfedeg.cli.tables import metrics_table, rounds_with_progress
    from pfedeg.graphs.federation import Federation
    from pfedeg.network.operations.alignment_secret import read_secret
    from pfedeg.training.config import configure
    from pfedeg.training.local_run import Training

    if resume and force:
        raise InputError("--resume continues a run, --force deletes it and starts anew: choose one")
    config, remarks = configure(flags, preset, file)
    for remark in remarks:
        print_note(f"note: {remark}")
    federation, source = Federation.read(path, config.seed), os.fsencode(path).decode(errors="replace")
    out = out or Path("runs") / run_name(source, config)
    key = read_secret(secret) if secret else b""
    if force:
        _delete_run(out)
    training = Training(federation, config, out=out, resume=resume, threads=threads, source=source, secret=key)
    announce(federation, config, training)
    try:
        for _ in rounds_with_progress(training, console(stderr=True), config.method_type.label):
            pass
    except KeyboardInterrupt:
        print_note(f"interrupted; saved after round {training.rounds_done}. Resume with: {_resume_command()}")
        sys.exit(130)
    assert training.result is not None
    if as_json:
        click.echo(json.dumps(training.result, ensure_ascii=False))
        return
    result = training.result
    title = f"{config.title}: test metrics of round {result['best_round']} of {result['rounds']}"
    console().print(metrics_table(title, {"": result["test"]}))
    click.echo(f"saved the run in {out}; next: pfedeg show {shlex.quote(str(out))}")


def run_name(source: str, config: "Config") -> str:
    """The default name of a run folder: data, method, model and seed."""
    method, model = (name.rpartition(":")[0].rpartition(".")[2] or name for name in (config.method, config.model))
    return f"{Path(source).resolve().stem}-{method}-{model}-{config.seed}"


def announce(federation: "Federation", config: "Config", training: "Training") -> None:
    """Print what is about to be trained."""
    from pfedeg.engine.compiled.engine import has_compiled_code
    from pfedeg.engine.interface import Absorb
    from pfedeg.engine.lowlevel.code_cache import is_first_use

    triples = sum(len(graph.train) for graph in federation.graphs.values())
    text = f"{config.title}: {plural(len(federation.graphs), 'client')}, {triples:,} training triples"
    if training.result is not None:
        rounds = int(training.result["rounds"])
        early = f" after round {rounds} without further improvement" if rounds < config.rounds else ""
        print_note(f"{text}; already finished{early}; showing its result")
        return
    print_note(f"{text}, up to {plural(config.rounds, 'round')}")
    if not has_compiled_code(config.build_recipe(Absorb())):
        print_note(
            "note: no compiled code for this model, objective or optimiser; it trains with numpy, 50–100 times slower"
        )
    elif is_first_use():
        print_note("first use: compiling the training loops, once, takes some seconds")


def _resume_command() -> str:
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])


def _delete_run(path: Path) -> None:
    """Delete a run, unless another process is working on it; other files and folders stay."""
    from pfedeg.training.run_folder import RunFolder

    folder = RunFolder(path)
    if folder.exists():
        with folder.locked():
            pass
        folder.remove()
