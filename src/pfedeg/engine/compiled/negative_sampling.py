"""Negative sampling, compiled: uniform by a counter, so that the number of threads changes nothing; no known tails."""

import numpy as np

from pfedeg.engine.lowlevel.compile import inline, jit, random_below

EXCLUDED = np.float32(-np.inf)  # the score of a negative that does not count


@jit
def draw_own(s, entities, positives, triple, place, key, marks, ids):
    """Negatives of one positive, uniform over the entities that are no known tails; how many count."""
    group = positives.group[triple]
    known = positives.tails[positives.start[group] : positives.start[group + 1]]
    free = entities - len(known)
    if free == 0:
        ids[:] = 0
        return 0
    draw_shared(s, free, place, key, ids)
    _mark(marks, known)
    for j in range(s.negatives):
        if _is_marked(marks, ids[j]):
            ids[j] = _stand_in(known, free, ids[j])
    _unmark(marks, known)
    ids[s.negatives :] = ids[0]  # padding
    return s.negatives


@jit
def draw_shared(s, entities, place, key, ids):
    """Negatives that a group shares, uniform over all entities."""
    counter = np.uint64(place) * np.uint64(s.negatives)
    for j in range(s.negatives):  # nothing but arithmetic: the compiler makes several at a time
        ids[j] = random_below(key, counter + np.uint64(j), np.uint64(entities))


@jit
def exclude(s, positives, chosen, ids, marks, score, count):
    """Exclude the known tails of each positive from the negatives that it shares; how many count."""
    _mark(marks, ids[: s.negatives])
    for i in range(len(chosen)):
        count[i] = s.negatives
        group = positives.group[chosen[i]]
        for entity in positives.tails[positives.start[group] : positives.start[group + 1]]:
            if _is_marked(marks, entity):
                for j in range(s.negatives):
                    if ids[j] == entity:
                        score[i, j] = EXCLUDED
                        count[i] -= 1
    _unmark(marks, ids[: s.negatives])


@jit
def _mark(marks, entities):
    for entity in entities:
        marks[_word(entity)] |= np.uint64(1) << _bit(entity)


@jit
def _unmark(marks, entities):
    for entity in entities:
        marks[_word(entity)] = 0


@inline
def _is_marked(marks, entity):
    return (marks[_word(entity)] >> _bit(entity)) & np.uint64(1) != 0


@inline
def _word(entity):
    return np.uint64(entity) >> np.uint64(6)  # unsigned: numba does not test for negative indices


@inline
def _bit(entity):
    return np.uint64(entity) & np.uint64(63)


@jit
def _position(ordered, value):
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
    i = _position(known, u)
    entity = limit
    for place in range(_position(known, limit), len(known)):
        if known[place] > entity + i:
            break
        i -= known[place] - entity
        entity = known[place] + 1
    return np.int32(entity + i)
