"""TransE and RotatE: scores are distances of a query and a row, gradients point from one to the other."""

from pfedeg.engine.compiled.lanes import operations as op
from pfedeg.engine.compiled.lanes.loops import compare, four_rows, part, put_part
from pfedeg.engine.compiled.lanes.operations import QUERIES, implement
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import LANES, ZERO, clear, fill, fma, inverse_root, magnitude, repeat, signed
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


@implement(op.line_up, TransE, RotatE)
def _line_up_nothing(model, queries, ids, begin, panel):
    pass


@implement(op.score_all, TransE, RotatE)
def _score_all(model, table, queries, ids, begin, panel, score):
    for e in range(len(table)):  # the score is symmetric, so a row is compared with queries as with other rows
        for lane in range(begin, begin + QUERIES, 8):
            compare(model, table[e], queries, ids, lane, score[e])


@implement(op.exchange, TransE, RotatE)
def _exchange(model, query, table, ids, weight, by_query, by_row, panel):
    for j in range(len(ids)):
        clear(by_row[j])
    for first in range(0, len(query), CLOSE):
        for j in range(0, len(ids), 4):
            for i in range(first, min(first + CLOSE, len(query))):
                _exchange_four(model, query[i], table, ids, j, weight[i], by_query[i], by_row)


@inline
def _exchange_four(model, q, table, ids, j, weight, by_query, by_row):
    """A query and four rows."""
    a, b, c, d = four_rows(table, ids, j)
    for k in range(0, len(q) // 2, LANES):
        x, s = part(q, k), part(by_query, k)
        s = _exchange_row(model, x, a, by_row[j], weight, j, k, s)
        s = _exchange_row(model, x, b, by_row[j + 1], weight, j + 1, k, s)
        s = _exchange_row(model, x, c, by_row[j + 2], weight, j + 2, k, s)
        put_part(by_query, k, _exchange_row(model, x, d, by_row[j + 3], weight, j + 3, k, s))


@inline
def _exchange_row(model, x, row, by_row, weight, j, k, s):
    """A part of a row and a query: the row's gradient, which is opposite, is stored, the query's is returned."""
    t, w = part(row, k), repeat(weight, j)
    put_part(by_row, k, op.add_slope(model, fill(ZERO) - w, x, t, part(by_row, k)))
    return op.add_slope(model, w, x, t, s)
