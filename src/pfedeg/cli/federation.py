"""The command `secret`, and helpers shared by the server and client commands."""

import time
from pathlib import Path

import click

from pfedeg.cli.options import CONTEXT, print_note
from pfedeg.text import printable

FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


def check_flower() -> None:
    """Raise InputError without the `flower` extra, or with an untested version of Flower."""
    from pfedeg.network.flower_install import check_flower_version

    check_flower_version()


def log_line(text: str) -> None:
    """Print a log line with the time to stderr."""
    click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(text)}", err=True)


@click.command(context_settings=CONTEXT)
@click.argument("file", type=click.Path(path_type=Path))
def secret(file: Path) -> None:
    """Make the alignment secret of a federation.

    One client makes it and sends it to the other clients over a secure channel. The server must never have it.

    \b
    Example:
      pfedeg secret alignment.secret
    """
    from pfedeg.graphs.alignment import fingerprint
    from pfedeg.network.operations.alignment_secret import make_secret, read_secret

    make_secret(file)
    click.echo(f"wrote {file}; its fingerprint (not secret): {fingerprint(read_secret(file))}")
    print_note("send it to the other clients over a secure channel, and never to the server")
