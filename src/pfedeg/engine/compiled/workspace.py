"""What the compiled training passes work with: their settings, and their memory for one batch."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import Absorb, Batches
from pfedeg.engine.lowlevel import aligned_arrays
from pfedeg.engine.lowlevel.vectors import LANES, WIDE
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat, Model, Tables
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam

ROWS = 512  # gradients of at most so many entity rows are summed before the rows are moved
NARROW = 128  # rows of at most so many numbers are moved one by one
LATER = 8  # and what they need is asked for so many rows before
MOST = 0.4  # where a batch touches a larger part of the rows, moving all of them is faster than letting some wait
STRIP = 128  # rows that belong to one thread, the next ones to the next, where most rows wait
AHEAD = 64  # rows of own negatives are asked for so many places, whole wide vectors, before they are met


class Settings(NamedTuple):
    """Most of `Local` and `Absorb`, as kernels take it."""

    batch: int
    negatives: int
    mean: bool
    alpha: np.float32
    beta1: float
    beta2: float
    epsilon: np.float32
    pull: float
    rest: bool  # whether rows that a batch does not touch may wait
    horizon: int  # steps after which a first moment has faded to nothing


class Contrast(NamedTuple):
    """FedEC's term; other methods have None in its place, and their kernels no code for it."""

    weight: float
    temperature: float
    pooled: bool


class Scratch(NamedTuple):
    """Memory for one batch, allocated once per call. A group: positives that share negatives; own ones: each a group.

    Rows and lists of negatives are filled up to whole wide vectors.
    """

    triple: Ids  # (batch, 3) the batch's positives, in a place that all threads have at hand
    query: Mat  # (batch + 1, width) q of every positive, and one that is zero
    drawn: Ids  # (threads, 3, negatives) own ones of the positive that a thread draws for: all, and those in each half
    ids: Ids  # shared: (groups, negatives); own: (2, all) those in the lower half of the table, those in the upper one
    begin: Ids  # (2, batch) where a positive's own ones begin in a half
    end: Ids  # (2, batch) and end
    weight: Mat  # their scores, then ∂L/∂s, up to a factor for own ones; shared: (batch + 1, negatives), and 0
    sums: Mat  # (2, batch, 4) of own ones: Σ w, Σ w · softplus(s), the score that w is relative to
    factor: Mat  # (2, batch) by which own weights count
    free: Ids  # (batch,) how many shared negatives count
    state: Mat  # (threads, 4 · LANES) of the running softmax: Σ w, Σ w · softplus(s), the largest score
    by_query: Mat  # (threads, group, width) ∂L/∂q, with room for a last six
    part: Mat  # (2, batch, width) ∂L/∂q by own negatives in each half, up to the factor
    by_row: Mat  # (threads, rows, width) gradients of the rows that a thread takes at a time
    panel: Mat  # (threads, negatives + group, WIDE) some columns of a group's rows, side by side
    by_relation: Mat  # (batch, relation width)
    gradient: Mat  # ready gradients of entity rows: heads, tails, then (shared) each group's negatives
    head: Ids  # (entities,) first ready gradient of an entity, −1 if none
    following: Ids  # the next ready gradient of the same entity
    place: Ids  # (threads, entities + 1 and more) a thread's pairs of entity e are from place[e] to before place[e + 1]
    source: Ids  # pairs of a positive and an own negative, each thread's sorted by entity: the positive, at even places
    sorted_weight: Mat  # the same memory from the second number on: ∂L/∂s of these pairs, up to the factor
    touched: NDArray[np.bool_]  # (entities,) whose rows this batch reads, where rows may wait
    due: Ids  # (threads, rows of a thread + 1) a thread's rows of those, then −1
    steps: Ids  # (entities,) steps that a row has made, where rows may wait; −1 if it has no moments
    marks: NDArray[np.uint64]  # (threads, entities / 64 and more) a bit for each entity of a set
    relation_sum: Mat  # (relations, relation width)
    relation: Mat  # (relations, width) the relations as prepared for composing
    loss: Mat  # (batch,)
    square: NDArray[np.float64]  # (entities,) a row's share of ‖E − K‖²
    lean: NDArray[np.float64]  # (entities,) a row's s_l − s_g
    pace: NDArray[np.int64]  # see `writing`
    total: NDArray[np.float64]  # sum of losses, ‖E − K‖, mean of s_l − s_g, 1 if threads shall stop

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; two of them are the same memory."""
        return sum(array.nbytes for array in self) - self.sorted_weight.nbytes


def widen(model: Model, rows: Mat) -> Mat:
    """Rows with every `dim` numbers (complex rows have two such parts) filled up to whole wide vectors with zeros."""
    dim = model.dim
    if dim % WIDE == 0:
        return rows if aligned_arrays.begins_line(rows) else aligned_arrays.copy(rows)
    parts = rows.reshape(len(rows), rows.shape[1] // dim, dim)
    wide = aligned_arrays.zeros((len(rows), rows.shape[1] // dim, dim + -dim % WIDE), np.float32)
    wide[:, :, :dim] = parts
    return wide.reshape(len(rows), wide.shape[1] * wide.shape[2])


def narrow(model: Model, wide: Mat, rows: Mat) -> None:
    """Copy what `widen` filled up back to where it came from."""
    if wide is not rows:
        parts = wide.reshape(len(wide), -1, model.dim + -model.dim % WIDE)
        rows[...] = parts[:, :, : model.dim].reshape(rows.shape)


def make_settings(batches: Batches, objective: SelfAdversarial, adam: Adam, absorb: Absorb, entities: int) -> Settings:
    """The settings of a call."""
    return Settings(
        batches.size,
        batches.negatives,
        batches.reduction == "mean",
        np.float32(objective.alpha),
        adam.beta1,
        adam.beta2,
        np.float32(adam.epsilon),
        absorb.pull,
        absorb.pull == 0 and absorb.contrast == 0 and touched(batches, entities) < MOST,
        math.ceil(-32 / math.log2(adam.beta1)) if adam.beta1 > 0 else 0,
    )


def touched(batches: Batches, entities: int) -> float:
    """The part of all rows that a batch is likely to read: heads, tails and negatives."""
    positives = -(-batches.size // batches.chunk) if batches.sampling == "shared" else batches.size
    return 1 - math.exp(-(batches.negatives * positives + 2 * batches.size) / max(1, entities))


def make_rates(adam: Adam, done: int, steps: int) -> Mat:
    """For step n = 1, 2, … of this call, the t-th in all: lr / (1 − β₁ᵗ), 1 / √(1 − β₂ᵗ), β₁ⁿ, √β₂ⁿ."""
    n = np.arange(1, steps + 1)
    t = done + n
    rate, unbias = adam.lr / (1 - adam.beta1**t), 1 / np.sqrt(1 - adam.beta2**t)
    with np.errstate(over="ignore"):  # an absurd lr becomes infinite, training diverges, and the client says so
        return np.stack([rate, unbias, adam.beta1**n, adam.beta2 ** (n / 2)], 1).astype(np.float32)


def make_contrast(absorb: Absorb) -> Contrast | None:
    """FedEC's term, if there is one."""
    return Contrast(absorb.contrast, absorb.temperature, absorb.pooled) if absorb.contrast else None


