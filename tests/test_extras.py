"""Optional packages: without one, a command ends at once with the line to type, and nothing is written."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pfedeg.errors import InputError
from pfedeg.extras import EXTRAS, is_installed, require
from pfedeg.graphs.federation import Federation
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Runs commands one after the other, as `pfedeg` would, in a process whose imports of some packages fail.
DRIVER = """
import contextlib, importlib, io, json, sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
sys.meta_path.insert(0, Hide())
found = []
for module, words in commands:
    sys.argv, code, errors = ["pfedeg", *words], 0, io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        try:
            importlib.import_module(module).main()
        except SystemExit as end:
            code = end.code or 0
    found.append([code, errors.getvalue()])
print(json.dumps(found))
"""


def requirement_names(lines: list[str]) -> set[str]:
    return {line.partition("[")[0].split(">")[0].split("<")[0].split("=")[0].strip() for line in lines}


def run_without(hidden: tuple[str, ...], commands: list[tuple[str, ...]], folder: Path) -> list[tuple[int, str]]:
    """Exit codes and errors of commands; `module:NAME` as first word calls the `main` of that module instead."""
    calls = []
    for first, *rest in commands:
        kind, _, name = first.rpartition(":")
        calls.append((name, rest) if kind else ("pfedeg.cli.main", [first, *rest]))
    arguments = json.dumps(hidden), json.dumps(calls)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("src", "tools", "benchmarks"))},
    )
    assert done.returncode == 0, done.stderr
    return [(code, text) for code, text in json.loads(done.stdout)]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def folder(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation as files, and a finished run on it."""
    folder: Path = tmp_path_factory.mktemp("extras")
    synthetic.write(folder / "data")
    config = Config(method="fede", rounds=30, dim=16, negatives=8, batch=8, lr=0.01, eval_every=10)
    Training(synthetic, config, out=folder / "runs" / "one").run()
    (folder / "q.csv").write_text("head,relation,tail\ne12,near,e13\n")
    (folder / "plan.toml").write_text('data = ["data"]\nmodels = ["transe"]\nmethods = ["fede"]\nseeds = [0]\n')
    return folder


TINY = ("--rounds", "1", "--dim", "4", "--negatives", "2", "--batch", "64")
NEEDS: dict[str, list[tuple[str, ...]]] = {
    "plot": [
        ("report", "runs", "--out", "report.html"),
        ("report", "runs", "--out", "figures", "--format", "png"),
        ("inspect", "data", "--no-measure", "--picture", "overlap.png"),
        ("calibrate", "runs/one", "--picture", "reliability.png"),
        ("module:readme_picture", "--out", "picture.svg"),
        ("module:curves", "--plot", "plots"),
        ("module:sampling", "--from", "points.json", "--plot", "plots"),
        ("module:server", "--plot", "plots"),
    ],
    "bench": [("module:kernels",)],
    "pykeen": [("export", "runs/one", "--to", "pykeen", "--out", "for-pykeen")],
    "flower": [
        ("server", "init", "fed", "--host", "localhost", "--port", "8443"),
        ("server", "enroll", "fed", "ash", "ash.pub"),
        ("server", "remove", "fed", "ash"),
        ("server", "renew", "fed"),
        ("server", "start", "fed"),
        ("server", "stop", "fed"),
        ("server", "status", "fed"),
        ("server", "run", "fed"),
        ("client", "init", "ash", "--name", "ash", "--data", "data", "--server", "https://localhost:8443",
         "--ca", "ca.crt", "--secret", "secret"),
        ("client", "renew", "ash"),
        ("client", "start", "ash"),
        ("client", "stop", "ash"),
        ("client", "status", "ash"),
        ("client", "allow", "ash", "mine:METHOD"),
        ("client", "allow", "ash", "mine:METHOD", "--remove"),
        ("client", "work", "ash"),
        ("module:pfedeg.cli.federation_demo", "--out", "demo"),
        ("module:federation",),
    ],
}  # fmt: skip
WITHOUT: list[tuple[str, ...]] = [  # commands that need no extra
    ("train", "data", "--method", "fede", *TINY, "--out", "runs/two"),
    ("evaluate", "runs/one"),
    ("check", "runs/one"),
    ("show", "runs/one"),
    ("predict", "runs/one", "--client", "ash", "--head", "e12", "--relation", "near", "--explain"),
    ("calibrate", "runs/one"),
    ("similar", "runs/one", "--client", "ash", "--entity", "e12"),
    ("import", "q.csv", "--columns", "head,relation,tail", "--out", "imported"),
    ("partition", "data/ash", "--clients", "2", "--out", "parts"),
    ("inspect", "data", "--no-measure"),
    ("experiment", "plan.toml", "--data", ".", "--list", "--out", "grid"),
    ("tune", "data", "--method", "fede", *TINY, "--over", "lr=0.1,0.2", "--minutes", "0.01"),
    ("report", "runs", "--quick", "--out", "report.md"),
    ("export", "runs/one", "--to", "parquet", "--out", "tables"),
    ("secret", "alignment.secret"),
]


