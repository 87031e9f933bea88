"""TransE and RotatE: scores are distances of a query and a row, gradients point from one to the other."""

import numpy as np

from pfedeg.engine.compiled.lanes.operations import (
    QUERIES,
    compare,
    compare_group,
    compare_one,
    exchange,
    gather,
    gather_eight,
    gather_one,
    implement,
    line_up,
    score_all,
)
from pfedeg.engine.compiled.writing import write
from pfedeg.engine.lowlevel import vectors
from pfedeg.engine.lowlevel.compile import jit
from pfedeg.engine.lowlevel.matrix_tiles import four
from pfedeg.engine.lowlevel.native import LANES, fill, load, repeat, repeat_eight, share
from pfedeg.engine.lowlevel.vectors import (
    WIDE,
    ZERO,
    clear,
    eight_rows,
    expect_eight,
    expect_rows,
    fill_wide,
    fma,
    four_rows,
    inverse_root,
    load_wide,
    magnitude,
    pick,
    share_wide,
    signed,
    store,
    store_four,
    total,
    totals,
)
from pfedeg.models.rotate import RotatE
from pfedeg.models.transe import TransE

CLOSE = 8  # queries that stay close while all of a group's negatives meet them


def swap(model, query, i, table, ids, j, weight, by_query, slot, by_row):
    """For queries i[0] … i[3] and rows ids[j] … ids[j + 3], add all shares weight[i, j] · ∂s to both gradients."""


@implement(compare, TransE)
def _compare_distance(model, q, table, ids, j):
    a, b, c, d, e, f, g, h = eight_rows(table, ids, j)
    sa = sb = sc = sd = se = sf = sg = sh = fill(ZERO)
    for k in range(0, len(q), LANES):
        x = load(q, k)
        sa += magnitude(x - load(a, k))
        sb += magnitude(x - load(b, k))
        sc += magnitude(x - load(c, k))
        sd += magnitude(x - load(d, k))
        se += magnitude(x - load(e, k))
        sf += magnitude(x - load(f, k))
        sg += magnitude(x - load(g, k))
        sh += magnitude(x - load(h, k))
    return vectors.fill(np.float32(model.gamma)) - totals(sa, sb, sc, sd, se, sf, sg, sh)


@implement(compare, RotatE)
def _compare_modulus(model, q, table, ids, j):
    a, b, c, d, e, f, g, h = eight_rows(table, ids, j)
    sa = sb = sc = sd = se = sf = sg = sh = fill(ZERO)
    m = len(q) // 2
    for k in range(0, m, LANES):
        re, im = load(q, k), load(q, m + k)
        sa = _add_modulus(re - load(a, k), im - load(a, m + k), sa)
        sb = _add_modulus(re - load(b, k), im - load(b, m + k), sb)
        sc = _add_modulus(re - load(c, k), im - load(c, m + k), sc)
        sd = _add_modulus(re - load(d, k), im - load(d, m + k), sd)
        se = _add_modulus(re - load(e, k), im - load(e, m + k), se)
        sf = _add_modulus(re - load(f, k), im - load(f, m + k), sf)
        sg = _add_modulus(re - load(g, k), im - load(g, m + k), sg)
        sh = _add_modulus(re - load(h, k), im - load(h, m + k), sh)
    return vectors.fill(np.float32(model.gamma)) - totals(sa, sb, sc, sd, se, sf, sg, sh)


@jit
def _add_modulus(re, im, total):
    """The total and √(re² + im²)."""
    square = fma(re, re, im * im)
    return fma(square, inverse_root(square), total)


@implement(compare_group, TransE, RotatE)
def _compare_group_distances(model, query, begin, end, table, ids, j, score):
    for i in range(begin, end):
        expect_eight(table, ids, j + vectors.LANES, (i - begin) * WIDE)
        store(score[i], j, compare(model, query[i], table, ids, j))


@implement(line_up, TransE, RotatE)
def _line_up_nothing(model, queries, ids, panel):
    pass


@implement(score_all, TransE, RotatE)
def _score_all_distances(model, table, queries, ids, panel, score):
    for e in range(len(table)):  # the score is symmetric, so a row is compared with queries as with other rows
        for lane in range(0, QUERIES, vectors.LANES):
            store(score[e], lane, compare(model, table[e], queries, ids, lane))


@implement(compare_one, TransE)
def _compare_one_distance(model, q, row):
    s = fill(ZERO)
    for k in range(0, len(q), LANES):
        s += magnitude(load(q, k) - load(row, k))
    return np.float32(model.gamma) - total(s)


@implement(compare_one, RotatE)
def _compare_one_modulus(model, q, row):
    s, m = fill(ZERO), len(q) // 2
    for k in range(0, m, LANES):
        s = _add_modulus(load(q, k) - load(row, k), load(q, m + k) - load(row, m + k), s)
    return np.float32(model.gamma) - total(s)


