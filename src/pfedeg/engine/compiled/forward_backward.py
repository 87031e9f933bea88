"""Forward and backward over the positives of a batch, compiled: with negatives of their own, or shared ones.

With own negatives, the gradient of a row of the table is summed by the thread that updates the row. It needs all pairs
of a positive and the row as its negative, so every thread sorts its pairs by entity. With shared negatives, a group's
queries are compared with a group's rows.
"""

import numpy as np

from pfedeg.engine.compiled.lanes.loops import compare, gather_eight
from pfedeg.engine.compiled.lanes.operations import compare_group, compose, exchange, spread
from pfedeg.engine.compiled.negative_sampling import EXCLUDED, exclude, part_of
from pfedeg.engine.compiled.self_adversarial import finish, weigh, weigh_positive
from pfedeg.engine.lowlevel.compile import inline, jit
from pfedeg.engine.lowlevel.vectors import LANES, ONE, clear, prefetch, scale

AHEAD = 64  # prefetch distance, in negatives


@jit
def with_own_negatives(thread, threads, model, s, table, size, factor, w):
    """Losses, and gradients by scores, heads, relations and tails, of a thread's positives."""
    lo, hi = part_of(thread, threads, size)
    batch, by_query, state = w.batch, w.scratch.by_query[thread, 0], w.scratch.softmax[thread]
    for i in range(lo, hi):
        following = min(i + 1, hi - 1)
        prefetch(table[batch.triple[following, 0]])
        prefetch(table[batch.triple[following, 2]])
        compose(model, table[batch.triple[i, 0]], w.relation[batch.triple[i, 1]], batch.query[i])
        clear(by_query)
        ids, weight = batch.ids[i], batch.weight[i]
        _process_negatives(model, s, batch.query[i], table, ids, batch.ids[following], weight, state, by_query)
        loss, share = finish(batch.counted[i], factor, weight, state)
        scale(by_query, share)
        _finish_positive(model, table, i, size, factor, loss, by_query, w)


@inline
def _process_negatives(model, s, q, table, ids, following, weight, state, by_query):
    """Scores, weights and the query's gradient, some negatives at a time, so that rows are read from far only once.

    Meanwhile rows of later negatives, or of the following positive's, are prefetched.
    """
    for first in range(0, len(ids), LANES):
        for j in range(first, first + LANES, 8):
            compare(model, q, table, ids, j, weight)
        for j in range(s.negatives, first + LANES):
            weight[j] = EXCLUDED  # padding
        decay = weigh(s.alpha, first, first + LANES, weight, state)
        if decay != ONE:
            scale(by_query, decay)
        for j in range(first, first + LANES, 8):
            if j + AHEAD < len(ids):
                gather_eight(model, q, table, ids, weight, j, ids, j + AHEAD, by_query)
            else:
                gather_eight(model, q, table, ids, weight, j, following, (j + AHEAD) % len(ids), by_query)


@inline
def _finish_positive(model, table, i, size, factor, loss, by_query, w):
    """The positive's part of the loss and the query's gradient, and what the latter means for head and relation."""
    batch, gradients = w.batch, w.gradients
    head, relation, tail = table[batch.triple[i, 0]], w.relation[batch.triple[i, 1]], table[batch.triple[i, 2]]
    loss += weigh_positive(model, batch.query[i], tail, factor, by_query, gradients.rows[size + i])
    batch.loss[i] = np.float32(0.5) * loss
    spread(model, head, relation, batch.query[i], by_query, gradients.rows[i], gradients.relation[i])


@jit
def sort_pairs(thread, threads, size, w):
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


@jit
def with_shared_negatives(thread, threads, model, s, members, table, positives, chosen, factor, w):
    """Losses, and gradients by heads, relations, tails and negatives, of a thread's groups."""
    size, batch, gradients = len(chosen), w.batch, w.gradients
    by_query, state, panel = w.scratch.by_query[thread], w.scratch.softmax[thread], w.scratch.panel[thread]
    lo, hi = part_of(thread, threads, -(-size // members))
    for group in range(lo, hi):
        begin, end = group * members, min((group + 1) * members, size)
        ids, query, weight, counted = batch.ids[group], batch.query[begin:end], batch.weight[begin:end], batch.counted
        for i in range(begin, end):
            prefetch(table[batch.triple[min(i + 1, size - 1), 0]])
            prefetch(table[batch.triple[i, 2]])
            compose(model, table[batch.triple[i, 0]], w.relation[batch.triple[i, 1]], batch.query[i])
        for j in range(0, len(ids), 8):
            compare_group(model, query, table, ids, j, weight)
        exclude(s, positives, chosen[begin:end], ids, w.scratch.marks[thread], weight, counted[begin:end])
        for i in range(begin, end):
            batch.weight[i, s.negatives :] = EXCLUDED  # padding
            weigh(s.alpha, 0, len(ids), batch.weight[i], state)
            batch.loss[i], _ = finish(counted[i], factor, batch.weight[i], state)
            clear(by_query[i - begin])
        first = 2 * size + group * len(ids)
        for j in range(len(ids)):
            gradients.following[first + j] = ids[j] if j < s.negatives else -1  # the entity, until lists are linked
        by_row = gradients.rows[first : first + len(ids)]
        exchange(model, query, table, ids, weight, by_query[: end - begin], by_row, panel)
        for i in range(begin, end):
            _finish_positive(model, table, i, size, factor, batch.loss[i], by_query[i - begin], w)
