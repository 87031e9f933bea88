"""Ranking, compiled: a block of queries at a time against every row, counting the rows above and below the true one."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg import aligned_arrays
from pfedeg.engine.compiled.lanes.operations import QUERIES, line_up, score_all
from pfedeg.engine.lowlevel.compile import jit, kernel, take
from pfedeg.engine.lowlevel.vectors import LANES, ONE, ZERO, choose, fill, load, store
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat

ROWS = 192  # rows whose scores are kept at a time


class Workspace(NamedTuple):
    """The memory of each thread."""

    ids: Ids  # (threads, QUERIES) the queries of a block; the last one is repeated in the last block
    panel: Mat  # (threads, width, QUERIES) their numbers side by side
    score: Mat  # (threads, ROWS, QUERIES)
    truth: Mat  # (threads, QUERIES, width) rows of true answers
    counts: Mat  # (threads, 3, QUERIES) scores of true answers, rows above them, rows below
    passed: NDArray[np.int64]  # (threads, QUERIES) known answers of a query that lie in earlier rows


def make_workspace(threads: int, width: int) -> Workspace:
    """As much as threads need, however many entities there are."""
    return Workspace(
        np.zeros((threads, QUERIES), np.int32),
        aligned_arrays.zeros((threads, width, QUERIES), np.float32),
        aligned_arrays.zeros((threads, ROWS, QUERIES), np.float32),
        aligned_arrays.zeros((threads, QUERIES, width), np.float32),
        aligned_arrays.zeros((threads, 3, QUERIES), np.float32),
        np.zeros((threads, QUERIES), np.int64),
    )


@kernel
def scores(thread, threads, sync, model, table, queries, w, result):
    """Every query against every row of the table: result[block, row, lane], query = QUERIES · block + lane."""
    while True:
        block = take(sync, 1)
        if block >= len(result):
            return
        _choose_queries(queries, QUERIES * block, w.ids[thread])
        line_up(model, queries, w.ids[thread], w.panel[thread])
        score_all(model, table, queries, w.ids[thread], w.panel[thread], result[block])


@kernel
def ranks(thread, threads, sync, model, table, queries, questions, w, truths, result):
    """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true.

    As #equal = candidates − #greater − #smaller, it is 1 + ½ · (candidates + #greater − #smaller): a sum over rows.
    """
    ids, panel, score = w.ids[thread], w.panel[thread], w.score[thread]
    while True:
        first = take(sync, QUERIES)
        if first >= len(queries):
            return
        _choose_queries(queries, first, ids)
        line_up(model, queries, ids, panel)
        _score_truths(model, table, queries, questions, ids, panel, w.truth[thread], score, truths, result)
        w.passed[thread] = 0
        for begin in range(0, len(table), ROWS):
            rows = table[begin : begin + ROWS]
            score_all(model, rows, queries, ids, panel, score)
            _mask_known(questions, ids, begin, len(rows), score, w.passed[thread])
            for number in range(_most_truths(questions, ids)):
                _count(questions, ids, number, score[: len(rows)], w.counts[thread], truths, result)


@jit
def _choose_queries(queries, first, ids):
    for lane in range(QUERIES):
        ids[lane] = min(first + lane, len(queries) - 1)


@jit
def _most_truths(questions, ids):
    """The most true answers that a query of the block has."""
    most = 0
    for i in ids:
        most = max(most, questions.first[i + 1] - questions.first[i])
    return most


@jit
def _score_truths(model, table, queries, questions, ids, panel, rows, score, truths, result):
    """Scores of the true answers, computed as all others are: equal to the last bit."""
    for number in range(_most_truths(questions, ids)):
        for lane in range(QUERIES):
            i = ids[lane]
            row = table[questions.truth[min(questions.first[i] + number, questions.first[i + 1] - 1)]]
            for k in range(0, len(row), LANES):
                store(rows[lane], k, load(row, k))
        score_all(model, rows, queries, ids, panel, score)
        for lane in range(QUERIES):
            i = ids[lane]
            place = questions.first[i] + number
            if place < questions.first[i + 1]:
                truths[place] = score[lane, lane]
                result[place] = 1.0 - 0.5 * (questions.start[i + 1] - questions.start[i])


@jit
def _mask_known(questions, ids, begin, rows, score, passed):
    """Known answers become NaN, which is neither above nor below anything."""
    for lane in range(QUERIES):
        start = questions.start[ids[lane]]
        place, end = start + passed[lane], questions.start[ids[lane] + 1]
        while place < end and questions.known[place] < begin + rows:
            score[questions.known[place] - begin, lane] = np.nan
            place += 1
        passed[lane] = place - start


@jit
def _count(questions, ids, number, score, counts, truths, result):
    """Add what these rows mean for the rank of one true answer of each query."""
    truth, above, below = counts[0], counts[1], counts[2]
    for lane in range(QUERIES):
        i = ids[lane]
        truth[lane] = truths[min(questions.first[i] + number, questions.first[i + 1] - 1)]
    for lane in range(0, QUERIES, LANES):
        t, more, less = load(truth, lane), fill(ZERO), fill(ZERO)
        for e in range(len(score)):
            s = load(score[e], lane)
            more, less = more + choose(s, t, fill(ONE), fill(ZERO)), less + choose(t, s, fill(ONE), fill(ZERO))
        store(above, lane, more)
        store(below, lane, less)
    for lane in range(QUERIES):
        i = ids[lane]
        place = questions.first[i] + number
        if place < questions.first[i + 1] and (lane == 0 or i != ids[lane - 1]):
            result[place] += 0.5 * (len(score) + above[lane] - below[lane])
