"""The command `check`."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from pfedeg.cli.options import CONTEXT, json_option, print_note
from pfedeg.text import plural


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def check(run: Path, as_json: bool) -> None:
    """Verify the files of a RUN by checksums and contents.

    The run may be unfinished, or one of a server or a client in a federation. Nothing is changed. The exit code is 2 if
    a file is damaged or missing.

    \b
    Example:
      pfedeg check runs/mine
    """
    from pfedeg.errors import InputError
    from pfedeg.training.run_check import check_run

    files = check_run(run)
    damaged = [file for file in files if file.problem]
    if as_json:
        click.echo(json.dumps({"run": str(run), "files": [asdict(file) for file in files]}, ensure_ascii=False))
    else:
        for file in damaged:
            print_note(f"{run / file.file}: {file.problem}")
    if damaged:
        raise InputError(f"{run}: {len(damaged)} of {plural(len(files), 'file')} damaged, missing or out of place")
    if not as_json:
        old = [file.file for file in files if not file.checksum]
        without = f"; {len(old)} of them without a checksum, from an earlier version" if old else ""
        click.echo(f"{run}: {plural(len(files), 'file')} in order{without}")
