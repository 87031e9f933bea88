"""The narrow interface behind which the computing happens: train, score, rank.

`reference` is the specification in numpy, and what runs models, objectives and optimisers that have no compiled code;
`compiled` is what runs the others. Both take the same arguments and the same random numbers, so that they can be
compared step by step.
"""

import os
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Known
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat, Model, Tables
from pfedeg.objectives.base import Objective
from pfedeg.optimizers.base import Optimizer, OptimizerState


@dataclass(frozen=True, slots=True)
class Batches:
    """How a client goes over its triples in one round, and how negatives are drawn."""

    epochs: int = 3
    size: int = 512  # positives per batch
    negatives: int = 256  # corrupted tails per positive (n)
    sampling: Literal["own", "shared"] = "own"  # each positive its own negatives, or a chunk of positives shares them
    chunk: int = 64  # positives that share negatives
    reduction: Literal["mean", "sum"] = "mean"  # of the losses in a batch


@dataclass(frozen=True, slots=True)
class Absorb:
    """How knowledge from the server enters local training. Engines fuse these into the update, so the set is fixed.

    Clients `replace` their rows by the received ones, `pull` towards them with strength β, or `contrast` with strength
    μ at a `temperature` τ, with cosines `pooled` or not.
    """

    replace: bool = False  # start the round from the received rows (the paper's "Init")
    pull: float = 0.0  # β of β · ‖E − K‖ (the paper's "Reg")
    contrast: float = 0.0  # μ of FedEC's contrastive term
    temperature: float = 0.2  # τ of FedEC's contrastive term
    pooled: bool = False  # FedEC's cosines averaged over the entities first


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that says how a client trains, but its data."""

    model: Model
    objective: Objective
    optimizer: Optimizer
    batches: Batches = Batches()
    absorb: Absorb = Absorb()


class Knowledge(NamedTuple):
    """The rows that the regularisers compare the entity table with; of size (0, width) where there is none."""

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


class Engine(Protocol):
    """What trains and ranks. Results are the same for any number of threads."""

    def train(
        self, recipe: Recipe, tables: Tables, state: OptimizerState, knowledge: Knowledge, data: Positives, key: int
    ) -> float:
        """Train some epochs, changing tables and the optimiser's state in place; the mean loss of the positives."""

    def scores(self, model: Model, tables: Tables, queries: Mat) -> Mat:
        """Scores of composed queries (m, width) against all entities: (m, n)."""

    def ranks(self, model: Model, tables: Tables, queries: Mat, questions: Questions) -> NDArray[np.float64]:
        """Filtered realistic rank of every true answer, in the order of `questions.truth`."""


class SingleThreaded(Engine, Protocol):
    """An engine on one thread, for one of several clients that train at the same time."""

    def stop(self) -> None:
        """Called from another thread: end what runs soon, and run nothing more. Its results are then invalid."""


@runtime_checkable
class MultiThreaded(Engine, Protocol):
    """An engine on several threads, which can also be split into engines of one thread each."""

    threads: int

    def single(self) -> SingleThreaded:
        """An engine with the same results on one thread, to run beside others of its kind."""

    def stop(self) -> None:
        """See `SingleThreaded.stop`."""


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
    by_answers = np.argsort(answers, kind="stable")  # queries with as many answers are ranked together
    turn = np.empty(len(keys), np.int64)
    turn[by_answers] = np.arange(len(keys))
    order = np.argsort(turn[which], kind="stable")
    keys, first = keys[by_answers], np.concatenate([[0], np.cumsum(answers[by_answers])])
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


def default_engine(threads: int | None = None) -> MultiThreaded:
    """The compiled engine, by default on all cores that this process may use. Compiled code is imported only here."""
    from pfedeg.engine.compiled.engine import CompiledEngine

    return CompiledEngine(threads or cores())


def check_threads(threads: int | None) -> None:
    """Raise InputError unless this is a number of threads, or None for all cores."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise InputError(f"threads: {threads!r} is not a number of cores; omit it to use all")


def cores() -> int:
    """How many cores this process may use."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1
