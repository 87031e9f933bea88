"""Loops over rows, the same for all models: scores and gradients of a query and some rows."""

import numpy as np

from pfedeg.engine.compiled.lanes.operations import accumulate, add_slope, start
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import (
    LANES,
    LINE,
    ZERO,
    fill,
    load,
    prefetch_line,
    repeat,
    store,
    store_totals,
    total,
)


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
def eight_rows(table, ids, place):
    """The rows table[ids[place]] … table[ids[place + 7]]."""
    return four_rows(table, ids, place) + four_rows(table, ids, place + 4)


@inline
def compare(model, q, table, ids, j, score):
    """Write the scores of q with the rows ids[j] … ids[j + 7] of a table into score[j] … score[j + 7]."""
    a, b, c, d, e, f, g, h = eight_rows(table, ids, j)
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
def gather_eight(model, q, table, ids, weights, j, later, place, g):
    """Add Σ weights[j] · ∂s/∂q (q, table[ids[j]]), j … j + 7, to g; prefetch rows later[place] … later[place + 7]."""
    (a, b, c, d, e, f, h, i), soon = eight_rows(table, ids, j), eight_rows(table, later, place)
    wa, wb, wc, wd = repeat(weights, j), repeat(weights, j + 1), repeat(weights, j + 2), repeat(weights, j + 3)
    we, wf, wh, wi = repeat(weights, j + 4), repeat(weights, j + 5), repeat(weights, j + 6), repeat(weights, j + 7)
    for k in range(0, len(q) // 2, LANES):
        prefetch_lines(soon, k)
        prefetch_lines(soon, len(q) // 2 + k)
        x = part(q, k)
        s = add_slope(model, wa, x, part(a, k), part(g, k))
        s = add_slope(model, wb, x, part(b, k), s)
        s = add_slope(model, wc, x, part(c, k), s)
        s = add_slope(model, wd, x, part(d, k), s)
        s = add_slope(model, we, x, part(e, k), s)
        s = add_slope(model, wf, x, part(f, k), s)
        s = add_slope(model, wh, x, part(h, k), s)
        put_part(g, k, add_slope(model, wi, x, part(i, k), s))


@inline
def prefetch_next(table, ids, j, line):
    """Begin to read a line of the rows ids[j + 8] … ids[j + 15]; lines are counted from 0."""
    if line * LINE < table.shape[1]:
        prefetch_lines(eight_rows(table, ids, min(j + 8, len(ids) - 8)), line * LINE)


@inline
def prefetch_lines(rows, k):
    """Begin to read the cache line of the k-th number of each row."""
    for n in range(len(rows)):
        prefetch_line(rows[n], k)


@inline
def gather(model, q, table, pairs, entity, g):
    """Write the sum over an entity's pairs of their weight times ∂s/∂q (q, table[the pair's positive]) into g.

    The score is symmetric, s(q, t) = s(t, q), so this is the gradient of a row t from its queries.
    """
    for k in range(0, len(q) // 2, 2 * LANES):
        m = min(k + LANES, len(q) // 2 - LANES)  # the last two parts may be the same
        x, y, s, u = part(q, k), part(q, m), (fill(ZERO), fill(ZERO)), (fill(ZERO), fill(ZERO))
        for thread in range(len(pairs.start)):
            for j in range(pairs.start[thread, entity], pairs.start[thread, entity + 1]):
                row, weight = table[np.uint32(pairs.positive[j])], repeat(pairs.weight, j)
                s = add_slope(model, weight, x, part(row, k), s)
                u = add_slope(model, weight, y, part(row, m), u)
        put_part(g, k, s)
        put_part(g, m, u)
