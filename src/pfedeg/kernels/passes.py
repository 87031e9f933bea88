"""Training, compiled: sampling, scores, gradients and Adam fused, the same for any number of threads.

A batch takes three passes. (1) Over groups of positives that share negatives (groups of one, where each has its own):
draw the negatives, and eight at a time, while their rows are at hand, score, weigh, and sum the queries' gradients.
(2) Sort the (query, entity) pairs by entity. (3) Over entities: sum the row's gradient in the order of the positives
and apply Adam with the pull towards K in the same visit. There are no gradient tables and no atomics on numbers, so
neither threads nor their timing can change a result. Where positives share negatives, pass 1 also sums the gradients
of a group's negatives, and pass 2 has only the true tails to sort.
"""

import numpy as np

from pfedeg.kernels import vectors
from pfedeg.kernels.jit import STOP, barrier, inline, jit, kernel, random_below, take
from pfedeg.kernels.tiles import ZERO, compare, compose, exchange, gather, prepare, spread
from pfedeg.kernels.vectors import LANES, choose, clear, fill, fma, largest, load, magnitude, root, store, total

QUERIES = 8  # queries that stay close while all of a group's negatives meet them
ONE = np.float32(1.0)
NEVER = np.float32(-np.inf)  # the score of a candidate that does not count
SHARE, PLUS, TOP, STATE = 0, LANES, 2 * LANES, 3 * LANES  # places in the state of a running softmax, and its size


