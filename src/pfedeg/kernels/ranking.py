"""Ranking, compiled: sixteen queries at a time against every row, and the places of the true answers."""

import numpy as np

from pfedeg.kernels.jit import jit, kernel, take
from pfedeg.kernels.tiles import QUERIES, score_all
from pfedeg.kernels.vectors import LANES, choose, fill, load, store

EXACT = 2**23  # so far float32 counts


@kernel
def scores(thread, threads, sync, model, table, queries, ids, panels, result):
    """Every query against every row of the table: result[block, row, lane], query = QUERIES · block + lane."""
    while True:
        block = take(sync, 1)
        if block >= len(result):
            return
        _score_block(model, queries, QUERIES * block, table, ids[thread], panels[thread], result[block])


@kernel
def ranks(thread, threads, sync, model, table, queries, questions, ids, panels, buffer, truths, counts, result):
    """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true."""
    score, truth, greater, equal = buffer[thread], truths[thread], counts[thread, 0], counts[thread, 1]
    while True:
        first = take(sync, QUERIES)
        if first >= len(queries):
            return
        _score_block(model, queries, first, table, ids[thread], panels[thread], score)
        turns, number = 0, min(QUERIES, len(queries) - first)
        for i in range(first, first + number):
            turns = max(turns, questions.first[i + 1] - questions.first[i])
        for turn in range(turns):  # the first true answer of each query, then the second, …
            for lane in range(number):
                place = min(questions.first[first + lane] + turn, questions.first[first + lane + 1] - 1)
                truth[lane] = score[questions.truth[place], lane]
            for half in range(0, QUERIES, LANES):
                _count(score, half, truth[half:], greater[half:], equal[half:])
            for lane in range(number):
                i = first + lane
                place = questions.first[i] + turn
                if place < questions.first[i + 1]:
                    known = questions.known[questions.start[i] : questions.start[i + 1]]
                    result[place] = _rank(score, lane, truth[lane], known, greater[lane], equal[lane])


@jit
def _score_block(model, queries, first, table, ids, panel, score):
    """Scores of up to sixteen queries with every row."""
    for lane in range(QUERIES):
        ids[lane] = min(first + lane, len(queries) - 1)
    score_all(model, table, queries, ids, panel, score)


@jit
def _count(score, half, truth, greater, equal):
    """How many scores in each of eight lanes are greater than the true answer's, and how many equal it."""
    greater[:LANES], equal[:LANES] = 0, 0
    t, zero, one = load(truth, 0), fill(np.float32(0.0)), fill(np.float32(1.0))
    for first in range(0, len(score), EXACT):
        above = below = zero
        end = min(first + EXACT, len(score))
        for e in range(first, end):
            s = load(score[e], half)
            above += choose(s, t, one, zero)
            below += choose(t, s, one, zero)
        store(truth, 0, above)
        for lane in range(LANES):
            greater[lane] += truth[lane]
            equal[lane] += end - first - truth[lane]
        store(truth, 0, below)
        for lane in range(LANES):
            equal[lane] -= truth[lane]
        store(truth, 0, t)


@jit
def _rank(score, lane, truth, known, greater, equal):
    for entity in known:
        greater -= score[entity, lane] > truth
        equal -= score[entity, lane] == truth
    return 1.0 + greater + 0.5 * equal
