"""ComplEx and DistMult: scores are products of a query and a row, so that many of them are matrix products.

They run in registers, six rows or queries at a time: sums, columns and a factor fit into 16 registers.
"""

import numpy as np

from pfedeg.engine.compiled.lanes import operations as op
from pfedeg.engine.compiled.lanes.loops import four_rows, prefetch_next
from pfedeg.engine.compiled.lanes.operations import QUERIES, implement
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import LANES, ZERO, fill, fma, load, repeat, store, store_totals
from pfedeg.models.complex import ComplEx
from pfedeg.models.distmult import DistMult


@implement(op.start, ComplEx, DistMult)
def _nothing(model):
    return 0.0


@implement(op.accumulate, ComplEx, DistMult)
def _add_product(model, q, t, sums):
    return fma(q[1], t[1], fma(q[0], t[0], sums))


@implement(op.add_slope, ComplEx, DistMult)
def _add_row(model, weight, q, t, gradient):
    return fma(weight, t[0], gradient[0]), fma(weight, t[1], gradient[1])


@implement(op.compare_group, ComplEx, DistMult)
def _compare_group(model, query, table, ids, j, score):
    """Three queries at a time; the last ones may come twice."""
    for i in range(0, len(query), 3):
        prefetch_next(table, ids, j, i // 3)
        i2, i3 = min(i + 1, len(query) - 1), min(i + 2, len(query) - 1)
        a, b, c = _three_by_four(query[i], query[i2], query[i3], table, ids, j)
        d, e, f = _three_by_four(query[i], query[i2], query[i3], table, ids, j + 4)
        store_totals(score[i], j, a[0], a[1], a[2], a[3], d[0], d[1], d[2], d[3])
        store_totals(score[i2], j, b[0], b[1], b[2], b[3], e[0], e[1], e[2], e[3])
        store_totals(score[i3], j, c[0], c[1], c[2], c[3], f[0], f[1], f[2], f[3])


@inline
def _three_by_four(p, q, r, table, ids, j):
    """Products of three queries with four rows, lane by lane: what is loaded is used more often than with one query."""
    a, b, c, d = four_rows(table, ids, j)
    pa = pb = pc = pd = qa = qb = qc = qd = ra = rb = rc = rd = fill(ZERO)
    for k in range(0, len(p), LANES):
        x, y, z = load(p, k), load(q, k), load(r, k)
        e, f, g, h = load(a, k), load(b, k), load(c, k), load(d, k)
        pa, qa, ra = fma(x, e, pa), fma(y, e, qa), fma(z, e, ra)
        pb, qb, rb = fma(x, f, pb), fma(y, f, qb), fma(z, f, rb)
        pc, qc, rc = fma(x, g, pc), fma(y, g, qc), fma(z, g, rc)
        pd, qd, rd = fma(x, h, pd), fma(y, h, qd), fma(z, h, rd)
    return (pa, pb, pc, pd), (qa, qb, qc, qd), (ra, rb, rc, rd)


@implement(op.line_up, ComplEx, DistMult)
def _line_up_columns(model, queries, ids, panel):
    """Their k-th numbers side by side."""
    for lane in range(QUERIES):
        q = queries[np.uint32(ids[lane])]
        for k in range(len(panel)):
            panel[k, lane] = q[k]


@implement(op.score_all, ComplEx, DistMult)
def _score_all(model, table, queries, ids, panel, score):
    for e in range(0, len(table), 6):
        rows, results = _six_rows(table, e), _six_rows(score, e)
        for lane in range(0, QUERIES, 2 * LANES):
            left = right = _six(fill(ZERO))
            for k in range(len(panel)):
                factors = _column(rows, k)
                left = _add_products(factors, load(panel[k], lane), left)
                right = _add_products(factors, load(panel[k], lane + LANES), right)
            _put_six(results, lane, left)
            _put_six(results, lane + LANES, right)


@implement(op.exchange, ComplEx, DistMult)
def _exchange(model, query, table, ids, weight, by_query, by_row, panel):
    """∂/∂q = W · rows and ∂/∂rows = Wᵀ · q: some columns at a time, which lie side by side."""
    n = len(ids)
    for k in range(0, query.shape[1], LANES):
        for j in range(n):
            store(panel[j], 0, load(table[np.uint32(ids[j])], k))
        for i in range(len(query)):
            store(panel[n + i], 0, load(query[i], k))
        for i in range(0, len(query), 6):
            weights, results = _six_rows(weight, i), _six_rows(by_query, i)
            a, b, c, d, e, f = results
            sums = load(a, k), load(b, k), load(c, k), load(d, k), load(e, k), load(f, k)
            for j in range(n):
                sums = _add_products(_column(weights, j), load(panel[j], 0), sums)
            _put_six(results, k, sums)
        for j in range(0, n, 6):
            first, sums = min(j, n - 6), _six(fill(ZERO))  # the last six may overlap with those before
            for i in range(len(query)):
                sums = _add_products(_six_along(weight[i], first), load(panel[n + i], 0), sums)
            _put_six(_six_rows(by_row, first), k, sums)


@inline
def _six(a):
    return a, a, a, a, a, a


@inline
def _six_rows(table, i):
    """Six rows from i on; the last one is repeated."""
    last = len(table) - 1
    b, c, d, e, f = min(i + 1, last), min(i + 2, last), min(i + 3, last), min(i + 4, last), min(i + 5, last)
    return table[i], table[b], table[c], table[d], table[e], table[f]


@inline
def _column(rows, k):
    """The k-th number of each of six rows, in every lane."""
    a, b, c, d, e, f = rows
    return repeat(a, k), repeat(b, k), repeat(c, k), repeat(d, k), repeat(e, k), repeat(f, k)


@inline
def _six_along(row, j):
    """Six numbers of a row from j on, each in every lane."""
    a, b, c = repeat(row, j), repeat(row, j + 1), repeat(row, j + 2)
    return a, b, c, repeat(row, j + 3), repeat(row, j + 4), repeat(row, j + 5)


@inline
def _add_products(factors, x, sums):
    """Six sums and six factors times x."""
    (a, b, c, d, e, f), (sa, sb, sc, sd, se, sf) = factors, sums
    return fma(a, x, sa), fma(b, x, sb), fma(c, x, sc), fma(d, x, sd), fma(e, x, se), fma(f, x, sf)


@inline
def _put_six(rows, k, sums):
    """Store six vectors, from k on in six rows."""
    for n in range(6):
        store(rows[n], k, sums[n])
