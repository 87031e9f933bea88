"""What the compiled training passes work with: their settings, and their memory for one batch."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.graph import Ids
from pfedeg.kernels import Absorb, Local, Tables
from pfedeg.models import Mat

ROOM = 512  # bytes; more than a vectorised loop takes at a time on any processor


class Settings(NamedTuple):
    """Most of `Local` and `Absorb`, as kernels take it."""

    batch: int
    negatives: int
    mean: bool
    alpha: np.float32
    lr: float
    beta1: float
    beta2: float
    epsilon: np.float32
    pull: float


class Contrast(NamedTuple):
    """FedEC's term; other methods have None in its place, and their kernels no code for it."""

    weight: float
    temperature: float
    pooled: bool


class Scratch(NamedTuple):
    """Memory for one batch, allocated once per call."""

    query: Mat  # (batch, width) q of every positive
    ids: Ids  # (batch, pairs) the positive's tail, then (own) its negatives
    weight: Mat  # (batch, pairs) ∂L/∂s of each
    score: Mat  # (threads, pairs)
    by_query: Mat  # (threads, width)
    by_row: Mat  # (threads, width)
    by_relation: Mat  # (batch, relation width)
    gradient: Mat  # ready gradients of entity rows: heads, then (shared) each chunk's negatives
    head: Ids  # (entities,) first ready gradient of an entity, −1 if none
    following: Ids  # the next ready gradient of the same entity
    tally: Ids  # (threads, entities) pairs of each entity, then where the next one goes
    end: NDArray[np.int64]  # (entities + 1,) pairs of entity e are end[e] … end[e + 1]
    source: Ids  # sorted pairs: the positive
    sorted_weight: Mat  # sorted pairs: ∂L/∂s
    marks: NDArray[np.uint64]  # (threads, entities / 64) a bit for each known tail of the positive at hand
    chunk_ids: Ids  # (threads, 1 + negatives) a positive's tail, then the chunk's negatives
    chunk_weight: Mat  # (threads, 1 + negatives) ∂L/∂s of each
    chunk_source: Ids  # (threads, chunk) the chunk's positives
    column: Mat  # (threads, negatives, chunk) weights of a chunk's shared negatives
    relation_sum: Mat  # (relations, relation width)
    relation: Mat  # (relations, width) the relations as prepared for composing
    loss: Mat  # (batch,)
    square: NDArray[np.float64]  # (entities,) a row's share of ‖E − K‖²
    lean: NDArray[np.float64]  # (entities,) a row's s_l − s_g
    total: NDArray[np.float64]  # sum of losses, ‖E − K‖, mean of s_l − s_g, 1 if threads shall stop


def apart(shape: tuple[int, ...], kind: type[np.generic]) -> NDArray[Any]:
    """Zeros with room on both sides.

    A compiled loop takes its vectorised or its plain form by the distance between what it reads and what it writes,
    and the two round differently. With room around whatever is written it is always the same form.
    """
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    memory = np.zeros(size + 2 * ROOM, np.uint8)
    return memory[ROOM : ROOM + size].view(kind).reshape(shape)


def apart_if_narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy of it with room on both sides if its rows are shorter than that."""
    if array.shape[-1] * array.itemsize >= ROOM:
        return array
    copy = apart(array.shape, array.dtype.type)
    copy[...] = array
    return copy


def make_settings(local: Local, absorb: Absorb) -> Settings:
    """The settings of a call."""
    return Settings(
        local.batch,
        local.negatives,
        local.loss == "mean",
        np.float32(local.alpha),
        local.lr,
        local.beta1,
        local.beta2,
        np.float32(local.epsilon),
        absorb.pull,
    )


def make_contrast(absorb: Absorb) -> Contrast | None:
    """FedEC's term, if there is one."""
    return Contrast(absorb.contrast, absorb.temperature, absorb.pooled) if absorb.contrast else None


def make_scratch(s: Settings, chunk: int | None, tables: Tables, batch: int, threads: int) -> Scratch:
    """The memory of a call; chunk is None where positives have negatives of their own."""
    entities, width = tables.entity.shape
    pairs = 1 if chunk else 1 + s.negatives
    ready = batch + -(-batch // chunk) * s.negatives if chunk else batch

    def floats(*shape: int) -> Mat:
        return apart(shape, np.float32)

    return Scratch(
        query=floats(batch, width),
        ids=np.zeros((batch, pairs), np.int32),
        weight=floats(batch, pairs),
        score=floats(threads, 1 + s.negatives + 3),
        by_query=floats(threads, width),
        by_row=floats(threads, width),
        by_relation=floats(batch, tables.relation.shape[1]),
        gradient=floats(ready, width),
        head=np.full(entities, -1, np.int32),
        following=np.zeros(ready, np.int32),
        tally=np.zeros((threads, entities), np.int32),
        end=np.zeros(entities + 1, np.int64),
        source=np.zeros(batch * pairs, np.int32),
        sorted_weight=floats(batch * pairs),
        marks=np.zeros((threads, (entities + 63) // 64), np.uint64),
        chunk_ids=np.zeros((threads, 1 + s.negatives), np.int32),
        chunk_weight=floats(threads, 1 + s.negatives),
        chunk_source=np.zeros((threads, chunk or 0), np.int32),
        column=floats(threads, s.negatives if chunk else 0, chunk or 0),
        relation_sum=floats(*tables.relation.shape),
        relation=floats(len(tables.relation), width),
        loss=floats(batch),
        square=np.zeros(entities),
        lean=np.zeros(entities),
        total=np.zeros(4),
    )