def make_scratch(s: Settings, chunk: int | None, tables: Tables, batch: int, threads: int) -> Scratch:
    """The memory of a call; chunk is None where positives have negatives of their own."""
    entities, width = tables.entity.shape
    members = chunk or 1
    groups = -(-batch // members)
    negatives = s.negatives + -s.negatives % WIDE
    ready = 2 * batch + (groups * negatives if chunk else 0)
    halves, own = (0, 0) if chunk else (2, batch)  # what only own negatives need
    drawn = (groups, negatives) if chunk else (halves, own * negatives + AHEAD + WIDE)

    pairs = aligned_arrays.zeros((threads * -(-2 * own // threads) * s.negatives, 2), np.float32)

    def floats(*shape: int) -> Mat:
        return aligned_arrays.zeros(shape, np.float32)

    def ids(*shape: int) -> Ids:
        return np.zeros(shape, np.int32)

    return Scratch(
        triple=ids(batch, 3),
        query=floats(batch + 1, width),
        drawn=aligned_arrays.zeros((threads, 3, 0 if chunk else negatives), np.int32),
        ids=aligned_arrays.zeros(drawn, np.int32),
        begin=ids(halves, own),
        end=ids(halves, own),
        weight=floats(batch + 1, negatives) if chunk else floats(*drawn),
        sums=floats(halves, own, 4),
        factor=floats(halves, own),
        free=ids(batch),
        state=floats(threads, 4 * LANES),
        by_query=floats(threads, members + 5, width),
        part=floats(halves, own, width),
        by_row=floats(threads, 1 if width <= NARROW else min(ROWS, -(-entities // (8 * threads))), width),
        panel=floats(threads, negatives + members if chunk else 0, WIDE),
        by_relation=floats(batch, tables.relation.shape[1]),
        gradient=floats(ready, width),
        head=np.full(entities, -1, np.int32),
        following=ids(ready),
        place=aligned_arrays.zeros((threads, 0 if chunk else entities + 1 + -(entities + 1) % 16), np.int32),
        source=pairs.view(np.int32).reshape(-1),
        sorted_weight=pairs.reshape(-1)[1:],
        touched=np.zeros(entities, np.bool_),
        due=ids(threads, -(-entities // (threads * STRIP)) * STRIP + 1 if s.rest else 0),
        steps=ids(entities),
        marks=aligned_arrays.zeros((threads, -(-entities // 512) * 8), np.uint64),
        relation_sum=floats(*tables.relation.shape),
        relation=floats(len(tables.relation), width),
        loss=floats(batch),
        square=np.zeros(entities),
        lean=np.zeros(entities),
        pace=np.zeros(4, np.int64),
        total=np.zeros(4),
    )
