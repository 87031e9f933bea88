"""Ranking, compiled: four queries at a time against every row, and the places of the true answers."""

from pfedeg.kernels.jit import jit, kernel, take
from pfedeg.kernels.tiles import compare

BLOCK = 4  # queries that share one walk through the table


@kernel
def scores(thread, threads, sync, model, table, queries, result):
    """Every query against every row of the table."""
    while True:
        first = take(sync, BLOCK)
        if first >= len(queries):
            return
        _score_block(model, queries, first, table, result[first : first + BLOCK])


@kernel
def ranks(thread, threads, sync, model, table, queries, questions, buffer, result):
    """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true."""
    while True:
        first = take(sync, BLOCK)
        if first >= len(queries):
            return
        _score_block(model, queries, first, table, buffer[thread])
        for i in range(first, min(first + BLOCK, len(queries))):
            score = buffer[thread, i - first]
            known = questions.known[questions.start[i] : questions.start[i + 1]]
            for place in range(questions.first[i], questions.first[i + 1]):
                result[place] = _rank(score, score[questions.truth[place]], known)


@jit
def _score_block(model, queries, first, table, score):
    """Scores of up to four queries. The score is symmetric, so a row is compared with queries as with other rows."""
    last = len(queries) - 1
    a, b, c, d = first, min(first + 1, last), min(first + 2, last), min(first + 3, last)
    for e in range(len(table)):
        sa, sb, sc, sd = compare(model, table[e], queries, a, b, c, d)
        score[d - first, e] = sd  # beyond the last query all four are the same, so the order of writing is free
        score[c - first, e] = sc
        score[b - first, e] = sb
        score[0, e] = sa


@jit
def _rank(score, truth, known):
    greater = equal = 0
    for e in range(len(score)):
        greater += score[e] > truth
        equal += score[e] == truth
    for entity in known:
        greater -= score[entity] > truth
        equal -= score[entity] == truth
    return 1.0 + greater + 0.5 * equal
