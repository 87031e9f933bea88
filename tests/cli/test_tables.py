"""Progress: a bar in a terminal, lines elsewhere; probabilities."""

import time
from io import StringIO

import pytest
from rich.console import Console

from pfedeg.cli import tables as terminal
from pfedeg.cli.tables import chance_text, progress_bar, time_left


def test_without_a_terminal_important_notes_and_one_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    out = StringIO()
    with progress_bar(Console(file=out), "reading", 10) as show:
        show(1, "one", False)
        show(2, "two", True)
        clock[0] += terminal.LINE_SECONDS + 1
        show(3, "three\x1b[31m", False)
        show(4, "four", False)
    assert out.getvalue().splitlines() == ["reading: two", "reading: three\\x1b[31m"]


def test_terminal_bar_is_transient() -> None:
    out = StringIO()
    with progress_bar(Console(file=out, force_terminal=True, width=100), "reading", None) as show:
        show(3, "three of many", True)
        time.sleep(0.2)  # a frame or two
    assert "three of many" in out.getvalue()
    assert "━" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")  # the line is wiped


def test_time_left_is_extrapolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.time, "monotonic", lambda: 30.0)
    assert time_left(10.0, 1, 4) == ", 1 min 00 s left"
    assert time_left(10.0, 0, 4) == time_left(10.0, 4, 4) == time_left(10.0, 2, None) == ""


@pytest.mark.parametrize(
    ("probability", "cases", "text"),
    [
        (None, None, ""),
        (0.5, None, "0.50"),
        (0.6667, 41, "0.67 (n = 41)"),
        (0.0004, 2500, "<0.01 (n = 2,500)"),
        (0.9951, 300, ">0.99 (n = 300)"),
    ],
)
def test_a_probability_shows_what_it_rests_on(probability: float | None, cases: int | None, text: str) -> None:
    assert chance_text(probability, cases) == text
