"""Matrix products in registers, compiled: six rows or queries by sixteen numbers at a time."""

from pfedeg.kernels.jit import jit
from pfedeg.kernels.vectors import LANES, ZERO, fill, fma, load, repeat, store


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
def by_queries(rows, weight, i, g, k, k2):
    """Columns k … and k2 … of the gradients of six queries."""
    wa, wb, wc, wd, we, wf = weight[i[0]], weight[i[1]], weight[i[2]], weight[i[3]], weight[i[4]], weight[i[5]]
    ak, bk, ck, dk, ek, fk = load(g[0], k), load(g[1], k), load(g[2], k), load(g[3], k), load(g[4], k), load(g[5], k)
    al, bl, cl, dl, el, fl = (
        load(g[0], k2),
        load(g[1], k2),
        load(g[2], k2),
        load(g[3], k2),
        load(g[4], k2),
        load(g[5], k2),
    )
    for j in range(len(rows)):
        x, y = load(rows[j], 0), load(rows[j], LANES)
        ak, al = fma(repeat(wa, j), x, ak), fma(repeat(wa, j), y, al)
        bk, bl = fma(repeat(wb, j), x, bk), fma(repeat(wb, j), y, bl)
        ck, cl = fma(repeat(wc, j), x, ck), fma(repeat(wc, j), y, cl)
        dk, dl = fma(repeat(wd, j), x, dk), fma(repeat(wd, j), y, dl)
        ek, el = fma(repeat(we, j), x, ek), fma(repeat(we, j), y, el)
        fk, fl = fma(repeat(wf, j), x, fk), fma(repeat(wf, j), y, fl)
    _store_six(g, k, ak, bk, ck, dk, ek, fk)
    _store_six(g, k2, al, bl, cl, dl, el, fl)


@jit
def by_rows(queries, weight, j, g, k, k2):
    """Columns k … and k2 … of the gradients of six rows."""
    ak = bk = ck = dk = ek = fk = al = bl = cl = dl = el = fl = fill(ZERO)
    for i in range(len(queries)):
        w, x, y = weight[i], load(queries[i], 0), load(queries[i], LANES)
        ak, al = fma(repeat(w, j), x, ak), fma(repeat(w, j), y, al)
        bk, bl = fma(repeat(w, j + 1), x, bk), fma(repeat(w, j + 1), y, bl)
        ck, cl = fma(repeat(w, j + 2), x, ck), fma(repeat(w, j + 2), y, cl)
        dk, dl = fma(repeat(w, j + 3), x, dk), fma(repeat(w, j + 3), y, dl)
        ek, el = fma(repeat(w, j + 4), x, ek), fma(repeat(w, j + 4), y, el)
        fk, fl = fma(repeat(w, j + 5), x, fk), fma(repeat(w, j + 5), y, fl)
    _store_six(g, k, ak, bk, ck, dk, ek, fk)
    _store_six(g, k2, al, bl, cl, dl, el, fl)


@jit
def _store_six(g, k, a, b, c, d, e, f):
    store(g[0], k, a)
    store(g[1], k, b)
    store(g[2], k, c)
    store(g[3], k, d)
    store(g[4], k, e)
    store(g[5], k, f)


@jit
def score_six(table, rows, panel, score):
    """Scores of six rows with sixteen queries, whose k-th numbers are panel[k]."""
    a, b, c, d, e, f = table[rows[0]], table[rows[1]], table[rows[2]], table[rows[3]], table[rows[4]], table[rows[5]]
    a0 = b0 = c0 = d0 = e0 = f0 = a8 = b8 = c8 = d8 = e8 = f8 = fill(ZERO)
    for k in range(len(panel)):
        x, y = load(panel[k], 0), load(panel[k], LANES)
        a0, a8 = fma(repeat(a, k), x, a0), fma(repeat(a, k), y, a8)
        b0, b8 = fma(repeat(b, k), x, b0), fma(repeat(b, k), y, b8)
        c0, c8 = fma(repeat(c, k), x, c0), fma(repeat(c, k), y, c8)
        d0, d8 = fma(repeat(d, k), x, d0), fma(repeat(d, k), y, d8)
        e0, e8 = fma(repeat(e, k), x, e0), fma(repeat(e, k), y, e8)
        f0, f8 = fma(repeat(f, k), x, f0), fma(repeat(f, k), y, f8)
    _store_two(score[rows[0]], a0, a8)
    _store_two(score[rows[1]], b0, b8)
    _store_two(score[rows[2]], c0, c8)
    _store_two(score[rows[3]], d0, d8)
    _store_two(score[rows[4]], e0, e8)
    _store_two(score[rows[5]], f0, f8)


@jit
def _store_two(row, a, b):
    store(row, 0, a)
    store(row, LANES, b)
