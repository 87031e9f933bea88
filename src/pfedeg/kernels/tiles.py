"""The models' equations as tiles of vector arithmetic, one overload per model: what compiled kernels are made of.

prepare      what a relation's row r means for a head: r itself, or for RotatE cos θ and sin θ, once per step
compose      q = compose(h, r), r prepared                        (models.py has each equation)
spread       gradients of h and r from the gradient of q, r prepared
compare      scores of one query with eight rows at a time
gather       gradient of a query, four rows at a time: Σ_k c_k · ∂s/∂q (q, row_k); also that of a row by its queries
exchange     gradients of four queries by four rows and of the rows by the queries, which are made of the same terms

Rows are a whole number of vectors long (`scratch.widen` sees to it); the halves of complex ones too.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numba.extending import overload

from pfedeg.kernels.jit import jit
from pfedeg.kernels.vectors import LANES, fill, fma, inverse_root, load, magnitude, signed, store, totals
from pfedeg.models import ComplEx, DistMult, RotatE, TransE

ZERO = np.float32(0.0)


def prepare(model, r, prepared):
    """Write what composing needs of a relation's row."""


def compose(model, h, r, q):
    """Write the query of (h, r) into q."""


def spread(model, h, r, q, g, by_h, by_r):
    """Write the gradients of h and r, given the gradient g of q."""


def compare(model, q, table, ids, j):
    """Scores of q with the rows ids[j] … ids[j + 7] of a table, as a vector."""


def gather(model, q, table, rows, weights, g):
    """Add Σ_k weights[k] · ∂s/∂q (q, table[rows[k]]) to g, for four k.

    The score is symmetric, s(q, t) = s(t, q), so this also gives the gradient of a row t from its queries.
    """


def exchange(model, query, i, table, ids, j, weight, by_query, slot, by_row, place):
    """For queries i[0] … i[3] and rows ids[j] … ids[j + 3], add all shares weight[i, j] · ∂s to both gradients.

    by_query[slot … slot + 3] are those of the queries, by_row[place … place + 3] those of the rows.
    """


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


@implement(gather, TransE)
def _gather_distance(model, q, table, rows, weights, g):
    a, b, c, d = table[rows[0]], table[rows[1]], table[rows[2]], table[rows[3]]
    wa, wb, wc, wd = fill(weights[0]), fill(weights[1]), fill(weights[2]), fill(weights[3])
    for k in range(0, len(q), LANES):
        x = load(q, k)
        first = signed(wa, x - load(a, k)) + signed(wb, x - load(b, k))
        second = signed(wc, x - load(c, k)) + signed(wd, x - load(d, k))
        store(g, k, load(g, k) - (first + second))


@implement(gather, RotatE)
def _gather_modulus(model, q, table, rows, weights, g):
    a, b, c, d = table[rows[0]], table[rows[1]], table[rows[2]], table[rows[3]]
    wa, wb, wc, wd = fill(-weights[0]), fill(-weights[1]), fill(-weights[2]), fill(-weights[3])
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


@implement(gather, ComplEx, DistMult)
def _gather_product(model, q, table, rows, weights, g):
    a, b, c, d = table[rows[0]], table[rows[1]], table[rows[2]], table[rows[3]]
    wa, wb, wc, wd = fill(weights[0]), fill(weights[1]), fill(weights[2]), fill(weights[3])
    for k in range(0, len(q), LANES):
        first = fma(wb, load(b, k), fma(wa, load(a, k), load(g, k)))
        store(g, k, fma(wd, load(d, k), fma(wc, load(c, k), first)))


@implement(exchange, TransE)
def _exchange_distance(model, query, i, table, ids, j, weight, by_query, slot, by_row, place):
    qa, qb, qc, qd = query[i[0]], query[i[1]], query[i[2]], query[i[3]]
    wa, wb, wc, wd = weight[i[0]], weight[i[1]], weight[i[2]], weight[i[3]]
    ga, gb, gc, gd = by_query[slot], by_query[slot + 1], by_query[slot + 2], by_query[slot + 3]
    e, f, g, h = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    by_e, by_f, by_g, by_h = by_row[place], by_row[place + 1], by_row[place + 2], by_row[place + 3]
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
    ta, tb = signed(fill(wa[j]), a - x), signed(fill(wb[j]), b - x)
    tc, td = signed(fill(wc[j]), c - x), signed(fill(wd[j]), d - x)
    store(by_row, k, load(by_row, k) + ((ta + tb) + (tc + td)))
    return sa - ta, sb - tb, sc - tc, sd - td


@implement(exchange, ComplEx, DistMult)
def _exchange_product(model, query, i, table, ids, j, weight, by_query, slot, by_row, place):
    qa, qb, qc, qd = query[i[0]], query[i[1]], query[i[2]], query[i[3]]
    wa, wb, wc, wd = weight[i[0]], weight[i[1]], weight[i[2]], weight[i[3]]
    ga, gb, gc, gd = by_query[slot], by_query[slot + 1], by_query[slot + 2], by_query[slot + 3]
    e, f, g, h = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    by_e, by_f, by_g, by_h = by_row[place], by_row[place + 1], by_row[place + 2], by_row[place + 3]
    for k in range(0, query.shape[1], LANES):
        a, b, c, d = load(qa, k), load(qb, k), load(qc, k), load(qd, k)
        sa, sb, sc, sd = load(ga, k), load(gb, k), load(gc, k), load(gd, k)
        sa, sb, sc, sd = _meet_product(e, by_e, j, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        sa, sb, sc, sd = _meet_product(f, by_f, j + 1, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        sa, sb, sc, sd = _meet_product(g, by_g, j + 2, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        sa, sb, sc, sd = _meet_product(h, by_h, j + 3, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd)
        store(ga, k, sa)
        store(gb, k, sb)
        store(gc, k, sc)
        store(gd, k, sd)


@jit
def _meet_product(row, by_row, j, k, a, b, c, d, wa, wb, wc, wd, sa, sb, sc, sd):
    """Eight columns of one row and four queries: the row's gradient is stored, the queries' are returned."""
    x = load(row, k)
    va, vb, vc, vd = fill(wa[j]), fill(wb[j]), fill(wc[j]), fill(wd[j])
    store(by_row, k, fma(vd, d, fma(vc, c, fma(vb, b, fma(va, a, load(by_row, k))))))
    return fma(va, x, sa), fma(vb, x, sb), fma(vc, x, sc), fma(vd, x, sd)


@implement(exchange, RotatE)
def _exchange_modulus(model, query, i, table, ids, j, weight, by_query, slot, by_row, place):
    m = query.shape[1] // 2
    e, f, g, h = table[ids[j]], table[ids[j + 1]], table[ids[j + 2]], table[ids[j + 3]]
    by_e, by_f, by_g, by_h = by_row[place], by_row[place + 1], by_row[place + 2], by_row[place + 3]
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
    ta = fill(wa[j]) * inverse_root(fma(a_re, a_re, a_im * a_im))
    tb = fill(wb[j]) * inverse_root(fma(b_re, b_re, b_im * b_im))
    zero = fill(ZERO)
    store(by_row, k, fma(zero - tb, b_re, fma(zero - ta, a_re, load(by_row, k))))
    store(by_row, m + k, fma(zero - tb, b_im, fma(zero - ta, a_im, load(by_row, m + k))))
    return fma(ta, a_re, s[0]), fma(ta, a_im, s[1]), fma(tb, b_re, s[2]), fma(tb, b_im, s[3])
