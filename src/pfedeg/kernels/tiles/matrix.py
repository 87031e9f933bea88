"""Matrix products in registers, compiled: six rows or queries by sixteen numbers at a time."""

from pfedeg.kernels.jit import jit
from pfedeg.kernels.vectors import LANES, ZERO, fill, fma, load, repeat, store
from pfedeg.kernels.writing import write


@jit
def four(i, end, none):
    """Four queries from i on; one without weight fills up the last four."""
    return i, i + 1 if i + 1 < end else none, i + 2 if i + 2 < end else none, i + 3 if i + 3 < end else none


@jit
def six(i, end, none):
    """Six from i on, filled up in the same way."""
    a, b, c, d = four(i, end, none)
    return a, b, c, d, i + 4 if i + 4 < end else none, i + 5 if i + 5 < end else none


@jit
def by_queries(rows, weight, i, g, k):
    """Sixteen columns, from k on, of the gradients of six queries."""
    sums = _six_by_sixteen(weight, i, rows, _load_six(g, k), _load_six(g, k + LANES))
    _store_six(g, k, sums[0])
    _store_six(g, k + LANES, sums[1])


@jit
def score_six(table, rows, panel, score):
    """Scores of six rows with sixteen queries, whose k-th numbers are panel[k]."""
    zero = fill(ZERO)
    none = zero, zero, zero, zero, zero, zero
    sums = _six_by_sixteen(table, rows, panel, none, none)
    for n in range(6):
        store(score[rows[n]], 0, sums[0][n])
        store(score[rows[n]], LANES, sums[1][n])


@jit
def _six_by_sixteen(left, i, right, low, high):
    """Add the product of six rows of `left` with a matrix of sixteen columns to its left and right half."""
    a, b, c, d, e, f = left[i[0]], left[i[1]], left[i[2]], left[i[3]], left[i[4]], left[i[5]]
    a0, b0, c0, d0, e0, f0 = low
    a8, b8, c8, d8, e8, f8 = high
    for k in range(len(right)):
        x, y = load(right[k], 0), load(right[k], LANES)
        a0, a8 = fma(repeat(a, k), x, a0), fma(repeat(a, k), y, a8)
        b0, b8 = fma(repeat(b, k), x, b0), fma(repeat(b, k), y, b8)
        c0, c8 = fma(repeat(c, k), x, c0), fma(repeat(c, k), y, c8)
        d0, d8 = fma(repeat(d, k), x, d0), fma(repeat(d, k), y, d8)
        e0, e8 = fma(repeat(e, k), x, e0), fma(repeat(e, k), y, e8)
        f0, f8 = fma(repeat(f, k), x, f0), fma(repeat(f, k), y, f8)
    return (a0, b0, c0, d0, e0, f0), (a8, b8, c8, d8, e8, f8)


@jit
def by_rows(queries, weight, j, g, k, past):
    """Sixteen columns, from k on, of the gradients of six rows."""
    ak = bk = ck = dk = ek = fk = al = bl = cl = dl = el = fl = fill(ZERO)
    for i in range(len(queries)):
        w, x, y = weight[i], load(queries[i], 0), load(queries[i], LANES)
        ak, al = fma(repeat(w, j), x, ak), fma(repeat(w, j), y, al)
        bk, bl = fma(repeat(w, j + 1), x, bk), fma(repeat(w, j + 1), y, bl)
        ck, cl = fma(repeat(w, j + 2), x, ck), fma(repeat(w, j + 2), y, cl)
        dk, dl = fma(repeat(w, j + 3), x, dk), fma(repeat(w, j + 3), y, dl)
        ek, el = fma(repeat(w, j + 4), x, ek), fma(repeat(w, j + 4), y, el)
        fk, fl = fma(repeat(w, j + 5), x, fk), fma(repeat(w, j + 5), y, fl)
    low, high = (ak, bk, ck, dk, ek, fk), (al, bl, cl, dl, el, fl)
    for n in range(6):
        write(g[n], k, low[n], past)
        write(g[n], k + LANES, high[n], past)


@jit
def _load_six(g, k):
    return load(g[0], k), load(g[1], k), load(g[2], k), load(g[3], k), load(g[4], k), load(g[5], k)


@jit
def _store_six(g, k, sums):
    for n in range(6):
        store(g[n], k, sums[n])
