"""Training, compiled: sampling, forward, backward and Adam fused, the same for any number of threads.

A batch takes three passes. (1) Draw the negatives. (2) Forward and backward over the positives: `own` for negatives of
each positive's own, `shared` for those that a group shares. (3) Over entities: sum each row's gradient in a fixed order
and apply Adam, with the pull towards K in the same visit. There are no gradient tables and no atomic operations on
numbers, so neither the number of threads nor their timing can change a result.

Adam moves every row in every step. Where batches touch few rows and nothing pulls at the others, updates are lazy:
the steps that a row misses are made before a batch reads it and at the end. They are the same steps, rounded a little
otherwise.
"""

import numpy as np

from pfedeg.engine.compiled import per_triple_negatives as own
from pfedeg.engine.compiled import shared_negatives as shared
from pfedeg.engine.compiled.lanes.loops import gather
from pfedeg.engine.compiled.lanes.operations import prepare
from pfedeg.engine.compiled.row_updates import adam, add_contrast_gradient, add_pull_gradient, catch_up, measure
from pfedeg.engine.compiled.workspace import DIFFERENCE, DISTANCE, LOSS, STOPPED, STRIP
from pfedeg.engine.lowlevel.compile import STOP, barrier, inline, jit, kernel
from pfedeg.engine.lowlevel.vectors import ZERO, add, clear, prefetch


@kernel
def train(
    thread, threads, sync, model, s, chunk, contrast, tables, moments, knowledge, positives, orders, keys, rates, w
):
    """All epochs, on one thread of a team. What is None (chunk: own negatives; contrast) costs no compiled code."""
    entities, n = len(tables.entity), len(positives.triples)
    first_row, last_row = entities * thread // threads, entities * (thread + 1) // threads
    step = 0
    for e in range(first_row, last_row):
        measure(s, contrast, tables.entity[e], knowledge, e, w.sums)
    for r in range(thread, len(tables.relation), threads):
        prepare(model, tables.relation[r], w.relation[r])
    barrier(threads, sync)
    for epoch in range(len(orders)):
        for first in range(0, n, s.batch):
            size = min(s.batch, n - first)
            chosen = orders[epoch, first : first + size]
            _draw(thread, threads, s, chunk, entities, positives, chosen, first, keys[epoch], w)
            if s.lazy:
                barrier(threads, sync)
                _list_touched(thread, threads, w.lazy)
                _catch_up_touched(thread, s, tables.entity, moments, rates, step, w.lazy)
                barrier(threads, sync)
            _forward_backward(thread, threads, model, s, chunk, tables.entity, positives, chosen, w)
            barrier(threads, sync)
            if thread == 0:
                _sum_up(s, contrast, chunk, size, w)
            barrier(threads, sync)
            _update_relations(thread, threads, model, s, tables.relation, moments, size, rates, step, w)
            if s.lazy:
                _update_touched(thread, model, s, chunk, tables.entity, moments, rates, step, w)
            else:
                _update_rows(
                    thread, threads, model, s, chunk, contrast, tables.entity, moments, knowledge, rates, step, w
                )
            if thread == 0:
                _add_losses(sync, size, w)
            step += 1
            barrier(threads, sync)
            if w.sums.total[STOPPED] != 0:
                return
    if s.lazy:
        for e in range(first_row, last_row):
            catch_up(s, rates, w.lazy.steps[e], step, _with_moments(tables.entity, moments, e))


@jit
def _draw(thread, threads, s, chunk, entities, positives, chosen, first, key, w):
    """Pass 1."""
    if chunk is None:
        own.draw(thread, threads, s, entities, positives, chosen, first, key, w)
    else:
        shared.draw(thread, threads, s, chunk, entities, positives, chosen, first, key, w)


@jit
def _forward_backward(thread, threads, model, s, chunk, table, positives, chosen, w):
    """Pass 2."""
    factor = np.float32(0.5 / len(chosen) if s.mean else 0.5)
    if chunk is None:
        own.forward_backward(thread, threads, model, s, table, len(chosen), factor, w)
        own.sort(thread, threads, len(chosen), w)
    else:
        shared.forward_backward(thread, threads, model, s, chunk, table, positives, chosen, factor, w)


@jit
def _list_touched(thread, threads, lazy):
    """List the touched rows that belong to a thread."""
    n = 0
    for begin in range(thread * STRIP, len(lazy.touched), threads * STRIP):
        for e in range(begin, min(begin + STRIP, len(lazy.touched))):
            if lazy.touched[e]:
                lazy.touched[e] = False
                lazy.due[thread, n] = e
                n += 1
    lazy.due[thread, n] = -1


@jit
def _catch_up_touched(thread, s, table, moments, rates, step, lazy):
    """Make the steps that a thread's touched rows have missed."""
    n = 0
    while lazy.due[thread, n] >= 0:
        e = lazy.due[thread, n]
        _prefetch_row(table, moments, lazy.due[thread, n + 1])
        catch_up(s, rates, lazy.steps[e], step, _with_moments(table, moments, e))
        lazy.steps[e] = step + 1  # with the one to come
        n += 1