@pytest.mark.parametrize("extra", list(NEEDS))
def test_without_an_extra_a_command_says_what_to_type_and_writes_nothing(extra: str, folder: Path) -> None:
    before = content(folder)
    commands = NEEDS[extra]
    for words, (code, text) in zip(commands, run_without(EXTRAS[extra], commands, folder), strict=True):
        assert code == 2, (words, text)
        last = text.strip().splitlines()[-1]
        assert "error: " in last, (words, text)
        assert f"{' and '.join(EXTRAS[extra])}: pip install 'pfedeg[{extra}]'" in last, words
    assert content(folder) == before


def test_all_other_commands_need_no_extra(folder: Path) -> None:
    hidden = tuple({module for modules in EXTRAS.values() for module in modules})
    for words, (code, text) in zip(WITHOUT, run_without(hidden, WITHOUT, folder), strict=True):
        assert code == 0 or "answers on valid are correct" in text, (words, text)


def test_every_command_is_tried() -> None:
    from pfedeg.cli.main import cli

    tried = {words[:2] if words[0] in ("server", "client") else words[:1] for each in NEEDS.values() for words in each}
    tried |= {words[:1] for words in WITHOUT}
    commands = {(name,) for name in cli.commands if name not in ("server", "client")}
    commands |= {(group, name) for group in ("server", "client") for name in cli.commands[group].commands}  # type: ignore[attr-defined]
    # the demo trains, evaluates and predicts; `client names` needs a folder that `client init` has made
    assert commands - {("demo",), ("client", "names")} - tried == set()


def test_extras_are_those_of_the_project() -> None:
    declared = PROJECT["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        brought = requirement_names(declared[extra]) | ({"httpx"} if extra == "flower" else set())  # flwr brings httpx
        assert set(modules) <= brought


def test_every_import_is_required_or_an_extra() -> None:
    known = requirement_names(PROJECT["dependencies"]) | set(sys.stdlib_module_names) | {"pfedeg"}
    known |= {module for modules in EXTRAS.values() for module in modules}
    unknown = []
    for path in (ROOT / "src" / "pfedeg").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            unknown += [f"{path.name}: {name}" for name in names if name.partition(".")[0] not in known]
    assert unknown == []


def test_every_extra_is_documented() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"[{extra}]" in readme or f"`{extra}`" in readme, extra


def test_a_package_that_an_import_hook_refuses_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_installed("numpy")
    assert not is_installed("no_such_package")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not is_installed("matplotlib")
    with pytest.raises(InputError) as caught:
        require("plot", "this figure", "a table needs none")
    assert str(caught.value) == "this figure needs matplotlib: pip install 'pfedeg[plot]'; a table needs none"
