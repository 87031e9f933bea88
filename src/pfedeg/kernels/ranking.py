"""Ranking, compiled: every query against every row, and the place of the true answers."""

from pfedeg.kernels.jit import jit, take
from pfedeg.kernels.tiles import compare


@jit
def scores(thread, threads, sync, model, table, queries, result):
    """Every query against every row of the table."""
    while True:
        i = take(sync, 1)
        if i >= len(queries):
            return
        _score_all(model, queries[i], table, result[i])


@jit
def _score_all(model, q, table, score):
    n = len(table)
    for e in range(0, n - 3, 4):
        a, b, c, d = compare(model, q, table, e, e + 1, e + 2, e + 3)
        score[e], score[e + 1], score[e + 2], score[e + 3] = a, b, c, d
    for e in range(n - n % 4, n):
        score[e] = compare(model, q, table, e, e, e, e)[0]


@jit
def ranks(thread, threads, sync, model, table, queries, questions, buffer, result):
    """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true."""
    score = buffer[thread, : len(table)]
    while True:
        i = take(sync, 1)
        if i >= len(queries):
            return
        _score_all(model, queries[i], table, score)
        for place in range(questions.first[i], questions.first[i + 1]):
            truth = score[questions.truth[place]]
            greater = equal = 0
            for e in range(len(table)):
                greater += score[e] > truth
                equal += score[e] == truth
            for k in range(questions.start[i], questions.start[i + 1]):
                greater -= score[questions.known[k]] > truth
                equal -= score[questions.known[k]] == truth
            result[place] = 1.0 + greater + 0.5 * equal
