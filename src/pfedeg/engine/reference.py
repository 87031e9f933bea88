"""The specification of training and ranking: readable numpy, one batch at a time.

It also runs whatever has no compiled code, so loops over triples are vectorised where that costs no clarity.
"""

import threading

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.engine.interface import Absorb, Batches, Knowledge, Positives, Questions, Recipe, epoch_keys
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Array, Mat, Model, Tables
from pfedeg.objectives.base import Objective
from pfedeg.objectives.regularizers import contrast_gradient, pull_gradient
from pfedeg.optimizers.base import OptimizerState

Mask = NDArray[np.bool_]
PAIRS = 1 << 22  # numbers of rows of negatives that are gathered at a time


class NumpyEngine:
    """`Engine` in numpy, on one thread."""

    def __init__(self) -> None:
        """Nothing is prepared."""
        self._stopped = threading.Event()

    def stop(self) -> None:
        """See `SingleThreaded.stop`."""
        self._stopped.set()

    def train(
        self, recipe: Recipe, tables: Tables, state: OptimizerState, knowledge: Knowledge, data: Positives, key: int
    ) -> float:
        """Some epochs of steps on L = L_KGE + β · D(E, K) + μ · contrast; see `Engine.train`."""
        total, n, batches = 0.0, len(data.triples), recipe.batches
        for epoch in range(batches.epochs):
            order_key, negative_key = epoch_keys(key, epoch)
            order = randomness.permutation(order_key, n)
            for first in range(0, n, batches.size):
                if self._stopped.is_set():
                    return total
                chosen = order[first : first + batches.size]
                negatives, mask = sample(batches, data, chosen, first, len(tables.entity), negative_key)
                losses, gradient = kge_loss(
                    recipe.model, recipe.objective, batches, tables, data.triples[chosen], negatives, mask
                )
                _regularize(gradient.entity, tables.entity, knowledge, recipe.absorb)
                recipe.optimizer.step(tables, state, gradient)
                total += float(losses.sum(dtype=np.float64))
        return total / (n * batches.epochs)

    def scores(self, model: Model, tables: Tables, queries: Mat) -> Mat:
        """See `Engine.scores`."""
        return np.stack([model.score(q, tables.entity) for q in queries]).astype(np.float32)

    def ranks(self, model: Model, tables: Tables, queries: Mat, questions: Questions) -> NDArray[np.float64]:
        """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true."""
        result = np.zeros(len(questions.truth))
        for i, q in enumerate(queries):
            if self._stopped.is_set():
                break
            s = self.scores(model, tables, q[None])[0]
            open_ = np.ones(len(s), np.bool_)
            open_[questions.known[questions.start[i] : questions.start[i + 1]]] = False
            for place in range(questions.first[i], questions.first[i + 1]):
                truth = s[questions.truth[place]]
                result[place] = 1 + (s[open_] > truth).sum() + 0.5 * (s[open_] == truth).sum()
        return result


def sample(
    batches: Batches, positives: Positives, chosen: Ids, first: int, entities: int, key: int
) -> tuple[Ids, Mask]:
    """Negatives (batch, n) and which of them count, for the positives at places first, first + 1, … of the epoch.

    Own: u uniform below the number of entities that are no known tails of (h, r); if u is a known tail, the i-th such,
    the i-th free entity beyond that number stands in for it. The counter is place · n + j.
    Shared: any entity, the same for all positives of a chunk, the counter is (the chunk's first place) · n + j; for
    each positive the known tails of its (h, r) do not count.
    """
    size, n = len(chosen), batches.negatives
    column, group = randomness.counters(n), positives.group[chosen]
    start, end = positives.start[group], positives.start[group + 1]
    place = first + np.arange(size)
    if batches.sampling == "shared":
        place = first + np.arange(size) // batches.chunk * batches.chunk
        bound = np.full(size, entities)
    else:
        bound = entities - (end - start)
    counter = (place * n).astype(np.uint64)[:, None] + column
    ids = randomness.below(key, counter, bound.astype(np.uint64)[:, None])
    is_known = _known(positives, group, ids, entities)
    if batches.sampling == "shared":
        return ids, ~is_known
    for i in np.flatnonzero(is_known.any(1) & (bound > 0)).tolist():
        known = positives.tails[start[i] : end[i]]
        stand_ins = np.setdiff1d(np.arange(bound[i], entities), known)
        taken = is_known[i]
        ids[i, taken] = stand_ins[np.searchsorted(known, ids[i, taken])]
    mask = np.repeat(bound[:, None] > 0, n, 1)
    return np.where(mask, ids, 0), mask


def _known(positives: Positives, group: Ids, ids: Ids, entities: int) -> Mask:
    """Which ids are known tails of their group: binary search among the pairs of a group and one of its tails."""
    owner = np.repeat(np.arange(len(positives.start) - 1), np.diff(positives.start))
    pairs = owner * entities + positives.tails
    wanted = group.astype(np.int64)[:, None] * entities + ids
    place = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    found: Mask = pairs[place] == wanted
    return found


def kge_loss(
    model: Model, objective: Objective, batches: Batches, tables: Tables, triples: Ids, negatives: Ids, mask: Mask
) -> tuple[Array, Tables]:
    """The objective's loss of every positive, and the gradient of their mean (or sum) by both tables."""
    entity, relation = tables
    gradient = Tables(np.zeros_like(entity), np.zeros_like(relation))
    scale = 1 / len(triples) if batches.reduction == "mean" else 1.0
    losses = np.empty(len(triples), entity.dtype)
    step = max(1, PAIRS // (negatives.shape[1] * entity.shape[1]))
    for first in range(0, len(triples), step):
        part = slice(first, first + step)
        (h, r, t), others = triples[part].T, negatives[part]
        q = model.compose(entity[h], relation[r])
        positive, negative = model.score(q, entity[t]), model.score(q[:, None], entity[others])
        losses[part], by_positive, by_negative = objective.loss(positive, negative, mask[part])
        by_positive, by_negative = (by_positive * scale)[:, None], (by_negative * scale)[..., None]
        q_pos, t_pos = model.score_backward(q, entity[t])
        q_neg, t_neg = model.score_backward(q[:, None], entity[others])
        by_q = by_positive * q_pos + (by_negative * q_neg).sum(1)
        by_h, by_r = model.compose_backward(entity[h], relation[r], q, by_q)
        scatter_add(gradient.entity, others.ravel(), (by_negative * t_neg).reshape(-1, entity.shape[1]))
        scatter_add(gradient.entity, t, by_positive * t_pos)
        scatter_add(gradient.entity, h, by_h)
        scatter_add(gradient.relation, r, by_r)
    return losses, gradient


def scatter_add(table: Array, ids: Ids, rows: Array) -> None:
    """Add every row to the table's row of its id: `np.add.at`, but faster."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    table[ordered[first]] += np.add.reduceat(rows[order], first, axis=0)


def _regularize(gradient: Array, entity: Array, knowledge: Knowledge, absorb: Absorb) -> None:
    """Add the gradients of the terms that tie the entity table to the server's knowledge."""
    received, previous = knowledge
    if absorb.pull:
        gradient += pull_gradient(entity, received, absorb.pull)
    if absorb.contrast:
        gradient += contrast_gradient(entity, received, previous, absorb.contrast, absorb.temperature, absorb.pooled)
