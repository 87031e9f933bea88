"""The examples are short and work, and docs link to them; test_doors.py runs own_*.py in every command."""

import re
from pathlib import Path

import pytest

import pfedeg

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OWN = sorted(EXAMPLES.glob("own_*.py"))
MAX_LINES = {**{path.name: 80 for path in OWN}, "messy_sources.py": 80, "naive_pfedeg.py": 240}


def test_naive_example_prints_equal_columns(capsys: pytest.CaptureFixture[str]) -> None:
    import naive_pfedeg

    naive_pfedeg.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert len(lines) == 2 * naive_pfedeg.Settings().rounds
    assert all(here == there for _, here, there in lines)


def test_each_of_the_four_doors_has_an_example() -> None:
    assert [path.stem for path in OWN] == ["own_method", "own_model", "own_objective", "own_optimizer"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES[path.name]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_docs_link_to_the_examples(path: Path, page: str) -> None:
    assert f"(examples/{path.name})" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_public_names_in_examples_exist(path: Path) -> None:
    used = set(re.findall(r"\bpfedeg\.([A-Z]\w+|setting)\b", path.read_text(encoding="utf-8")))
    assert used
    assert used <= set(pfedeg.__all__)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_readme_identifiers_exist_in_examples(path: Path) -> None:
    kind = path.stem.removeprefix("own_")
    identifier = f"{path.stem}:{kind.upper()}"
    assert f"--{kind} {identifier}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    registry = getattr(pfedeg, f"{kind.upper()}S")
    assert registry.get(identifier).name not in list(registry)
