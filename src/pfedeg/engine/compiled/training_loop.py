"""Training, compiled: sampling, scores, gradients and Adam fused, the same for any number of threads.

A batch takes three passes. (1) Draw the negatives. (2) Score, weigh, and sum the gradients of the queries; `own` has it
for negatives of each positive's own, `sharing` for those that a group of positives shares. (3) Over entities: sum the
row's gradient in a fixed order and apply Adam, with the pull towards K in the same visit. There are no gradient tables
and no atomics on numbers, so neither threads nor their timing can change a result. A thread has the same positives and
the same entities in every batch, and writes to lists of its own: what it reads again is still in the caches of its
core.

Adam moves every row in every step. Where nothing pulls at rows and a batch touches few of them, the others are left
alone, and the steps that they miss are made before a batch reads them and at the end: the same steps, rounded a little
otherwise.
"""

import numpy as np

from pfedeg.engine.compiled import per_triple_negatives as own
from pfedeg.engine.compiled import shared_negatives as sharing
from pfedeg.engine.compiled.lanes import gather, prepare
from pfedeg.engine.compiled.row_updates import adam, adam_pulled, coast, oppose, pull, refer
from pfedeg.engine.compiled.workspace import LATER, STRIP
from pfedeg.engine.compiled.writing import PAST, WAY, choose_way
from pfedeg.engine.lowlevel import vectors
from pfedeg.engine.lowlevel.compile import STOP, barrier, inline, jit, kernel
from pfedeg.engine.lowlevel.vectors import ZERO, clear, expect