@implement(gather_eight, TransE)
def _gather_eight_distances(model, q, table, ids, weights, j, soon, g):
    a, b, c, d, e, f, h, i = eight_rows(table, ids, j)
    wa, wb, wc, wd, we, wf, wh, wi = repeat_eight(weights, j)
    soon_rows = eight_rows(table, ids, soon)
    for line in range(0, len(q), WIDE):
        expect_rows(soon_rows, line)
        for k in range(line, line + WIDE, LANES):
            p = load(q, k)
            first = signed(wa, p - load(a, k)) + signed(wb, p - load(b, k))
            second = signed(wc, p - load(c, k)) + signed(wd, p - load(d, k))
            third = signed(we, p - load(e, k)) + signed(wf, p - load(f, k))
            fourth = signed(wh, p - load(h, k)) + signed(wi, p - load(i, k))
            store(g, k, load(g, k) - ((first + second) + (third + fourth)))


@implement(gather_eight, RotatE)
def _gather_eight_moduli(model, q, table, ids, weights, j, soon, g):
    _gather_four_moduli(q, table, ids, weights, j, soon, g)
    _gather_four_moduli(q, table, ids, weights, j + 4, soon + 4, g)


@jit
def _gather_four_moduli(q, table, ids, weights, j, soon, g):
    a, b, c, d = four_rows(table, ids, j)
    soon_rows = four_rows(table, ids, soon)
    wa, wb, wc, wd = fill(-weights[j]), fill(-weights[j + 1]), fill(-weights[j + 2]), fill(-weights[j + 3])
    m = len(q) // 2
    for line in range(0, m, WIDE):
        expect_rows(soon_rows, line)
        expect_rows(soon_rows, m + line)
        for k in range(line, line + WIDE, LANES):
            re, im = load(q, k), load(q, m + k)
            s_re, s_im = load(g, k), load(g, m + k)
            s_re, s_im = _add_unit(wa, re - load(a, k), im - load(a, m + k), s_re, s_im)
            s_re, s_im = _add_unit(wb, re - load(b, k), im - load(b, m + k), s_re, s_im)
            s_re, s_im = _add_unit(wc, re - load(c, k), im - load(c, m + k), s_re, s_im)
            s_re, s_im = _add_unit(wd, re - load(d, k), im - load(d, m + k), s_re, s_im)
            store(g, k, s_re)
            store(g, m + k, s_im)


@jit
def _add_unit(weight, re, im, total_re, total_im):
    """The totals and the complex number of length `weight` in the direction of (re, im); 0 where there is none."""
    share = weight * inverse_root(fma(re, re, im * im))
    return fma(share, re, total_re), fma(share, im, total_im)


@implement(gather_one, TransE)
def _gather_one_distance(model, q, row, weight, g, past):
    for k in range(0, len(g), LANES):
        write(g, k, signed(fill(-weight), load(q, k) - load(row, k)), past)


@implement(gather_one, RotatE)
def _gather_one_modulus(model, q, row, weight, g, past):
    m = len(g) // 2
    for k in range(0, m, LANES):
        re, im = load(q, k) - load(row, k), load(q, m + k) - load(row, m + k)
        by_re, by_im = _add_unit(fill(-weight), re, im, fill(ZERO), fill(ZERO))
        write(g, k, by_re, past)
        write(g, m + k, by_im, past)


@implement(gather, TransE)
def _gather_distances(model, q, table, ids, weights, factor, place, lists, entity, g):
    tiled = len(g) - len(g) % (4 * LANES)
    for k in range(0, tiled, 4 * LANES):
        p, x, y, z = load(q, k), load(q, k + LANES), load(q, k + 2 * LANES), load(q, k + 3 * LANES)
        a = b = c = d = fill(ZERO)
        for part in range(lists[0], lists[1]):
            for j in range(place[part, entity], place[part, entity + 1], 2):
                row, w = pick(table, ids, j), share(weights, factor, ids, j)
                a -= signed(w, p - load(row, k))
                b -= signed(w, x - load(row, k + LANES))
                c -= signed(w, y - load(row, k + 2 * LANES))
                d -= signed(w, z - load(row, k + 3 * LANES))
        store_four(g, k, LANES, a, b, c, d)
    for k in range(tiled, len(g), LANES):
        p, a = load(q, k), fill(ZERO)
        for part in range(lists[0], lists[1]):
            for j in range(place[part, entity], place[part, entity + 1], 2):
                a -= signed(share(weights, factor, ids, j), p - load(pick(table, ids, j), k))
        store(g, k, a)


@implement(gather, RotatE)
def _gather_moduli(model, q, table, ids, weights, factor, place, lists, entity, g):
    m = len(q) // 2
    for k in range(0, m, WIDE):
        re, im = load_wide(q, k), load_wide(q, m + k)
        s_re = s_im = fill_wide(ZERO)
        for part in range(lists[0], lists[1]):
            for j in range(place[part, entity], place[part, entity + 1], 2):
                row, w = pick(table, ids, j), fill_wide(ZERO) - share_wide(weights, factor, ids, j)
                s_re, s_im = _add_unit(w, re - load_wide(row, k), im - load_wide(row, m + k), s_re, s_im)
        store(g, k, s_re)
        store(g, m + k, s_im)


