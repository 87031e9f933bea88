"""TransE and RotatE: scores are distances of a query and a row, gradients point from one to the other."""

from pfedeg.engine.compiled.lanes import operations as op
from pfedeg.engine.compiled.lanes.loops import compare, four_rows, part, prefetch_next, put_part
from pfedeg.engine.compiled.lanes.operations import QUERIES, implement
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import (
    LANES,
    ONE,
    ZERO,
    clear,
    fill,
    fma,
    inverse_root,
    magnitude,
    repeat,
    signed,
)
from pfedeg.models.rotate import RotatE
from pfedeg.models.transe import TransE

CLOSE = 8  # queries that stay in the first cache while all of a group's negatives are compared with them


@implement(op.start, TransE, RotatE)
def _margin(model):
    return model.gamma / LANES


@implement(op.accumulate, TransE)
def _subtract_distance(model, q, t, sums):
    return sums - magnitude(q[0] - t[0]) - magnitude(q[1] - t[1])


@implement(op.add_slope, TransE)
def _add_sign(model, weight, q, t, gradient):
    return gradient[0] - signed(weight, q[0] - t[0]), gradient[1] - signed(weight, q[1] - t[1])


@implement(op.accumulate, RotatE)
def _subtract_modulus(model, q, t, sums):
    re, im = q[0] - t[0], q[1] - t[1]
    square = fma(re, re, im * im)
    return sums - square * inverse_root(square)


@implement(op.add_slope, RotatE)
def _add_unit(model, weight, q, t, gradient):
    """A complex number of length `weight`, in the direction from q to t; 0 where they are equal."""
    re, im = t[0] - q[0], t[1] - q[1]
    share = weight * inverse_root(fma(re, re, im * im))
    return fma(share, re, gradient[0]), fma(share, im, gradient[1])


@implement(op.compare_group, TransE, RotatE)
def _compare_group(model, query, table, ids, j, score):
    for i in range(len(query)):
        prefetch_next(table, ids, j, i)
        compare(model, query[i], table, ids, j, score[i])


@implement(op.line_up, TransE, RotatE)
def _line_up_nothing(model, queries, ids, panel):
    pass


@implement(op.score_all, TransE, RotatE)
def _score_all(model, table, queries, ids, panel, score):
    for e in range(len(table)):  # the score is symmetric, so a row is compared with queries as with other rows
        for lane in range(0, QUERIES, 8):
            compare(model, table[e], queries, ids, lane, score[e])


@implement(op.exchange, TransE, RotatE)
def _exchange(model, query, table, ids, weight, by_query, by_row, panel):
    for j in range(len(ids)):
        clear(by_row[j])
    for first in range(0, len(query), CLOSE):
        for j in range(0, len(ids), 4):
            for i in range(first, min(first + CLOSE, len(query)), 2):
                _exchange_tile(model, query, i, min(i + 1, len(query) - 1), table, ids, j, weight, by_query, by_row)


@inline
def _exchange_tile(model, query, i, m, table, ids, j, weight, by_query, by_row):
    """Two queries and four rows; a last query that has no other beside it is paired with itself, without weight."""
    a, b, c, d = four_rows(table, ids, j)
    v, w, one = weight[i], weight[m], fill(ONE if m > i else ZERO)
    v = repeat(v, j), repeat(v, j + 1), repeat(v, j + 2), repeat(v, j + 3)
    w = one * repeat(w, j), one * repeat(w, j + 1), one * repeat(w, j + 2), one * repeat(w, j + 3)
    for k in range(0, query.shape[1] // 2, LANES):
        x, y, s, u = part(query[i], k), part(query[m], k), part(by_query[i], k), part(by_query[m], k)
        s, u = _exchange_row(model, x, y, a, by_row[j], v[0], w[0], k, s, u)
        s, u = _exchange_row(model, x, y, b, by_row[j + 1], v[1], w[1], k, s, u)
        s, u = _exchange_row(model, x, y, c, by_row[j + 2], v[2], w[2], k, s, u)
        s, u = _exchange_row(model, x, y, d, by_row[j + 3], v[3], w[3], k, s, u)
        put_part(by_query[m], k, u)
        put_part(by_query[i], k, s)


@inline
def _exchange_row(model, x, y, row, by_row, v, w, k, s, u):
    """A part of a row and two queries: the row's gradient, which is opposite, is stored, the queries' are returned."""
    t, by_t = part(row, k), part(by_row, k)
    by_t = op.add_slope(model, fill(ZERO) - w, y, t, op.add_slope(model, fill(ZERO) - v, x, t, by_t))
    put_part(by_row, k, by_t)
    return op.add_slope(model, v, x, t, s), op.add_slope(model, w, y, t, u)
