"""The models' equations as tiles of vector arithmetic, one overload per model: what compiled kernels are made of.

prepare      what a relation's row r means for a head: r itself, or for RotatE cos θ and sin θ, once per step
compose      q = compose(h, r), r prepared                        (models.py has each equation)
spread       gradients of h and r from the gradient of q, r prepared
compare      scores of one query with eight rows; compare_two, of two queries; compare_one, with one row
gather       gradient of a query by rows: Σ_k c_k · ∂s/∂q (q, row_k); also that of a row by its queries
line_up      sixteen queries, as score_all needs them
score_all    scores of sixteen queries with all rows
exchange     gradients of some queries by the same rows, and of the rows by the queries

Rows are a whole number of vectors long (`scratch.widen` sees to it); the halves of complex ones too.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numba.extending import overload

from pfedeg.kernels.jit import jit
from pfedeg.kernels.products import by_queries, by_rows, four, score_six, six
from pfedeg.kernels.vectors import (
    LANES,
    ZERO,
    clear,
    fill,
    fma,
    inverse_root,
    load,
    lower_halves,
    magnitude,
    repeat,
    signed,
    store,
    total,
    totals,
    upper_halves,
)
from pfedeg.models import ComplEx, DistMult, RotatE, TransE

CLOSE = 8  # queries that stay close while all of a group's negatives meet them
QUERIES = 16  # queries that are compared with all rows together


def prepare(model, r, prepared):
    """Write what composing needs of a relation's row."""


def compose(model, h, r, q):
    """Write the query of (h, r) into q."""


def spread(model, h, r, q, g, by_h, by_r):
    """Write the gradients of h and r, given the gradient g of q."""


def compare(model, q, table, ids, j):
    """Scores of q with the rows ids[j] … ids[j + 7] of a table, as a vector."""


def compare_two(model, p, q, table, ids, j):
    """The same of two queries."""


def compare_one(model, q, row):
    """The score of one query with one row."""


def gather(model, q, table, ids, weights, g):
    """Add Σ_j weights[j] · ∂s/∂q (q, table[ids[j]]) to g: some columns of all rows, then the next columns.

    The score is symmetric, s(q, t) = s(t, q), so this also gives the gradient of a row t from its queries.
    """


def gather_four(model, q, table, ids, weights, j, g):
    """The same of j, j + 1, j + 2, j + 3 only, all columns in turn: faster where the four rows are close."""


def exchange(model, query, begin, end, table, ids, weight, by_query, by_row, panel):
    """For queries begin … end − 1 and rows ids[·], add all shares weight[i, j] · ∂s to ∂/∂q, and write the rows' sums.

    by_query[0] … are the gradients of these queries, by_row[0] … those of the rows.
    """


def swap(model, query, i, table, ids, j, weight, by_query, slot, by_row):
    """For queries i[0] … i[3] and rows ids[j] … ids[j + 3], add all shares weight[i, j] · ∂s to both gradients."""


def line_up(model, queries, ids, panel):
    """Write what `score_all` needs of the queries ids[0] … ids[15]."""


def score_all(model, table, queries, ids, panel, score):
    """Scores of the queries ids[0] … ids[15], lined up, with every row of a table: score[row, query]."""


