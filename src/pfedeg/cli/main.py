"""The `pfedeg` command. Heavy modules are imported inside the commands, so that --help is quick."""

import os
import sys
import warnings
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from typing import Any, NoReturn

import click

from pfedeg.cli.calibration import calibrate
from pfedeg.cli.checking import check
from pfedeg.cli.export import export
from pfedeg.cli.federation import secret
from pfedeg.cli.federation_client import client
from pfedeg.cli.federation_server import server
from pfedeg.cli.importing import import_
from pfedeg.cli.inspect import inspect
from pfedeg.cli.options import CONTEXT, Group, print_note
from pfedeg.cli.partition import partition
from pfedeg.cli.prediction import predict, similar
from pfedeg.cli.research import experiment, report, tune
from pfedeg.cli.results import evaluate, show
from pfedeg.cli.training import demo, train
from pfedeg.errors import DataWarning, InputError, PfedegError, RunError

IN_ORDER_OF_WORK = (
    demo,
    import_,
    partition,
    inspect,
    tune,
    train,
    show,
    check,
    evaluate,
    predict,
    calibrate,
    similar,
    experiment,
    report,
    export,
    secret,
    server,
    client,
)


@click.group(cls=Group, context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(package_name="pfedeg", message="pfedeg %(version)s")
@click.option("--traceback", is_flag=True, help="show the Python traceback of an error")
@click.pass_context
def cli(context: click.Context, traceback: bool) -> None:
    """Train knowledge graph embeddings together without sharing the graphs: PFedEG, its ablations and baselines.

    \b
    Try:
      pfedeg demo                               four methods on a small federation
      pfedeg train world --preset quick         train on the same data yourself
      pfedeg show runs/world-pfedeg-plus-transe-0
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in IN_ORDER_OF_WORK:
    cli.add_command(command)


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
