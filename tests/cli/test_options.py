"""Help and shell completion: the order of commands and options, one notation for defaults, completed names."""

import re
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pfedeg.cli.main import cli
from pfedeg.cli.options import PARTS, SettingsCommand
from pfedeg.graphs.federation import Federation
from pfedeg.training.config import DEFAULT_PARTS, PRESETS, REGISTRIES, Config
from pfedeg.training.local_run import Training


def commands(group: click.Group = cli) -> dict[str, click.Command]:
    """All visible commands by their words, also those of groups."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": each for inner, each in commands(command).items()}
        elif not command.hidden:
            found[name] = command
    return found


def help_of(words: str) -> str:
    return CliRunner().invoke(cli, [*words.split(), "--help"], terminal_width=200).output


def test_commands_are_in_the_order_of_work() -> None:
    listed = re.findall(r"^  ([a-z]+)  ", help_of("").partition("Commands:\n")[2], re.M)
    wanted = ["import", "inspect", "train", "show", "evaluate", "predict", "report", "export", "server", "client"]
    assert [name for name in listed if name in wanted] == wanted
    assert set(listed) == set(cli.commands)
    steps = re.findall(r"^  ([a-z]+)  ", help_of("server").partition("Commands:\n")[2], re.M)
    assert steps[:4] == ["init", "enroll", "start", "run"]


@pytest.mark.parametrize("group", ["", "server", "client"])
def test_the_list_of_commands_fits_80_columns(group: str) -> None:
    text = CliRunner().invoke(cli, [*group.split(), "--help"], terminal_width=80).output
    assert [line for line in text.partition("Commands:\n")[2].splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", [words for words, each in commands().items() if isinstance(each, SettingsCommand)])
def test_own_options_come_before_the_settings(words: str) -> None:
    own, _, settings = help_of(words).partition("Method and model:\n")
    for flag in ("--preset", "--threads", "--json", "--help"):
        assert f"{flag} " in own
        assert f"{flag} " not in settings
    assert settings.index("--method") < settings.index("Settings of training:") < settings.index("--rounds")


@pytest.mark.parametrize("words", commands())
def test_every_default_is_shown_in_one_notation(words: str) -> None:
    command, text = commands()[words], help_of(words)
    context = click.Context(command, **command.context_settings)
    for param in command.get_params(context):
        if isinstance(param, click.Option) and isinstance(param.get_default(context), str | float | int | Path):
            record = param.get_help_record(context)
            assert record is None or param.is_flag or "[default: " in record[1], param.name
    allowed = r"\[(?:default: |required|x?[\d.]*<?=?[x\d.]|OPTIONS|COMMAND|ARGS|ID)"
    options = text.partition("Options:\n")[2]
    notes = re.findall(r"  \[[^|\]]*\]", options)
    assert [note for note in notes if not re.match(r"  " + allowed, note)] == []
    assert "(default)" not in text


def test_the_parts_are_those_of_the_registries() -> None:
    assert list(PARTS) == list(REGISTRIES) == list(DEFAULT_PARTS)


def completed(*words: str) -> list[str]:
    *before, begun = words
    found = ShellComplete(cli, {}, "pfedeg", "_PFEDEG_COMPLETE").get_completions(before, begun)
    return [item.value for item in found]


def test_a_shell_completes_commands_and_names() -> None:
    assert completed("ex") == ["experiment", "export"]
    plus = [name for name in REGISTRIES["method"] if name.startswith("pfedeg-plus")]
    assert completed("train", "world", "--method", "pfedeg-plus") == plus != []
    assert completed("train", "world", "--model", "") == list(REGISTRIES["model"])
    assert completed("tune", "world", "--model", "R") == ["rotate"]
    assert completed("train", "world", "--sampling", "s") == ["shared"]
    assert completed("inspect", "world", "--preset", "") == list(PRESETS)
    assert completed("export", "runs/none", "--to", "p") == ["parquet", "projector", "pykeen"]
    assert "--eval-every" in completed("train", "world", "--ev")
    assert completed("train", "world", "--method", "nowhere:METHOD", "--model", "tr") == ["transe"]


def test_a_shell_completes_the_clients_of_a_run(synthetic: Federation, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    Training(synthetic, Config(rounds=1, dim=4, negatives=2), out=out).run()
    assert completed("predict", str(out), "--client", "b") == ["birch"]
    assert completed("similar", str(out), "--client", "") == list(synthetic.graphs)
    assert completed("predict", str(out / "none"), "--client", "") == []
