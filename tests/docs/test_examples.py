"""The examples run, and show what they say."""

from pathlib import Path

import pytest

import pfedeg

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _examples_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_own_strategy_trains_beside_fede():
    import own_strategy

    found = own_strategy.compare(pfedeg.Federation.world(), rounds=2, dim=6, negatives=4, lr=0.02)
    assert len(found) == 2
    assert all(0 < mrr < 1 for mrr in found.values())
    assert len(set(found.values())) == 2  # the strategy makes a difference


def test_naive_example_prints_equal_columns(capsys):
    import naive_pfedeg

    naive_pfedeg.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert len(lines) == 2 * naive_pfedeg.Settings().rounds
    assert all(here == there for _, here, there in lines)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short_enough_to_read(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= {"own_strategy.py": 60}.get(path.name, 240)


def test_public_names_of_the_examples_exist():
    assert {"Absorb", "Config", "Federation", "Rows", "Shared", "Training", "train"} <= set(pfedeg.__all__)
