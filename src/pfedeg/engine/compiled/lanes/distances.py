"""TransE and RotatE: scores are distances of a query and a row, gradients point from one to the other."""

from pfedeg.engine.compiled.lanes import operations as op
from pfedeg.engine.compiled.lanes.loops import compare, prefetch_next
from pfedeg.engine.compiled.lanes.operations import QUERIES, implement
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.vectors import (
    EIGHT,
    LANES,
    ZERO,
    clear,
    fill,
    fma,
    four_rows,
    inverse_root,
    load,
    magnitude,
    repeat,
    signed,
    store,
)
from pfedeg.models.rotate import RotatE
from pfedeg.models.transe import TransE

CLOSE = 8  # queries that stay in the first cache while all of a group's negatives are compared with them


@implement(op.sign, TransE, RotatE)
def _negative(model):
    return -1.0


@implement(op.offset, TransE, RotatE)
def _margin(model):
    return model.gamma


@implement(op.accumulate, TransE)
def _add_distance(model, q, t, sums):
    return sums + magnitude(q[0] - t[0])


@implement(op.add_slope, TransE)
def _add_sign(model, weight, q, t, gradient):
    return (gradient[0] - signed(weight, q[0] - t[0]),)


@implement(op.exchange_slopes, TransE)
def _exchange_signs(model, weight, q, t, by_q, by_t):
    slope = signed(weight, q[0] - t[0])
    return (by_q[0] - slope,), (by_t[0] + slope,)


@implement(op.span, RotatE)
def _span_of_complex(model, row):
    return len(row) // 2


@implement(op.part, RotatE)
def _complex_part(model, row, k):
    return load(row, k), load(row, len(row) // 2 + k)


@implement(op.put_part, RotatE)
def _put_complex_part(model, row, k, numbers):
    store(row, k, numbers[0])
    store(row, len(row) // 2 + k, numbers[1])


@implement(op.no_part, RotatE)
def _no_complex_part(model):
    return fill(ZERO), fill(ZERO)


@implement(op.accumulate, RotatE)
def _add_modulus(model, q, t, sums):
    re, im = q[0] - t[0], q[1] - t[1]
    square = fma(re, re, im * im)
    return fma(square, inverse_root(square), sums)


@implement(op.add_slope, RotatE)
def _add_unit(model, weight, q, t, gradient):
    """A complex number of length `weight`, in the direction from q to t; 0 where they are equal."""
    re, im = t[0] - q[0], t[1] - q[1]
    share = weight * inverse_root(fma(re, re, im * im))
    return fma(share, re, gradient[0]), fma(share, im, gradient[1])


@implement(op.exchange_slopes, RotatE)
def _exchange_units(model, weight, q, t, by_q, by_t):
    re, im = t[0] - q[0], t[1] - q[1]
    share = weight * inverse_root(fma(re, re, im * im))
    back = fill(ZERO) - share
    return (fma(share, re, by_q[0]), fma(share, im, by_q[1])), (fma(back, re, by_t[0]), fma(back, im, by_t[1]))


@implement(op.compare_group, TransE, RotatE)
def _compare_group(model, query, begin, end, table, ids, j, score):
    for i in range(begin, end):
        prefetch_next(table, ids, j, i - begin)
        store(score[i], j, compare(model, query[i], table, ids, j))


@implement(op.line_up, TransE, RotatE)
def _line_up_nothing(model, queries, ids, panel):
    pass


@implement(op.score_all, TransE, RotatE)
def _score_all(model, table, queries, ids, panel, score):
    for e in range(len(table)):  # the score is symmetric, so a row is compared with queries as with other rows
        for lane in range(0, QUERIES, EIGHT):
            store(score[e], lane, compare(model, table[e], queries, ids, lane))


@implement(op.exchange, TransE, RotatE)
def _exchange(model, query, begin, end, table, ids, weight, by_query, by_row, panel):
    for j in range(len(ids)):
        clear(by_row[j])
    for first in range(begin, end, CLOSE):
        for j in range(0, len(ids), 4):
            for i in range(first, min(first + CLOSE, end), 2):
                other = i + 1 if i + 1 < end else len(query) - 1  # the last one has no weight
                _exchange_tile(model, query, i, other, table, ids, j, weight, by_query, i - begin, by_row)


@inline
def _exchange_tile(model, query, i, i2, table, ids, j, weight, by_query, slot, by_row):
    """Two queries and four rows."""
    p, q, wp, wq = query[i], query[i2], weight[i], weight[i2]
    a, b, c, d = four_rows(table, ids, j)
    for k in range(0, op.span(model, p), LANES):
        x = op.part(model, p, k), op.part(model, q, k)
        s = op.part(model, by_query[slot], k), op.part(model, by_query[slot + 1], k)
        s = _exchange_row(model, x, a, by_row[j], wp, wq, j, k, s)
        s = _exchange_row(model, x, b, by_row[j + 1], wp, wq, j + 1, k, s)
        s = _exchange_row(model, x, c, by_row[j + 2], wp, wq, j + 2, k, s)
        s = _exchange_row(model, x, d, by_row[j + 3], wp, wq, j + 3, k, s)
        op.put_part(model, by_query[slot], k, s[0])
        op.put_part(model, by_query[slot + 1], k, s[1])


@inline
def _exchange_row(model, x, row, by_row, wp, wq, j, k, s):
    """A part of a row and two queries: the row's gradient is stored, the queries' are returned."""
    t, by_t = op.part(model, row, k), op.part(model, by_row, k)
    by_p, by_t = op.exchange_slopes(model, repeat(wp, j), x[0], t, s[0], by_t)
    by_q, by_t = op.exchange_slopes(model, repeat(wq, j), x[1], t, s[1], by_t)
    op.put_part(model, by_row, k, by_t)
    return by_p, by_q
