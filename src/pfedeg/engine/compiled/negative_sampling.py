"""Negative sampling, compiled: uniform by a counter, so that the number of threads changes nothing; no known tails."""

import numpy as np

from pfedeg.engine.lowlevel.compile import jit, random_below

EXCLUDED = np.float32(-np.inf)  # the score of a negative that does not count


@jit
def part_of(thread, threads, number):
    """The first of a thread's positives or groups, and the one after its last."""
    return number * thread // threads, number * (thread + 1) // threads


@jit
def draw(thread, threads, s, chunk, entities, positives, chosen, first, key, w):
    """Draw the negatives of a thread's groups (own negatives: a positive each), and note which rows are touched."""
    members = 1 if chunk is None else chunk
    batch, touched = w.batch, w.rows.touched
    lo, hi = part_of(thread, threads, -(-len(chosen) // members))
    for group in range(lo, hi):
        place, ids = group * members, batch.ids[group]
        if chunk is None:
            marks = w.scratch.marks[thread]
            batch.counted[place] = _draw_own(s, entities, positives, chosen[place], first + place, key, marks, ids)
        else:
            _draw(s, entities, first + place, key, ids)
        for i in range(place, min(place + members, len(chosen))):
            triple = positives.triples[chosen[i]]
            batch.triple[i, 0], batch.triple[i, 1], batch.triple[i, 2] = triple[0], triple[1], triple[2]
            if s.lazy:
                touched[triple[0]] = touched[triple[2]] = True
        if s.lazy:
            for j in range(s.negatives):
                touched[ids[j]] = True


@jit
def _draw(s, bound, place, key, ids):
    """Numbers below a bound, uniform."""
    counter = np.uint64(place) * np.uint64(s.negatives)
    for j in range(s.negatives):  # nothing but arithmetic: the compiler makes several at a time
        ids[j] = random_below(key, counter + np.uint64(j), np.uint64(bound))


@jit
def _draw_own(s, entities, positives, triple, place, key, marks, ids):
    """Negatives of one positive, uniform over the entities that are no known tails; how many count."""
    group = positives.group[triple]
    known = positives.tails[positives.start[group] : positives.start[group + 1]]
    free = entities - len(known)
    if free == 0:
        ids[:] = 0
        return 0
    _draw(s, free, place, key, ids)
    for entity in known:
        marks[entity] = True
    for j in range(s.negatives):
        if marks[np.uint32(ids[j])]:  # unsigned: numba does not test for negative indices
            ids[j] = _stand_in(known, free, ids[j])
    for entity in known:
        marks[entity] = False
    ids[s.negatives :] = ids[0]  # padding
    return s.negatives


@jit
def exclude(s, positives, chosen, ids, marks, score, count):
    """Exclude the known tails of each positive from the negatives that it shares; how many count."""
    for j in range(s.negatives):
        marks[ids[j]] = True
    for i in range(len(chosen)):
        count[i] = s.negatives
        group = positives.group[chosen[i]]
        for entity in positives.tails[positives.start[group] : positives.start[group + 1]]:
            if marks[np.uint32(entity)]:
                for j in range(s.negatives):
                    if ids[j] == entity:
                        score[i, j] = EXCLUDED
                        count[i] -= 1
    for j in range(s.negatives):
        marks[ids[j]] = False


@jit
def _stand_in(known, limit, u):
    """For the i-th known entity below the limit, u, the i-th entity from the limit on that is not known."""
    i = np.searchsorted(known, u)
    entity = limit
    for place in range(np.searchsorted(known, np.int32(limit)), len(known)):
        if known[place] > entity + i:
            break
        i -= known[place] - entity
        entity = known[place] + 1
    return np.int32(entity + i)
