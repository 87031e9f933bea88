"""The narrow interface behind which the computing happens: train, score, rank.

`reference` is the specification in plain numpy; `fused` is what runs. Both take the same arguments and use the same
random numbers, so that they can be compared step by step.
"""

import os
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.engine.lowlevel import aligned_arrays
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Known
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat, Model


@dataclass(frozen=True, slots=True)
class Local:
    """How a client trains in one round."""

    epochs: int = 3
    batch: int = 512
    negatives: int = 256  # corrupted tails per positive (n)
    sampling: Literal["own", "shared"] = "own"  # each positive its own negatives, or a chunk of positives shares them
    chunk: int = 64  # positives that share negatives
    lr: float = 1e-3
    alpha: float = 1.0  # temperature of the self-adversarial weights
    loss: Literal["mean", "sum"] = "mean"  # over the batch
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True, slots=True)
class Absorb:
    """How knowledge from the server enters local training: a closed set, which kernels fuse into the update."""

    replace: bool = False  # start the round from the received rows (the paper's "Init")
    pull: float = 0.0  # β of β · ‖E − K‖ (the paper's "Reg")
    contrast: float = 0.0  # μ of FedEC's contrastive term
    temperature: float = 0.2  # τ of FedEC's contrastive term
    pooled: bool = False  # FedEC's cosines averaged over the entities first


class Tables(NamedTuple):
    """A client's embeddings: a row per local entity, a row per local relation."""

    entity: Mat
    relation: Mat

    def copy(self) -> "Tables":
        """Tables of one's own."""
        return Tables(aligned_arrays.copy(self.entity), aligned_arrays.copy(self.relation))


class Moments(NamedTuple):
    """Adam's first and second moments of both tables, and the steps made so far."""

    entity1: Mat
    entity2: Mat
    relation1: Mat
    relation2: Mat
    steps: NDArray[np.int64]  # (1,)

    @classmethod
    def zeros(cls, tables: Tables) -> "Moments":
        """Moments at the start."""
        entity1, entity2, relation1, relation2 = (
            aligned_arrays.zeros(table.shape, table.dtype) for table in (*[tables.entity] * 2, *[tables.relation] * 2)
        )
        return cls(entity1, entity2, relation1, relation2, np.zeros(1, np.int64))

    def copy(self) -> "Moments":
        """Moments of one's own."""
        entity1, entity2, relation1, relation2 = (aligned_arrays.copy(table) for table in self[:4])
        return Moments(entity1, entity2, relation1, relation2, self.steps.copy())


class Knowledge(NamedTuple):
    """What the loss refers to beside the triples; of size (0, width) where nothing does."""

    received: Mat  # K of PFedEG, G of FedEC: a row per local entity
    previous: Mat  # P of FedEC: the client's own table at the end of its previous round


class Positives(NamedTuple):
    """Training triples, and for each the known tails of its (h, r)."""

    triples: Ids  # (n, 3)
    group: Ids  # (n,) index into start
    start: NDArray[np.int64]
    tails: Ids  # sorted within a group


class Questions(NamedTuple):
    """Distinct queries, and the triples to be ranked under each."""

    given: Ids  # (m,) the entity that is given
    relation: Ids  # (m,)
    first: NDArray[np.int64]  # truth[first[i]:first[i + 1]] are to be ranked under query i
    truth: Ids  # local ids of the true answers, grouped by query
    start: NDArray[np.int64]  # known[start[i]:start[i + 1]] are filtered out under query i
    known: Ids  # ascending under each query


class Kernels(Protocol):
    """The whole native surface."""

    def train(
        self,
        model: Model,
        local: Local,
        absorb: Absorb,
        tables: Tables,
        moments: Moments,
        knowledge: Knowledge,
        positives: Positives,
        key: int,
    ) -> float:
        """Train some epochs, changing tables and moments in place; the mean of L_KGE over positives and epochs."""

    def scores(self, model: Model, tables: Tables, queries: Mat) -> Mat:
        """Scores of composed queries (m, width) against all entities: (m, n)."""

    def ranks(self, model: Model, tables: Tables, queries: Mat, questions: Questions) -> NDArray[np.float64]:
        """Filtered realistic rank of every true answer, in the order of `questions.truth`."""


class Solo(Kernels, Protocol):
    """Kernels on one thread, for one of several clients that train at the same time."""

    def stop(self) -> None:
        """Called from another thread: end soon what runs, and run nothing more. Results are then worth nothing."""


@runtime_checkable
class Crew(Kernels, Protocol):
    """Kernels on several threads, which can also be had one by one."""

    threads: int

    def solo(self) -> Solo:
        """Kernels of the same results on one thread, beside others of their kind."""


def positives(graph: KnowledgeGraph) -> Positives:
    """What training needs to know of a graph."""
    known = graph.known("tail", ("train",))
    key = graph.train[:, 0].astype(np.int64) * len(graph.relations) + graph.train[:, 1]
    return Positives(graph.train, np.searchsorted(known.keys, key).astype(np.int32), known.start, known.answers)


def questions(
    triples: Ids, known: Known, relations: int, given: Literal[0, 2] = 0
) -> tuple[Questions, NDArray[np.int64]]:
    """Group triples by question; also the order that says which triple each rank belongs to."""
    key = triples[:, given].astype(np.int64) * relations + triples[:, 1]
    keys, which, answers = np.unique(key, return_inverse=True, return_counts=True)
    asked = np.argsort(answers, kind="stable")  # who has as many answers is ranked together
    turn = np.empty(len(keys), np.int64)
    turn[asked] = np.arange(len(keys))
    order = np.argsort(turn[which], kind="stable")
    keys, first = keys[asked], np.concatenate([[0], np.cumsum(answers[asked])])
    place = np.searchsorted(known.keys, keys)
    size = known.start[place + 1] - known.start[place]
    start = np.concatenate([[0], np.cumsum(size)])
    take = np.repeat(known.start[place] - start[:-1], size) + np.arange(start[-1])
    entity, relation = np.divmod(keys, relations)
    grouped = Questions(
        entity.astype(np.int32),
        relation.astype(np.int32),
        first.astype(np.int64),
        triples[order, 2 - given],
        start.astype(np.int64),
        known.answers[take],
    )
    return grouped, order


def epoch_keys(key: int, epoch: int) -> tuple[int, int]:
    """The keys of an epoch's order and of its negatives."""
    return randomness.derive(key, 2 * epoch), randomness.derive(key, 2 * epoch + 1)


def default_kernels(threads: int | None = None) -> Kernels:
    """The compiled kernels, by default on all cores that this process may use. Compiled code is imported only here."""
    from pfedeg.engine.compiled.crew import FusedCrew

    return FusedCrew(threads or cores())


def cores() -> int:
    """How many cores this process may use."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1
