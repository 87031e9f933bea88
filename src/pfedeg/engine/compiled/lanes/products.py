"""ComplEx and DistMult: scores are products of a query and a row, so that many of them are matrix products."""

from pfedeg.engine.compiled.lanes import operations as op
from pfedeg.engine.compiled.lanes.loops import prefetch_next
from pfedeg.engine.compiled.lanes.operations import QUERIES, implement
from pfedeg.engine.lowlevel.compile import inline
from pfedeg.engine.lowlevel.matrix_tiles import SIX, by_queries, by_rows, score_six, six
from pfedeg.engine.lowlevel.vectors import LANES, ZERO, fill, fma, four_rows, load, pick, store, totals
from pfedeg.models.complex import ComplEx
from pfedeg.models.distmult import DistMult
from pfedeg.models.transe import TransE


@implement(op.span, TransE, ComplEx, DistMult)
def _span_of_real(model, row):
    return len(row)


@implement(op.part, TransE, ComplEx, DistMult)
def _real_part(model, row, k):
    return (load(row, k),)


@implement(op.put_part, TransE, ComplEx, DistMult)
def _put_real_part(model, row, k, numbers):
    store(row, k, numbers[0])


@implement(op.no_part, TransE, ComplEx, DistMult)
def _no_real_part(model):
    return (fill(ZERO),)


@implement(op.sign, ComplEx, DistMult)
def _positive(model):
    return 1.0


@implement(op.offset, ComplEx, DistMult)
def _no_offset(model):
    return 0.0


@implement(op.accumulate, ComplEx, DistMult)
def _add_product(model, q, t, sums):
    return fma(q[0], t[0], sums)


@implement(op.add_slope, ComplEx, DistMult)
def _add_row(model, weight, q, t, gradient):
    return (fma(weight, t[0], gradient[0]),)


@implement(op.compare_group, ComplEx, DistMult)
def _compare_group_products(model, query, begin, end, table, ids, j, score):
    """Three queries at a time; the last ones may come twice."""
    for i in range(begin, end, 3):
        prefetch_next(table, ids, j, (i - begin) // 3)
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


@implement(op.line_up, ComplEx, DistMult)
def _line_up_columns(model, queries, ids, panel):
    """Their k-th numbers side by side."""
    for lane in range(QUERIES):
        for k in range(len(panel)):
            panel[k, lane] = queries[ids[lane], k]


@implement(op.score_all, ComplEx, DistMult)
def _score_all_products(model, table, queries, ids, panel, score):
    """A matrix product, six rows at a time."""
    for e in range(0, len(table), SIX):
        for lane in range(0, QUERIES, 2 * LANES):
            score_six(table, six(e, len(table), len(table) - 1), panel, lane, score)


@implement(op.exchange, ComplEx, DistMult)
def _exchange_products(model, query, begin, end, table, ids, weight, by_query, by_row, panel):
    """∂/∂q = W · rows and ∂/∂rows = Wᵀ · q: matrix products, some columns at a time, which lie side by side."""
    n, width = len(ids), query.shape[1]
    rows, queries = panel[:n], panel[n : n + end - begin]
    for k in range(0, width, LANES):
        for j in range(n):
            store(rows[j], 0, load(pick(table, ids, j), k))
        for i in range(begin, end):
            store(queries[i - begin], 0, load(query[i], k))
        for i in range(begin, end, SIX):
            by_queries(rows, weight, six(i, end, len(query) - 1), by_query[i - begin : i - begin + SIX], k)
        for j in range(0, n, SIX):
            first = min(j, n - SIX)  # the last six may overlap with those before
            by_rows(queries, weight[begin:end], first, by_row[first : first + SIX], k)