@inline
def _with_moments(table, moments, e):
    """An entity's row, and its moments."""
    return table[e], moments.entity1[e], moments.entity2[e]


@inline
def _prefetch_row(table, moments, e):
    """Begin to read a row and its moments; e is −1 after the last one."""
    prefetch(table[max(e, 0)])
    prefetch(moments.entity1[max(e, 0)])
    prefetch(moments.entity2[max(e, 0)])


@jit
def _sum_up(s, contrast, chunk, size, w):
    """Before pass 3, on one thread: sum over the table, and link the gradients of each entity to a list."""
    gradients, total = w.gradients, w.sums.total
    if s.pull != 0:
        total[DISTANCE] = np.sqrt(_sum(w.sums.square))
    if contrast is not None:
        total[DIFFERENCE] = _sum(w.sums.difference) / len(w.sums.difference)
    parts = 2 * size if chunk is None else 2 * size + -(-size // chunk) * w.batch.ids.shape[1]
    for part in range(parts - 1, -1, -1):  # backwards, so that lists run forwards
        if part < size:
            entity = w.batch.triple[part, 0]
        elif part < 2 * size:
            entity = w.batch.triple[part - size, 2]
        else:
            entity = gradients.following[part]
        if entity >= 0:
            gradients.following[part] = gradients.first[entity]
            gradients.first[entity] = part


@jit
def _add_losses(sync, size, w):
    """At the end of a batch, on one thread: the loss, and whether to go on."""
    loss = 0.0
    for i in range(size):
        loss += w.batch.loss[i]
    w.sums.total[LOSS] += loss
    w.sums.total[STOPPED] = 1.0 if sync[STOP] != 0 or not np.isfinite(loss) else 0.0


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
def _update_rows(thread, threads, model, s, chunk, contrast, table, moments, knowledge, rates, step, w):
    """Pass 3 for a thread's rows, in blocks: all gradients of a block, then the updates.

    So the queries stay in the caches while gradients are summed, and the tables stream by afterwards.
    """
    first, last = len(table) * thread // threads, len(table) * (thread + 1) // threads
    block = w.scratch.by_row.shape[1]
    for begin in range(first, last, block):
        end = min(begin + block, last)
        for e in range(begin, end):
            _sum_gradients(model, chunk, table[e], e, w, w.scratch.by_row[thread, e - begin])
        for e in range(begin, end):
            g = w.scratch.by_row[thread, e - begin]
            _update_row(s, contrast, table, moments, knowledge, rates, step, e, g, w.sums)


@inline
def _update_row(s, contrast, table, moments, knowledge, rates, step, e, g, sums):
    """A step of Adam for one entity, with the pull and FedEC's contrast."""
    row, distance = table[e], sums.total[DISTANCE]
    if s.pull != 0:
        add_pull_gradient(np.float32(s.pull / distance) if distance > 0 else ZERO, row, knowledge.received[e], g)
    if contrast is not None:
        received, previous = knowledge.received[e], knowledge.previous[e]
        add_contrast_gradient(contrast, sums.total[DIFFERENCE], len(table), row, received, previous, g)
    adam(s, rates, step, _with_moments(table, moments, e), g)
    measure(s, contrast, row, knowledge, e, sums)


@jit
def _update_touched(thread, model, s, chunk, table, moments, rates, step, w):
    """Pass 3 for a thread's touched rows, where updates are lazy."""
    g, n = w.scratch.by_row[thread, 0], 0
    while w.lazy.due[thread, n] >= 0:
        e = w.lazy.due[thread, n]
        _prefetch_row(table, moments, w.lazy.due[thread, n + 1])
        _sum_gradients(model, chunk, table[e], e, w, g)
        adam(s, rates, step, _with_moments(table, moments, e), g)
        n += 1


@jit
def _update_relations(thread, threads, model, s, table, moments, size, rates, step, w):
    """The gradient of every relation, one step of Adam, and what composing needs of it next."""
    gradients = w.gradients
    for r in range(thread, len(table), threads):
        clear(gradients.relation_sum[r])
    for i in range(size):
        r = w.batch.triple[i, 1]
        if r % threads == thread:
            add(gradients.relation_sum[r], gradients.relation[i])
    for r in range(thread, len(table), threads):
        adam(s, rates, step, (table[r], moments.relation1[r], moments.relation2[r]), gradients.relation_sum[r])
        prepare(model, table[r], w.relation[r])


@inline
def _sum_gradients(model, chunk, row, e, w, g):
    """An entity's gradient: as a negative of single positives, then the parts in its list."""
    if chunk is None:
        gather(model, row, w.batch.query, w.pairs, e, g)
    else:
        clear(g)
    part = w.gradients.first[e]
    w.gradients.first[e] = -1
    while part >= 0:
        add(g, w.gradients.rows[part])
        part = w.gradients.following[part]
