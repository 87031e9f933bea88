"""The `pfedeg` command. Heavy modules are imported inside the commands, so that --help is quick."""

import json
import os
import shlex
import sys
import warnings
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from pfedeg.cli.calibration import calibrate
from pfedeg.cli.export import export
from pfedeg.cli.federation import secret
from pfedeg.cli.federation_client import client
from pfedeg.cli.federation_server import server
from pfedeg.cli.importing import import_
from pfedeg.cli.inspect import inspect
from pfedeg.cli.options import CONTEXT, SettingsCommand, console, json_option, print_note, threads_option
from pfedeg.cli.prediction import predict, similar
from pfedeg.cli.research import experiment, report, tune
from pfedeg.errors import DataWarning, InputError, PfedegError, RunError
from pfedeg.text import plural

if TYPE_CHECKING:
    from pfedeg.graphs.federation import Federation
    from pfedeg.training.config import Config
    from pfedeg.training.local_run import Training


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(package_name="pfedeg", message="pfedeg %(version)s")
@click.option("--traceback", is_flag=True, help="show the Python traceback of an error")
@click.pass_context
def cli(context: click.Context, traceback: bool) -> None:
    """Train knowledge graph embeddings together without sharing the graphs: PFedEG, its ablations and baselines.

    \b
    Try:
      pfedeg demo                                      four methods on a small real federation, under a minute
      pfedeg train world --method pfedeg-plus          train on the same data yourself
      pfedeg show runs/world-pfedeg-plus-transe-0      show the results
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command(context_settings=CONTEXT)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/demo"), help="folder for the runs  [runs/demo]"
)
@threads_option
def demo(out: Path, threads: int | None) -> None:
    """Compare four methods on a small real federation.

    The embedded federation "world" has six clients that know different things about the same places. An interrupted
    demo continues where it stopped.

    \b
    Example:
      pfedeg demo --out /tmp/demo
    """
    from pfedeg.cli.demo import show_demo

    show_demo(out, threads, console(), console(stderr=True))


@cli.command(context_settings=CONTEXT)
@click.argument("graph", type=click.Path(path_type=Path))
@click.option("--clients", type=int, required=True, metavar="N", help="number of clients")
@click.option(
    "--by", type=click.Choice(["relation"]), default="relation", help="how triples are assigned to clients  [relation]"
)
@click.option("--seed", type=click.IntRange(0), default=0, metavar="N", help="random seed  [0]")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="folder to create, with a subfolder per client"
)
def partition(graph: Path, clients: int, by: str, seed: int, out: Path) -> None:
    """Divide one GRAPH into a federation.

    All splits are pooled, the relations are divided evenly at random, and each client gets new splits.

    GRAPH is a TSV file, a folder with train.tsv (valid.tsv, test.tsv) or triples.tsv, or a Parquet file.

    \b
    Example:
      pfedeg partition fb15k-237.parquet --clients 3 --seed 0 --out fb15k-237-fed3
    """
    from pfedeg.graphs.federation import partition as divide
    from pfedeg.graphs.federation_files import read_pooled
    from pfedeg.graphs.triple_files import read_labels

    federation = divide(read_pooled(graph), clients, seed, read_labels(graph))
    federation.write(out)
    for name, part in federation.graphs.items():
        sizes = f"{len(part.train):,} train, {len(part.valid):,} valid, {len(part.test):,} test"
        print_note(f"{name}: {len(part.entities):,} entities, {plural(len(part.relations), 'relation')}, {sizes}")
    click.echo(f"wrote {plural(len(federation.graphs), 'client')} to {out}")


@cli.command(cls=SettingsCommand, context_settings=CONTEXT)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="the run folder  [runs/DATA-METHOD-MODEL-SEED]")
@click.option("--resume", is_flag=True, help="continue the run in --out, or start it if there is none")
@click.option("--preset", metavar="NAME", help="base settings: paper (default) or quick")
@click.option("--config", "file", type=click.Path(path_type=Path), help="TOML file of settings; flags override it")
@click.option("--secret", type=click.Path(path_type=Path), help="alignment secret, to reproduce a network run exactly")
@threads_option
@json_option
def train(
    path: Path,
    out: Path | None,
    resume: bool,
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

    config, remarks = configure(flags, preset, file)
    for remark in remarks:
        print_note(f"note: {remark}")
    federation, source = Federation.read(path, config.seed), os.fsencode(path).decode(errors="replace")
    out = out or Path("runs") / run_name(source, config)
    key = read_secret(secret) if secret else b""
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
        print_note(f"{text}; already finished; showing its result")
        return
    print_note(f"{text}, up to {plural(config.rounds, 'round')}")
    if not has_compiled_code(config.build_recipe(Absorb())):
        print_note(
            "note: no compiled code for this model, objective or optimiser; it trains with numpy, 50–100 times slower"
        )
    elif is_first_use():
        print_note("first use: compiling the training loops, once, takes some seconds")


@cli.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--split", type=click.Choice(["train", "valid", "test"]), default="test", help="triples to rank  [test]")
@click.option("--side", type=click.Choice(["tail", "head", "both"]), default="tail", help="entity to predict  [tail]")
@threads_option
@json_option
def evaluate(run: Path, split: Any, side: str, threads: int | None, as_json: bool) -> None:
    """Evaluate a finished RUN again: MRR and Hits@k.

    Metrics are per client, and averaged over clients weighted by triples.

    \b
    Examples:
      pfedeg evaluate runs/mine --split valid
      pfedeg evaluate runs/mine --side both --json
    """
    from pfedeg.cli.tables import metrics_table
    from pfedeg.engine.interface import default_engine
    from pfedeg.training.run_loop import summary
    from pfedeg.training.saved_run import Run

    opened = Run(run, default_engine(threads))
    opened.require_finished()
    which: Any = None if side == "both" else side
    metrics = summary(opened.evaluate(split, which))
    if as_json:
        click.echo(json.dumps({"split": split, "side": side, **metrics}, ensure_ascii=False))
        return
    predicted = "head and tail" if side == "both" else side
    title = f"{opened.title}: {split} metrics, {predicted} prediction"
    console().print(metrics_table(title, {"": metrics}))


@cli.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def show(run: Path, as_json: bool) -> None:
    """Summarise a RUN: metrics, validation curve, relation graph.

    The run may be unfinished.

    \b
    Example:
      pfedeg show runs/mine
    """
    from pfedeg.cli.tables import affinity_table, curve, metrics_table
    from pfedeg.text import duration
    from pfedeg.training.saved_run import Run

    opened = Run(run)
    result, history = opened.result, opened.history
    evaluated = [line for line in history if "valid" in line]
    if as_json:
        content = {
            "config": opened.effective_settings,
            "provenance": opened.provenance,
            "result": result,
            "history": history,
        }
        click.echo(json.dumps(content, ensure_ascii=False))
        return
    out = console()
    origin = opened.provenance
    seconds = sum(line.get("seconds", 0) for line in history)
    sent = sum(line.get("bytes_up", 0) + line.get("bytes_down", 0) for line in history)
    how = "repeat the train command with --resume"
    if "federation" in origin:
        how = "the server operator resumes it with `pfedeg server run DIR --resume`"
    state = "finished" if result else f"not finished; {how}"
    out.print(f"{run}: {opened.title}, seed {opened.seed}, {state}", highlight=False, soft_wrap=True)
    source, fingerprint = origin["data"] or "from Python", origin["data_fingerprint"][:12]
    text = f"data {source} (fingerprint {fingerprint}), pfedeg {origin['package']}"
    out.print(text, highlight=False, soft_wrap=True)
    exchanged = "sent over the network" if "federation" in origin else "exchanged in process"
    best = f", best round {result['best_round']}" if result else ""
    text = f"{plural(len(history), 'round')}{best}, {duration(seconds)}, {sent / 1e6:.1f} MB {exchanged}"
    out.print(text, highlight=False)
    if result:
        out.print(metrics_table("Metrics", {"valid": result["valid"], "test": result["test"]}))
    elif evaluated:
        out.print(metrics_table(f"Metrics of round {evaluated[-1]['round']}", {"valid": evaluated[-1]["valid"]}))
    points = [(line["round"], line["valid"]["weighted"]["mrr"]) for line in evaluated]
    drawn = curve([(number, mrr) for number, mrr in points if mrr is not None])
    if drawn:
        out.print("valid MRR by round", style="bold")
        out.print(drawn, highlight=False)
    if affinity := opened.affinity():
        out.print(affinity_table(affinity))


cli.add_command(predict)
cli.add_command(similar)
cli.add_command(calibrate)
cli.add_command(import_)
cli.add_command(inspect)
cli.add_command(experiment)
cli.add_command(tune)
cli.add_command(report)
cli.add_command(export)
cli.add_command(secret)
cli.add_command(server)
cli.add_command(client)


def _resume_command() -> str:
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])


def _warn(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
    if issubclass(category, DataWarning):
        print_note(f"warning: {message}")


def _fail(error: BaseException, code: int) -> NoReturn:
    if "--traceback" in sys.argv:
        raise error
    print_note(f"error: {error}")
    sys.exit(code)


def main() -> None:
    """Run the command line. An error becomes one line and an exit code: 2 bad input, 1 failure, 130 Ctrl-C."""
    warnings.showwarning = _warn
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print_note("interrupted")
        sys.exit(130)
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        _fail(InputError(f"{error.format_message()}{hint}"), 2)
    except click.ClickException as error:
        _fail(InputError(error.format_message()), 2)
    except PfedegError as error:
        _fail(error, error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError as error:
        _fail(RunError(f"out of memory ({error}); a smaller --dim, --batch or --negatives needs less"), 1)
    except OSError as error:
        kind = RunError if error.errno in (ENOSPC, EDQUOT, EFBIG, EIO) else InputError
        where = f"{error.filename}: " if error.filename else ""
        _fail(kind(f"{where}{error.strerror or error}"), kind.exit_code)
    except Exception as error:
        text = f"internal error: {type(error).__name__}: {error}; run again with `pfedeg --traceback …` and report it"
        _fail(RuntimeError(text), 1)
