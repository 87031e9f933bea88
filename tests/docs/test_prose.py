"""The docs are readable: wrapped prose, no private vocabulary, a short performance page."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pfedeg.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
WIDTH = 120
MAX_WORDS = 1_200  # words of docs/performance.md
PRIVATE = (  # words and phrases that readers do not know, or know with another meaning
    r"coast(?:s|ing)?|strike out|struck out|fade out|fades out",
    r"last words|to be had|asked for in advance|who would rather|for the eye|people's eyes|as if it were not there",
    r"the foremost|is told by|are told by|was said twice|by its looks|neighbours come and go|nobody can tamper with",
    r"very results|is not looked at|very own|one's own|at hand|nobody else|goes on with|so many times",
)
VOCABULARY = re.compile(rf"\b(?:{'|'.join(PRIVATE)})\b", re.IGNORECASE)
LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Number and text of each line of a page outside code blocks."""
    in_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("    "):
            yield number, line


def is_free(line: str) -> bool:
    """Whether a line may be longer: tables, links and single long words."""
    return line.lstrip().startswith("|") or LINK.search(line) is not None or " " not in line.strip()


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command and its subcommands."""
    context = click.Context(command, info_name=name)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            yield from helps(each, f"{name} {below}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_is_wrapped(page: Path) -> None:
    wide = [f"{page.name}:{number}" for number, line in prose(page) if len(line) > WIDTH and not is_free(line)]
    assert wide == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_have_no_private_vocabulary(page: Path) -> None:
    found = [f"{page.name}:{number}: {match[0]}" for number, line in prose(page) for match in VOCABULARY.finditer(line)]
    assert found == []


def test_help_has_no_private_vocabulary() -> None:
    texts = dict(helps(cli, "pfedeg"))
    assert len(texts) > 15
    found = [f"{name}: {match[0]}" for name, text in texts.items() for match in VOCABULARY.finditer(text)]
    assert found == []


def test_private_vocabulary_and_long_lines_are_detected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a cell with its last words\n\n```\nlast words\n```\n{'word ' * 30}\n| {'word ' * 30} |\n")
    lines = list(prose(page))
    assert [number for number, line in lines if VOCABULARY.search(line)] == [1]
    assert [number for number, line in lines if len(line) > WIDTH and not is_free(line)] == [6]


def test_performance_page_is_short() -> None:
    words = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").split()
    assert len(words) <= MAX_WORDS
