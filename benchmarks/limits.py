"""What each kernel needs at least, counted, and the time in which this machine could do it.

A pass takes at least as long as its multiplications, its additions, both together, or its bytes, whichever takes
longest at the rates that `machine` measures; passes that wait for each other add up. What is counted, per number:

- a multiplication or a fused multiply–add is one `multiply` (a fused one is two floating-point operations), an
  addition, subtraction or comparison one `add`; bit operations (|x|, signs), integers (drawing and sorting negatives),
  and what happens once per positive or per relation are not counted;
- 1/√x and 1/x as an estimate and one step of Newton, which is the fastest way to single precision;
- nothing is computed twice: a difference q − t or an inverse length 1/|q − t| known from the score is free for the
  gradients (a kernel that stays in cache has to compute them again);
- every array is read or written once per pass, whatever number of pairs ask for a row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from machine import Machine
from pfedeg.graphs.knowledge_graph import KnowledgeGraph

FLOAT = 4  # bytes
INVERSE_ROOT = 5  # multiplies: estimate y, then y · (3/2 − (x/2) · y · y)
INVERSE = 3  # multiplies: estimate y, then y + y · (1 − x · y)


@dataclass(frozen=True, slots=True)
class Work:
    """What one pass over a batch needs."""

    multiply: float
    add: float
    bytes: float = 0.0
    footprint: float = 0.0  # bytes that lie between two visits of the same row: they decide how far away rows are

    def __add__(self, other: "Work") -> "Work":
        """Both, in the same pass."""
        footprint = max(self.footprint, other.footprint)
        return Work(self.multiply + other.multiply, self.add + other.add, self.bytes + other.bytes, footprint)

    def times(self, number: float) -> "Work":
        """The arithmetic and the bytes so many times."""
        return Work(self.multiply * number, self.add * number, self.bytes * number, self.footprint)


# Per real number of a row (RotatE and ComplEx have two per dimension).
SCORE = {
    "transe": Work(0, 2),  # Σ |q − t|: subtract, add
    "rotate": Work((2 + INVERSE_ROOT + 1) / 2, 2 / 2),  # x = re² + im²; Σ x · (1/√x): per two numbers
    "complex": Work(1, 0),  # Σ q · t
}
GRADIENTS = {  # of the query and of the row, from the weight c = ∂L/∂s
    "transe": Work(0, 2),  # add ±c to both
    "rotate": Work((1 + 2 * 2) / 2, 0),  # c · 1/|q − t|; times re and im, added to both: per two numbers
    "complex": Work(2, 0),  # c · t to the query's, c · q to the row's
}
# Per pair: softmax, σ and softplus of the score; an exponential is 9 multiplies and 3 adds, log(1 + x) 14 and 1.
WEIGH = Work(2 * 9 + 14 + INVERSE + 3, 2 * 3 + 1 + 3)
# Per number of a row: m ← β₁ m + (1 − β₁) g; v ← β₂ v + (1 − β₂) g²; row ← row − rate · m / (√v · unbias + ε).
ADAM = Work(2 + 3 + (INVERSE_ROOT + 1) + 1 + INVERSE + 2, 0)
# The same without a gradient, of one step among several that are caught up together: m and √v are known up to a factor.
CATCH_UP = Work(1 + INVERSE + 2, 0)
# Per number of a row: g ← g + (β / ‖E − K‖) · (row − K), and the new row's share of ‖E − K‖².
PULL = Work(1 + 1, 1 + 1)
COMPARE = Work(0, 2)  # per candidate of a ranked triple: greater, equal


class Sizes(NamedTuple):
    """What counts depend on."""

    width: int  # real numbers per entity
    entities: int
    batch: int
    negatives: int
    touched: float  # distinct entities of a batch with shared negatives


def own_with_pull(name: str, s: Sizes) -> list[Work]:
    """One batch, every positive with negatives of its own; then Adam over the whole table, pulled towards K."""
    pairs, numbers = s.batch * (1 + s.negatives), s.entities * s.width
    footprint = 4 * FLOAT * numbers  # E, K and both moments
    score = SCORE[name].times(pairs * s.width) + WEIGH.times(pairs) + Work(0, 0, FLOAT * numbers, footprint)  # read E
    update = GRADIENTS[name].times(pairs * s.width) + (ADAM + PULL).times(numbers)
    return [score, update + Work(0, 0, 7 * FLOAT * numbers, footprint)]  # read all four, write all but K


def shared(name: str, s: Sizes) -> list[Work]:
    """One batch, chunks share negatives; Adam visits the rows that have a gradient and makes up for steps missed."""
    pairs, numbers, touched = s.batch * (1 + s.negatives), s.entities * s.width, s.touched * s.width
    footprint = 3 * FLOAT * numbers  # E and both moments
    score = SCORE[name].times(pairs * s.width) + WEIGH.times(pairs) + Work(0, 0, FLOAT * touched, footprint)
    update = GRADIENTS[name].times(pairs * s.width) + ADAM.times(touched) + CATCH_UP.times(numbers - touched)
    return [score, update + Work(0, 0, 6 * FLOAT * touched, footprint)]  # read and write all three


def ranking(name: str, s: Sizes, queries: int, ranked: int) -> list[Work]:
    """All queries against all entities, none left out early; every ranked triple compared with its query's scores."""
    table = FLOAT * s.entities * s.width
    arithmetic = SCORE[name].times(queries * s.entities * s.width) + COMPARE.times(ranked * s.entities)
    return [arithmetic + Work(0, 0, table, table)]


def least_seconds(passes: Sequence[Work], machine: Machine, bandwidth: Callable[[float], float]) -> float:
    """The time of passes that wait for each other."""
    return sum(
        max(
            work.multiply / machine.multiply,
            work.add / machine.add,
            (work.multiply + work.add) / machine.mixed,
            work.bytes / bandwidth(work.footprint),
        )
        for work in passes
    )


def sizes(graph: KnowledgeGraph, width: int, batch: int, negatives: int, chunk: int) -> Sizes:
    """Of a graph; what a batch touches is the mean over some random batches."""
    rng, entities = np.random.default_rng(0), len(graph.entities)
    counts = []
    for _ in range(20):
        triples = graph.train[rng.choice(len(graph.train), batch)]
        drawn = rng.integers(0, entities, -(-batch // chunk) * negatives)
        counts.append(len(np.unique(np.concatenate([triples[:, 0], triples[:, 2], drawn]))))
    return Sizes(width, entities, batch, negatives, float(np.mean(counts)))
