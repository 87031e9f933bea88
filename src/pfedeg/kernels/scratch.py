"""What the compiled training passes work with: their settings, and their memory for one batch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.graph import Ids
from pfedeg.kernels import Absorb, Local, Tables
from pfedeg.kernels.vectors import LANES
from pfedeg.models import Mat

ROWS = 512  # at most so many entity rows are taken at a time


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
    """Memory for one batch, allocated once per call. A group: positives that share negatives; own ones: each a group.

    Rows are widened to whole vectors, as are the negatives of a group.
    """

    query: Mat  # (batch + 1, width) q of every positive, and one that is zero
    ids: Ids  # (groups, negatives)
    weight: Mat  # (batch + 1, negatives) ∂L/∂s of each positive's negatives, and 0
    tail_weight: Mat  # (batch,) ∂L/∂s of each positive
    tails: Ids  # (threads, LANES) a positive's tail, to be compared as negatives are
    mask: Mat  # (threads, group, negatives) 0, or −∞ for what does not count
    free: Ids  # (threads, group) how many do count
    state: Mat  # (threads, group, 3 · LANES) of the running softmax: Σ w, Σ w · softplus(s), the largest score
    by_query: Mat  # (threads, group, width) ∂L/∂q, groups filled up to fours
    by_row: Mat  # (threads, rows, width) gradients of the rows that a thread takes at a time
    by_relation: Mat  # (batch, relation width)
    gradient: Mat  # ready gradients of entity rows: heads, then (shared) each group's negatives
    head: Ids  # (entities,) first ready gradient of an entity, −1 if none
    following: Ids  # the next ready gradient of the same entity
    tally: Ids  # (threads, entities) pairs of each entity, then where the next one goes
    end: NDArray[np.int64]  # (entities + 1,) pairs of entity e are end[e] … end[e + 1]
    source: Ids  # sorted pairs: the positive
    sorted_weight: Mat  # sorted pairs: ∂L/∂s
    marks: NDArray[np.uint64]  # (threads, entities / 64) a bit for each entity of a set
    relation_sum: Mat  # (relations, relation width)
    relation: Mat  # (relations, width) the relations as prepared for composing
    loss: Mat  # (batch,)
    square: NDArray[np.float64]  # (entities,) a row's share of ‖E − K‖²
    lean: NDArray[np.float64]  # (entities,) a row's s_l − s_g
    total: NDArray[np.float64]  # sum of losses, ‖E − K‖, mean of s_l − s_g, 1 if threads shall stop


def widen(rows: Mat, dim: int) -> Mat:
    """Rows with every `dim` numbers (complex rows have two such parts) filled up to whole vectors with zeros."""
    if dim % LANES == 0:
        return np.ascontiguousarray(rows)
    parts = rows.reshape(len(rows), rows.shape[1] // dim, dim)
    return np.pad(parts, ((0, 0), (0, 0), (0, -dim % LANES))).reshape(
        len(rows), rows.shape[1] // dim * (dim + -dim % LANES)
    )


def narrow(wide: Mat, dim: int, rows: Mat) -> None:
    """Copy what `widen` filled up back to where it came from."""
    if wide is not rows:
        parts = wide.reshape(len(wide), -1, dim + -dim % LANES)
        rows[...] = parts[:, :, :dim].reshape(rows.shape)


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
    members = chunk or 1
    groups = -(-batch // members)
    negatives = s.negatives + -s.negatives % LANES
    ready = batch + groups * negatives if chunk else batch
    pairs = batch if chunk else batch * (1 + s.negatives)

    def floats(*shape: int) -> Mat:
        return np.zeros(shape, np.float32)

    def ids(*shape: int) -> Ids:
        return np.zeros(shape, np.int32)

    return Scratch(
        query=floats(batch + 1, width),
        ids=ids(groups, negatives),
        weight=floats(batch + 1, negatives),
        tail_weight=floats(batch),
        tails=ids(threads, LANES),
        mask=floats(threads, members, negatives),
        free=ids(threads, members),
        state=floats(threads, members, 3 * LANES),
        by_query=floats(threads, members + -members % 4, width),
        by_row=floats(threads, min(ROWS, -(-entities // (8 * threads))), width),
        by_relation=floats(batch, tables.relation.shape[1]),
        gradient=floats(ready, width),
        head=np.full(entities, -1, np.int32),
        following=ids(ready),
        tally=ids(threads, entities),
        end=np.zeros(entities + 1, np.int64),
        source=ids(pairs),
        sorted_weight=floats(pairs),
        marks=np.zeros((threads, (entities + 63) // 64), np.uint64),
        relation_sum=floats(*tables.relation.shape),
        relation=floats(len(tables.relation), width),
        loss=floats(batch),
        square=np.zeros(entities),
        lean=np.zeros(entities),
        total=np.zeros(4),
    )
