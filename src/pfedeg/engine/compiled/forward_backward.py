"""Forward and backward over the positives of a batch, compiled: with negatives of their own, or shared ones.

With own negatives, the gradient of a row of the table is summed by the thread that updates the row. It needs all pairs
of a positive and the row as its negative, so every thread sorts its pairs by entity. With shared negatives, a group's
queries are compared with a group's rows.
"""

import numpy as np

from pfedeg.engine.compiled.lanes.loops import compare, gather_four
from pfedeg.engine.compiled.lanes.operations import QUERIES, compose, exchange, line_up, score_all, spread
from pfedeg.engine.compiled.negative_sampling import EXCLUDED, exclude, part_of
from pfedeg.engine.compiled.self_adversarial import finish, weigh, weigh_positive
from pfedeg.engine.lowlevel.compile import inline, jit
from pfedeg.engine.lowlevel.vectors import LANES, ONE, clear, prefetch, scale

AHEAD = 64  # rows are prefetched so many negatives before they are needed


@jit
def with_own_negatives(thread, threads, model, s, table, size, factor, w):
    """Losses, and gradients by scores, heads, relations and tails, of a thread's positives."""
    lo, hi = part_of(thread, threads, size)
    for i in range(lo, hi):
        following = min(i + 1, hi - 1)
        prefetch(table[w.triple[following, 0]])
        prefetch(table[w.triple[following, 2]])
        by_query, state = w.by_query[thread, 0], w.softmax[thread]
        compose(model, table[w.triple[i, 0]], w.relation[w.triple[i, 1]], w.query[i])
        clear(by_query)
        _process_negatives(model, s, w.query[i], table, w.ids[i], w.ids[following], w.weight[i], state, by_query)
        loss, share = finish(w.counted[i], factor, w.weight[i], state)
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
        for j in range(first, first + LANES, 4):
            later = ids if j + AHEAD < len(ids) else following
            for n in range(4):
                prefetch(table[np.uint32(later[(j + AHEAD) % len(ids) + n])])
            gather_four(model, q, table, ids, weight, j, by_query)


@inline
def _finish_positive(model, table, i, size, factor, loss, by_query, w):
    """The positive's part of the loss and the query's gradient, and what the latter means for head and relation."""
    head, relation, tail = table[w.triple[i, 0]], w.relation[w.triple[i, 1]], table[w.triple[i, 2]]
    loss += weigh_positive(model, w.query[i], tail, factor, by_query, w.parts[size + i])
    w.loss[i] = np.float32(0.5) * loss
    spread(model, head, relation, w.query[i], by_query, w.parts[i], w.by_relation[i])


@jit
def sort_pairs(thread, threads, size, w):
    """A stable counting sort of a thread's pairs by entity."""
    lo, hi = part_of(thread, threads, size)
    start = w.pair_start[thread]
    following = start[1:]
    start[:] = 0
    for i in range(lo, hi):
        for j in range(w.counted[i]):
            following[np.uint32(w.ids[i, j])] += 1  # unsigned: numba does not test for negative indices
    begin = lo * (len(w.pair_weight) // len(w.triple))
    for e in range(len(start)):
        begin, start[e] = begin + start[e], begin
    for i in range(lo, hi):  # where an entity's next pair goes moves on, until it is where the next entity's begin
        for j in range(w.counted[i]):
            entity = np.uint32(w.ids[i, j])
            place = np.uint32(following[entity])
            following[entity] = place + np.uint32(1)
            w.pair_positive[place] = i
            w.pair_weight[place] = w.weight[i, j]


@jit
def with_shared_negatives(thread, threads, model, s, members, table, positives, chosen, factor, w):
    """Losses, and gradients by heads, relations, tails and negatives, of a thread's groups."""
    size = len(chosen)
    lo, hi = part_of(thread, threads, -(-size // members))
    for group in range(lo, hi):
        begin, end = group * members, min((group + 1) * members, size)
        ids, query, weight, by_query = w.ids[group], w.query[begin:end], w.weight[begin:end], w.by_query[thread]
        for i in range(begin, end):
            prefetch(table[w.triple[min(i + 1, size - 1), 0]])
            prefetch(table[w.triple[i, 2]])
            compose(model, table[w.triple[i, 0]], w.relation[w.triple[i, 1]], w.query[i])
        for j in range(0, len(ids), QUERIES):  # scores are symmetric: here the negatives are the queries
            for later in ids[j + QUERIES : j + 2 * QUERIES]:
                prefetch(table[later])
            line_up(model, table, ids, j, w.panel[thread])
            score_all(model, query, table, ids, j, w.panel[thread], weight)
        exclude(s, positives, chosen[begin:end], ids, w.marks[thread], weight, w.counted[begin:end])
        for i in range(end - begin):
            weight[i, s.negatives :] = EXCLUDED  # padding
            weigh(s.alpha, 0, len(ids), weight[i], w.softmax[thread])
            w.loss[begin + i], _ = finish(w.counted[begin + i], factor, weight[i], w.softmax[thread])
            clear(by_query[i])
        first = 2 * size + group * len(ids)
        for j in range(len(ids)):
            w.next_part[first + j] = ids[j] if j < s.negatives else -1  # the entity, until lists are linked
        by_row = w.parts[first : first + len(ids)]
        exchange(model, query, table, ids, weight, by_query[: end - begin], by_row, w.columns[thread])
        for i in range(begin, end):
            _finish_positive(model, table, i, size, factor, w.loss[i], by_query[i - begin], w)
