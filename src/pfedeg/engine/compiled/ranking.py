"""Ranking, compiled: a block of queries at a time against every row, and the places of the true answers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.compiled.lanes.operations import QUERIES, line_up, score_all
from pfedeg.engine.lowlevel import aligned_arrays
from pfedeg.engine.lowlevel.compile import jit, kernel, take
from pfedeg.engine.lowlevel.vectors import LANES, choose, fill, load, store
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Mat

BLOCKS = 2  # blocks of queries that meet some rows before the next rows come
ROWS = 192  # rows that stay close meanwhile


class Room(NamedTuple):
    """Where each thread works."""

    ids: Ids  # (threads, BLOCKS, QUERIES) which queries; the last one fills up the last block
    panel: Mat  # (threads, BLOCKS, width, QUERIES) their numbers side by side
    score: Mat  # (threads, ROWS, QUERIES)
    truth: Mat  # (threads, QUERIES, width) rows of true answers
    lane: Mat  # (threads, 3, QUERIES) scores of true answers, how many are above, how many below
    cursor: NDArray[np.int64]  # (threads, BLOCKS, QUERIES) how many known answers of a query have gone by


def make_room(threads: int, width: int) -> Room:
    """As much as threads need, however many entities there are."""
    return Room(
        np.zeros((threads, BLOCKS, QUERIES), np.int32),
        aligned_arrays.zeros((threads, BLOCKS, width, QUERIES), np.float32),
        aligned_arrays.zeros((threads, ROWS, QUERIES), np.float32),
        aligned_arrays.zeros((threads, QUERIES, width), np.float32),
        aligned_arrays.zeros((threads, 3, QUERIES), np.float32),
        np.zeros((threads, BLOCKS, QUERIES), np.int64),
    )


@kernel
def scores(thread, threads, sync, model, table, queries, room, result):
    """Every query against every row of the table: result[block, row, lane], query = QUERIES · block + lane."""
    ids, panel = room.ids[thread, 0], room.panel[thread, 0]
    while True:
        block = take(sync, 1)
        if block >= len(result):
            return
        _choose(queries, QUERIES * block, ids)
        line_up(model, queries, ids, panel)
        score_all(model, table, queries, ids, panel, result[block])


@kernel
def ranks(thread, threads, sync, model, table, queries, questions, blocks, room, truths, result):
    """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true.

    As #equal = candidates − #greater − #smaller, it is 1 + ½ · (candidates + #greater − #smaller): a sum over rows.
    """
    score = room.score[thread]
    while True:
        first = take(sync, blocks * QUERIES)
        if first >= len(queries):
            return
        here = min(blocks, -(-(len(queries) - first) // QUERIES))
        for block in range(here):
            ids, panel = room.ids[thread, block], room.panel[thread, block]
            _choose(queries, first + QUERIES * block, ids)
            line_up(model, queries, ids, panel)
            _begin(model, table, queries, questions, ids, panel, room.truth[thread], score, truths, result)
            room.cursor[thread, block] = 0
        for begin in range(0, len(table), ROWS):
            rows = table[begin : begin + ROWS]
            for block in range(here):
                ids = room.ids[thread, block]
                score_all(model, rows, queries, ids, room.panel[thread, block], score)
                _strike_out(questions, ids, begin, len(rows), score, room.cursor[thread, block])
                for turn in range(_turns(questions, ids)):
                    _count(questions, ids, turn, score[: len(rows)], room.lane[thread], truths, result)


@jit
def _choose(queries, first, ids):
    for lane in range(QUERIES):
        ids[lane] = min(first + lane, len(queries) - 1)


@jit
def _turns(questions, ids):
    """The most true answers that a query has: each one's first comes first, then each one's second."""
    most = 0
    for i in ids:
        most = max(most, questions.first[i + 1] - questions.first[i])
    return most


@jit
def _begin(model, table, queries, questions, ids, panel, rows, score, truths, result):
    """Scores of the true answers, to the last bit as they will come with all others."""
    for turn in range(_turns(questions, ids)):
        for lane in range(QUERIES):
            i = ids[lane]
            row = table[questions.truth[min(questions.first[i] + turn, questions.first[i + 1] - 1)]]
            for k in range(0, len(row), LANES):
                store(rows[lane], k, load(row, k))
        score_all(model, rows, queries, ids, panel, score)
        for lane in range(QUERIES):
            i = ids[lane]
            place = questions.first[i] + turn
            if place < questions.first[i + 1]:
                truths[place] = score[lane, lane]
                result[place] = 1.0 - 0.5 * (questions.start[i + 1] - questions.start[i])


@jit
def _strike_out(questions, ids, begin, rows, score, cursor):
    """What is known to be true is neither above nor below anything."""
    for lane in range(QUERIES):
        place, end = questions.start[ids[lane]] + cursor[lane], questions.start[ids[lane] + 1]
        while place < end and questions.known[place] < begin + rows:
            score[questions.known[place] - begin, lane] = np.nan
            place += 1
        cursor[lane] = place - questions.start[ids[lane]]


@jit
def _count(questions, ids, turn, score, lanes, truths, result):
    """Add what these rows mean for the ranks of one true answer of each query."""
    truth, above, below = lanes[0], lanes[1], lanes[2]
    for lane in range(QUERIES):
        i = ids[lane]
        truth[lane] = truths[min(questions.first[i] + turn, questions.first[i + 1] - 1)]
    _compare(score, truth, above, below)
    for lane in range(QUERIES):
        i = ids[lane]
        place = questions.first[i] + turn
        if place < questions.first[i + 1] and (lane == 0 or i != ids[lane - 1]):
            result[place] += 0.5 * (len(score) + above[lane] - below[lane])


@jit
def _compare(score, truth, above, below):
    """How many scores in each lane are greater than the true answer's, and how many are smaller."""
    zero, one = fill(np.float32(0.0)), fill(np.float32(1.0))
    for lane in range(0, QUERIES, LANES):
        t, a, b = load(truth, lane), zero, zero
        for e in range(len(score)):
            s = load(score[e], lane)
            a, b = a + choose(s, t, one, zero), b + choose(t, s, one, zero)
        store(above, lane, a)
        store(below, lane, b)
