"""docs/python.md and the notebook: their code runs in order in a fresh namespace and prints what they show."""

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import run_notebook
from test_readme import ROOT
from transcript import blocks, located

import pfedeg
from test_result_table import check_latex

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


def differences(shown: list[str], printed: list[str]) -> list[str]:
    """Shown lines that are no longer printed."""
    return [line for line, at in zip(shown, located(shown, printed), strict=True) if at is None]


class Writer:
    """Stands for TensorBoard's SummaryWriter."""

    scalars: list[tuple[str, float, int]]
    closed = False

    def __init__(self, folder: str) -> None:
        Writer.scalars = []

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *error: Any) -> None:
        Writer.closed = True

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        Writer.scalars.append((tag, value, step))


def test_code_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Writer))
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()) as progress:
        exec(compile("\n".join(blocks("python", PAGE)), "docs/python.md", "exec"), {})
    documented = re.findall(r"^# → (.*)$", PAGE, re.M)
    assert len(documented) > 10
    missing = differences(documented, output.getvalue().split("\n"))
    assert not missing, f"the page no longer prints {missing}, but:\n{output.getvalue()}"
    assert progress.getvalue().startswith("FedE: round 5/10, loss ")
    check_latex((tmp_path / "report.tex").read_text())

    saved = pfedeg.Run("runs/single").history
    losses = [(f"loss/{client}", loss, line["round"]) for line in saved for client, loss in line["loss"].items()]
    assert [each for each in Writer.scalars if each[0].startswith("loss/")] == losses
    clients = [line["valid"]["clients"] for line in saved if "valid" in line]
    logged = [value for tag, value, _ in Writer.scalars if tag.startswith("valid MRR/")]
    assert sorted(logged) == sorted(metrics["mrr"] for each in clients for metrics in each.values())
    assert Writer.closed


def test_every_function_of_the_table_exists() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `pfedeg ")]
    names = [name for row in rows for name in re.findall(r"`pfedeg\.(\w+)\(", row)]
    assert len(names) >= len(rows)
    assert [name for name in names if name not in pfedeg.__all__] == []


def test_the_notebook_runs_and_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    printed = run_notebook.execute(notebook)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(printed) == len(code) > 5
    for cell, text in zip(code, printed, strict=True):
        shown = "".join(line for output in cell["outputs"] for line in output["text"]).splitlines()
        assert bool(shown) == bool(text)
        missing = differences(shown, text.splitlines())
        assert not missing, f"run `make notebook`: a cell no longer prints {missing}, but:\n{text}"


def test_a_failing_cell_is_named() -> None:
    cells = [{"cell_type": "code", "source": ["x = 1\n", "x / 0"]}]
    with pytest.raises(ZeroDivisionError):
        run_notebook.execute({"cells": cells})


def test_readers_find_the_page_and_the_notebook() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(docs/python.md)" in readme
    assert "(examples/first_steps.ipynb)" in readme
    assert "(../examples/first_steps.ipynb)" in PAGE
