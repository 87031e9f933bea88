"""Shared parts of commands: a flag per setting, --threads, --json, and the console."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import click

from pfedeg.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from pfedeg.training.config import Setting

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def console(stderr: bool = False) -> "Console":
    """The terminal: stdout for results, stderr for progress and notes."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False)  # names may contain brackets and colons
    made.width = max(made.width, 80)  # narrower tables would truncate numbers
    return made


def print_note(text: str) -> None:
    """Print a note on stderr, on one line."""
    click.echo(printable(text), err=True)


class SettingsCommand(click.Command):
    """A command with a flag for every setting, including method, model, objective and optimiser."""

    part_defaults: ClassVar[Mapping[str, str]] = {}  # in the help, where they differ from those of a run

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Load plug-ins first, so that their settings become flags."""
        from pfedeg.training.config import REGISTRIES

        for part, value in _named_parts(args):
            if value and REGISTRIES[part].identify(value) not in REGISTRIES[part]:
                REGISTRIES[part].get(value)
        return super().parse_args(context, args)

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Arguments, then a flag per setting, then the command's own options."""
        own = super().get_params(context)
        arguments = [param for param in own if isinstance(param, click.Argument)]
        options = [param for param in own if isinstance(param, click.Option)]
        return [*arguments, *_part_options(self.part_defaults), *_setting_options(), *options]


def _named_parts(args: list[str]) -> Iterator[tuple[str, str]]:
    from pfedeg.training.config import REGISTRIES

    for part in REGISTRIES:
        for flag, following in zip(args, [*args[1:], ""], strict=False):
            if flag == f"--{part}":
                yield part, following
            elif flag.startswith(f"--{part}="):
                yield part, flag.partition("=")[2]


def _part_options(defaults: Mapping[str, str]) -> list[click.Option]:
    from pfedeg.training.config import DEFAULT_PARTS, PART_HELP, REGISTRIES

    shown = {**DEFAULT_PARTS, **defaults}
    return [
        click.Option(
            [f"--{part}"],
            metavar="NAME",
            help=f"{PART_HELP[part]}: {', '.join(registry)}, or package.module:NAME  [{shown[part]}]",
        )
        for part, registry in REGISTRIES.items()
    ]


def _setting_options() -> list[click.Option]:
    from pfedeg.training.config import all_settings

    options = []
    for name, one in all_settings().items():
        allowed = one.choices
        metavar = "|".join(allowed) if allowed else {int: "N", float: "X"}.get(one.type, "TEXT")
        only = f"  ({', '.join(one.users)} only)" if one.users else ""
        text = f"{one.help}  [{describe_default(one)}]{only}"
        options.append(click.Option([f"--{name.replace('_', '-')}"], type=one.type, metavar=metavar, help=text))
    return options


def describe_default(one: "Setting") -> str:
    """The default of a setting, and the other defaults of some methods and models."""
    others: dict[Any, list[str]] = {}
    for label, value in one.other_defaults().items():
        others.setdefault(value, []).append(label)
    return "; ".join([str(one.default), *(f"{', '.join(labels)}: {value}" for value, labels in others.items())])


def threads_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --threads flag."""
    text = "number of cores  [all]; does not affect results"
    return click.option("--threads", type=click.IntRange(1, 1024), metavar="N", help=text)(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --json flag."""
    return click.option("--json", "as_json", is_flag=True, help="print JSON on stdout, for scripts")(function)
