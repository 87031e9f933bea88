"""Generated pages: complete, up to date, and checked for names without a docstring."""

import subprocess
import sys
from pathlib import Path

import api_page
import pytest

import docs
import pfedeg
from pfedeg.models.base import Model

ROOT = Path(__file__).resolve().parents[2]


def test_settings_reference_and_line_numbers_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, "tools/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_public_name_is_on_the_page() -> None:
    page = api_page.api_page()
    assert [name for name in pfedeg.__all__ if f"\n`pfedeg.{name}`\n" not in page] == []


@pytest.mark.parametrize("thing", [pfedeg.Federation, pfedeg.train, Model.score], ids=lambda each: each.__qualname__)
def test_missing_docstrings_are_detected(thing: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api_page.undocumented() == []
    monkeypatch.setattr(thing, "__doc__", None)
    (found,) = api_page.undocumented()
    assert found.endswith(thing.__qualname__)


def test_public_names_missing_from_the_page_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pfedeg, "__all__", [*pfedeg.__all__, "Unheard"])
    assert api_page.undocumented() == ["pfedeg.Unheard (not on the page)"]


def test_links_point_to_the_line_of_the_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    (tmp_path / "code.py").write_text("\n\ndef here():\n    pass\n")
    text = "[`here` code.py:1](code.py#L1), [`gone` code.py:1](code.py#L1), [`it` no.py:1](no.py#L1)"
    after, broken = docs.follow_links(tmp_path / "page.md", text)
    assert after == text.replace("[`here` code.py:1](code.py#L1)", "[`here` code.py:3](code.py#L3)")
    assert broken == ["page.md: code.py does not define gone", "page.md: no.py does not define it"]


def test_every_setting_is_on_the_page() -> None:
    page = docs.settings_page()
    assert [name for name in docs.all_settings() if f"| `{name}` |" not in page] == []
