"""Shared fixtures: a small synthetic federation, in memory and as files, and working Ctrl-C."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from pfedeg.graphs.federation import Federation
from pfedeg.graphs.splitting import split_graph
from pfedeg.graphs.triples import Named
from pfedeg.training.config import REGISTRIES

settings.register_profile("pfedeg", deadline=None, derandomize=True)  # no deadlines, reproducible examples
settings.load_profile("pfedeg")


@pytest.fixture(autouse=True)
def _only_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget plug-ins that other tests have loaded: their labels are names, and their settings are options."""
    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "_loaded", {})


def ring(offset: int, size: int, relations: tuple[str, ...]) -> Named:
    """Triples with a learnable rule: relation k leads from an entity to the one k + 1 steps further."""
    return [
        (f"e{offset + i:02}", name, f"e{offset + (i + step) % size:02}")
        for i in range(size)
        for step, name in enumerate(relations, 1)
    ]


@pytest.fixture(scope="session")
def synthetic() -> Federation:
    """Three clients; each shares entities with both others, and each has its own relations."""
    return Federation(
        {
            "ash": split_graph(ring(0, 20, ("near", "next")), 1),
            "birch": split_graph(ring(10, 16, ("next", "over")), 2),
            "Čedar [x]": split_graph(ring(14, 12, ("left", "right", "up")), 3),
        }
    )


@pytest.fixture
def folder(synthetic: Federation, tmp_path: Path) -> Path:
    """The synthetic federation as a folder of TSV files."""
    synthetic.write(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def sigint_enabled() -> Iterator[None]:
    """Handle SIGINT, which processes started in the background ignore, as do their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
