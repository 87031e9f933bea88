"""Matrix products in registers, compiled: six rows or queries at a time, their sums a tuple of vectors."""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pfedeg.engine.lowlevel.compile import jit
from pfedeg.engine.lowlevel.vectors import LANES, ZERO, broadcast, call, fill, load, store

SIX = 6  # by two vectors: sums, columns and a factor fit into 16 registers


@jit
def six(i, end, none):
    """Six numbers from i on; those from `end` on are `none`, a row without weight."""
    a, b, c = i, i + 1 if i + 1 < end else none, i + 2 if i + 2 < end else none
    return a, b, c, i + 3 if i + 3 < end else none, i + 4 if i + 4 < end else none, i + 5 if i + 5 < end else none


@jit
def score_six(table, rows, panel, lane, score):
    """Scores of six rows with the queries of two registers, from a lane on, whose k-th numbers are panel[k]."""
    sums = _six_of((fill(ZERO), fill(ZERO)))
    for k in range(len(panel)):
        sums = _add_products(sums, table, rows, k, (load(panel[k], lane), load(panel[k], lane + LANES)))
    for n in range(SIX):
        store(score[rows[n]], lane, sums[2 * n])
        store(score[rows[n]], lane + LANES, sums[2 * n + 1])


@jit
def by_queries(rows, weight, i, g, k):
    """A vector of columns, from k on, of the gradients of six queries."""
    a, b, c = load(g[0], k), load(g[1], k), load(g[2], k)
    sums = a, b, c, load(g[3], k), load(g[4], k), load(g[5], k)
    for j in range(len(rows)):
        sums = _add_products(sums, weight, i, j, (load(rows[j], 0),))
    for n in range(SIX):
        store(g[n], k, sums[n])


@jit
def by_rows(queries, weight, j, g, k):
    """A vector of columns, from k on, of the gradients of six rows from j on."""
    sums = _six_of((fill(ZERO),))
    for i in range(len(queries)):
        sums = _add_products(sums, weight.T, six(j, j + SIX, j), i, (load(queries[i], 0),))
    for n in range(SIX):
        store(g[n], k, sums[n])


@jit
def _six_of(a):
    return a + a + a + a + a + a


@intrinsic
def _add_products(typing: Any, sums: Any, left: Any, rows: Any, k: Any, columns: Any) -> Any:
    """Row after row, column after column: the sum and left[rows[n], k] · columns[m]."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        totals, rows, columns = (cgutils.unpack_tuple(builder, arguments[place]) for place in (0, 2, 4))
        view = context.make_array(sig.args[1])(context, builder, arguments[1])
        down, right = cgutils.unpack_tuple(builder, view.strides)
        rest, results = iter(totals), []
        for row in rows:
            # numbers that lie side by side need no distance in memory, which would take another register
            far, step, near = (row, down, arguments[3]) if sig.args[1].layout == "C" else (arguments[3], right, row)
            start = builder.add(builder.ptrtoint(view.data, step.type), builder.mul(far, step))
            place = builder.gep(builder.inttoptr(start, view.data.type), [near])
            factor = broadcast(builder, builder.load(place), columns[0].type.count)
            results += [call(builder, "fmuladd", factor, column, next(rest)) for column in columns]
        return context.make_tuple(builder, sig.return_type, results)

    return sums(sums, left, rows, types.intp, columns), generate
