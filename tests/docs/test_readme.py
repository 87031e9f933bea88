"""The README is up to date: its shown output, figures, picture and links are checked."""

import re
from pathlib import Path

import figures
import pytest
import quotes
import readme_picture
import transcript

import docs
from pfedeg.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DARK = re.compile(r"prefers-color-scheme: dark\) \{.*?\n\}", re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def shown(folder: Path) -> list[transcript.Shown]:
    """What the README's commands and Python example print."""
    return transcript.run_page(README, folder)


def test_shown_output_is_up_to_date(shown: list[transcript.Shown]) -> None:
    assert len(shown) >= 3
    assert [(each.command, each.outdated) for each in shown if each.outdated] == [], "run `make docs`"


def test_figures_quoted_from_the_demo(shown: list[transcript.Shown], folder: Path) -> None:
    made = quotes.of_runs("README.md", folder)
    assert figures.check(README, made).problems == [], "run `make docs`"
    assert docs.quote_results(ROOT / "README.md", README) == (README, []), "run `make docs`"
    assert figures.without_source(README, [*made, *quotes.COMMITTED["README.md"]], quotes.FIXED["README.md"]) == []


def test_the_first_example_has_ten_lines() -> None:
    assert len(transcript.blocks("python", README)[0].splitlines()) <= 11


def test_picture_is_up_to_date(shown: list[transcript.Shown], folder: Path) -> None:
    new = readme_picture.picture(folder / "runs" / "demo", "svg").decode()
    old = (ROOT / "docs" / "plots" / "demo.svg").read_text(encoding="utf-8")
    assert "docs/plots/demo.svg" in README
    assert [match[0] for match in DARK.finditer(new)] == [match[0] for match in DARK.finditer(old)] != []
    texts = [re.findall(r"<text [^>]*>([^<]*)</text>", each) for each in (old, new)]
    assert len(texts[0]) == len(texts[1]) > 60
    wrong = [f"{was}: now {is_}" for was, is_ in zip(*texts, strict=True) if not drawn_alike(was, is_)]
    assert not wrong, "run `make picture`: " + ", ".join(wrong)


def drawn_alike(old: str, new: str) -> bool:
    """Whether two pictures agree: shares within a percentage point, MRR within 0.02, everything else equal."""
    if old.endswith("%") and new.endswith("%"):
        return abs(float(old[:-1]) - float(new[:-1])) <= 1
    if old.startswith(".") and new.startswith("."):
        return abs(float(old) - float(new)) <= transcript.METRIC
    return old == new


def test_speed_table_agrees_with_the_performance_page() -> None:
    rows = re.findall(r"^\| [^|]*times as fast as Py[^|]*\|(.*)\|$", README, re.M)
    factors = [factor for row in rows for factor in transcript.NUMBER.findall(row)]
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert len(factors) == 8
    assert [factor for factor in factors if f" {factor}×" not in page] == []
    (claim,) = re.findall(r"\*\*(\d+) times as fast as PyKEEN\*\*", README)
    assert claim == factors[0]


def test_every_command_is_listed() -> None:
    for name in cli.commands:
        assert f"`pfedeg {name}" in README, f"the README does not mention pfedeg {name}"


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^    |`)make ([\w-]+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), f"no target {target} in the Makefile"


@pytest.mark.parametrize(
    "page", sorted(["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
)
def test_links_are_valid(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if "://" in link:
            continue
        target = (ROOT / page).parent / link if link else ROOT / page
        assert target.exists(), f"{page} links to {link}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page} links to {link}#{anchor}, which is not a heading"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
