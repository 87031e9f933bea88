"""Forward and backward with negatives that a group of positives shares, compiled: a group's queries times its rows."""

import numpy as np

from pfedeg.engine.compiled.lanes.operations import compare_group, compose, exchange, spread
from pfedeg.engine.compiled.negative_sampling import EXCLUDED, exclude, part_of
from pfedeg.engine.compiled.self_adversarial import finish, weigh, weigh_positive
from pfedeg.engine.lowlevel.compile import jit
from pfedeg.engine.lowlevel.vectors import EIGHT, prefetch


@jit
def forward_backward(thread, threads, model, s, members, table, positives, chosen, factor, w):
    """Losses, and gradients by heads, relations, tails and negatives, of a thread's groups."""
    size = len(chosen)
    lo, hi = part_of(thread, threads, -(-size // members))
    for group in range(lo, hi):
        first, last = group * members, min((group + 1) * members, size)
        _process_group(thread, model, s, group, first, last, table, positives, chosen, factor, w)


@jit
def _process_group(thread, model, s, group, first, last, table, positives, chosen, factor, w):
    size, batch, gradients, by_query = len(chosen), w.batch, w.gradients, w.scratch.by_query[thread]
    ids, state = batch.ids[group], w.scratch.softmax[thread]
    for i in range(first, last):
        prefetch(table[batch.triple[min(i + 1, size - 1), 0]])
        prefetch(table[batch.triple[i, 2]])
        compose(model, table[batch.triple[i, 0]], w.relation[batch.triple[i, 1]], batch.query[i])
    for j in range(0, len(ids), EIGHT):
        compare_group(model, batch.query, first, last, table, ids, j, batch.weight)
    scores, count = batch.weight[first:last], batch.counted[first:last]
    exclude(s, positives, chosen[first:last], ids, w.scratch.marks[thread], scores, count)
    for i in range(first, last):
        tail, by_tail = table[batch.triple[i, 2]], gradients.rows[size + i]
        batch.weight[i, s.negatives :] = EXCLUDED  # padding
        weigh(s.alpha, 0, len(ids), batch.weight[i], state)
        loss, _ = finish(batch.counted[i], factor, batch.weight[i], state)
        loss += weigh_positive(model, batch.query[i], tail, factor, by_query[i - first], by_tail)
        batch.loss[i] = np.float32(0.5) * loss
    part = 2 * size + group * len(ids)
    for j in range(len(ids)):
        gradients.following[part + j] = ids[j] if j < s.negatives else -1  # the entity, until lists are linked
    by_row, panel = gradients.rows[part : part + len(ids)], w.scratch.panel[thread]
    exchange(model, batch.query, first, last, table, ids, batch.weight, by_query, by_row, panel)
    for i in range(first, last):
        head, relation = table[batch.triple[i, 0]], w.relation[batch.triple[i, 1]]
        spread(model, head, relation, batch.query[i], by_query[i - first], gradients.rows[i], gradients.relation[i])
