"""Shared parts of commands: a flag per setting, --threads, --json, and the console."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import click

from pfedeg.errors import InputError
from pfedeg.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from pfedeg.training.config import Setting

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


def console(stderr: bool = False) -> "Console":
    """The terminal: stdout for results, stderr for progress and notes."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False)  # names may contain brackets and colons
    made.width = max(made.width, 80)  # narrower tables would truncate numbers
    return made


def print_note(text: str) -> None:
    """Print a note on stderr, on one line."""
    click.echo(printable(text), err=True)


PARTS = ("method", "model", "objective", "optimizer")


class Group(click.Group):
    """A group that lists its commands in the order in which they were added: the order of work."""

    def list_commands(self, context: click.Context) -> list[str]:
        """The names in order."""
        return list(self.commands)


class SettingsCommand(click.Command):
    """A command with a flag for every setting, including method, model, objective and optimiser."""

    part_defaults: ClassVar[Mapping[str, str]] = {}  # in the help, where they differ from those of a run

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Load plug-ins first, so that their settings become flags."""
        from pfedeg.training.config import REGISTRIES

        for part, value in _named_parts(args):
            with suppress(InputError) if context.resilient_parsing else nullcontext():  # a shell completes a word
                if value and REGISTRIES[part].identify(value) not in REGISTRIES[part]:
                    REGISTRIES[part].get(value)
        return super().parse_args(context, args)

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Arguments and the command's own options, then a flag per setting."""
        return [*super().get_params(context), *_part_options(self.part_defaults), *_setting_options()]

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first; the settings of training have a section of their own."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Method and model": [], "Settings of training": []}
        own = len(super().get_params(context))
        for place, param in enumerate(self.get_params(context)):
            title = "Options" if place < own else list(sections)[1 if param.name in PARTS else 2]
            record = param.get_help_record(context) if isinstance(param, click.Option) else None
            if record is not None:
                sections[title].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


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
            help=f"{PART_HELP[part]}: {', '.join(registry)}, or package.module:NAME  [default: {shown[part]}]",
            shell_complete=_completing(registry),
        )
        for part, registry in REGISTRIES.items()
    ]


def _setting_options() -> list[click.Option]:
    from pfedeg.training.config import all_settings

    options = []
    for name, one in all_settings().items():
        allowed = one.choices
        metavar = "|".join(allowed) if allowed else {int: "N", float: "X"}.get(one.type, "TEXT")
        only = f" ({', '.join(one.users)} only)" if one.users else ""
        text = f"{one.help}{only}  [default: {describe_default(one)}]"
        flag = f"--{name.replace('_', '-')}"
        complete = _completing(allowed or ())
        options.append(click.Option([flag], type=one.type, metavar=metavar, help=text, shell_complete=complete))
    return options


def _completing(names: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """A function that completes one of these names in a shell, in any case."""

    def complete(context: click.Context, param: click.Parameter, begun: str) -> list[str]:
        return [name for name in names if name.startswith(begun.lower())]

    return complete


def describe_default(one: "Setting") -> str:
    """The default of a setting, and the other defaults of some methods and models."""
    others: dict[Any, list[str]] = {}
    for label, value in one.other_defaults().items():
        others.setdefault(value, []).append(label)
    return "; ".join([str(one.default), *(f"{', '.join(labels)}: {value}" for value, labels in others.items())])


def config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --config flag."""
    from pathlib import Path

    text = "a TOML file of settings; flags override it"
    return click.option("--config", "file", type=click.Path(path_type=Path), help=text)(function)


def preset_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --preset flag."""
    text = "settings to start from: paper or quick  [default: paper]"

    def complete(context: click.Context, param: click.Parameter, begun: str) -> list[str]:
        from pfedeg.training.config import PRESETS

        return [name for name in PRESETS if name.startswith(begun)]

    return click.option("--preset", metavar="NAME", help=text, shell_complete=complete)(function)


def client_option(text: str, required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The --client flag of a command about a RUN; a shell completes the names of its clients."""

    def complete(context: click.Context, param: click.Parameter, begun: str) -> list[str]:
        from pfedeg.training.run_folder import RunFolder

        run = context.params.get("run") or next(iter(context.args), "")  # click parses no further than --client
        try:
            names = RunFolder.open(run).read("provenance.json")["clients"]
        except (InputError, KeyError):
            return []
        return [name for name in names if name.startswith(begun)]

    return click.option("--client", required=required, metavar="NAME", help=text, shell_complete=complete)


def threads_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --threads flag."""
    text = "number of cores; does not affect results  [default: all]"
    return click.option("--threads", type=click.IntRange(1, 1024), metavar="N", help=text)(function)


def force_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --force flag, the same in every command that writes files."""
    return click.option("--force", is_flag=True, help="replace existing output")(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The --json flag."""
    return click.option("--json", "as_json", is_flag=True, help="print JSON on stdout, for scripts")(function)
