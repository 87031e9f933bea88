"""Results do not depend on where arrays lie in memory, however small they are and however close together."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pfedeg.engine.compiled.engine import Fused, Moments
from pfedeg.engine.interface import Absorb, Knowledge, positives
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import start_rows, Tables
from pfedeg.models.registry import MODELS

GRAPH = KnowledgeGraph.from_names([(f"e{i % 7}", f"r{i % 2}", f"e{(3 * i + 1) % 9}") for i in range(40)])


class Shelf:
    """numpy, but with memory in which each new array stands directly before the last one, `gap` bytes between them."""

    def __init__(self, gap: int) -> None:
        self.memory = np.empty(1 << 22, np.uint8)
        self.start, self.gap = len(self.memory), gap

    def zeros(self, shape: Any, kind: Any = np.float64) -> NDArray[Any]:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        self.start -= -(-size // 8) * 8 + self.gap
        array = self.memory[self.start : self.start + size].view(kind).reshape(shape)
        array[...] = 0
        return array

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def copy(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        copy = self.zeros(array.shape, np.float32)
        copy[...] = array
        return copy


def train(name: str, dim: int, gap: int, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    model = MODELS[name](dim)
    entity = start_rows(model, model.entity_width, 1, np.arange(len(GRAPH.entities)))
    relation = start_rows(model, model.relation_width, 2, np.arange(len(GRAPH.relations)))
    shelf = Shelf(gap)
    tables = Tables(shelf.copy(entity), shelf.copy(relation))
    known, made = positives(GRAPH), fresh(tables)
    moments = Moments(*(shelf.copy(array) for array in made[:4]), made.steps)
    knowledge = Knowledge(shelf.copy(entity + 1), entity[:0])
    local = dict(epochs=3, batch=16, negatives=5, lr=0.05)
    with monkeypatch.context() as patch:
        patch.setattr(scratch, "np", shelf)
        loss = Fused(1).train(recipe(model, Absorb(pull=0.1), **local), tables, moments, knowledge, known, 3)
    return [np.float64(loss).tobytes(), *(array.tobytes() for array in (*tables, *moments))]


@pytest.mark.parametrize("dim", [1, 8, 19])
@pytest.mark.parametrize("name", MODELS)
def test_distance_between_arrays_changes_nothing(name: str, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    far = train(name, dim, 8192, monkeypatch)
    for gap in (0, 8, 16):
        assert train(name, dim, gap, monkeypatch) == far
