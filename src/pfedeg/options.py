"""The flags that commands share: one per setting, --threads, --json."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click


class Settings(click.Command):
    """A command whose options for settings come from `Config`; they are read when the command is looked at."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Arguments, then a flag per setting, then the command's own options."""
        own = super().get_params(context)
        arguments = [param for param in own if isinstance(param, click.Argument)]
        options = [param for param in own if isinstance(param, click.Option)]
        return [*arguments, *_setting_options(), *options]


def _setting_options() -> list[click.Option]:
    from pfedeg.config import METHODS, Config, choices, users, value_type

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
