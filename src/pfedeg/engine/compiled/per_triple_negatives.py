"""Negatives of each positive's own, compiled: every thread meets the rows that it will move.

Of a positive's negatives, those in the lower half of the table and those in the upper one are met apart, by different
threads where there are several, and put together afterwards. So a row is read by the cores that write it, and hardly
by others: a core keeps more of what it reads, and need not get it back from another one before it writes. What is
exchanged are queries, their gradients in two parts, and a few numbers. The halves are the same for any number of
threads, so results are, too.
"""

import numpy as np

from pfedeg.engine.compiled.lanes import compare, compose, gather_eight, spread
from pfedeg.engine.compiled.negative_sampling import draw_own, look_up
from pfedeg.engine.compiled.row_updates import ONE
from pfedeg.engine.compiled.self_adversarial import PLUS, SHARE, TOP, begin, fade, strike, weigh, weigh_positive
from pfedeg.engine.compiled.workspace import AHEAD
from pfedeg.engine.compiled.writing import PAST, WAY, copy
from pfedeg.engine.lowlevel import vectors
from pfedeg.engine.lowlevel.compile import inline, jit
from pfedeg.engine.lowlevel.vectors import (
    LANES,
    WIDE,
    ZERO,
    clear,
    expect,
    expect_line,
    expect_rows,
    fill_wide,
    fma,
    load,
    load_wide,
    store,
    total,
)

LOWER, UPPER = 0, 1


@inline
def half_of(entity, entities):
    """Which half of the table an entity's row lies in."""
    return LOWER if entity < entities // 2 else UPPER


