"""Training, compiled: sampling, scores, gradients and Adam fused, the same for any number of threads.

A batch takes three passes. (1) Over groups of positives that share negatives (groups of one, where each has its own):
draw the negatives. (2) Over groups: score, weigh, and sum the gradients of the queries; with own negatives some at a
time, while their rows are at hand; with shared ones their gradients, too. Sort the other (query, entity) pairs by
entity. (3) Over entities: sum the row's gradient in the order of the positives and apply Adam, with the pull towards K
in the same visit. There are no gradient tables and no atomics on numbers, so neither threads nor their timing can
change a result. A thread has the same positives and the same entities in every batch, and writes to lists of its own:
what it reads again is still in the caches of its core.

Adam moves every row in every step. Where nothing pulls at rows and a batch touches few of them, the others are left
alone, and the steps that they miss are made before a batch reads them and at the end: the same steps, rounded a little
otherwise.
"""

import numpy as np

from pfedeg.kernels import vectors
from pfedeg.kernels.jit import STOP, barrier, inline, jit, kernel
from pfedeg.kernels.rows import ONE, adam, adam_pulled, coast, oppose, pull, refer
from pfedeg.kernels.sampling import NEVER, draw_own, draw_shared, exclude
from pfedeg.kernels.scratch import AHEAD, LATER, STRIP
from pfedeg.kernels.tiles import (
    compare,
    compare_group,
    compare_one,
    compose,
    exchange,
    gather,
    gather_eight,
    gather_one,
    prepare,
    spread,
)
from pfedeg.kernels.vectors import (
    LANES,
    ZERO,
    choose,
    clear,
    expect,
    expect_line,
    fill,
    fma,
    largest,
    load,
    magnitude,
    store,
    total,
)
from pfedeg.kernels.writing import PAST, WAY, choose_way

SHARE, PLUS, TOP = 0, LANES, 2 * LANES  # places in the state of a running softmax
ROOM = np.float32(32.0)  # eᴿᴼᴼᴹ times a weight of 1 is far from the largest float32


