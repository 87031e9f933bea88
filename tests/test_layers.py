"""Imports follow the order of folders; one file imports Flower; no code depends on a method's name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pfedeg.training.config import REGISTRIES

PACKAGE = Path(__file__).parents[1] / "src" / "pfedeg"
# Folders and top-level modules in import order: a module imports only from its own and from those above.
LAYERS = [
    "errors",
    "extras",
    "randomness",
    "aligned_arrays",
    "text",
    "processes",
    "files",
    "checked_files",
    "settings",
    "registry",
    "plots",
    "latex",
    "result_table",
    "graphs",
    "models",
    "objectives",
    "optimizers",
    "gradient_check",
    "engine",
    "methods",
    "training",
    "prediction",
    "network",
    "importing",
    "inspection",
    "exporting",
    "experiments",
    "cli",
]
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [path for path in MODULES if path.name != "__main__.py" and path != PACKAGE / "__init__.py"]


def layer(path: Path) -> str:
    """The folder or top-level module that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every import, also those inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_every_folder_is_listed():
    assert {layer(path) for path in SOURCES} == set(LAYERS)


def test_contributing_lists_the_layers_in_order():
    text = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text()
    tree = text[text.index("    errors.py") :]
    places = [re.search(rf"\b{name}(\.py|/)", tree) for name in LAYERS]
    assert [name for name, place in zip(LAYERS, places, strict=True) if place is None] == []
    assert sorted(places, key=lambda place: place.start()) == places


def test_no_upward_import():
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {name}"
        for path in SOURCES
        for line, name in imports(path)
        if name.startswith("pfedeg.") and LAYERS.index(name.split(".")[1]) > LAYERS.index(layer(path))
    ]
    assert wrong == []


def test_flower_is_imported_in_one_file():
    found = {
        str(path.relative_to(PACKAGE)) for path in MODULES if re.search(r"\b(import|from) flwr\b", path.read_text())
    }
    assert found == {"network/flower.py"}


def test_only_the_command_line_imports_click_and_rich():
    outside = {"click", "rich"}
    found = {layer(path) for path in SOURCES for _, name in imports(path) if name.split(".")[0] in outside}
    assert found == {"cli"}


@pytest.mark.parametrize("part", list(REGISTRIES))
def test_no_code_depends_on_a_name(part):
    """Names of methods, models, objectives and optimisers stand in registries, as defaults, and in their own files."""
    names = {*REGISTRIES[part], *(one.label for one in REGISTRIES[part].values())}
    names |= {type(one.settings).__name__ for one in REGISTRIES[part].values()} - {"type"}
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare | ast.Dict | ast.MatchValue):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value in names:
                        found.append(f"{path.relative_to(PACKAGE)}:{inner.lineno} {inner.value!r}")
    assert "\n".join(text for text in found if not re.match(ALLOWED, text)) == ""


# Registries list the built-in names, `DEFAULT_PARTS` holds the defaults of a run, the demos name methods, and "fede" is
# also a file format.
ALLOWED = r"(\w+/registry|training/config|cli/(federation_)?demo|(cli/)?importing(/sources)?)\.py:"
