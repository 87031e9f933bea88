"""The defaults in the help of commands are those that the commands use."""

import itertools
import re

import pytest
from click.testing import CliRunner

from pfedeg.cli.inspect import list_configs
from pfedeg.cli.main import cli
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from pfedeg.training.config import REGISTRIES, Config, all_settings, configure


def shown(command: str) -> dict[str, str]:
    """The default of every option in a command's help."""
    text = " ".join(CliRunner().invoke(cli, [command, "--help"]).stdout.split())
    parts = re.split(r" --([a-z-]+) ", text.partition("Options:")[2])
    found = {}
    for name, rest in zip(parts[1::2], parts[2::2], strict=True):
        match = re.search(r"\[([^\]]+)\]", rest)
        found[name.replace("-", "_")] = match[1].removeprefix("default: ") if match else ""
    return found


@pytest.mark.parametrize("command", ["train", "tune", "inspect"])
def test_settings_have_the_defaults_of_runs(command: str) -> None:
    documented = shown(command)
    for method, model in itertools.product(METHODS, MODELS):
        config = configure({"method": method, "model": model})[0]
        labels = {METHODS[method].label, MODELS[model].label}
        for name in all_settings():
            if name not in config.as_dict():
                continue
            usual, *others = documented[name].split("; ")
            own = [text.split(": ")[1] for text in others if labels & set(text.split(": ")[0].split(", "))]
            assert (own or [usual]) == [str(config.as_dict()[name])], (name, method, model)


def test_parts_have_the_defaults_of_runs() -> None:
    run = Config().as_dict()
    for command in ("train", "tune"):
        assert {part: shown(command)[part] for part in REGISTRIES} == {part: run[part] for part in REGISTRIES}


def test_inspect_says_that_it_estimates_all_methods_and_models() -> None:
    documented, estimated = shown("inspect"), list_configs({}, None)
    assert {(config.method, config.model) for config in estimated} == set(itertools.product(METHODS, MODELS))
    assert documented["method"] == documented["model"] == "all"
    assert {(documented["objective"], documented["optimizer"])} == {(c.objective, c.optimizer) for c in estimated}
