"""The tutorial's commands work as described, and its table has their results."""

import json
import re
from pathlib import Path

import pytest
from test_readme import ROOT, follow

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_tutorial_commands_and_table(tmp_path: Path) -> None:
    follow(TUTORIAL, tmp_path)
    results = [json.loads((tmp_path / "runs" / name / "result.json").read_text()) for name in ("single", "together")]
    clients = [result["test"]["clients"] for result in results]
    rows = re.findall(r"^\| (\w+) \| (0\.\d+) \| (0\.\d+) \|$", TUTORIAL, re.M)
    assert sorted(name for name, _, _ in rows) == sorted(clients[0])
    for name, *expected in rows:
        assert [each[name]["mrr"] for each in clients] == pytest.approx([float(text) for text in expected], abs=0.03)
        assert clients[1][name]["mrr"] > clients[0][name]["mrr"]
    assert "| better |" not in (tmp_path / "report.md").read_text()  # --quick
