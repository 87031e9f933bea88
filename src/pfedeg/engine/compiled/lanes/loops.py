"""Loops over rows, the same for all models: scores and gradients of a query and some rows."""

import numpy as np

from pfedeg.engine.compiled.lanes.operations import accumulate, add_slope, start
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import LANES, fill, load, repeat, store, store_totals, total


@inline
def part(row, k):
    """A vector of each half of a row, from k on: in complex rows, real and imaginary parts."""
    return load(row, k), load(row, len(row) // 2 + k)


@inline
def put_part(row, k, numbers):
    """Write what `part` reads."""
    store(row, k, numbers[0])
    store(row, len(row) // 2 + k, numbers[1])


@inline
def four_rows(table, ids, place):
    """The rows table[ids[place]] … table[ids[place + 3]]; unsigned, as numba does not test these for being negative."""
    a, b, c, d = np.uint32(ids[place]), np.uint32(ids[place + 1]), np.uint32(ids[place + 2]), np.uint32(ids[place + 3])
    return table[a], table[b], table[c], table[d]


@inline
def compare(model, q, table, ids, j, score):
    """Write the scores of q with the rows ids[j] … ids[j + 7] of a table into score[j] … score[j + 7]."""
    (a, b, c, d), (e, f, g, h) = four_rows(table, ids, j), four_rows(table, ids, j + 4)
    sa = sb = sc = sd = se = sf = sg = sh = fill(np.float32(start(model)))
    for k in range(0, len(q) // 2, LANES):
        x = part(q, k)
        sa = accumulate(model, x, part(a, k), sa)
        sb = accumulate(model, x, part(b, k), sb)
        sc = accumulate(model, x, part(c, k), sc)
        sd = accumulate(model, x, part(d, k), sd)
        se = accumulate(model, x, part(e, k), se)
        sf = accumulate(model, x, part(f, k), sf)
        sg = accumulate(model, x, part(g, k), sg)
        sh = accumulate(model, x, part(h, k), sh)
    store_totals(score, j, sa, sb, sc, sd, se, sf, sg, sh)


@inline
def compare_one(model, q, row):
    """The score of one query with one row."""
    sums = fill(np.float32(start(model)))
    for k in range(0, len(q) // 2, LANES):
        sums = accumulate(model, part(q, k), part(row, k), sums)
    return total(sums)


@inline
def gather_one(model, q, row, weight, g):
    """Add the weight times ∂s/∂q (q, row) to g."""
    for k in range(0, len(q) // 2, LANES):
        put_part(g, k, add_slope(model, fill(weight), part(q, k), part(row, k), part(g, k)))


@inline
def gather_four(model, q, table, ids, weights, j, g):
    """Add Σ weights[j] · ∂s/∂q (q, table[ids[j]]), j … j + 3, to g."""
    a, b, c, d = four_rows(table, ids, j)
    wa, wb, wc, wd = repeat(weights, j), repeat(weights, j + 1), repeat(weights, j + 2), repeat(weights, j + 3)
    for k in range(0, len(q) // 2, LANES):
        x = part(q, k)
        s = add_slope(model, wa, x, part(a, k), part(g, k))
        s = add_slope(model, wb, x, part(b, k), s)
        s = add_slope(model, wc, x, part(c, k), s)
        put_part(g, k, add_slope(model, wd, x, part(d, k), s))


@inline
def gather(model, q, table, w, entity, g):
    """Add the sum over an entity's pairs of their weight times ∂s/∂q (q, table[the pair's positive]) to g.

    The score is symmetric, s(q, t) = s(t, q), so this is the gradient of a row t from its queries.
    """
    for thread in range(len(w.pair_start)):
        j, end = w.pair_start[thread, entity], w.pair_start[thread, entity + 1]
        while j + 4 <= end:
            gather_four(model, q, table, w.pair_positive, w.pair_weight, j, g)
            j += 4
        for last in range(j, end):
            gather_one(model, q, table[np.uint32(w.pair_positive[last])], w.pair_weight[last], g)
