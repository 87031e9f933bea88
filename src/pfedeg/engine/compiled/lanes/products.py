"""ComplEx and DistMult: scores are products of a query and a row, so that many of them are matrix products."""

from pfedeg.engine.compiled.lanes.operations import (
    QUERIES,
    compare,
    compare_group,
    compare_one,
    exchange,
    gather,
    gather_eight,
    gather_one,
    implement,
    line_up,
    score_all,
)
from pfedeg.engine.compiled.writing import write
from pfedeg.engine.lowlevel import vectors
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.matrix_tiles import SIX, by_queries, by_rows, score_six, six
from pfedeg.engine.lowlevel.native import LANES, fill, load, repeat_eight
from pfedeg.engine.lowlevel.vectors import (
    WIDE,
    ZERO,
    eight_rows,
    expect_eight,
    expect_rows,
    fill_wide,
    fma,
    four_rows,
    load_wide,
    pick,
    share_wide,
    store,
    store_four,
    total,
    totals,
)
from pfedeg.models.complex import ComplEx
from pfedeg.models.distmult import DistMult


@implement(compare, ComplEx, DistMult)
def _compare_product(model, q, table, ids, j):
    a, b, c, d, e, f, g, h = eight_rows(table, ids, j)
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


@implement(compare_group, ComplEx, DistMult)
def _compare_group_products(model, query, begin, end, table, ids, j, score):
    """Three queries at a time; the last ones may come twice."""
    for i in range(begin, end, 3):
        expect_eight(table, ids, j + vectors.LANES, (i - begin) // 3 * WIDE)
        i2, i3 = min(i + 1, end - 1), min(i + 2, end - 1)
        a, b, c = _three_by_four(query[i], query[i2], query[i3], table, ids, j)
        d, e, f = _three_by_four(query[i], query[i2], query[i3], table, ids, j + 4)
        store(score[i], j, totals(a[0], a[1], a[2], a[3], d[0], d[1], d[2], d[3]))
        store(score[i2], j, totals(b[0], b[1], b[2], b[3], e[0], e[1], e[2], e[3]))
        store(score[i3], j, totals(c[0], c[1], c[2], c[3], f[0], f[1], f[2], f[3]))


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


@implement(line_up, ComplEx, DistMult)
def _line_up_columns(model, queries, ids, panel):
    """Their k-th numbers side by side."""
    for lane in range(QUERIES):
        for k in range(len(panel)):
            panel[k, lane] = queries[ids[lane], k]


@implement(score_all, ComplEx, DistMult)
def _score_all_products(model, table, queries, ids, panel, score):
    """A matrix product: six rows at a time meet all queries."""
    for e in range(0, len(table), SIX):
        for lane in range(0, QUERIES, 2 * LANES):
            score_six(table, six(e, len(table), len(table) - 1), panel, lane, score)


@implement(compare_one, ComplEx, DistMult)
def _compare_one_product(model, q, row):
    s = fill(ZERO)
    for k in range(0, len(q), LANES):
        s = fma(load(q, k), load(row, k), s)
    return total(s)


@implement(gather_eight, ComplEx, DistMult)
def _gather_eight_products(model, q, table, ids, weights, j, soon, g):
    a, b, c, d, e, f, h, i = eight_rows(table, ids, j)
    wa, wb, wc, wd, we, wf, wh, wi = repeat_eight(weights, j)
    soon_rows = eight_rows(table, ids, soon)
    for line in range(0, len(q), WIDE):
        expect_rows(soon_rows, line)
        for k in range(line, line + WIDE, LANES):
            first = fma(wb, load(b, k), fma(wa, load(a, k), load(g, k)))
            first = fma(wd, load(d, k), fma(wc, load(c, k), first))
            second = fma(wf, load(f, k), we * load(e, k))
            second = fma(wi, load(i, k), fma(wh, load(h, k), second))
            store(g, k, first + second)


@implement(gather_one, ComplEx, DistMult)
def _gather_one_product(model, q, row, weight, g, past):
    for k in range(0, len(g), LANES):
        write(g, k, fill(weight) * load(row, k), past)


@implement(gather, ComplEx, DistMult)
def _gather_products(model, q, table, ids, weights, factor, place, lists, entity, g):
    tiled = len(g) - len(g) % (8 * WIDE)
    for k in range(0, tiled, 8 * WIDE):
        k2 = k + 4 * WIDE
        a = b = c = d = e = f = h = i = fill_wide(ZERO)
        for part in range(lists[0], lists[1]):
            for j in range(place[part, entity], place[part, entity + 1], 2):
                row, w = pick(table, ids, j), share_wide(weights, factor, ids, j)
                a, b = fma(w, load_wide(row, k), a), fma(w, load_wide(row, k + WIDE), b)
                c, d = fma(w, load_wide(row, k + 2 * WIDE), c), fma(w, load_wide(row, k + 3 * WIDE), d)
                e, f = fma(w, load_wide(row, k2), e), fma(w, load_wide(row, k2 + WIDE), f)
                h, i = fma(w, load_wide(row, k2 + 2 * WIDE), h), fma(w, load_wide(row, k2 + 3 * WIDE), i)
        store_four(g, k, WIDE, a, b, c, d)
        store_four(g, k2, WIDE, e, f, h, i)
    for k in range(tiled, len(g), WIDE):
        a = fill_wide(ZERO)
        for part in range(lists[0], lists[1]):
            for j in range(place[part, entity], place[part, entity + 1], 2):
                a = fma(share_wide(weights, factor, ids, j), load_wide(pick(table, ids, j), k), a)
        store(g, k, a)


@implement(exchange, ComplEx, DistMult)
def _exchange_products(model, query, begin, end, table, ids, weight, by_query, by_row, panel, past):
    """∂/∂q = W · rows and ∂/∂rows = Wᵀ · q: matrix products, sixteen columns at a time, which lie side by side."""
    n, width = len(ids), query.shape[1]
    rows, queries = panel[:n], panel[n : n + end - begin]
    for k in range(0, width, WIDE):
        for j in range(n):
            store(rows[j], 0, load_wide(pick(table, ids, j), k))
        for i in range(begin, end):
            store(queries[i - begin], 0, load_wide(query[i], k))
        for i in range(begin, end, SIX):
            by_queries(rows, weight, six(i, end, len(query) - 1), by_query[i - begin : i - begin + SIX], k)
        for j in range(0, n, SIX):
            first = min(j, n - SIX)  # the last six may overlap with those before
            by_rows(queries, weight[begin:end], first, by_row[first : first + SIX], k, past)