@kernel
def train(
    thread, threads, sync, model, s, chunk, contrast, tables, moments, knowledge, positives, orders, keys, rates, x
):
    """All epochs, on one thread of a team. What is None (chunk: no sharing; contrast) costs no compiled code."""
    entities, n = len(tables.entity), len(positives.triples)
    step = 0
    for e in range(entities * thread // threads, entities * (thread + 1) // threads):
        refer(s, contrast, tables.entity[e], knowledge, e, x)
    for r in range(thread, len(tables.relation), threads):
        prepare(model, tables.relation[r], x.relation[r])
    barrier(threads, sync)
    for epoch in range(len(orders)):
        for first in range(0, n, s.batch):
            size = min(s.batch, n - first)
            chosen = orders[epoch, first : first + size]
            _draw(thread, threads, s, chunk, tables, positives, chosen, first, keys[epoch], x)
            if s.rest:
                barrier(threads, sync)
                _list_touched(thread, threads, x)
                _catch_up(thread, s, tables.entity, moments, rates, step, x)
                barrier(threads, sync)
            _meet(thread, threads, sync, model, s, chunk, tables, positives, chosen, x)
            if thread == 0:
                _settle(s, contrast, chunk, size, x)
            barrier(threads, sync)
            _update_relations(thread, threads, model, s, tables.relation, moments, size, rates, step, x)
            _update(thread, threads, model, s, chunk, contrast, tables, moments, knowledge, rates, step, x)
            if thread == 0:
                _report(sync, size, x)
                choose_way(threads, step, x.pace)
            step += 1
            barrier(threads, sync)
            if x.total[3] != 0:
                return
    if s.rest:
        for e in range(entities * thread // threads, entities * (thread + 1) // threads):
            coast(s, rates, x.steps[e], step, _with_moments(tables.entity, moments, e), None, False)


@jit
def _draw(thread, threads, s, chunk, tables, positives, chosen, first, key, x):
    """Pass 1."""
    if chunk is None:
        own.draw(thread, threads, s, len(tables.entity), positives, chosen, first, key, x)
    else:
        sharing.draw(thread, threads, s, chunk, tables, positives, chosen, first, key, x)


@jit
def _meet(thread, threads, sync, model, s, chunk, tables, positives, chosen, x):
    """Pass 2."""
    size = len(chosen)
    scale = np.float32(0.5 / size if s.mean else 0.5)
    if chunk is None:
        own.ask(thread, threads, model, tables.entity, positives, chosen, x)
        barrier(threads, sync)
        own.meet(thread, threads, model, s, tables.entity, size, x)
        own.sort(thread, threads, size, x)
        barrier(threads, sync)
        own.conclude(thread, threads, model, s, tables.entity, size, scale, x)
    else:
        sharing.meet(thread, threads, model, s, chunk, tables, positives, chosen, scale, x)
        barrier(threads, sync)


@jit
def _list_touched(thread, threads, x):
    """The rows of this batch that belong to a thread: some that lie together, then some to the next thread."""
    n = 0
    for begin in range(thread * STRIP, len(x.touched), threads * STRIP):
        for e in range(begin, min(begin + STRIP, len(x.touched))):
            if x.touched[e]:
                x.touched[e] = False
                x.due[thread, n] = e
                n += 1
    x.due[thread, n] = -1


@jit
def _catch_up(thread, s, table, moments, rates, step, x):
    """Make the steps that the rows of this batch have missed."""
    past, due = x.pace[WAY] == PAST, x.due[thread]
    n = 0
    while due[n] >= 0:
        e, soon = due[n], _with_moments(table, moments, max(due[n], due[n + 1]))
        coast(s, rates, x.steps[e], step, _with_moments(table, moments, e), soon, past)
        x.steps[e] = step + 1  # with the one to come
        n += 1


@inline
def _with_moments(table, moments, e):
    """An entity's row, and its moments'."""
    return table[e], moments.entity1[e], moments.entity2[e]


@jit
def _settle(s, contrast, chunk, size, x):
    """Before pass 3, on one thread: sum what rows left in order, and link each entity's gradients that are ready."""
    if s.pull != 0:
        x.total[1] = np.sqrt(_sum(x.square))
    if contrast is not None:
        x.total[2] = _sum(x.lean) / len(x.lean)
    ready = 2 * size if chunk is None else 2 * size + -(-size // chunk) * x.ids.shape[1]
    for row in range(ready - 1, -1, -1):  # backwards, so that lists run forwards
        if row < size:
            entity = x.triple[row, 0]
        elif row < 2 * size:
            entity = x.triple[row - size, 2]
        else:
            entity = x.following[row]
        if entity >= 0:
            x.following[row] = x.head[entity]
            x.head[entity] = row


@jit
def _report(sync, size, x):
    """At the end of a batch, on one thread: the loss, and whether it is worth going on."""
    loss = 0.0
    for i in range(size):
        loss += x.loss[i]
    x.total[0] += loss
    x.total[3] = 1.0 if sync[STOP] != 0 or not np.isfinite(loss) else 0.0


@jit
def _sum(numbers):
    """The sum, in four parts that need not wait for each other."""
    a = b = c = d = 0.0
    whole = len(numbers) - len(numbers) % 4
    for i in range(0, whole, 4):
        a, b, c, d = a + numbers[i], b + numbers[i + 1], c + numbers[i + 2], d + numbers[i + 3]
    for i in range(whole, len(numbers)):
        a += numbers[i]
    return (a + b) + (c + d)


@jit
def _update(thread, threads, model, s, chunk, contrast, tables, moments, knowledge, rates, step, x):
    """Pass 3: the gradient of every row, and one step of Adam."""
    if s.rest:
        _update_touched(thread, model, s, chunk, tables.entity, moments, rates, step, x)
        return
    entities, rows, past = len(tables.entity), x.by_row.shape[1], _write_past(threads, chunk, x)
    first, last = entities * thread // threads, entities * (thread + 1) // threads
    for begin in range(first, last, rows):
        end = min(begin + rows, last)
        for e in range(begin, end):  # all gradients before the tables stream by: the queries stay close
            if rows == 1:
                _expect_row(s, tables.entity, moments, knowledge, min(e + LATER, last - 1))
            _row_gradient(model, chunk, tables.entity[e], e, e, x, x.by_row[thread, e - begin])
        for e in range(begin, end):
            g = x.by_row[thread, e - begin]
            _update_row(s, contrast, tables.entity[e], moments, knowledge, rates, step, e, g, past, x)


@inline
def _write_past(threads, chunk, x):
    """Whether rows are written past the caches; not those that hardly another thread reads, see `own`."""
    return x.pace[WAY] == PAST and (chunk is not None or threads > 2)


@inline
def _expect_row(s, table, moments, knowledge, e):
    """Ask for what Adam will read of an entity."""
    expect(moments.entity1[e])
    expect(moments.entity2[e])
    expect(knowledge.received[e] if s.pull != 0 else table[e])


@jit
def _update_touched(thread, model, s, chunk, table, moments, rates, step, x):
    """The same for rows that do not wait, where others do."""
    past, due, g = x.pace[WAY] == PAST, x.due[thread], x.by_row[thread, 0]
    n = 0
    while due[n] >= 0:
        e, following = due[n], max(due[n], due[n + 1])
        _row_gradient(model, chunk, table[e], e, following, x, g)
        soon = _with_moments(table, moments, following)
        adam(s, rates, step, _with_moments(table, moments, e), g, soon, past)
        n += 1


@inline
def _update_row(s, contrast, row, moments, knowledge, rates, step, e, g, past, x):
    """One step of Adam for an entity: with the pull, with FedEC's contrast, with both, or with neither."""
    rows = row, moments.entity1[e], moments.entity2[e]
    weight = np.float32(s.pull / x.total[1]) if x.total[1] > 0 else ZERO
    if contrast is not None:
        if s.pull != 0:
            pull(weight, row, knowledge.received[e], g)
        oppose(contrast, x.total[2], len(x.head), row, knowledge.received[e], knowledge.previous[e], g)
        adam(s, rates, step, rows, g, None, False)
        refer(s, contrast, row, knowledge, e, x)
    elif s.pull != 0:
        x.square[e] = adam_pulled(s, rates, step, rows, g, past, weight, knowledge.received[e])
    else:
        adam(s, rates, step, rows, g, None, past)


@jit
def _update_relations(thread, threads, model, s, table, moments, size, rates, step, x):
    """The gradient of every relation, one step of Adam, and what composing needs of it next."""
    for r in range(thread, len(table), threads):
        clear(x.relation_sum[r])
    i = _next_of(thread, threads, 0, size, x)
    while i < size:
        following = _next_of(thread, threads, i + 1, size, x)
        vectors.add(x.relation_sum[x.triple[i, 1]], x.by_relation[i], x.by_relation[min(following, size - 1)])
        i = following
    for r in range(thread, len(table), threads):
        rows = table[r], moments.relation1[r], moments.relation2[r]
        adam(s, rates, step, rows, x.relation_sum[r], None, False)
        prepare(model, table[r], x.relation[r])


@jit
def _next_of(thread, threads, i, size, x):
    """The first positive from i on whose relation belongs to a thread."""
    while i < size and x.triple[i, 1] % threads != thread:
        i += 1
    return i


@inline
def _row_gradient(model, chunk, row, e, soon, x, g):
    """An entity's gradient: of its pairs, then of what is ready; what is ready for entity `soon` is asked for."""
    if chunk is None:
        half = own.half_of(e, len(x.head))
        lists = own.threads_of(half, len(x.place))
        gather(model, row, x.query, x.source, x.sorted_weight, x.factor[half], x.place, lists, e, g)
    else:
        clear(g)
    link = x.head[e]
    x.head[e] = -1
    while link >= 0:
        following = x.following[link]
        vectors.add(g, x.gradient[link], x.gradient[max(0, following if following >= 0 else x.head[soon])])
        link = following
