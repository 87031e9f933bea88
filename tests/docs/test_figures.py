"""Figures in the docs: stale ones, ones without a source, false claims and stale output are found and updated."""

import re
from pathlib import Path

import figures
import pytest
import quotes
import transcript

import docs

ROOT = Path(__file__).resolve().parents[2]
PAGE = "Text with\n0.25 alone and **0.3012** together (−0.0100), 984 places.\n\n| a | 0.1 ± 0.02 | not run |\n"
QUOTES = [
    figures.quote("{} alone and {} together ({})", 0.2501, 0.30119, -0.01),
    figures.quote("| a | {} ± {} | {} |", 0.1, 0.02, None),
]


def test_figures_that_agree_with_their_source_pass() -> None:
    assert figures.check(PAGE, QUOTES) == (PAGE, [], figures.check(PAGE, QUOTES).spans)
    assert figures.without_source(PAGE, QUOTES) == []


def test_stale_figures_are_found_and_updated() -> None:
    stale = [
        figures.quote("{} alone and {} together", 0.2449, 0.31),
        figures.quote("| a | {} ± {} | {} |", 0.1, 0.02, 0.5),
    ]
    checked = figures.check(PAGE, stale)
    assert [each.split(":")[0] for each in checked.problems] == [
        "0.25 is now 0.24", "0.3012 is now 0.3100", "not run is now 0.5000",
    ]  # fmt: skip
    assert "0.24 alone and **0.3100** together" in checked.text
    assert figures.check(checked.text, stale).problems == []
    assert figures.check(PAGE, [figures.quote("{} alone", 0.26, tolerance=0.02)]).problems == []
    assert figures.check(PAGE, [figures.quote("{} places", 985)]).text.endswith(
        "985 places.\n\n| a | 0.1 ± 0.02 | not run |\n"
    )


def test_pieces_that_left_the_page_and_false_claims_are_found() -> None:
    wrong = [figures.quote("{} before", 1), figures.claim("alone and", False), figures.quote("{}", 1)]
    problems = figures.check(PAGE, wrong).problems
    assert [each.split(":")[0] for each in problems] == [
        "not on the page", "no longer true", "more than once on the page",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["0.41", "−0.0009", "34.6 %", "218× ", "12,843 entities", "**0.5583**"])
def test_a_figure_without_a_source_is_found(text: str) -> None:
    assert len(figures.without_source(f"It was {text} there.", [])) == 1
    marked = f"<!-- machine: make bench -->\n\n{text}\n"
    for free in (f"`{text}`", f"```\n{text}\n```\n", marked, "p = 0.5 of PyKEEN 1.11"):
        assert figures.without_source(f"\n{free}\n", []) == []
    assert figures.without_source(f"{marked}# Next\n\n{text}\n", [])
    assert figures.without_source(f"It was {text} there.", [], fixed=[f"was {text}"]) == []


def test_every_page_is_checked() -> None:
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} | {"README.md"}
    assert {*quotes.COMMITTED, *quotes.MADE, *quotes.FIXED} <= pages
    for name in sorted(pages - {"docs/api.md", "docs/settings.md", *quotes.MADE}):  # generated; with runs of their own
        text = (ROOT / name).read_text(encoding="utf-8")
        assert docs.quote_results(ROOT / name, text) == (text, []), f"{name}: run `make docs`"


SHOWN = """Before
```console
$ pfedeg first
…
│ Single │ 0.3794 │
  3 facts: …, 3.5 (of Rome)
$ pfedeg second
done in 5 s
```
```python
print(1)
# → valid MRR 0.31
```
"""


def _shown(first: list[str], example: str = "valid MRR 0.31") -> list[transcript.Shown]:
    (one, two) = transcript.commands(SHOWN)
    return [
        transcript.Shown(one[0], tuple(one[1]), tuple(first)),
        transcript.Shown(two[0], tuple(two[1]), ("done in 7 s",)),
        transcript.Shown("the Python example", ("valid MRR 0.31",), (example,)),
    ]


def test_output_within_the_spread_of_processors_is_kept() -> None:
    shown = _shown(["begins", "│ Single │ 0.3894 │", "  3 facts: Lima 2.0, 3.5 (of Rome)"], "valid MRR 0.32")
    assert [each.outdated for each in shown] == [[], [], []]
    assert transcript.rewritten(SHOWN, shown) == (SHOWN, [])


@pytest.mark.parametrize(
    ("printed", "stale"),
    [
        (["│ Single │ 0.4794 │", "  3 facts: Lima 2.0, 3.5 (of Rome)"], "│ Single │ 0.3794 │"),
        (["│ Single │ 0.3794 │", "  4 facts: Lima 2.0, 3.5 (of Rome)"], "  3 facts: …, 3.5 (of Rome)"),
        (["│ Single │ 0.3794 │", "  3 facts: Lima 2.0, 3.5 (of Oslo)"], "  3 facts: …, 3.5 (of Rome)"),
    ],
    ids=["metric", "count", "text"],
)
def test_stale_output_is_found(printed: list[str], stale: str) -> None:
    assert _shown(printed)[0].outdated == [stale]


def test_stale_output_is_rewritten_with_all_figures_of_the_page() -> None:
    shown = _shown(["begins", "│ Single, alone │ 0.4794 │", "  4 facts: Lima, 3.6 (of Rome)"], "valid MRR 0.33")
    text, unclear = transcript.rewritten(SHOWN, shown)
    assert unclear == []
    expected = SHOWN.replace("│ Single │ 0.3794 │", "│ Single, alone │ 0.4794 │")
    expected = expected.replace("3 facts: …, 3.5", "4 facts: …, 3.6").replace("0.31", "0.33")
    assert text == expected
    fresh = [
        transcript.Shown(c, tuple(lines), shown[i].printed) for i, (c, lines) in enumerate(transcript.commands(text))
    ]
    assert [each.outdated for each in fresh] == [[], []]


def test_lines_of_the_same_form_are_rewritten_in_their_order() -> None:
    page = "```console\n$ pfedeg first\nstep 1 of 5\n…\nstep 9 of 5\n```\n"
    ((command, lines),) = transcript.commands(page)
    shown = [transcript.Shown(command, tuple(lines), ("step 2 of 6", "other", "step 8 of 6"))]
    assert transcript.rewritten(page, shown)[0] == page.replace("1 of 5", "2 of 6").replace("9 of 5", "8 of 6")


def test_output_that_needs_an_author_is_named() -> None:
    shown = _shown(["│ Single │ 0.3794 │", "nothing like it"])
    text, unclear = transcript.rewritten(SHOWN, shown)
    assert unclear == ["pfedeg first:   3 facts: …, 3.5 (of Rome)"]
    assert text == SHOWN


def test_bold_clients_are_those_that_lose() -> None:
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    section = page[page.index("## Who gains, who loses") :].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (0\.\d{3}) \| (.*) \|$", section, re.M)
    rows = [row for row in rows if row[2].count("|") == 3]
    assert len(rows) == 21
    for name, alone, others in rows:
        for cell in others.split(" | "):
            loses = round(float(alone) - float(cell.strip("*")), 3) > 0.01
            assert cell.startswith("**") == loses, f"{name}: {cell}, alone {alone}"


def test_pages_name_the_plans_and_results_that_exist() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for plan in re.findall(r"pfedeg experiment (plans/\S+)", page.read_text(encoding="utf-8")):
            assert (ROOT / plan).exists(), f"{page.name}: {plan}"
