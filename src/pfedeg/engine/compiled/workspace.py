"""What the compiled training loop works with: settings as compiled code takes them, and memory for one batch.

Memory is allocated once per call. Rows and lists of negatives are padded to whole vectors.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg import aligned_arrays
from pfedeg.engine.interface import Absorb, Batches
from pfedeg.engine.lowlevel.vectors import LANES, LINE
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat, Model, Tables
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam

LAZY_BELOW = 0.4  # where batches touch a larger part of the rows, moving every row in every step is faster
NARROW = 128  # numbers per row, up to which rows are prefetched
BLOCK, NARROW_BLOCK = 512, 64  # rows whose gradients are summed before any of them is updated
STRIP = 128  # neighbouring rows that belong to the same thread


class Settings(NamedTuple):
    """What compiled code needs of a recipe."""

    batch: int
    negatives: int
    mean: bool
    alpha: np.float32
    beta1: float
    beta2: float
    epsilon: np.float32
    pull: float
    contrast: float
    temperature: float
    pooled: bool
    lazy: bool  # whether rows that a batch does not touch are updated later
    horizon: int  # steps after which a first moment without gradients has decayed to nothing


class Moments(NamedTuple):
    """Adam's first and second moments of both tables."""

    entity1: Mat
    entity2: Mat
    relation1: Mat
    relation2: Mat


class Batch(NamedTuple):
    """The positives of a batch and their negatives. A group of positives shares its negatives; own ones: one each."""

    triple: Ids  # (batch, 3)
    query: Mat  # (batch, width)
    ids: Ids  # (groups, negatives)
    counted: Ids  # (batch,) how many of its negatives count
    weight: Mat  # (batch, negatives) scores, then the gradients of the loss by the scores
    loss: Mat  # (batch,)


class Gradients(NamedTuple):
    """Gradients of rows, each a part of what an entity or relation gets; an entity's parts form a linked list."""

    rows: Mat  # (parts, width) of heads, of tails, then (shared negatives) of each group's negatives
    first: Ids  # (entities,) an entity's first part, −1 if none
    following: Ids  # (parts,) the next part of the same entity, −1 if none
    relation: Mat  # (batch, relation width)
    relation_sum: Mat  # (relations, relation width)


class Pairs(NamedTuple):
    """Pairs of a positive and one of its own negatives, each thread's sorted by entity."""

    start: Ids  # (threads, entities + 1 and padding) a thread's pairs of entity e are start[e] … start[e + 1] − 1
    positive: Ids  # (batch · negatives,)
    weight: Mat  # (batch · negatives,) the gradient of the loss by the pair's score


class Scratch(NamedTuple):
    """Memory of each thread."""

    marks: NDArray[np.bool_]  # (threads, entities) a set of entities, empty between uses
    softmax: Mat  # (threads, 3 · LANES) the state of a running softmax
    by_query: Mat  # (threads, group, width) gradients of a group's queries
    by_row: Mat  # (threads, block, width) gradients of a block of rows
    panel: Mat  # (threads, negatives + group, LINE) some columns of a group's rows and queries, side by side


class TableRows(NamedTuple):
    """The rows that each thread updates, and what is kept for each row of the table."""

    touched: NDArray[np.bool_]  # (entities,) by the batch, where updates are lazy
    due: Ids  # (threads, rows) the rows that a thread updates
    number: Ids  # (threads,) how many these are
    steps: Ids  # (entities,) how many steps it has made, −1 if it has no moments yet
    square: NDArray[np.float64]  # (entities,) its part of ‖E − K‖²
    difference: NDArray[np.float64]  # (entities,) its cos(E, P) − cos(E, G)


LOSS, DISTANCE, DIFFERENCE, STOPPED = range(4)  # sum of losses, ‖E − K‖, the mean difference, 1 to end training


class Workspace(NamedTuple):
    """All groups of arrays of a call."""

    batch: Batch
    gradients: Gradients
    pairs: Pairs
    scratch: Scratch
    rows: TableRows
    relation: Mat  # (relations, width) the relations as `lanes` prepares them
    total: NDArray[np.float64]  # see LOSS, DISTANCE, DIFFERENCE, STOPPED