@kernel
def train(
    thread, threads, sync, model, s, chunk, contrast, tables, moments, knowledge, positives, orders, keys, rates, x
):
    """All epochs, on one thread of a team. What is None (chunk: no sharing; contrast) costs no compiled code."""
    entities, n = len(tables.entity), len(positives.triples)
    members = 1 if chunk is None else chunk
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
            weight = np.float32(0.5 / size if s.mean else 0.5)
            groups = -(-size // members)
            lo, hi = groups * thread // threads, groups * (thread + 1) // threads
            _draw_all(thread, s, chunk, entities, positives, chosen, lo, hi, first, keys[epoch], x)
            if s.rest:
                barrier(threads, sync)
                _list_touched(thread, threads, x)
                _catch_up(thread, s, tables.entity, moments, rates, step, x)
                barrier(threads, sync)
            for group in range(lo, hi):
                _meet(thread, model, s, chunk, tables, positives, chosen, group, weight, x)
            _sort_pairs(thread, s, chunk, lo * members, min(hi * members, size), x)
            barrier(threads, sync)
            if thread == 0:
                ready = size if chunk is None else size + groups * x.ids.shape[1]
                _settle(sync, s, contrast, size, ready, x)
                choose_way(threads, step, x.pace)
            barrier(threads, sync)
            if x.total[3] != 0:
                return
            _update_relations(thread, threads, model, s, tables.relation, moments, size, rates, step, x)
            _update(thread, threads, model, s, contrast, tables, moments, knowledge, rates, step, x)
            step += 1
            barrier(threads, sync)
    if s.rest:
        for e in range(entities * thread // threads, entities * (thread + 1) // threads):
            coast(s, rates, x.steps[e], step, _with_moments(tables.entity, moments, e), None, False)


@jit
def _draw_all(thread, s, chunk, entities, positives, chosen, lo, hi, first, key, x):
    """Pass 1 for groups lo … hi − 1: draw, and find where the pairs of each entity will begin."""
    members = 1 if chunk is None else chunk
    place = x.place[thread]
    place[:] = 0
    _look_up(positives, chosen, lo * members, min(hi * members, len(chosen)))
    for group in range(lo, hi):
        _draw(thread, s, chunk, entities, positives, chosen, group, first, key, x)
    begin = lo * members * (1 + s.negatives if chunk is None else 1)
    for e in range(len(place)):
        begin, place[e] = begin + place[e], begin


@jit
def _look_up(positives, chosen, begin, end):
    """Ask for what positives lead to, which lies anywhere, step by step: triples, groups, known tails."""
    for i in range(begin, end):
        expect_line(positives.triples[chosen[i]], 0)
        expect_line(positives.group, chosen[i])
    for i in range(begin, end):
        expect_line(positives.start, positives.group[chosen[i]])
    for i in range(begin, end):
        expect_line(positives.tails, positives.start[positives.group[chosen[i]]])


@jit
def _draw(thread, s, chunk, entities, positives, chosen, group, first, key, x):
    """Draw a group's negatives, count own pairs of each entity, note whose rows will be read."""
    members = 1 if chunk is None else chunk
    begin = group * members
    ids, count = x.ids[group], x.place[thread, 1:]
    if chunk is None:
        x.free[begin] = draw_own(s, entities, positives, chosen[begin], first + begin, key, x.marks[thread], ids)
        for j in range(s.negatives):
            count[np.uint32(ids[j])] += 1
    else:
        draw_shared(s, entities, first + begin, key, ids)
    for i in range(begin, min(begin + members, len(chosen))):
        triple = positives.triples[chosen[i]]
        x.triple[i, 0], x.triple[i, 1], x.triple[i, 2] = triple[0], triple[1], triple[2]
        count[triple[2]] += 1
        if s.rest:
            x.touched[triple[0]] = x.touched[triple[2]] = True
    if s.rest:
        for j in range(s.negatives):
            x.touched[ids[j]] = True


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
def _meet(thread, model, s, chunk, tables, positives, chosen, group, scale, x):
    """Pass 2 for a group of positives: L_KGE, its gradients by scores, queries, heads and relations."""
    members = 1 if chunk is None else chunk
    begin = group * members
    end = min(begin + members, len(chosen))
    ids, state, past = x.ids[group], x.state[thread], x.pace[WAY] == PAST
    for i in range(begin, end):
        triple = x.triple[i]
        if i + 1 < len(chosen):
            expect(tables.entity[x.triple[i + 1, 0]])
        expect(tables.entity[triple[2]])
        compose(model, tables.entity[triple[0]], x.relation[triple[1]], x.query[i])
        clear(x.by_query[thread, i - begin])
    if chunk is None:
        _begin(state)
        _meet_own(model, s, x.query[begin], tables.entity, ids, x.weight[begin], state, x.by_query[thread, 0])
        _conclude(thread, model, tables.entity, x.triple[begin], 0, begin, scale, x)
    else:
        for j in range(0, len(ids), LANES):
            compare_group(model, x.query, begin, end, tables.entity, ids, j, x.weight)
        exclude(s, positives, chosen[begin:end], ids, x.marks[thread], x.weight[begin:end], x.free[begin:end])
        for i in range(begin, end):
            _begin(state)
            _strike_rest(s.negatives, len(ids), x.weight[i])
            _weigh(s.alpha, 0, len(ids), x.weight[i], state)
            _conclude(thread, model, tables.entity, x.triple[i], i - begin, i, scale, x)
        place = len(chosen) + group * len(ids)
        for j in range(len(ids)):
            x.following[place + j] = ids[j] if j < s.negatives else -1  # whose; _settle turns it into a link
        by, by_row = x.by_query[thread], x.gradient[place : place + len(ids)]
        exchange(model, x.query, begin, end, tables.entity, ids, x.weight, by, by_row, x.panel[thread], past)
    for i in range(begin, end):
        h, r, g = x.triple[i, 0], x.triple[i, 1], x.by_query[thread, i - begin]
        spread(model, tables.entity[h], x.relation[r], x.query[i], g, x.gradient[i], x.by_relation[i], past)


@inline
def _meet_own(model, s, q, table, ids, weight, state, g):
    """One query and its own negatives, eight at a time, so that each row comes from afar only once.

    The next eight are scored before the gradient of these: meanwhile the processor finishes their weights. While the
    gradient is summed, which needs nothing from afar, rows that are met later, also by other queries, are asked for.
    """
    _score_own(model, s, q, table, ids, 0, weight)
    for j in range(0, len(ids), LANES):
        factor = _weigh(s.alpha, j, j + LANES, weight, state)
        if j + LANES < len(ids):
            _score_own(model, s, q, table, ids, j + LANES, weight)
        if factor != ONE:
            vectors.scale(g, factor)
        gather_eight(model, q, table, ids, weight, j, j + AHEAD, g)


@inline
def _score_own(model, s, q, table, ids, j, weight):
    store(weight, j, compare(model, q, table, ids, j))
    _strike_rest(s.negatives, j + LANES, weight)


@inline
def _strike_rest(negatives, end, score):
    """What only fills up the last vector does not count."""
    for j in range(negatives, end):
        score[j] = NEVER


@jit
def _begin(state):
    clear(state)
    state[TOP] = NEVER


@jit
def _weigh(alpha, begin, end, score, state):
    """Turn scores begin … end − 1 of a positive into ∂/∂s of Σ_j w_j softplus(s_j), w = softmax(α · s_·).

    The softmax runs along (Milakov and Gimelshein 2018): w is taken relative to a score that was large so far. When one
    comes that is larger by `ROOM`, all that was summed is scaled down, by the factor that is returned; smaller ones, so
    nearly all, need not wait for each other. `_conclude` divides by Σ w.
    """
    highest = load(score, begin)
    for j in range(begin + LANES, end, LANES):
        highest = choose(load(score, j), highest, load(score, j), highest)
    highest = largest(highest)
    factor = ONE
    if begin == 0:
        state[TOP] = highest
    elif alpha * (highest - state[TOP]) > ROOM:
        factor = largest(vectors.exp(fill(alpha * (state[TOP] - highest))))
        vectors.scale(score[:begin], factor)
        state[TOP] = highest
    top = fill(state[TOP])
    share, plus = fill(factor) * load(state, SHARE), fill(factor) * load(state, PLUS)
    for j in range(begin, end, LANES):
        s = load(score, j)
        w = choose(s, fill(NEVER), vectors.exp(fill(alpha) * (s - top)), fill(ZERO))
        softplus, sigmoid = _softplus_and_sigmoid(s)
        share += w
        plus = fma(w, softplus, plus)
        store(score, j, w * sigmoid)
    store(state, SHARE, share)
    store(state, PLUS, plus)
    return factor


@jit
def _softplus_and_sigmoid(score):
    """log(1 + eˢ) and its derivative 1 / (1 + e⁻ˢ)."""
    zero, one = fill(ZERO), fill(ONE)
    small = vectors.exp(zero - magnitude(score))
    softplus = choose(zero, score, zero, score) + vectors.log1p(small)
    return softplus, choose(zero, score, small, one) / (one + small)


@jit
def _conclude(thread, model, table, triple, slot, i, scale, x):
    """The positive's own score, the loss, and all weights as they count; `scale` is ½ (over the size of the batch)."""
    q, g = x.query[i], x.by_query[thread, slot]
    softplus, sigmoid = _softplus_and_sigmoid(fill(-compare_one(model, q, table[triple[2]])))
    loss = largest(softplus)
    factor = ZERO
    if x.free[i] > 0:
        share = total(load(x.state[thread], SHARE))
        loss += total(load(x.state[thread], PLUS)) / share
        factor = scale / share
    x.loss[i] = np.float32(0.5) * loss
    x.tail_weight[i] = -scale * largest(sigmoid)
    vectors.scale(x.weight[i], factor)
    vectors.scale(g, factor)
    gather_one(model, q, table[triple[2]], x.tail_weight[i], g)


@jit
def _settle(sync, s, contrast, size, ready, x):
    """Between passes 2 and 3, on one thread: sum what the passes left in order, and link each entity's gradients."""
    loss = 0.0
    for i in range(size):
        loss += x.loss[i]
    x.total[0] += loss
    if s.pull != 0:
        x.total[1] = np.sqrt(_sum(x.square))
    if contrast is not None:
        x.total[2] = _sum(x.lean) / len(x.lean)
    x.total[3] = 1.0 if sync[STOP] != 0 or not np.isfinite(loss) else 0.0
    for row in range(ready - 1, -1, -1):  # backwards, so that lists run forwards
        entity = x.triple[row, 0] if row < size else x.following[row]
        if entity >= 0:
            x.following[row] = x.head[entity]
            x.head[entity] = row


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
def _sort_pairs(thread, s, chunk, lo, hi, x):
    """A stable counting sort of the pairs by entity, for positives lo … hi − 1: where the next one goes moves on.

    When all pairs are there, those of entity e and this thread are place[e] … place[e + 1] − 1.
    """
    next_place = x.place[thread, 1:]
    for i in range(lo, hi):
        _put(next_place, x.triple[i, 2], i, x.tail_weight[i], x)
        if chunk is None:
            ids, weight = x.ids[i], x.weight[i]
            for j in range(s.negatives):
                _put(next_place, ids[j], i, weight[j], x)


@inline
def _put(next_place, entity, i, weight, x):
    place = np.uint32(next_place[np.uint32(entity)])  # unsigned: it need not be asked whether a place is negative
    next_place[np.uint32(entity)] = place + np.uint32(1)
    x.source[place] = i
    x.sorted_weight[place] = weight


@jit
def _update(thread, threads, model, s, contrast, tables, moments, knowledge, rates, step, x):
    """Pass 3: the gradient of every row, and one step of Adam."""
    if s.rest:
        _update_touched(thread, model, s, tables.entity, moments, rates, step, x)
        return
    entities, rows = len(tables.entity), x.by_row.shape[1]
    first, last = entities * thread // threads, entities * (thread + 1) // threads
    for begin in range(first, last, rows):
        end = min(begin + rows, last)
        for e in range(begin, end):  # all gradients before the tables stream by: the queries stay close
            if rows == 1:
                _expect_row(s, tables.entity, moments, knowledge, min(e + LATER, last - 1))
            _row_gradient(model, tables.entity[e], e, e, x, x.by_row[thread, e - begin])
        for e in range(begin, end):
            g = x.by_row[thread, e - begin]
            _update_row(s, contrast, tables.entity[e], moments, knowledge, rates, step, e, g, x)


@inline
def _expect_row(s, table, moments, knowledge, e):
    """Ask for what Adam will read of an entity."""
    expect(moments.entity1[e])
    expect(moments.entity2[e])
    expect(knowledge.received[e] if s.pull != 0 else table[e])


@jit
def _update_touched(thread, model, s, table, moments, rates, step, x):
    """The same for rows that do not wait, where others do."""
    past, due, g = x.pace[WAY] == PAST, x.due[thread], x.by_row[thread, 0]
    n = 0
    while due[n] >= 0:
        e, following = due[n], max(due[n], due[n + 1])
        _row_gradient(model, table[e], e, following, x, g)
        soon = _with_moments(table, moments, following)
        adam(s, rates, step, _with_moments(table, moments, e), g, soon, past)
        n += 1


@inline
def _update_row(s, contrast, row, moments, knowledge, rates, step, e, g, x):
    """One step of Adam for an entity: with the pull, with FedEC's contrast, with both, or with neither."""
    rows, past = (row, moments.entity1[e], moments.entity2[e]), x.pace[WAY] == PAST
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
def _row_gradient(model, row, e, soon, x, g):
    """An entity's gradient: of its pairs, then of what is ready; what is ready for entity `soon` is asked for."""
    gather(model, row, x.query, x.source, x.sorted_weight, x.place, e, g)
    link = x.head[e]
    x.head[e] = -1
    while link >= 0:
        following = x.following[link]
        vectors.add(g, x.gradient[link], x.gradient[max(0, following if following >= 0 else x.head[soon])])
        link = following