@implement(swap, TransE)
def _swap_distance(model, query, i, table, ids, j, weight, by_query, slot, by_row):
    qa, qb, qc, qd = query[i[0]], query[i[1]], query[i[2]], query[i[3]]
    wa, wb, wc, wd = weight[i[0]], weight[i[1]], weight[i[2]], weight[i[3]]
    ga, gb, gc, gd = by_query[slot], by_query[slot + 1], by_query[slot + 2], by_query[slot + 3]
    e, f, g, h = four_rows(table, ids, j)
    by_e, by_f, by_g, by_h = by_row[j], by_row[j + 1], by_row[j + 2], by_row[j + 3]
    for k in range(0, query.shape[1], LANES):
        a, b, c, d = load(qa, k), load(qb, k), load(qc, k), load(qd, k)
        sa, sb, sc, sd = load(ga, k), load(gb, k), load(gc, k), load(gd, k)
        sa, sb, sc, sd = _meet_distance(e, by_e, j, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        sa, sb, sc, sd = _meet_distance(f, by_f, j + 1, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        sa, sb, sc, sd = _meet_distance(g, by_g, j + 2, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        sa, sb, sc, sd = _meet_distance(h, by_h, j + 3, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        store(ga, k, sa)
        store(gb, k, sb)
        store(gc, k, sc)
        store(gd, k, sd)


@jit
def _meet_distance(row, by_row, j, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd):
    """Some columns of one row and four queries: the row's gradient is stored, the queries' are returned."""
    x = load(row, k)
    ta, tb = signed(repeat(wa, j), a - x), signed(repeat(wb, j), b - x)
    tc, td = signed(repeat(wc, j), c - x), signed(repeat(wd, j), d - x)
    store(by_row, k, load(by_row, k) + ((ta + tb) + (tc + td)))
    return sa - ta, sb - tb, sc - tc, sd - td


@implement(swap, RotatE)
def _swap_modulus(model, query, i, table, ids, j, weight, by_query, slot, by_row):
    m = query.shape[1] // 2
    e, f, g, h = four_rows(table, ids, j)
    by_e, by_f, by_g, by_h = by_row[j], by_row[j + 1], by_row[j + 2], by_row[j + 3]
    for n in range(0, 4, 2):
        qa, qb, wa, wb = query[i[n]], query[i[n + 1]], weight[i[n]], weight[i[n + 1]]
        ga, gb = by_query[slot + n], by_query[slot + n + 1]
        for k in range(0, m, LANES):
            a = load(qa, k), load(qa, m + k)
            b = load(qb, k), load(qb, m + k)
            s = load(ga, k), load(ga, m + k), load(gb, k), load(gb, m + k)
            s = _meet_modulus(e, by_e, j, k, m, a, b, wa, wb, s)
            s = _meet_modulus(f, by_f, j + 1, k, m, a, b, wa, wb, s)
            s = _meet_modulus(g, by_g, j + 2, k, m, a, b, wa, wb, s)
            s = _meet_modulus(h, by_h, j + 3, k, m, a, b, wa, wb, s)
            store(ga, k, s[0])
            store(ga, m + k, s[1])
            store(gb, k, s[2])
            store(gb, m + k, s[3])


@jit
def _meet_modulus(row, by_row, j, k, m, a, b, wa, wb, s):
    """Some complex columns of one row and two queries: the row's gradient is stored, the queries' are returned."""
    re, im = load(row, k), load(row, m + k)
    a_re, a_im, b_re, b_im = re - a[0], im - a[1], re - b[0], im - b[1]
    ta = repeat(wa, j) * inverse_root(fma(a_re, a_re, a_im * a_im))
    tb = repeat(wb, j) * inverse_root(fma(b_re, b_re, b_im * b_im))
    zero = fill(ZERO)
    store(by_row, k, fma(zero - tb, b_re, fma(zero - ta, a_re, load(by_row, k))))
    store(by_row, m + k, fma(zero - tb, b_im, fma(zero - ta, a_im, load(by_row, m + k))))
    return fma(ta, a_re, s[0]), fma(ta, a_im, s[1]), fma(tb, b_re, s[2]), fma(tb, b_im, s[3])


@implement(exchange, TransE, RotatE)
def _exchange_distances(model, query, begin, end, table, ids, weight, by_query, by_row, panel, past):
    for j in range(len(ids)):
        clear(by_row[j])
    for first in range(begin, end, CLOSE):
        for j in range(0, len(ids), 4):
            for i in range(first, min(first + CLOSE, end), 4):
                swap(model, query, four(i, end, len(query) - 1), table, ids, j, weight, by_query, i - begin, by_row)
