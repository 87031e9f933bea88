"""ComplEx and DistMult: scores are products of a query and a row, so that many of them are matrix products.

They run in registers, six rows or queries at a time: sums, columns and a factor fit into 16 registers.
"""

import numpy as np

from pfedeg.engine.compiled.lanes import operations as op
from pfedeg.engine.compiled.lanes.operations import QUERIES, implement
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import LANES, ZERO, fill, fma, load, repeat, store
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


@implement(op.line_up, ComplEx, DistMult)
def _line_up_columns(model, queries, ids, begin, panel):
    """Their k-th numbers side by side."""
    for lane in range(QUERIES):
        q = queries[np.uint32(ids[begin + lane])]
        for k in range(len(panel)):
            panel[k, lane] = q[k]


@implement(op.score_all, ComplEx, DistMult)
def _score_all(model, table, queries, ids, begin, panel, score):
    for e in range(0, len(table), 6):
        rows, results = _six_rows(table, e), _six_rows(score, e)
        for lane in range(0, QUERIES, 2 * LANES):
            left = right = _six(fill(ZERO))
            for k in range(len(panel)):
                factors = _column(rows, k)
                left = _add_products(factors, load(panel[k], lane), left)
                right = _add_products(factors, load(panel[k], lane + LANES), right)
            _put_six(results, begin + lane, left)
            _put_six(results, begin + lane + LANES, right)


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