@kernel
def train(thread, threads, sync, model, s, chunk, contrast, tables, moments, knowledge, positives, orders, keys, x):
    """All epochs, on one thread of a team. What is None (chunk: no sharing; contrast) costs no compiled code."""
    entities, n = len(tables.entity), len(positives.triples)
    members = 1 if chunk is None else chunk
    step = moments.steps[0]
    for e in range(entities * thread // threads, entities * (thread + 1) // threads):
        _refer(s, contrast, tables.entity[e], knowledge, e, x)
    for r in range(thread, len(tables.relation), threads):
        prepare(model, tables.relation[r], x.relation[r])
    for epoch in range(len(orders)):
        for first in range(0, n, s.batch):
            size = min(s.batch, n - first)
            chosen = orders[epoch, first : first + size]
            weight = np.float32(0.5 / size if s.mean else 0.5)
            groups = -(-size // members)
            lo, hi = groups * thread // threads, groups * (thread + 1) // threads
            barrier(threads, sync)
            x.tally[thread] = 0
            for group in range(lo, hi):
                _meet(thread, model, s, chunk, tables, positives, chosen, group, first, keys[epoch], weight, x)
            barrier(threads, sync)
            if thread == 0:
                ready = size if chunk is None else size + groups * x.ids.shape[1]
                _settle(threads, sync, positives, chosen, ready, x)
            barrier(threads, sync)
            if x.total[3] != 0:
                return
            _sort_pairs(thread, s, chunk, positives, chosen, lo * members, min(hi * members, size), x)
            barrier(threads, sync)
            step += 1
            _update(thread, sync, model, s, contrast, tables, moments, knowledge, positives, chosen, step, x)


@jit
def _meet(thread, model, s, chunk, tables, positives, chosen, group, first, key, weight, x):
    """Pass 1 for a group of positives: L_KGE, its gradients by scores, queries, heads and relations."""
    members = 1 if chunk is None else chunk
    begin = group * members
    end = min(begin + members, len(chosen))
    ids, count = x.ids[group], x.tally[thread]
    for slot in range(end - begin):
        _begin(s, thread, slot, x)
    if chunk is None:
        _draw_own(thread, s, len(tables.entity), positives, chosen[begin], first + begin, key, ids, x)
        for j in range(s.negatives):
            count[ids[j]] += 1
    else:
        _draw_shared(thread, s, len(tables.entity), positives, chosen[begin:end], first + begin, key, ids, x)
    for i in range(begin, end):
        triple = positives.triples[chosen[i]]
        compose(model, tables.entity[triple[0]], x.relation[triple[1]], x.query[i])
        count[triple[2]] += 1
    for j in range(0, len(ids), LANES):
        for i in range(begin, end):
            by, state, mask = x.by_query[thread, i - begin], x.state[thread, i - begin], x.mask[thread, i - begin]
            _meet_eight(model, s.alpha, chunk, x.query[i], tables.entity, ids, j, mask, x.weight[i], state, by)
    for i in range(begin, end):
        _conclude(thread, model, tables.entity, positives.triples[chosen[i], 2], i - begin, i, weight, x)
    if chunk is not None:
        _exchange(thread, model, tables.entity, ids, begin, end, len(chosen) + group * len(ids), x)
    for i in range(begin, end):
        h, r, g = positives.triples[chosen[i], 0], positives.triples[chosen[i], 1], x.by_query[thread, i - begin]
        spread(model, tables.entity[h], x.relation[r], x.query[i], g, x.gradient[i], x.by_relation[i])


@jit
def _begin(s, thread, slot, x):
    """Nothing summed yet; every candidate counts, except those that only fill up the last vector."""
    clear(x.by_query[thread, slot])
    clear(x.mask[thread, slot])
    clear(x.state[thread, slot])
    x.state[thread, slot, TOP] = NEVER
    x.free[thread, slot] = s.negatives
    for j in range(s.negatives, x.mask.shape[2]):
        x.mask[thread, slot, j] = NEVER


@jit
def _draw_own(thread, s, entities, positives, triple, place, key, ids, x):
    """Negatives of one positive, uniform over the entities that are no known tails."""
    group = positives.group[triple]
    known = positives.tails[positives.start[group] : positives.start[group + 1]]
    marks = x.marks[thread]
    free = entities - len(known)
    counter = np.uint64(place) * np.uint64(s.negatives)
    for entity in known:
        marks[entity >> 6] |= np.uint64(1) << np.uint64(entity & 63)
    for j in range(s.negatives):
        u = random_below(key, counter + np.uint64(j), np.uint64(free))
        ids[j] = _stand_in(known, free, u) if free > 0 and _is_marked(marks, u) else u
    for entity in known:
        marks[entity >> 6] = 0
    if free == 0:
        x.free[thread, 0] = 0


@jit
def _draw_shared(thread, s, entities, positives, chosen, place, key, ids, x):
    """Negatives that a group shares, uniform over all entities; for each positive its known tails do not count."""
    marks = x.marks[thread]
    counter = np.uint64(place) * np.uint64(s.negatives)
    for j in range(s.negatives):
        ids[j] = random_below(key, counter + np.uint64(j), np.uint64(entities))
        marks[ids[j] >> 6] |= np.uint64(1) << np.uint64(ids[j] & 63)
    for slot in range(len(chosen)):
        group = positives.group[chosen[slot]]
        for entity in positives.tails[positives.start[group] : positives.start[group + 1]]:
            if _is_marked(marks, entity):
                for j in range(s.negatives):
                    if ids[j] == entity:
                        x.mask[thread, slot, j] = NEVER
                        x.free[thread, slot] -= 1
    for j in range(s.negatives):
        marks[ids[j] >> 6] = 0


@inline
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
def _meet_eight(model, alpha, chunk, q, table, ids, j, mask, weight, state, g):
    """One query and eight negatives: Σ_j w_j softplus(s_j), w = softmax(α · s_·), and its gradient by s_j and by q.

    The softmax runs along (Milakov and Gimelshein 2018): w is taken relative to the largest score so far, and when a
    larger one comes, all that was summed is scaled down. `_conclude` divides by Σ w.
    """
    score = compare(model, q, table, ids, j) + load(mask, j)
    top, highest = state[TOP], largest(score)
    if highest > top:
        if top > NEVER:
            factor = largest(vectors.exp(fill(alpha * (top - highest))))
            vectors.scale(state, factor)
            vectors.scale(weight[:j], factor)
            if chunk is None:
                vectors.scale(g, factor)
        state[TOP] = top = highest
    w = choose(score, fill(NEVER), vectors.exp(fill(alpha) * (score - fill(top))), fill(ZERO))
    softplus, sigmoid = _softplus_and_sigmoid(score)
    store(state, SHARE, load(state, SHARE) + w)
    store(state, PLUS, fma(w, softplus, load(state, PLUS)))
    store(weight, j, w * sigmoid)
    if chunk is None:  # while the rows are at hand; a group's come in `_exchange`
        for k in range(j, j + LANES, 4):
            rows = (ids[k], ids[k + 1], ids[k + 2], ids[k + 3])
            gather(model, q, table, rows, (weight[k], weight[k + 1], weight[k + 2], weight[k + 3]), g)


@jit
def _softplus_and_sigmoid(score):
    """log(1 + eˢ) and its derivative 1 / (1 + e⁻ˢ)."""
    zero, one = fill(ZERO), fill(ONE)
    small = vectors.exp(zero - magnitude(score))
    softplus = choose(zero, score, zero, score) + vectors.log1p(small)
    return softplus, choose(zero, score, small, one) / (one + small)


@jit
def _conclude(thread, model, table, tail, slot, i, scale, x):
    """The positive's own score, the loss, and all weights as they count; `scale` is ½ (over the size of the batch)."""
    q, g = x.query[i], x.by_query[thread, slot]
    tails = x.tails[thread]
    tails[:] = tail
    softplus, sigmoid = _softplus_and_sigmoid(fill(ZERO) - compare(model, q, table, tails, 0))
    loss = largest(softplus)
    factor = ZERO
    if x.free[thread, slot] > 0:
        share = total(load(x.state[thread, slot], SHARE))
        loss += total(load(x.state[thread, slot], PLUS)) / share
        factor = scale / share
    x.loss[i] = np.float32(0.5) * loss
    x.tail_weight[i] = -scale * largest(sigmoid)
    vectors.scale(x.weight[i], factor)
    vectors.scale(g, factor)
    gather(model, q, table, (tail, tail, tail, tail), (x.tail_weight[i], ZERO, ZERO, ZERO), g)


@jit
def _exchange(thread, model, table, ids, begin, end, place, x):
    """Gradients of a group's queries, and of the negatives that it shares, the latter ready for the update."""
    for j in range(len(ids)):
        clear(x.gradient[place + j])
        x.following[place + j] = ids[j]  # the entity; _settle turns it into a link
    none = len(x.query) - 1  # a query without weight fills up the last four
    for first in range(begin, end, QUERIES):
        for j in range(0, len(ids), 4):
            for i in range(first, min(first + QUERIES, end), 4):
                b, c, d = i + 1 if i + 1 < end else none, i + 2 if i + 2 < end else none, i + 3 if i + 3 < end else none
                slot, by = i - begin, x.by_query[thread]
                exchange(model, x.query, (i, b, c, d), table, ids, j, x.weight, by, slot, x.gradient, place + j)


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
def _sort_pairs(thread, s, chunk, positives, chosen, lo, hi, x):
    """Pass 2: a stable counting sort of the pairs by entity, for positives lo … hi − 1."""
    for i in range(lo, hi):
        _put(thread, positives.triples[chosen[i], 2], i, x.tail_weight[i], x)
        if chunk is None:
            for j in range(s.negatives):
                _put(thread, x.ids[i, j], i, x.weight[i, j], x)


@inline
def _put(thread, entity, i, weight, x):
    place = x.tally[thread, entity]
    x.source[place] = i
    x.sorted_weight[place] = weight
    x.tally[thread, entity] = place + 1


@jit
def _update(thread, sync, model, s, contrast, tables, moments, knowledge, positives, chosen, step, x):
    """Pass 3: the gradient of every row, and one step of Adam."""
    rate = np.float32(s.lr / (1.0 - s.beta1**step))
    unbias = np.float32(1.0 / np.sqrt(1.0 - s.beta2**step))
    entities, rows = len(tables.entity), x.by_row.shape[1]
    while True:
        begin = take(sync, rows) - rows
        if begin >= entities:
            return
        if begin < 0:  # the first unit of work
            _update_relations(model, s, tables.relation, moments, positives, chosen, rate, unbias, x)
            continue
        end = min(begin + rows, entities)
        for e in range(begin, end):  # all gradients before the tables stream by: the queries stay close
            _row_gradient(model, tables.entity[e], e, x, x.by_row[thread, e - begin])
        for e in range(begin, end):
            g, row = x.by_row[thread, e - begin], tables.entity[e]
            if s.pull != 0 and x.total[1] > 0:
                _pull(np.float32(s.pull / x.total[1]), row, knowledge.received[e], g)
            if contrast is not None:
                _contrast(contrast, x.total[2], entities, row, knowledge.received[e], knowledge.previous[e], g)
            _adam(s, rate, unbias, row, moments.entity1[e], moments.entity2[e], g)
            _refer(s, contrast, row, knowledge, e, x)


@jit
def _update_relations(model, s, table, moments, positives, chosen, rate, unbias, x):
    """The gradient of every relation, one step of Adam, and what composing needs of it next."""
    x.relation_sum[:] = ZERO
    for i in range(len(chosen)):
        vectors.add(x.relation_sum[positives.triples[chosen[i], 1]], x.by_relation[i])
    for r in range(len(table)):
        _adam(s, rate, unbias, table[r], moments.relation1[r], moments.relation2[r], x.relation_sum[r])
        prepare(model, table[r], x.relation[r])


@jit
def _row_gradient(model, row, e, x, g):
    """An entity's gradient: of its pairs four at a time, then of what is ready."""
    clear(g)
    for k in range(x.end[e], x.end[e + 1], 4):
        last = x.end[e + 1] - 1
        b, c, d = min(k + 1, last), min(k + 2, last), min(k + 3, last)
        wb = x.sorted_weight[b] if k + 1 <= last else ZERO
        wc = x.sorted_weight[c] if k + 2 <= last else ZERO
        wd = x.sorted_weight[d] if k + 3 <= last else ZERO
        sources = (x.source[k], x.source[b], x.source[c], x.source[d])
        gather(model, row, x.query, sources, (x.sorted_weight[k], wb, wc, wd), g)
    link = x.head[e]
    x.head[e] = -1
    while link >= 0:
        vectors.add(g, x.gradient[link])
        link = x.following[link]


@jit
def _pull(weight, row, received, g):
    """Add the gradient of β · ‖E − K‖; `weight` is β / ‖E − K‖."""
    by = fill(weight)
    for k in range(0, len(row), LANES):
        store(g, k, fma(by, load(row, k) - load(received, k), load(g, k)))


@jit
def _adam(s, rate, unbias, row, first, second, g):
    """One step: m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², row ← row − rate · m / (unbias · √v + ε)."""
    b1, b2 = fill(np.float32(s.beta1)), fill(np.float32(s.beta2))
    c1, c2 = fill(np.float32(1.0 - s.beta1)), fill(np.float32(1.0 - s.beta2))
    for k in range(0, len(row), LANES):
        x = load(g, k)
        m = fma(b1, load(first, k), c1 * x)
        v = fma(b2, load(second, k), c2 * x * x)
        store(first, k, m)
        store(second, k, v)
        store(row, k, load(row, k) - fill(rate) * m / fma(root(v), fill(unbias), fill(s.epsilon)))


@jit
def _refer(s, contrast, row, knowledge, e, x):
    """A row's share of what the next step needs to know of the whole table."""
    if s.pull != 0:
        square = fill(ZERO)
        for k in range(0, len(row), LANES):
            difference = load(row, k) - load(knowledge.received[e], k)
            square = fma(difference, difference, square)
        x.square[e] = total(square)
    if contrast is not None:  # noqa: SIM102 (numba leaves out the branch by this test alone)
        if contrast.pooled:
            _, s_g = _cosine(row, knowledge.received[e])
            _, s_l = _cosine(row, knowledge.previous[e])
            x.lean[e] = s_l - s_g


@jit
def _dot(a, b):
    result = fill(ZERO)
    for k in range(0, len(a), LANES):
        result = fma(load(a, k), load(b, k), result)
    return total(result)


@jit
def _cosine(a, b):
    """1 / (|a| |b|) and the cosine; both 0 where a row is zero."""
    product = np.sqrt(_dot(a, a)) * np.sqrt(_dot(b, b))
    inverse = ONE / product if product > ZERO else ZERO
    return inverse, _dot(a, b) * inverse


@jit
def _contrast(contrast, pooled_difference, entities, row, received, previous, g):
    """Add FedEC's gradient: μ / (n τ) · σ((s_l − s_g) / τ) · (∂s_l − ∂s_g)."""
    inverse_g, s_g = _cosine(row, received)
    inverse_l, s_l = _cosine(row, previous)
    difference = pooled_difference if contrast.pooled else np.float64(s_l - s_g)
    slope = 1.0 / (1.0 + np.exp(-difference / contrast.temperature))
    weight = fill(np.float32(contrast.weight / (entities * contrast.temperature) * slope))
    square = _dot(row, row)
    shrink_g = s_g / square if inverse_g > ZERO else ZERO
    shrink_l = s_l / square if inverse_l > ZERO else ZERO
    for k in range(0, len(row), LANES):
        by_l = load(previous, k) * fill(inverse_l) - load(row, k) * fill(shrink_l)
        by_g = load(received, k) * fill(inverse_g) - load(row, k) * fill(shrink_g)
        store(g, k, fma(weight, by_l - by_g, load(g, k)))