def implement(operation: Callable[..., Any], *models: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function what compiled code runs for `operation` where the model is one of these."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @overload(operation)
        @wraps(function)
        def choose(*types: Any) -> Callable[..., Any] | None:
            return function if types[0].instance_class in models else None

        return function

    return register


@implement(prepare, TransE, ComplEx, DistMult)
def _prepare_itself(model, r, prepared):
    for k in range(0, len(r), LANES):
        store(prepared, k, load(r, k))


@implement(prepare, RotatE)
def _prepare_rotation(model, r, prepared):
    m = len(r)
    phase = np.float32(np.pi * model.dim / (model.gamma + 2))
    for k in range(m):
        prepared[k], prepared[m + k] = np.cos(r[k] * phase), np.sin(r[k] * phase)


@implement(compose, TransE)
def _compose_translate(model, h, r, q):
    for k in range(0, len(q), LANES):
        store(q, k, load(h, k) + load(r, k))


@implement(compose, DistMult)
def _compose_multiply(model, h, r, q):
    for k in range(0, len(q), LANES):
        store(q, k, load(h, k) * load(r, k))


@implement(compose, RotatE, ComplEx)
def _compose_multiply_complex(model, h, r, q):
    m = len(q) // 2
    for k in range(0, m, LANES):
        h_re, h_im, r_re, r_im = load(h, k), load(h, m + k), load(r, k), load(r, m + k)
        store(q, k, h_re * r_re - h_im * r_im)
        store(q, m + k, fma(h_re, r_im, h_im * r_re))


@implement(spread, TransE)
def _spread_translate(model, h, r, q, g, by_h, by_r):
    for k in range(0, len(g), LANES):
        store(by_h, k, load(g, k))
        store(by_r, k, load(g, k))


@implement(spread, DistMult)
def _spread_multiply(model, h, r, q, g, by_h, by_r):
    for k in range(0, len(g), LANES):
        store(by_h, k, load(g, k) * load(r, k))
        store(by_r, k, load(g, k) * load(h, k))


@implement(spread, RotatE)
def _spread_rotate(model, h, r, q, g, by_h, by_r):
    m = len(by_r)
    phase = fill(np.float32(np.pi * model.dim / (model.gamma + 2)))
    for k in range(0, m, LANES):
        g_re, g_im, r_re, r_im = load(g, k), load(g, m + k), load(r, k), load(r, m + k)
        store(by_h, k, fma(g_re, r_re, g_im * r_im))
        store(by_h, m + k, g_im * r_re - g_re * r_im)
        store(by_r, k, (g_im * load(q, k) - g_re * load(q, m + k)) * phase)


@implement(spread, ComplEx)
def _spread_multiply_complex(model, h, r, q, g, by_h, by_r):
    m = len(g) // 2
    for k in range(0, m, LANES):
        g_re, g_im, r_re, r_im = load(g, k), load(g, m + k), load(r, k), load(r, m + k)
        h_re, h_im = load(h, k), load(h, m + k)
        store(by_h, k, fma(g_re, r_re, g_im * r_im))
        store(by_h, m + k, g_im * r_re - g_re * r_im)
        store(by_r, k, fma(g_re, h_re, g_im * h_im))
        store(by_r, m + k, g_im * h_re - g_re * h_im)


@implement(compare, TransE)
def _compare_distance(model, q, table, ids, j):
    a, b, c, d = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    e, f, g, h = table[ids[j + 4]], table[ids[j + 5]], table[ids[j + 6]], table[ids[j + 7]]
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
    return fill(np.float32(model.gamma)) - totals(sa, sb, sc, sd, se, sf, sg, sh)


@implement(compare, RotatE)
def _compare_modulus(model, q, table, ids, j):
    a, b, c, d = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    e, f, g, h = table[ids[j + 4]], table[ids[j + 5]], table[ids[j + 6]], table[ids[j + 7]]
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
    return fill(np.float32(model.gamma)) - totals(sa, sb, sc, sd, se, sf, sg, sh)


@jit
def _add_modulus(re, im, total):
    """The total and √(re² + im²)."""
    square = fma(re, re, im * im)
    return fma(square, inverse_root(square), total)


@implement(compare, ComplEx, DistMult)
def _compare_product(model, q, table, ids, j):
    a, b, c, d = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    e, f, g, h = table[ids[j + 4]], table[ids[j + 5]], table[ids[j + 6]], table[ids[j + 7]]
    sa = sb = sc = sd = se = sf = sg = sh = fill(ZERO)
    for k in range(0, len(q), LANES):
        x = load(q, k)
        sa = fma(x, load(a, k), sa)
        sb = fma(x, load(b, k), sb)
        sc = fma(x, load(c, k), sc)
        sd = fma(x, load(d, k), sd)
        se = fma(x, load(e, k), se)
        sf = fma(x, load(f, k), sf)
        sg = fma(x, load(g, k), sg)
        sh = fma(x, load(h, k), sh)
    return totals(sa, sb, sc, sd, se, sf, sg, sh)


@implement(compare_two, TransE, RotatE)
def _compare_two_distances(model, p, q, table, ids, j):
    return compare(model, p, table, ids, j), compare(model, q, table, ids, j)


@implement(compare_two, ComplEx, DistMult)
def _compare_two_products(model, p, q, table, ids, j):
    first, second = _two_by_four(p, q, table, ids, j), _two_by_four(p, q, table, ids, j + 4)
    return lower_halves(first, second), upper_halves(first, second)


@jit
def _two_by_four(p, q, table, ids, j):
    """Scores of p with four rows, then those of q: what is loaded is used more often than with one query."""
    a, b, c, d = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    pa = pb = pc = pd = qa = qb = qc = qd = fill(ZERO)
    for k in range(0, len(p), LANES):
        x, y = load(p, k), load(q, k)
        pa, qa = fma(x, load(a, k), pa), fma(y, load(a, k), qa)
        pb, qb = fma(x, load(b, k), pb), fma(y, load(b, k), qb)
        pc, qc = fma(x, load(c, k), pc), fma(y, load(c, k), qc)
        pd, qd = fma(x, load(d, k), pd), fma(y, load(d, k), qd)
    return totals(pa, pb, pc, pd, qa, qb, qc, qd)


@implement(line_up, TransE, RotatE)
def _line_up_nothing(model, queries, ids, panel):
    pass


@implement(line_up, ComplEx, DistMult)
def _line_up_columns(model, queries, ids, panel):
    """Their k-th numbers side by side."""
    for lane in range(QUERIES):
        for k in range(len(panel)):
            panel[k, lane] = queries[ids[lane], k]


@implement(score_all, TransE, RotatE)
def _score_all_distances(model, table, queries, ids, panel, score):
    for e in range(len(table)):  # the score is symmetric, so a row is compared with queries as with other rows
        store(score[e], 0, compare(model, table[e], queries, ids, 0))
        store(score[e], LANES, compare(model, table[e], queries, ids, LANES))


@implement(score_all, ComplEx, DistMult)
def _score_all_products(model, table, queries, ids, panel, score):
    """A matrix product: six rows at a time meet all queries."""
    for e in range(0, len(table), 6):
        score_six(table, six(e, len(table), len(table) - 1), panel, score)


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


@implement(compare_one, ComplEx, DistMult)
def _compare_one_product(model, q, row):
    s = fill(ZERO)
    for k in range(0, len(q), LANES):
        s = fma(load(q, k), load(row, k), s)
    return total(s)


@implement(gather_four, TransE)
def _gather_four_distances(model, q, table, ids, weights, j, g):
    a, b, c, d = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    wa, wb, wc, wd = repeat(weights, j), repeat(weights, j + 1), repeat(weights, j + 2), repeat(weights, j + 3)
    for k in range(0, len(q), LANES):
        x = load(q, k)
        first = signed(wa, x - load(a, k)) + signed(wb, x - load(b, k))
        second = signed(wc, x - load(c, k)) + signed(wd, x - load(d, k))
        store(g, k, load(g, k) - (first + second))


@implement(gather_four, RotatE)
def _gather_four_moduli(model, q, table, ids, weights, j, g):
    a, b, c, d = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    wa, wb, wc, wd = fill(-weights[j]), fill(-weights[j + 1]), fill(-weights[j + 2]), fill(-weights[j + 3])
    m = len(q) // 2
    for k in range(0, m, LANES):
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


@implement(gather_four, ComplEx, DistMult)
def _gather_four_products(model, q, table, ids, weights, j, g):
    a, b, c, d = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    wa, wb, wc, wd = repeat(weights, j), repeat(weights, j + 1), repeat(weights, j + 2), repeat(weights, j + 3)
    for k in range(0, len(q), LANES):
        first = fma(wb, load(b, k), fma(wa, load(a, k), load(g, k)))
        store(g, k, fma(wd, load(d, k), fma(wc, load(c, k), first)))


@implement(gather, TransE)
def _gather_distances(model, q, table, ids, weights, g):
    tiled = len(g) - len(g) % (4 * LANES)
    for k in range(0, tiled, 4 * LANES):
        p, x, y, z = load(q, k), load(q, k + LANES), load(q, k + 2 * LANES), load(q, k + 3 * LANES)
        a, b, c, d = load(g, k), load(g, k + LANES), load(g, k + 2 * LANES), load(g, k + 3 * LANES)
        for j in range(len(ids)):
            row, w = table[ids[j]], repeat(weights, j)
            a -= signed(w, p - load(row, k))
            b -= signed(w, x - load(row, k + LANES))
            c -= signed(w, y - load(row, k + 2 * LANES))
            d -= signed(w, z - load(row, k + 3 * LANES))
        _store_along(g, k, a, b, c, d)
    for k in range(tiled, len(g), LANES):
        p, a = load(q, k), load(g, k)
        for j in range(len(ids)):
            a -= signed(repeat(weights, j), p - load(table[ids[j]], k))
        store(g, k, a)


@jit
def _store_along(g, k, a, b, c, d):
    store(g, k, a)
    store(g, k + LANES, b)
    store(g, k + 2 * LANES, c)
    store(g, k + 3 * LANES, d)


@implement(gather, RotatE)
def _gather_moduli(model, q, table, ids, weights, g):
    m = len(q) // 2
    for k in range(0, m, LANES):
        re, im = load(q, k), load(q, m + k)
        s_re, s_im = load(g, k), load(g, m + k)
        for j in range(len(ids)):
            row = table[ids[j]]
            s_re, s_im = _add_unit(fill(-weights[j]), re - load(row, k), im - load(row, m + k), s_re, s_im)
        store(g, k, s_re)
        store(g, m + k, s_im)


@implement(gather, ComplEx, DistMult)
def _gather_products(model, q, table, ids, weights, g):
    tiled = len(g) - len(g) % (8 * LANES)
    for k in range(0, tiled, 8 * LANES):
        k2 = k + 4 * LANES
        a, b, c, d = load(g, k), load(g, k + LANES), load(g, k + 2 * LANES), load(g, k + 3 * LANES)
        e, f, h, i = load(g, k2), load(g, k2 + LANES), load(g, k2 + 2 * LANES), load(g, k2 + 3 * LANES)
        for j in range(len(ids)):
            row, w = table[ids[j]], repeat(weights, j)
            a, b = fma(w, load(row, k), a), fma(w, load(row, k + LANES), b)
            c, d = fma(w, load(row, k + 2 * LANES), c), fma(w, load(row, k + 3 * LANES), d)
            e, f = fma(w, load(row, k2), e), fma(w, load(row, k2 + LANES), f)
            h, i = fma(w, load(row, k2 + 2 * LANES), h), fma(w, load(row, k2 + 3 * LANES), i)
        _store_along(g, k, a, b, c, d)
        _store_along(g, k2, e, f, h, i)
    for k in range(tiled, len(g), LANES):
        a = load(g, k)
        for j in range(len(ids)):
            a = fma(repeat(weights, j), load(table[ids[j]], k), a)
        store(g, k, a)


@implement(swap, TransE)
def _swap_distance(model, query, i, table, ids, j, weight, by_query, slot, by_row):
    qa, qb, qc, qd = query[i[0]], query[i[1]], query[i[2]], query[i[3]]
    wa, wb, wc, wd = weight[i[0]], weight[i[1]], weight[i[2]], weight[i[3]]
    ga, gb, gc, gd = by_query[slot], by_query[slot + 1], by_query[slot + 2], by_query[slot + 3]
    e, f, g, h = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
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
    """Eight columns of one row and four queries: the row's gradient is stored, the queries' are returned."""
    x = load(row, k)
    ta, tb = signed(repeat(wa, j), a - x), signed(repeat(wb, j), b - x)
    tc, td = signed(repeat(wc, j), c - x), signed(repeat(wd, j), d - x)
    store(by_row, k, load(by_row, k) + ((ta + tb) + (tc + td)))
    return sa - ta, sb - tb, sc - tc, sd - td


@implement(swap, RotatE)
def _swap_modulus(model, query, i, table, ids, j, weight, by_query, slot, by_row):
    m = query.shape[1] // 2
    e, f, g, h = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
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
    """Eight complex columns of one row and two queries: the row's gradient is stored, the queries' are returned."""
    re, im = load(row, k), load(row, m + k)
    a_re, a_im, b_re, b_im = re - a[0], im - a[1], re - b[0], im - b[1]
    ta = repeat(wa, j) * inverse_root(fma(a_re, a_re, a_im * a_im))
    tb = repeat(wb, j) * inverse_root(fma(b_re, b_re, b_im * b_im))
    zero = fill(ZERO)
    store(by_row, k, fma(zero - tb, b_re, fma(zero - ta, a_re, load(by_row, k))))
    store(by_row, m + k, fma(zero - tb, b_im, fma(zero - ta, a_im, load(by_row, m + k))))
    return fma(ta, a_re, s[0]), fma(ta, a_im, s[1]), fma(tb, b_re, s[2]), fma(tb, b_im, s[3])


@implement(exchange, TransE, RotatE)
def _exchange_distances(model, query, begin, end, table, ids, weight, by_query, by_row, panel):
    for j in range(len(ids)):
        clear(by_row[j])
    for first in range(begin, end, CLOSE):
        for j in range(0, len(ids), 4):
            for i in range(first, min(first + CLOSE, end), 4):
                swap(model, query, four(i, end, len(query) - 1), table, ids, j, weight, by_query, i - begin, by_row)


@implement(exchange, ComplEx, DistMult)
def _exchange_products(model, query, begin, end, table, ids, weight, by_query, by_row, panel):
    """∂/∂q = W · rows and ∂/∂rows = Wᵀ · q: matrix products, sixteen columns at a time, which lie side by side."""
    n, width = len(ids), query.shape[1]
    rows, queries = panel[:n], panel[n : n + end - begin]
    for k in range(0, width, 2 * LANES):
        k2 = min(k + LANES, width - LANES)  # where the width is no multiple of sixteen, the last eight come twice
        for j in range(n):
            store(rows[j], 0, load(table[ids[j]], k))
            store(rows[j], LANES, load(table[ids[j]], k2))
        for i in range(begin, end):
            store(queries[i - begin], 0, load(query[i], k))
            store(queries[i - begin], LANES, load(query[i], k2))
        for i in range(begin, end, 6):
            by_queries(rows, weight, six(i, end, len(query) - 1), by_query[i - begin : i - begin + 6], k, k2)
        for j in range(0, n, 6):
            first = min(j, n - 6)  # the last six may overlap with those before
            by_rows(queries, weight[begin:end], first, by_row[first : first + 6], k, k2)
