"""Negatives that a group of positives shares, compiled: products of a group's queries and its rows."""

import numpy as np

from pfedeg.engine.compiled.lanes import compare_group, compose, exchange, spread
from pfedeg.engine.compiled.negative_sampling import draw_shared, exclude, look_up
from pfedeg.engine.compiled.self_adversarial import PLUS, SHARE, begin, strike, weigh, weigh_positive
from pfedeg.engine.compiled.writing import PAST, WAY
from pfedeg.engine.lowlevel import vectors
from pfedeg.engine.lowlevel.compile import jit
from pfedeg.engine.lowlevel.vectors import LANES, ZERO, clear, expect, load, total


@jit
def draw(thread, threads, s, members, tables, positives, chosen, first, key, x):
    """Draw the negatives of a part of the groups, and note whose rows will be read."""
    groups = -(-len(chosen) // members)
    lo, hi = groups * thread // threads, groups * (thread + 1) // threads
    look_up(positives, chosen, lo * members, min(hi * members, len(chosen)))
    for group in range(lo, hi):
        ids = x.ids[group]
        draw_shared(s, len(tables.entity), first + group * members, key, ids)
        for i in range(group * members, min((group + 1) * members, len(chosen))):
            triple = positives.triples[chosen[i]]
            x.triple[i, 0], x.triple[i, 1], x.triple[i, 2] = triple[0], triple[1], triple[2]
            if s.rest:
                x.touched[triple[0]] = x.touched[triple[2]] = True
        if s.rest:
            for j in range(s.negatives):
                x.touched[ids[j]] = True


@jit
def meet(thread, threads, model, s, members, tables, positives, chosen, scale, x):
    """Groups of a thread: the loss, and gradients by queries, heads, relations, tails and negatives.

    `scale` is ½ (over the size of the batch).
    """
    size = len(chosen)
    groups = -(-size // members)
    for group in range(groups * thread // threads, groups * (thread + 1) // threads):
        first, last = group * members, min((group + 1) * members, size)
        _meet_group(thread, model, s, group, first, last, tables, positives, chosen, scale, x)


@jit
def _meet_group(thread, model, s, group, first, last, tables, positives, chosen, scale, x):
    ids, size, past = x.ids[group], len(chosen), x.pace[WAY] == PAST
    by = x.by_query[thread]
    for i in range(first, last):
        triple = x.triple[i]
        if i + 1 < size:
            expect(tables.entity[x.triple[i + 1, 0]])
        expect(tables.entity[triple[2]])
        compose(model, tables.entity[triple[0]], x.relation[triple[1]], x.query[i], False)
    for j in range(0, len(ids), LANES):
        compare_group(model, x.query, first, last, tables.entity, ids, j, x.weight)
    exclude(s, positives, chosen[first:last], ids, x.marks[thread], x.weight[first:last], x.free[first:last])
    for i in range(first, last):
        loss = _weigh_all(s, scale, x.free[i], x.weight[i], x.state[thread])
        tail = tables.entity[x.triple[i, 2]]
        loss += weigh_positive(model, x.query[i], tail, scale, by[i - first], x.gradient[size + i], past)
        x.loss[i] = np.float32(0.5) * loss
    place = 2 * size + group * len(ids)
    for j in range(len(ids)):
        x.following[place + j] = ids[j] if j < s.negatives else -1  # whose; `link` turns it into a link
    by_row = x.gradient[place : place + len(ids)]
    exchange(model, x.query, first, last, tables.entity, ids, x.weight, by, by_row, x.panel[thread], past)
    for i in range(first, last):
        h, r = x.triple[i, 0], x.triple[i, 1]
        spread(model, tables.entity[h], x.relation[r], x.query[i], by[i - first], x.gradient[i], x.by_relation[i], past)


@jit
def _weigh_all(s, scale, free, weight, state):
    """Σ_j w_j softplus(s_j) of one positive, whose scores become weights as they count."""
    begin(state)
    strike(s.negatives, len(weight), weight)
    weigh(s.alpha, 0, len(weight), weight, state)
    if free == 0:
        clear(weight)
        return ZERO
    share = total(load(state, SHARE))
    vectors.scale(weight, scale / share)
    return total(load(state, PLUS)) / share
