"""Loops over rows, the same for all models: scores and gradients of a query and some rows."""

import numpy as np

from pfedeg.engine.compiled.lanes.operations import accumulate, add_slope, no_part, offset, part, put_part, sign, span
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import (
    LANES,
    PADDING,
    ZERO,
    eight_rows,
    fill,
    fill_eight,
    pick,
    prefetch_rows,
    repeat,
    total,
    totals,
)


@inline
def compare(model, q, table, ids, j):
    """Scores of q with the rows ids[j] … ids[j + 7] of a table, as a vector."""
    a, b, c, d, e, f, g, h = eight_rows(table, ids, j)
    sa = sb = sc = sd = se = sf = sg = sh = fill(ZERO)
    for k in range(0, span(model, q), LANES):
        x = part(model, q, k)
        sa = accumulate(model, x, part(model, a, k), sa)
        sb = accumulate(model, x, part(model, b, k), sb)
        sc = accumulate(model, x, part(model, c, k), sc)
        sd = accumulate(model, x, part(model, d, k), sd)
        se = accumulate(model, x, part(model, e, k), se)
        sf = accumulate(model, x, part(model, f, k), sf)
        sg = accumulate(model, x, part(model, g, k), sg)
        sh = accumulate(model, x, part(model, h, k), sh)
    return to_scores(model, totals(sa, sb, sc, sd, se, sf, sg, sh))


@inline
def to_scores(model, sums):
    """Eight scores from what was accumulated."""
    return fill_eight(np.float32(offset(model))) + fill_eight(np.float32(sign(model))) * sums


@inline
def compare_one(model, q, row):
    """The score of one query with one row."""
    sums = fill(ZERO)
    for k in range(0, span(model, q), LANES):
        sums = accumulate(model, part(model, q, k), part(model, row, k), sums)
    return np.float32(offset(model)) + np.float32(sign(model)) * total(sums)


@inline
def gather_one(model, q, row, weight, g):
    """Write the weight times ∂s/∂q (q, row) into g."""
    for k in range(0, span(model, q), LANES):
        put_part(model, g, k, add_slope(model, fill(weight), part(model, q, k), part(model, row, k), no_part(model)))


@inline
def gather_eight(model, q, table, ids, weights, j, later, place, g):
    """Add Σ weights[j] · ∂s/∂q (q, table[ids[j]]), j … j + 7, to g; prefetch rows later[place] … later[place + 7]."""
    a, b, c, d, e, f, h, i = eight_rows(table, ids, j)
    wa, wb, wc, wd = repeat(weights, j), repeat(weights, j + 1), repeat(weights, j + 2), repeat(weights, j + 3)
    we, wf, wh, wi = repeat(weights, j + 4), repeat(weights, j + 5), repeat(weights, j + 6), repeat(weights, j + 7)
    soon, half = eight_rows(table, later, place), span(model, q)
    for line in range(0, half, PADDING):
        prefetch_rows(soon, line)
        if half < len(q):
            prefetch_rows(soon, half + line)
        for k in range(line, line + PADDING, LANES):
            x = part(model, q, k)
            s = add_slope(model, wa, x, part(model, a, k), part(model, g, k))
            s = add_slope(model, wb, x, part(model, b, k), s)
            s = add_slope(model, wc, x, part(model, c, k), s)
            s = add_slope(model, wd, x, part(model, d, k), s)
            s = add_slope(model, we, x, part(model, e, k), s)
            s = add_slope(model, wf, x, part(model, f, k), s)
            s = add_slope(model, wh, x, part(model, h, k), s)
            put_part(model, g, k, add_slope(model, wi, x, part(model, i, k), s))


@inline
def gather(model, q, table, pairs, entity, g):
    """Write the sum over an entity's pairs of their weight times ∂s/∂q (q, table[the pair's positive]) into g.

    The score is symmetric, s(q, t) = s(t, q), so this is the gradient of a row t from its queries.
    """
    tiled = span(model, q) - span(model, q) % (4 * LANES)
    for k in range(0, tiled, 4 * LANES):
        k1, k2, k3 = k + LANES, k + 2 * LANES, k + 3 * LANES
        x, x1, x2, x3 = part(model, q, k), part(model, q, k1), part(model, q, k2), part(model, q, k3)
        s = s1 = s2 = s3 = no_part(model)
        for thread in range(len(pairs.start)):
            for j in range(pairs.start[thread, entity], pairs.start[thread, entity + 1]):
                row, w = pick(table, pairs.positive, j), repeat(pairs.weight, j)
                s = add_slope(model, w, x, part(model, row, k), s)
                s1 = add_slope(model, w, x1, part(model, row, k1), s1)
                s2 = add_slope(model, w, x2, part(model, row, k2), s2)
                s3 = add_slope(model, w, x3, part(model, row, k3), s3)
        put_part(model, g, k, s)
        put_part(model, g, k1, s1)
        put_part(model, g, k2, s2)
        put_part(model, g, k3, s3)
    for k in range(tiled, span(model, q), LANES):
        x, s = part(model, q, k), no_part(model)
        for thread in range(len(pairs.start)):
            for j in range(pairs.start[thread, entity], pairs.start[thread, entity + 1]):
                row = pick(table, pairs.positive, j)
                s = add_slope(model, repeat(pairs.weight, j), x, part(model, row, k), s)
        put_part(model, g, k, s)


@inline
def prefetch_next(table, ids, j, line):
    """Begin to read a line of the rows ids[j + 8] … ids[j + 15]; lines are counted from 0."""
    if line * PADDING < table.shape[1]:
        prefetch_rows(eight_rows(table, ids, min(j + 8, len(ids) - 8)), line * PADDING)
