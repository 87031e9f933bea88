"""What the compiled training passes work with: their settings, and their memory for one batch."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg import lines
from pfedeg.kernels import Absorb, Local, Tables
from pfedeg.kernels.vectors import LANES, WIDE
from pfedeg.models import Mat, Model
from pfedeg.triples import Ids

ROWS = 512  # gradients of at most so many entity rows are summed before the rows are moved
NARROW = 128  # rows of at most so many numbers are moved one by one
LATER = 8  # and what they need is asked for so many rows before
MOST = 0.4  # where a batch touches a larger part of the rows, moving all of them is faster than letting some wait
STRIP = 128  # rows that belong to one thread, the next ones to the next, where most rows wait
AHEAD = 64  # rows of own negatives are asked for so many places before they are met


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

    Rows are widened to whole wide vectors, negatives of a group to whole vectors.
    """

    triple: Ids  # (batch, 3) the batch's positives, in a place that all threads have at hand
    query: Mat  # (batch + 1, width) q of every positive, and one that is zero
    ids: Ids  # (groups, negatives), and more to ask for when the last group meets its own
    weight: Mat  # (batch + 1, negatives) scores of each positive's negatives, then ∂L/∂s, and 0
    tail_weight: Mat  # (batch,) ∂L/∂s of each positive
    free: Ids  # (batch,) how many negatives count
    state: Mat  # (threads, 4 · LANES) of the running softmax: Σ w, Σ w · softplus(s), the largest score
    by_query: Mat  # (threads, group, width) ∂L/∂q, with room for a last six
    by_row: Mat  # (threads, rows, width) gradients of the rows that a thread takes at a time
    panel: Mat  # (threads, negatives + group, WIDE) some columns of a group's rows, side by side
    by_relation: Mat  # (batch, relation width)
    gradient: Mat  # ready gradients of entity rows: heads, then (shared) each group's negatives
    head: Ids  # (entities,) first ready gradient of an entity, −1 if none
    following: Ids  # the next ready gradient of the same entity
    place: Ids  # (threads, entities + 1 and more) a thread's pairs of entity e are place[e] … place[e + 1] − 1
    source: Ids  # pairs, each thread's sorted by entity: the positive
    sorted_weight: Mat  # the same pairs: ∂L/∂s
    touched: NDArray[np.bool_]  # (entities,) whose rows this batch reads, where rows may wait
    due: Ids  # (threads, rows of a thread + 1) a thread's rows of those, then −1
    steps: Ids  # (entities,) steps that a row has made, where rows may wait; −1 if it has no moments
    marks: NDArray[np.uint64]  # (threads, entities / 64) a bit for each entity of a set
    relation_sum: Mat  # (relations, relation width)
    relation: Mat  # (relations, width) the relations as prepared for composing
    loss: Mat  # (batch,)
    square: NDArray[np.float64]  # (entities,) a row's share of ‖E − K‖²
    lean: NDArray[np.float64]  # (entities,) a row's s_l − s_g
    pace: NDArray[np.int64]  # see `writing`
    total: NDArray[np.float64]  # sum of losses, ‖E − K‖, mean of s_l − s_g, 1 if threads shall stop


def unit(model: Model) -> int:
    """Rows of entities are whole wide vectors, and the halves of complex ones whole vectors: filled up to so many."""
    return WIDE * model.dim // model.entity_width


def widen(model: Model, rows: Mat) -> Mat:
    """Rows with every `dim` numbers (complex rows have two such parts) filled up to whole units with zeros."""
    dim = model.dim
    if dim % unit(model) == 0:
        return rows if lines.begins_line(rows) else lines.copy(rows)
    parts = rows.reshape(len(rows), rows.shape[1] // dim, dim)
    wide = lines.zeros((len(rows), rows.shape[1] // dim, dim + -dim % unit(model)), np.float32)
    wide[:, :, :dim] = parts
    return wide.reshape(len(rows), wide.shape[1] * wide.shape[2])


def narrow(model: Model, wide: Mat, rows: Mat) -> None:
    """Copy what `widen` filled up back to where it came from."""
    if wide is not rows:
        parts = wide.reshape(len(wide), -1, model.dim + -model.dim % unit(model))
        rows[...] = parts[:, :, : model.dim].reshape(rows.shape)


def make_settings(local: Local, absorb: Absorb, entities: int) -> Settings:
    """The settings of a call."""
    return Settings(
        local.batch,
        local.negatives,
        local.loss == "mean",
        np.float32(local.alpha),
        local.beta1,
        local.beta2,
        np.float32(local.epsilon),
        absorb.pull,
        absorb.pull == 0 and absorb.contrast == 0 and touched(local, entities) < MOST,
        math.ceil(-32 / math.log2(local.beta1)) if local.beta1 > 0 else 0,
    )


def touched(local: Local, entities: int) -> float:
    """The part of all rows that a batch is likely to read: heads, tails and negatives."""
    drawn = local.negatives * (-(-local.batch // local.chunk) if local.sampling == "shared" else local.batch)
    return 1 - math.exp(-(drawn + 2 * local.batch) / max(1, entities))


def make_rates(local: Local, done: int, steps: int) -> Mat:
    """For step n = 1, 2, … of this call, the t-th in all: lr / (1 − β₁ᵗ), 1 / √(1 − β₂ᵗ), β₁ⁿ, √β₂ⁿ."""
    n = np.arange(1, steps + 1)
    t = done + n
    rate, unbias = local.lr / (1 - local.beta1**t), 1 / np.sqrt(1 - local.beta2**t)
    with np.errstate(over="ignore"):  # an absurd lr becomes infinite, training diverges, and the client says so
        return np.stack([rate, unbias, local.beta1**n, local.beta2 ** (n / 2)], 1).astype(np.float32)


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
        return lines.zeros(shape, np.float32)

    def ids(*shape: int) -> Ids:
        return np.zeros(shape, np.int32)

    return Scratch(
        triple=ids(batch, 3),
        query=floats(batch + 1, width),
        ids=ids(groups + -(-(AHEAD + LANES) // negatives), negatives),
        weight=floats(batch + 1, negatives),
        tail_weight=floats(batch),
        free=ids(batch),
        state=floats(threads, 4 * LANES),
        by_query=floats(threads, members + 5, width),
        by_row=floats(threads, 1 if width <= NARROW else min(ROWS, -(-entities // (8 * threads))), width),
        panel=floats(threads, negatives + members if chunk else 0, WIDE),
        by_relation=floats(batch, tables.relation.shape[1]),
        gradient=floats(ready, width),
        head=np.full(entities, -1, np.int32),
        following=ids(ready),
        place=lines.zeros((threads, entities + 1 + -(entities + 1) % 16), np.int32),
        source=ids(pairs),
        sorted_weight=floats(pairs),
        touched=np.zeros(entities, np.bool_),
        due=ids(threads, -(-entities // (threads * STRIP)) * STRIP + 1 if s.rest else 0),
        steps=ids(entities),
        marks=np.zeros((threads, (entities + 63) // 64), np.uint64),
        relation_sum=floats(*tables.relation.shape),
        relation=floats(len(tables.relation), width),
        loss=floats(batch),
        square=np.zeros(entities),
        lean=np.zeros(entities),
        pace=np.zeros(4, np.int64),
        total=np.zeros(4),
    )
