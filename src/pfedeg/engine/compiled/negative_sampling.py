"""Drawing negatives, compiled: uniform by a counter, so that who draws when changes nothing; no known tails."""

import numpy as np

from pfedeg.engine.lowlevel.compile import inline, jit, random_below
from pfedeg.engine.lowlevel.vectors import expect_line

NEVER = np.float32(-np.inf)  # the score of a candidate that does not count


@jit
def look_up(positives, chosen, begin, end):
    """Ask for what positives lead to, which lies anywhere, step by step: triples, groups, known tails."""
    for i in range(begin, end):
        expect_line(positives.triples[chosen[i]], 0)
        expect_line(positives.group, chosen[i])
    for i in range(begin, end):
        expect_line(positives.start, positives.group[chosen[i]])
    for i in range(begin, end):
        expect_line(positives.tails, positives.start[positives.group[chosen[i]]])


@jit
def draw_own(s, entities, positives, triple, place, key, middle, marks, drawn, below, above):
    """Negatives of one positive, uniform over the entities that are no known tails.

    Sorted into those below the middle and those above; how many of each.
    """
    group = positives.group[triple]
    known = positives.tails[positives.start[group] : positives.start[group + 1]]
    free = entities - len(known)
    if free == 0:
        return 0, 0
    draw_shared(s, free, place, key, drawn)
    _mark(marks, known)
    low = high = np.uint64(0)  # unsigned: it need not be asked whether a place is negative
    for j in range(s.negatives):
        entity = drawn[j]
        if _is_marked(marks, entity):
            entity = np.int32(_stand_in(known, free, entity))
        below[low] = above[high] = entity  # where it does not belong, the next one is written over it
        if entity < middle:
            low += np.uint64(1)
        else:
            high += np.uint64(1)
    _unmark(marks, known)
    return np.int64(low), np.int64(high)


@jit
def draw_shared(s, entities, place, key, ids):
    """Negatives that a group shares, uniform over all entities."""
    counter = np.uint64(place) * np.uint64(s.negatives)
    for j in range(s.negatives):  # nothing but arithmetic: the compiler makes several at a time
        ids[j] = random_below(key, counter + np.uint64(j), np.uint64(entities))


@jit
def exclude(s, positives, chosen, ids, marks, score, free):
    """Of the shared negatives, the known tails of a positive do not count for it: their score, how many do."""
    _mark(marks, ids[: s.negatives])
    for i in range(len(chosen)):
        free[i] = s.negatives
        group = positives.group[chosen[i]]
        for entity in positives.tails[positives.start[group] : positives.start[group + 1]]:
            if _is_marked(marks, entity):
                for j in range(s.negatives):
                    if ids[j] == entity:
                        score[i, j] = NEVER
                        free[i] -= 1
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
    return np.uint64(entity) >> np.uint64(6)  # unsigned: it need not be asked whether a place is negative


@inline
def _bit(entity):
    return np.uint64(entity) & np.uint64(63)


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
