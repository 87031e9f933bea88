"""Progress from Python: one line of a terminal, or a line now and then; the same notes as on the command line."""

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pfedeg
from pfedeg.cli.main import cli
from pfedeg.graphs.federation import Federation
from pfedeg.training import progress
from pfedeg.training.progress import ProgressLine, rounds_with_progress

TINY: dict[str, Any] = {"dim": 8, "negatives": 4, "batch": 16, "rounds": 6, "eval_every": 2}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_are_those_of_the_command_line(
    synthetic: Federation, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pfedeg.train(Federation.read(folder), "fede", progress=True, **TINY)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["FedE: round 2/6", "FedE: round 4/6", "FedE: round 6/6"]
    assert all(re.search(r", loss \d\.\d{4}, valid MRR \d\.\d{4}", line) for line in lines)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    words = ["train", str(folder), "--method", "fede", *flags, "--out", str(tmp_path / "run")]
    printed = CliRunner().invoke(cli, words).stderr.splitlines()
    assert [line.split(", at most")[0] for line in printed if line in lines or "round 2/6" in line] == [
        line.split(", at most")[0] for line in lines
    ]


def test_nothing_is_shown_unless_asked(synthetic: Federation, capsys: pytest.CaptureFixture[str]) -> None:
    pfedeg.train(synthetic, "fede", **TINY)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_one_line_that_is_removed_at_the_end(synthetic: Federation) -> None:
    screen = Terminal()
    training = pfedeg.Training(synthetic, pfedeg.Config("fede", **TINY))
    assert [done.number for done in rounds_with_progress(training, screen)] == [1, 2, 3, 4, 5, 6]
    text = screen.getvalue()
    assert "\n" not in text
    assert text.count("\rFedE: round ") == 6
    assert text.endswith(" \r")


def test_a_long_note_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen = Terminal()
    line = ProgressLine("long", screen)
    line.show("word " * 20)
    line.show("short")
    assert [len(text) for text in screen.getvalue().split("\r")[1:]] == [29, 29]


def test_elsewhere_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    file = StringIO()
    line = ProgressLine("reading", file)
    line.show("one")
    line.show("two", True)
    clock[0] += progress.LINE_SECONDS + 1
    line.show("three\x1b[31m")
    line.show("four")
    line.clear()
    assert file.getvalue().splitlines() == ["reading: two", "reading: three\\x1b[31m"]


def test_resuming_is_said(synthetic: Federation, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for done in pfedeg.Training(synthetic, pfedeg.Config("fede", **TINY), out=tmp_path / "run"):
        if done.number == 3:
            break
    pfedeg.train(synthetic, "fede", out=tmp_path / "run", resume=True, progress=True, **TINY)
    assert capsys.readouterr().err.splitlines()[0] == "FedE: resuming after round 3"
