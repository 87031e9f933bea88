"""Ranking, compiled: eight queries at a time against every row, and the places of the true answers."""

from pfedeg.kernels.jit import jit, kernel, take
from pfedeg.kernels.tiles import compare
from pfedeg.kernels.vectors import LANES, store


@kernel
def scores(thread, threads, sync, model, table, queries, ids, result):
    """Every query against every row of the table: result[block, row, lane], query = LANES · block + lane."""
    while True:
        block = take(sync, 1)
        if block >= len(result):
            return
        _score_block(model, queries, LANES * block, table, ids[thread], result[block])


@kernel
def ranks(thread, threads, sync, model, table, queries, questions, ids, buffer, result):
    """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true."""
    score = buffer[thread]
    while True:
        first = take(sync, LANES)
        if first >= len(queries):
            return
        _score_block(model, queries, first, table, ids[thread], score)
        for i in range(first, min(first + LANES, len(queries))):
            known = questions.known[questions.start[i] : questions.start[i + 1]]
            for place in range(questions.first[i], questions.first[i + 1]):
                result[place] = _rank(score, i - first, questions.truth[place], known)


@jit
def _score_block(model, queries, first, table, ids, score):
    """Scores of up to eight queries. The score is symmetric, so a row is compared with queries as with other rows."""
    for lane in range(LANES):
        ids[lane] = min(first + lane, len(queries) - 1)
    for e in range(len(table)):
        store(score[e], 0, compare(model, table[e], queries, ids, 0))


@jit
def _rank(score, lane, answer, known):
    truth = score[answer, lane]
    greater = equal = 0
    for e in range(len(score)):
        greater += score[e, lane] > truth
        equal += score[e, lane] == truth
    for entity in known:
        greater -= score[entity, lane] > truth
        equal -= score[entity, lane] == truth
    return 1.0 + greater + 0.5 * equal
