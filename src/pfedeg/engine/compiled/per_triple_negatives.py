"""Forward and backward with negatives of each positive's own, compiled.

The gradient of a row of the table is summed by the thread that updates the row. It needs all pairs of a positive and
the row as its negative, so every thread sorts its pairs by entity.
"""

import numpy as np

from pfedeg.engine.compiled.lanes.loops import compare, gather_eight
from pfedeg.engine.compiled.lanes.operations import compose, spread
from pfedeg.engine.compiled.negative_sampling import EXCLUDED, part_of
from pfedeg.engine.compiled.self_adversarial import finish, weigh, weigh_positive
from pfedeg.engine.lowlevel.compile import inline, jit
from pfedeg.engine.lowlevel.vectors import EIGHT, LANES, ONE, add, clear, prefetch, scale, store

AHEAD = 64  # prefetch distance, in negatives


@jit
def forward_backward(thread, threads, model, s, table, size, factor, w):
    """Losses, and gradients by scores, heads, relations and tails, of a thread's positives."""
    lo, hi = part_of(thread, threads, size)
    batch, gradients, by_query = w.batch, w.gradients, w.scratch.by_query[thread, 0]
    for i in range(lo, hi):
        following = min(i + 1, hi - 1)
        prefetch(table[batch.triple[following, 0]])
        prefetch(table[batch.triple[following, 2]])
        h, r, t = batch.triple[i, 0], batch.triple[i, 1], batch.triple[i, 2]
        q, weight, state = batch.query[i], batch.weight[i], w.scratch.softmax[thread]
        compose(model, table[h], w.relation[r], q)
        clear(by_query)
        _process_negatives(model, s, q, table, batch.ids[i], batch.ids[following], weight, state, by_query)
        loss, share = finish(batch.counted[i], factor, weight, state)
        scale(by_query, share)
        loss += weigh_positive(model, q, table[t], factor, gradients.rows[i], gradients.rows[size + i])
        add(by_query, gradients.rows[i])
        batch.loss[i] = np.float32(0.5) * loss
        spread(model, table[h], w.relation[r], q, by_query, gradients.rows[i], gradients.relation[i])


@inline
def _process_negatives(model, s, q, table, ids, following, weight, state, by_query):
    """Scores, weights and the query's gradient, some negatives at a time, so that rows are read from far only once.

    Meanwhile rows of later negatives, or of the following positive's, are prefetched.
    """
    for first in range(0, len(ids), LANES):
        for j in range(first, first + LANES, EIGHT):
            store(weight, j, compare(model, q, table, ids, j))
        for j in range(s.negatives, first + LANES):
            weight[j] = EXCLUDED  # padding
        decay = weigh(s.alpha, first, first + LANES, weight, state)
        if decay != ONE:
            scale(by_query, decay)
        for j in range(first, first + LANES, EIGHT):
            ahead = j + AHEAD
            if ahead < len(ids):
                gather_eight(model, q, table, ids, weight, j, ids, ahead, by_query)
            else:
                ahead = min(ahead - len(ids), len(ids) - EIGHT)
                gather_eight(model, q, table, ids, weight, j, following, ahead, by_query)


@jit
def sort(thread, threads, size, w):
    """A stable counting sort of a thread's pairs by entity."""
    lo, hi = part_of(thread, threads, size)
    batch, pairs, start = w.batch, w.pairs, w.pairs.start[thread]
    following = start[1:]
    start[:] = 0
    for i in range(lo, hi):
        for j in range(batch.counted[i]):
            following[np.uint32(batch.ids[i, j])] += 1  # unsigned: numba does not test for negative indices
    begin = lo * (len(pairs.weight) // len(batch.triple))
    for e in range(len(start)):
        begin, start[e] = begin + start[e], begin
    for i in range(lo, hi):  # where an entity's next pair goes moves on, until it is where the next entity's begin
        for j in range(batch.counted[i]):
            entity = np.uint32(batch.ids[i, j])
            place = np.uint32(following[entity])
            following[entity] = place + np.uint32(1)
            pairs.positive[place] = i
            pairs.weight[place] = batch.weight[i, j]