def pad(model: Model, rows: Mat) -> Mat:
    """Aligned rows; after every `dim` numbers (complex rows have two such parts), zeros fill lines."""
    dim, zeros = model.dim, _padding(model)
    if zeros == 0:
        return rows if aligned_arrays.is_aligned(rows) else aligned_arrays.copy(rows)
    parts = rows.reshape(len(rows), rows.shape[1] // dim, dim)
    padded = aligned_arrays.zeros((*parts.shape[:2], dim + zeros), np.float32)
    padded[:, :, :dim] = parts
    return padded.reshape(len(rows), parts.shape[1] * (dim + zeros))


def unpad(model: Model, padded: Mat, rows: Mat) -> None:
    """Copy what `pad` has copied back to where it came from."""
    if padded is not rows:
        parts = padded.reshape(len(rows), -1, model.dim + _padding(model))
        rows[...] = parts[:, :, : model.dim].reshape(rows.shape)


def _padding(model: Model) -> int:
    """How many zeros make both halves of a row whole lines."""
    return -model.dim % (2 * LINE * model.dim // model.entity_width)


def make_settings(batches: Batches, objective: SelfAdversarial, adam: Adam, absorb: Absorb, entities: int) -> Settings:
    """The settings of a call."""
    groups = -(-batches.size // batches.chunk) if batches.sampling == "shared" else batches.size
    drawn = batches.negatives * groups + 2 * batches.size
    touched = 1 - math.exp(-drawn / max(1, entities))  # the part of all rows that a batch is likely to touch
    return Settings(
        batches.size,
        batches.negatives,
        batches.reduction == "mean",
        np.float32(objective.alpha),
        adam.beta1,
        adam.beta2,
        np.float32(adam.epsilon),
        absorb.pull,
        absorb.contrast,
        absorb.temperature,
        absorb.pooled,
        absorb.pull == 0 and absorb.contrast == 0 and touched < LAZY_BELOW,
        math.ceil(-32 / math.log2(adam.beta1)) if adam.beta1 > 0 else 0,
    )


def make_rates(adam: Adam, done: int, steps: int) -> Mat:
    """For step n = 1, 2, … of this call, the t-th in all: lr / (1 − β₁ᵗ), 1 / √(1 − β₂ᵗ), β₁ⁿ, √β₂ⁿ."""
    n = np.arange(1, steps + 1)
    t = done + n
    rate, unbias = adam.lr / (1 - adam.beta1**t), 1 / np.sqrt(1 - adam.beta2**t)
    with np.errstate(over="ignore"):  # an absurd lr becomes infinite, training diverges, and the client reports it
        return np.stack([rate, unbias, adam.beta1**n, adam.beta2 ** (n / 2)], 1).astype(np.float32)


def make_workspace(s: Settings, chunk: int | None, tables: Tables, batch: int, threads: int) -> Workspace:
    """The memory of a call; chunk is None where positives have negatives of their own."""
    (entities, width), (relations, relation_width) = tables.entity.shape, tables.relation.shape
    members = chunk or 1
    groups, negatives = -(-batch // members), s.negatives + -s.negatives % LINE
    block = NARROW_BLOCK if width <= NARROW else BLOCK
    parts, pairs = (2 * batch + groups * negatives, 0) if chunk else (2 * batch, batch * s.negatives)

    def floats(*shape: int) -> Mat:
        return aligned_arrays.zeros(shape, np.float32)

    def ids(*shape: int) -> Ids:
        return aligned_arrays.zeros(shape, np.int32)

    return Workspace(
        Batch(
            triple=ids(batch, 3),
            query=floats(batch, width),
            ids=ids(groups, negatives),
            counted=ids(batch),
            weight=floats(batch, negatives),
            loss=floats(batch),
        ),
        Gradients(
            rows=floats(parts, width),
            first=np.full(entities, -1, np.int32),
            following=ids(parts),
            relation=floats(batch, relation_width),
            relation_sum=floats(relations, relation_width),
        ),
        Pairs(
            start=ids(threads, 0 if chunk else entities + 1 + -(entities + 1) % LINE),
            positive=ids(pairs),
            weight=floats(pairs),
        ),
        Scratch(
            marks=np.zeros((threads, entities), np.bool_),
            softmax=floats(threads, 3 * LANES),
            by_query=floats(threads, members, width),
            by_row=floats(threads, min(block, -(-entities // (8 * threads))), width),
            panel=floats(threads, negatives + members if chunk else 0, LINE),
        ),
        TableRows(
            touched=np.zeros(entities, np.bool_),
            due=ids(threads, -(-entities // (threads * STRIP)) * STRIP),
            number=ids(threads),
            steps=ids(entities),
            square=np.zeros(entities),
            difference=np.zeros(entities),
        ),
        relation=floats(relations, width),
        total=np.zeros(4),
    )
