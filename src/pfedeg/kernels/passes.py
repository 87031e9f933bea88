"""Training, compiled: sampling, scores, gradients and Adam fused, the same for any number of threads.

A batch takes three passes. (1) Over positives: compose the query, draw negatives, score, weigh, and sum the query's
gradient. (2) Sort the (query, entity) pairs by entity. (3) Over entities: sum the row's gradient in the order of the
positives and apply Adam with the pull towards K in the same visit. There are no gradient tables and no atomics on
numbers, so neither threads nor their timing can change a result. With shared negatives pass 2 has nothing to sort:
a chunk of positives already holds the gradients of its negatives.
"""

import numpy as np

from pfedeg.kernels.jit import STOP, barrier, exp, jit, kernel, log1p, random_below, take
from pfedeg.kernels.tiles import ZERO, compare, compose, gather, prepare, spread

ROWS = 64  # entity rows that a thread takes at a time


@kernel
def train(thread, threads, sync, model, s, chunk, contrast, tables, moments, knowledge, positives, orders, keys, x):
    """All epochs, on one thread of a team. What is None (chunk: no sharing; contrast) costs no compiled code."""
    entities, n = len(tables.entity), len(positives.triples)
    step = moments.steps[0]
    for e in range(entities * thread // threads, entities * (thread + 1) // threads):
        _refer(s, contrast, tables.entity[e], knowledge, e, x)
    for r in range(thread, len(tables.relation), threads):
        prepare(model, tables.relation[r], x.relation[r])
    for epoch in range(len(orders)):
        for first in range(0, n, s.batch):
            size = min(s.batch, n - first)
            chosen = orders[epoch, first : first + size]
            scale = np.float32(0.5 / size if s.mean else 0.5)
            barrier(threads, sync)
            if chunk is None:
                lo, hi = size * thread // threads, size * (thread + 1) // threads
                _own_pass(thread, model, s, tables, positives, chosen, lo, hi, first, keys[epoch], scale, x)
            else:
                chunks = -(-size // chunk)
                lo, hi = chunks * thread // threads * chunk, min(chunks * (thread + 1) // threads * chunk, size)
                _shared_pass(thread, model, s, chunk, tables, positives, chosen, lo, hi, first, keys[epoch], scale, x)
            barrier(threads, sync)
            if thread == 0:
                ready = size if chunk is None else size + chunks * s.negatives
                _settle(threads, sync, positives, chosen, ready, x)
            barrier(threads, sync)
            if x.total[3] != 0:
                return
            _sort_pairs(thread, x, lo, hi)
            barrier(threads, sync)
            step += 1
            _update(thread, sync, model, s, contrast, tables, moments, knowledge, positives, chosen, step, x)


@jit
def _own_pass(thread, model, s, tables, positives, chosen, lo, hi, first, key, scale, x):
    """Pass 1 for positives lo … hi − 1 of the batch, each with negatives of its own."""
    entities = len(tables.entity)
    marks = x.marks[thread]
    count = x.tally[thread]
    count[:] = 0
    for i in range(lo, hi):
        triple = chosen[i]
        ids, weight = x.ids[i], x.weight[i]
        ids[0] = positives.triples[triple, 2]
        group = positives.group[triple]
        known = positives.tails[positives.start[group] : positives.start[group + 1]]
        free = entities - len(known)
        counter = np.uint64(first + i) * np.uint64(s.negatives)
        _mark(marks, known)
        for j in range(s.negatives):
            u = random_below(key, counter + np.uint64(j), np.uint64(free))
            ids[1 + j] = _stand_in(known, free, u) if free > 0 and _is_marked(marks, u) else u
        _mark(marks, known)
        _query(model, tables, positives.triples[triple], x, i)
        score = x.score[thread]
        _score(model, x.query[i], tables.entity, ids, score)
        x.loss[i] = _weigh(s, score, weight, free > 0, scale)
        _query_gradient(thread, model, tables, positives.triples[triple], i, ids, weight, x)
        for j in range(len(ids)):
            count[ids[j]] += 1


@jit
def _shared_pass(thread, model, s, chunk, tables, positives, chosen, lo, hi, first, key, scale, x):
    """Pass 1 for positives lo … hi − 1 of the batch (whole chunks), each chunk with negatives that it shares."""
    entities, n, size = len(tables.entity), s.negatives, len(chosen)
    ids, weight, source = x.chunk_ids[thread], x.chunk_weight[thread], x.chunk_source[thread]
    marks = x.marks[thread]
    count = x.tally[thread]
    count[:] = 0
    for begin in range(lo, hi, chunk):
        end = min(begin + chunk, hi)
        counter = np.uint64(first + begin) * np.uint64(n)
        for j in range(n):
            ids[1 + j] = random_below(key, counter + np.uint64(j), np.uint64(entities))
        for i in range(begin, end):
            triple = chosen[i]
            ids[0] = positives.triples[triple, 2]
            group = positives.group[triple]
            known = positives.tails[positives.start[group] : positives.start[group + 1]]
            _query(model, tables, positives.triples[triple], x, i)
            score = x.score[thread]
            _score(model, x.query[i], tables.entity, ids, score)
            free = False
            _mark(marks, known)
            for j in range(1, 1 + n):
                if _is_marked(marks, ids[j]):
                    score[j] = -np.inf
                else:
                    free = True
            _mark(marks, known)
            x.loss[i] = _weigh(s, score, weight, free, scale)
            _query_gradient(thread, model, tables, positives.triples[triple], i, ids, weight, x)
            source[i - begin] = i
            x.ids[i, 0], x.weight[i, 0] = ids[0], weight[0]
            count[ids[0]] += 1
            for j in range(n):
                x.column[thread, j, i - begin] = weight[1 + j]
        for j in range(n):
            row = size + begin // chunk * n + j
            g = x.gradient[row]
            g[:] = ZERO
            _gather(model, tables.entity[ids[1 + j]], x.query, source, x.column[thread, j], 0, end - begin, g)
            x.following[row] = ids[1 + j]  # the entity; _settle turns it into a link


@jit
def _query(model, tables, triple, x, i):
    compose(model, tables.entity[triple[0]], x.relation[triple[1]], x.query[i])


@jit
def _query_gradient(thread, model, tables, triple, i, ids, weight, x):
    """The gradient of a positive's query, and from it those of its head and its relation."""
    g = x.by_query[thread]
    g[:] = ZERO
    q = x.query[i]
    _gather(model, q, tables.entity, ids, weight, 0, len(ids), g)
    h, r = tables.entity[triple[0]], x.relation[triple[1]]
    spread(model, h, r, q, g, x.gradient[i], x.by_relation[i])


@jit
def _mark(marks, entities):
    """Set (or, done again, clear) the bit of each entity."""
    for entity in entities:
        marks[entity >> 6] ^= np.uint64(1) << np.uint64(entity & 63)


@jit
def _is_marked(marks, entity):
    return (marks[entity >> 6] >> np.uint64(entity & 63)) & np.uint64(1) != 0


@jit
def _place(ordered, value):
    """How many of the ordered numbers are smaller."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) >> 1
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _stand_in(known, limit, u):
    """For the i-th known entity below the limit, u, the i-th entity from the limit on that is not known."""
    i = _place(known, u)
    entity = limit
    for place in range(_place(known, limit), len(known)):
        if known[place] > entity + i:
            break
        i -= known[place] - entity
        entity = known[place] + 1
    return entity + i


@jit
def _score(model, q, table, ids, score):
    """score[k] = s(q, table[ids[k]]), four at a time."""
    n = len(ids)
    for k in range(0, n - 3, 4):
        a, b, c, d = compare(model, q, table, ids[k], ids[k + 1], ids[k + 2], ids[k + 3])
        score[k], score[k + 1], score[k + 2], score[k + 3] = a, b, c, d
    for k in range(n - n % 4, n):
        score[k] = compare(model, q, table, ids[k], ids[k], ids[k], ids[k])[0]


@jit
def _gather(model, q, table, ids, weight, first, last, g):
    """Add Σ_k weight[k] · ∂s/∂q (q, table[ids[k]]) to g for k in first … last − 1, four at a time."""
    whole = last - (last - first) % 4
    for k in range(first, whole, 4):
        rows = (ids[k], ids[k + 1], ids[k + 2], ids[k + 3])
        gather(model, q, table, rows, (weight[k], weight[k + 1], weight[k + 2], weight[k + 3]), g)
    if whole < last:
        a, b, c = ids[whole], ids[min(whole + 1, last - 1)], ids[last - 1]
        wb = weight[whole + 1] if whole + 1 < last else ZERO
        wc = weight[whole + 2] if whole + 2 < last else ZERO
        gather(model, q, table, (a, b, c, c), (weight[whole], wb, wc, ZERO), g)


@jit
def _weigh(s, score, weight, free, scale):
    """L_KGE and weight = scale · 2 · ∂L_KGE/∂s, from the scores of the positive (at 0) and its negatives.

    L_KGE = ½ [ softplus(−s) + Σ_j w_j softplus(s_j) ], w = softmax(α · s_·) held constant.
    """
    n = len(weight)
    small = exp(-abs(score[0]))
    loss = max(-score[0], ZERO) + log1p(small)
    weight[0] = -scale * (small if score[0] >= ZERO else np.float32(1.0)) / (np.float32(1.0) + small)
    if not free:
        weight[1:] = ZERO
        return np.float32(0.5) * loss
    top = score[1]
    for j in range(2, n):
        top = max(top, score[j])
    total = ZERO
    for j in range(1, n):
        weight[j] = exp(s.alpha * (score[j] - top)) if score[j] > -np.inf else ZERO
        total += weight[j]
    inverse = np.float32(1.0) / total
    negative = ZERO
    for j in range(1, n):
        w = weight[j] * inverse
        small = exp(-abs(score[j]))
        plus = max(score[j], ZERO) + log1p(small)
        negative += w * plus
        weight[j] = scale * w * (np.float32(1.0) if score[j] >= ZERO else small) / (np.float32(1.0) + small)
    return np.float32(0.5) * (loss + negative)


@jit
def _settle(threads, sync, positives, chosen, ready, x):
    """Between passes 1 and 3, on one thread: sum what the passes left in order, and find each entity's pairs."""
    size, entities = len(chosen), len(x.head)
    loss = 0.0
    for i in range(size):
        loss += x.loss[i]
    x.total[0] += loss
    square = lean = 0.0
    for e in range(entities):
        square += x.square[e]
        lean += x.lean[e]
    x.total[1], x.total[2] = np.sqrt(square), lean / entities
    x.total[3] = 1.0 if sync[STOP] != 0 or not np.isfinite(loss) else 0.0
    place = 0
    for e in range(entities):
        x.end[e] = place
        for thread in range(threads):
            number = x.tally[thread, e]
            x.tally[thread, e] = place
            place += number
    x.end[entities] = place
    for row in range(ready - 1, -1, -1):  # backwards, so that lists run forwards
        entity = positives.triples[chosen[row], 0] if row < size else x.following[row]
        x.following[row] = x.head[entity]
        x.head[entity] = row


@jit
def _sort_pairs(thread, x, lo, hi):
    """Pass 2: a stable counting sort of the pairs by entity."""
    place = x.tally[thread]
    for i in range(lo, hi):
        for j in range(x.ids.shape[1]):
            entity = x.ids[i, j]
            x.source[place[entity]] = i
            x.sorted_weight[place[entity]] = x.weight[i, j]
            place[entity] += 1


@jit
def _update(thread, sync, model, s, contrast, tables, moments, knowledge, positives, chosen, step, x):
    """Pass 3: the gradient of every row, and one step of Adam."""
    rate = np.float32(s.lr / (1.0 - s.beta1**step))
    unbias = np.float32(1.0 / np.sqrt(1.0 - s.beta2**step))
    entities = len(tables.entity)
    g = x.by_row[thread]
    while True:
        begin = take(sync, ROWS) - ROWS
        if begin >= entities:
            return
        if begin < 0:  # the first unit of work: relations
            x.relation_sum[:] = ZERO
            for i in range(len(chosen)):
                row = x.relation_sum[positives.triples[chosen[i], 1]]
                for k in range(len(row)):
                    row[k] += x.by_relation[i, k]
            for r in range(len(tables.relation)):
                first, second = moments.relation1[r], moments.relation2[r]
                _adam(s, rate, unbias, tables.relation[r], first, second, x.relation_sum[r])
                prepare(model, tables.relation[r], x.relation[r])
            continue
        for e in range(begin, min(begin + ROWS, entities)):
            g[:] = ZERO
            row = tables.entity[e]
            _gather(model, row, x.query, x.source, x.sorted_weight, x.end[e], x.end[e + 1], g)
            link = x.head[e]
            x.head[e] = -1
            while link >= 0:
                for k in range(len(g)):
                    g[k] += x.gradient[link, k]
                link = x.following[link]
            if s.pull != 0 and x.total[1] > 0:
                pull = np.float32(s.pull / x.total[1])
                for k in range(len(g)):
                    g[k] += pull * (row[k] - knowledge.received[e, k])
            if contrast is not None:
                _contrast(contrast, x.total[2], entities, row, knowledge.received[e], knowledge.previous[e], g)
            _adam(s, rate, unbias, row, moments.entity1[e], moments.entity2[e], g)
            _refer(s, contrast, row, knowledge, e, x)


@jit
def _adam(s, rate, unbias, row, first, second, g):
    b1, b2 = np.float32(s.beta1), np.float32(s.beta2)
    c1, c2 = np.float32(1.0 - s.beta1), np.float32(1.0 - s.beta2)
    for k in range(len(row)):
        m = b1 * first[k] + c1 * g[k]
        v = b2 * second[k] + c2 * g[k] * g[k]
        first[k], second[k] = m, v
        row[k] -= rate * m / (np.sqrt(v) * unbias + s.epsilon)


@jit
def _refer(s, contrast, row, knowledge, e, x):
    """A row's share of what the next step needs to know of the whole table."""
    if s.pull != 0:
        total = ZERO
        for k in range(len(row)):
            difference = row[k] - knowledge.received[e, k]
            total += difference * difference
        x.square[e] = total
    if contrast is not None:  # noqa: SIM102 (numba leaves out the branch by this test alone)
        if contrast.pooled:
            _, s_g = _cosine(row, knowledge.received[e])
            _, s_l = _cosine(row, knowledge.previous[e])
            x.lean[e] = s_l - s_g


@jit
def _cosine(a, b):
    """1 / (|a| |b|) and the cosine; both 0 where a row is zero."""
    ab = aa = bb = ZERO
    for k in range(len(a)):
        ab += a[k] * b[k]
        aa += a[k] * a[k]
        bb += b[k] * b[k]
    product = np.sqrt(aa) * np.sqrt(bb)
    inverse = np.float32(1.0) / product if product > ZERO else ZERO
    return inverse, ab * inverse


@jit
def _contrast(contrast, pooled_difference, entities, row, received, previous, g):
    """Add FedEC's gradient: μ / (n τ) · σ((s_l − s_g) / τ) · (∂s_l − ∂s_g)."""
    inverse_g, s_g = _cosine(row, received)
    inverse_l, s_l = _cosine(row, previous)
    difference = pooled_difference if contrast.pooled else np.float64(s_l - s_g)
    slope = 1.0 / (1.0 + np.exp(-difference / contrast.temperature))
    weight = np.float32(contrast.weight / (entities * contrast.temperature) * slope)
    square = ZERO
    for k in range(len(row)):
        square += row[k] * row[k]
    shrink_g = s_g / square if inverse_g > ZERO else ZERO
    shrink_l = s_l / square if inverse_l > ZERO else ZERO
    for k in range(len(row)):
        by_l = previous[k] * inverse_l - row[k] * shrink_l
        by_g = received[k] * inverse_g - row[k] * shrink_g
        g[k] += weight * (by_l - by_g)