@inline
def threads_of(half, threads):
    """The first thread that meets rows of a half, and the one after the last."""
    return (0, (threads + 1) // 2) if half == LOWER else (threads // 2, threads)


@inline
def positives_of(half, thread, threads, size):
    """The first positive whose negatives in a half are a thread's to meet, and the one after the last."""
    first, last = 2 * size * thread // threads, 2 * size * (thread + 1) // threads
    return min(max(first - half * size, 0), size), min(max(last - half * size, 0), size)


@jit
def draw(thread, threads, s, entities, positives, chosen, first, key, x):
    """Draw the negatives of a part of the positives, and hand them to those who meet them in each half."""
    lo, hi = len(chosen) * thread // threads, len(chosen) * (thread + 1) // threads
    look_up(positives, chosen, lo, hi)
    middle, past = entities // 2, x.pace[WAY] == PAST
    drawn, below, above = x.drawn[thread, 0], x.drawn[thread, 1], x.drawn[thread, 2]
    low = high = lo * len(drawn)
    for i in range(lo, hi):
        of = chosen[i], first + i, key
        n, m = draw_own(s, entities, positives, *of, middle, x.marks[thread], drawn, below, above)
        low, high = _hand_over(below, n, x, LOWER, i, low, past), _hand_over(above, m, x, UPPER, i, high, past)
        triple = positives.triples[chosen[i]]
        x.triple[i, 0], x.triple[i, 1], x.triple[i, 2] = triple[0], triple[1], triple[2]
        if s.rest:
            x.touched[triple[0]] = x.touched[triple[2]] = True
            for j in range(n):
                x.touched[below[j]] = True
            for j in range(m):
                x.touched[above[j]] = True


@inline
def _hand_over(drawn, n, x, half, i, begin, past):
    """A positive's n negatives in a half, filled up to whole lines of the cache: where the next ones begin."""
    filled = n + -n % WIDE
    for j in range(n, filled):
        drawn[j] = drawn[0]
    copy(drawn[:filled], x.ids[half, begin:], past)
    x.begin[half, i], x.end[half, i] = begin, begin + n
    return begin + filled


@jit
def ask(thread, threads, model, table, positives, chosen, x):
    """The queries of those positives whose heads are rows of this thread's."""
    past = x.pace[WAY] == PAST
    lo, hi = len(table) * thread // threads, len(table) * (thread + 1) // threads
    for i in range(len(chosen)):
        expect_line(positives.triples[chosen[i]], 0)
    for i in range(len(chosen)):
        h = positives.triples[chosen[i], 0]
        if lo <= h < hi:
            expect(table[h])
    for i in range(len(chosen)):
        triple = positives.triples[chosen[i]]
        if lo <= triple[0] < hi:
            compose(model, table[triple[0]], x.relation[triple[1]], x.query[i], past)


@jit
def meet(thread, threads, model, s, table, size, x):
    """Rows that are a thread's to meet, and their queries: scores, weights, gradients of queries."""
    g, state, past = x.by_query[thread, 0], x.state[thread], x.pace[WAY] == PAST
    for half in range(2):
        lo, hi = positives_of(half, thread, threads, size)
        for i in range(lo, hi):
            first, last = x.begin[half, i], x.end[half, i]
            clear(g)
            begin(state)
            ids, weight = x.ids[half, first:], x.weight[half, first:]
            _meet_rows(model, s, x.query[i], table, ids, last - first, weight, state, g)
            copy(g, x.part[half, i], past)
            sums = x.sums[half, i]
            sums[0], sums[1], sums[2] = total(load(state, SHARE)), total(load(state, PLUS)), state[TOP]


@inline
def _meet_rows(model, s, q, table, ids, n, weight, state, g):
    """One query and n of its negatives, eight at a time, so that each row comes from afar only once.

    The next eight are scored before the gradient of these: meanwhile the processor finishes their weights. While the
    gradient is summed, which needs nothing from afar, rows that are met later, also by other queries, are asked for.
    """
    if n > 0:
        _score(model, q, table, ids, 0, n, weight)
    for j in range(0, n, LANES):
        factor = weigh(s.alpha, j, j + LANES, weight, state)
        if j + LANES < n:
            _score(model, q, table, ids, j + LANES, n, weight)
        if factor != ONE:
            vectors.scale(g, factor)
        gather_eight(model, q, table, ids, weight, j, j + AHEAD, g)


@inline
def _score(model, q, table, ids, j, n, weight):
    store(weight, j, compare(model, q, table, ids, j))
    strike(n, j + LANES, weight)


@jit
def sort(thread, threads, size, x):
    """A stable counting sort of a thread's pairs by entity: those of entity e lie from place[e] to before place[e + 1].

    A pair is two numbers, a positive and a weight, which lie together: what is written anywhere is a line, not two.
    """
    place = x.place[thread]
    following = place[1:]
    place[:] = 0
    for half in range(2):
        lo, hi = positives_of(half, thread, threads, size)
        for i in range(lo, hi):
            for p in range(x.begin[half, i], x.end[half, i]):
                following[np.uint32(x.ids[half, np.uint32(p)])] += 2  # unsigned: whether it is negative is not asked
    begin = len(x.source) // (2 * threads) * 2 * thread
    for e in range(len(place)):
        begin, place[e] = begin + place[e], begin
    for half in range(2):  # where the next pair goes moves on, until it is where the next entity's begin
        lo, hi = positives_of(half, thread, threads, size)
        for i in range(lo, hi):
            for p in range(x.begin[half, i], x.end[half, i]):
                entity = np.uint32(x.ids[half, np.uint32(p)])
                pair = np.uint32(following[entity])
                following[entity] = pair + np.uint32(2)
                x.source[pair] = i
                x.sorted_weight[pair] = x.weight[half, np.uint32(p)]


@jit
def conclude(thread, threads, model, s, table, size, scale, x):
    """Both halves together, of positives whose heads are this thread's: the loss, and gradients by q, h, r and t.

    `scale` is ½ (over the size of the batch).
    """
    g, past = x.by_query[thread, 0], x.pace[WAY] == PAST
    lo, hi = len(table) * thread // threads, len(table) * (thread + 1) // threads
    i = _next_of(lo, hi, 0, size, x)
    while i < size:
        following = _next_of(lo, hi, i + 1, size, x)
        h, r, t = x.triple[i, 0], x.triple[i, 1], x.triple[i, 2]
        loss = weigh_positive(model, x.query[i], table[t], scale, g, x.gradient[size + i], past)
        loss += _join(s.alpha, scale, table, i, min(following, size - 1), x, g)
        x.loss[i] = np.float32(0.5) * loss
        spread(model, table[h], x.relation[r], x.query[i], g, x.gradient[i], x.by_relation[i], past)
        i = following


@jit
def _next_of(lo, hi, i, size, x):
    """The first positive from i on whose head is one of the rows lo … hi − 1."""
    while i < size and not lo <= x.triple[i, 0] < hi:
        i += 1
    return i


@inline
def _join(alpha, scale, table, i, soon, x, g):
    """Σ_j w_j softplus(s_j) of both halves, by what their weights count, and add ∂L/∂q; ask for what comes soon."""
    low, high = x.sums[LOWER, i], x.sums[UPPER, i]
    top = max(low[2], high[2])
    of_low = fade(alpha, low[2], top) if low[0] > 0 else ZERO
    of_high = fade(alpha, high[2], top) if high[0] > 0 else ZERO
    share = of_low * low[0] + of_high * high[0]
    plus = (of_low * low[1] + of_high * high[1]) / share if share > 0 else ZERO
    by = scale / share if share > 0 else ZERO
    x.factor[LOWER, i], x.factor[UPPER, i] = of_low * by, of_high * by
    a, b = fill_wide(of_low * by), fill_wide(of_high * by)
    head, tail = table[x.triple[soon, 0]], table[x.triple[soon, 2]]
    for k in range(0, len(g), WIDE):
        expect_rows((x.part[LOWER, soon], x.part[UPPER, soon], x.query[soon], head, tail), k)
        both = fma(a, load_wide(x.part[LOWER, i], k), b * load_wide(x.part[UPPER, i], k))
        store(g, k, load_wide(g, k) + both)
    return plus
