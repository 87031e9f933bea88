"""The tutorial's commands print what it shows, and its figures are those of its runs."""

from pathlib import Path

import figures
import pytest
import quotes
import transcript

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/tutorial.md"
TUTORIAL = (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


@pytest.fixture(scope="module")
def shown(folder: Path) -> list[transcript.Shown]:
    return transcript.run_page(TUTORIAL, folder)


def test_shown_output_is_up_to_date(shown: list[transcript.Shown], folder: Path) -> None:
    assert len(shown) >= 10
    assert [(each.command, each.outdated) for each in shown if each.outdated] == [], "run `make docs`"
    assert "| better |" not in (folder / "report.md").read_text()  # --quick


def test_figures_are_those_of_the_runs(shown: list[transcript.Shown], folder: Path) -> None:
    found = quotes.of_runs(PAGE, folder)
    assert figures.check(TUTORIAL, found).problems == [], "run `make docs`"
    assert figures.without_source(TUTORIAL, found, quotes.FIXED[PAGE]) == []


def test_leakage_is_told(shown: list[transcript.Shown]) -> None:
    """What `inspect` says of the test triples stands on the page."""
    (inspected,) = [each for each in shown if each.command.startswith("pfedeg inspect")]
    assert any("reversed in train" in line and "transit (64.5%)" in line for line in inspected.printed)
    assert "**Leakage.**" in TUTORIAL
