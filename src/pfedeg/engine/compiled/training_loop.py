"""Training, compiled: sampling, forward, backward and Adam fused, the same for any number of threads.

A batch takes three passes. (1) Draw the negatives. (2) Forward and backward over the positives. (3) Over entities: sum
each row's gradient in a fixed order and apply Adam, with the pull towards K in the same visit. There are no gradient
tables and no atomic operations on numbers, so neither the number of threads nor their timing can change a result.

Adam moves every row in every step. Where batches touch few rows and nothing pulls at the others, updates are lazy:
the steps that a row misses are made before a batch reads it and at the end. They are the same steps, rounded a little
otherwise.
"""

import numpy as np

from pfedeg.engine.compiled.forward_backward import sort_pairs, with_own_negatives, with_shared_negatives
from pfedeg.engine.compiled.lanes.loops import gather
from pfedeg.engine.compiled.lanes.operations import prepare
from pfedeg.engine.compiled.negative_sampling import draw
from pfedeg.engine.compiled.row_updates import (
    adam,
    adam_pulled,
    add_contrast_gradient,
    add_pull_gradient,
    catch_up,
    measure,
)
from pfedeg.engine.compiled.workspace import DIFFERENCE, DISTANCE, LOSS, NARROW, STOPPED, STRIP
from pfedeg.engine.lowlevel.compile import STOP, barrier, inline, jit, jit_reordered, kernel
from pfedeg.engine.lowlevel.vectors import ZERO, add, clear, prefetch


@kernel
def train(thread, threads, sync, model, s, chunk, tables, moments, knowledge, positives, orders, keys, rates, w):
    """All epochs, on one thread of a team. With own negatives chunk is None, and what is shared is not compiled."""
    n, table, due, step = len(positives.triples), tables.entity, w.rows.due[thread], 0
    _list_rows(thread, threads, False, w.rows)
    for place in range(w.rows.number[thread]):
        measure(s, table[due[place]], knowledge, due[place], w.rows)
    for r in range(thread, len(tables.relation), threads):
        prepare(model, tables.relation[r], w.relation[r])
    barrier(threads, sync)
    for epoch in range(len(orders)):
        for first in range(0, n, s.batch):
            chosen = orders[epoch, first : min(first + s.batch, n)]
            size = len(chosen)
            draw(thread, threads, s, chunk, len(table), positives, chosen, first, keys[epoch], w)
            if s.lazy:
                barrier(threads, sync)
                _list_rows(thread, threads, True, w.rows)
                _catch_up_rows(thread, s, table, moments, rates, step, w.rows)
                barrier(threads, sync)
            factor = np.float32(0.5 / size if s.mean else 0.5)
            if chunk is None:
                with_own_negatives(thread, threads, model, s, table, size, factor, w)
                sort_pairs(thread, threads, size, w)
            else:
                with_shared_negatives(thread, threads, model, s, chunk, table, positives, chosen, factor, w)
            barrier(threads, sync)
            if thread == 0:
                _sum_up(s, chunk, size, w)
            barrier(threads, sync)
            _update_relations(thread, threads, model, s, tables.relation, moments, size, rates, step, w)
            _update_rows(thread, model, s, chunk, table, moments, knowledge, rates, step, w)
            if thread == 0:
                _add_losses(sync, size, w)
            step += 1
            barrier(threads, sync)
            if w.total[STOPPED] != 0:
                return
    if s.lazy:
        _list_rows(thread, threads, False, w.rows)
        _catch_up_rows(thread, s, table, moments, rates, step, w.rows)


@jit
def _list_rows(thread, threads, only_touched, rows):
    """List the rows that belong to a thread: all, or those that the batch touches."""
    n = 0
    for begin in range(thread * STRIP, len(rows.touched), threads * STRIP):
        for e in range(begin, min(begin + STRIP, len(rows.touched))):
            if rows.touched[e] or not only_touched:
                rows.touched[e] = False
                rows.due[thread, n] = e
                n += 1
    rows.number[thread] = n


@jit
def _catch_up_rows(thread, s, table, moments, rates, step, rows):
    """Make the steps that a thread's listed rows have missed."""
    for place in range(rows.number[thread]):
        e = rows.due[thread, place]
        _prefetch_row(table, moments, rows.due[thread, min(place + 1, rows.number[thread] - 1)])
        catch_up(s, rates, rows.steps[e], step, _with_moments(table, moments, e))
        rows.steps[e] = step + 1  # with the one to come


@inline
def _with_moments(table, moments, e):
    """An entity's row, and its moments."""
    return table[e], moments.entity1[e], moments.entity2[e]


@inline
def _prefetch_row(table, moments, e):
    """Begin to read a row and its moments."""
    prefetch(table[e])
    prefetch(moments.entity1[e])
    prefetch(moments.entity2[e])


@jit
def _sum_up(s, chunk, size, w):
    """Before pass 3, on one thread: sum over the table, and link the gradients of each entity to a list."""
    gradients = w.gradients
    if s.pull != 0:
        w.total[DISTANCE] = np.sqrt(_sum(w.rows.square))
    if s.contrast != 0:
        w.total[DIFFERENCE] = _sum(w.rows.difference) / len(w.rows.difference)
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
    w.total[LOSS] += loss
    w.total[STOPPED] = 1.0 if sync[STOP] != 0 or not np.isfinite(loss) else 0.0


@jit_reordered
def _sum(numbers):
    result = 0.0
    for number in numbers:
        result += number
    return result


@jit
def _update_rows(thread, model, s, chunk, table, moments, knowledge, rates, step, w):
    """Pass 3 for a thread's listed rows, in blocks: all gradients of a block, then the updates.

    So the queries stay in the caches while gradients are summed. Narrow rows are prefetched meanwhile; wide ones would
    displace the queries.
    """
    due, by_row = w.rows.due[thread, : w.rows.number[thread]], w.scratch.by_row[thread]
    for begin in range(0, len(due), len(by_row)):
        number = min(len(by_row), len(due) - begin)
        for place in range(number):
            e = due[begin + place]
            if table.shape[1] <= NARROW:
                prefetch(moments.entity1[e])
                prefetch(moments.entity2[e])
                if s.pull != 0:
                    prefetch(knowledge.received[e])
            _sum_gradients(model, chunk, table[e], e, w, by_row[place])
        for place in range(number):
            _update_row(s, table, moments, knowledge, rates, step, due[begin + place], by_row[place], w)


@inline
def _update_row(s, table, moments, knowledge, rates, step, e, g, w):
    """A step of Adam for one entity, with the pull and FedEC's contrast."""
    row, distance = table[e], w.total[DISTANCE]
    weight = np.float32(s.pull / distance) if distance > 0 else ZERO
    if s.contrast == 0 and s.pull != 0:
        rows = _with_moments(table, moments, e)
        w.rows.square[e] = adam_pulled(s, rates, step, rows, g, weight, knowledge.received[e])
        return
    if s.pull != 0:
        add_pull_gradient(weight, row, knowledge.received[e], g)
    if s.contrast != 0:
        received, previous = knowledge.received[e], knowledge.previous[e]
        add_contrast_gradient(s, w.total[DIFFERENCE], len(table), row, received, previous, g)
    adam(s, rates, step, _with_moments(table, moments, e), g)
    measure(s, row, knowledge, e, w.rows)


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
