"""What commands share: a flag per setting, --threads, --json, and where they write."""

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from pfedeg.text import printable

if TYPE_CHECKING:
    from rich.console import Console

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def console(stderr: bool = False) -> "Console":
    """Where people read: results on stdout, progress and remarks on stderr."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False)  # names are shown as they are
    made.width = max(made.width, 80)  # rather a line that wraps than a number cut short
    return made


def say(text: str) -> None:
    """A remark on stderr, on one line."""
    click.echo(printable(text), err=True)


class Settings(click.Command):
    """A command whose options for settings come from `Config`; they are read when the command is looked at."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Arguments, then a flag per setting, then the command's own options."""
        own = super().get_params(context)
        arguments = [param for param in own if isinstance(param, click.Argument)]
        options = [param for param in own if isinstance(param, click.Option)]
        return [*arguments, *_setting_options(), *options]


def _setting_options() -> list[click.Option]:
    from pfedeg.training.config import METHODS, Config, choices, users, value_type

    options = []
    for item in fields(Config):
        meta = item.metadata
        default = "" if item.default is None else f"  [{item.default}]"
        only = "" if meta["only"] == METHODS else f"  ({users(item)} only)"
        allowed = choices(item)
        few = allowed is not None and len(allowed) <= 4
        metavar = "|".join(allowed or ()) if few else {int: "N", float: "X"}.get(value_type(item), "NAME")
        names = f": {', '.join(allowed)}" if allowed and not few else ""
        flag = f"--{item.name.replace('_', '-')}"
        text = f"{meta['help']}{names}{default}{only}"
        options.append(click.Option([flag], type=value_type(item), metavar=metavar, help=text))
    return options


def threads_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --threads flag."""
    text = "cores to use (all); results are the same for any number"
    return click.option("--threads", type=click.IntRange(1, 1024), metavar="N", help=text)(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --json flag."""
    return click.option("--json", "as_json", is_flag=True, help="print JSON on stdout, for scripts")(function)
