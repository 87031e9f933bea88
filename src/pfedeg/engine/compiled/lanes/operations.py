"""The models' equations as tiles of vector arithmetic, one overload per model: what compiled kernels are made of.

prepare      what a relation's row r means for a head: r itself, or for RotatE cos θ and sin θ, once per step
compose      q = compose(h, r), r prepared                        (models.py has each equation)
spread       gradients of h and r from the gradient of q, r prepared
compare      scores of one query with eight rows; compare_group, of many queries; compare_one, with one row
gather       gradient of a row by its queries: Σ_k c_k · ∂s/∂t (q_k, t);
             gather_eight, of a query by eight rows; gather_one, of one by one
line_up      a block of queries, as score_all needs them
score_all    scores of a block of queries with all rows
exchange     gradients of some queries by the same rows, and of the rows by the queries

Rows are whole wide vectors, as are the halves of complex ones (`scratch.widen` sees to it).
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from numba.extending import overload

MODELS: set[type] = set()  # that have lanes
QUERIES = 32  # a block: queries that are compared with all rows together


def prepare(model, r, prepared):
    """Write what composing needs of a relation's row."""


def compose(model, h, r, q, past):
    """Write the query of (h, r) into q; see `writing` for past."""


def spread(model, h, r, q, g, by_h, by_r, past):
    """Write the gradients of h and r, given the gradient g of q."""


def compare(model, q, table, ids, j):
    """Scores of q with the rows ids[j] … ids[j + 7] of a table, as a vector."""


def compare_group(model, query, begin, end, table, ids, j, score):
    """Write the scores of queries begin … end − 1 with these rows into score[·, j] … score[·, j + 7].

    Meanwhile the rows ids[j + 8] … ids[j + 15] are asked for.
    """


def compare_one(model, q, row):
    """The score of one query with one row."""


def gather(model, q, table, ids, weights, factor, place, lists, entity, g):
    """Write Σ_j weights[j] · factor[ids[j]] · ∂s/∂q (q, table[ids[j]]) into g.

    j is every second place from place[list, entity] to before place[list, entity + 1], of lists[0] … lists[1] − 1. The
    score is symmetric, s(q, t) = s(t, q), so that this is also the gradient of a row t from its queries.
    """


def gather_eight(model, q, table, ids, weights, j, soon, g):
    """Add Σ weights[j] · ∂s/∂q (q, table[ids[j]]), j … j + 7, to g, as they are close; ask for rows soon … soon + 7."""


def gather_one(model, q, row, weight, g, past):
    """Write the weight times ∂s/∂q (q, row) into g; see `writing` for past."""


def exchange(model, query, begin, end, table, ids, weight, by_query, by_row, panel, past):
    """For queries begin … end − 1 and rows ids[·], add all shares weight[i, j] · ∂s to ∂/∂q, and write the rows' sums.

    by_query[0] … are the gradients of these queries, by_row[0] … those of the rows.
    """


def line_up(model, queries, ids, panel):
    """Write what `score_all` needs of the queries ids[0] … ids[QUERIES − 1]."""


def score_all(model, table, queries, ids, panel, score):
    """Scores of the queries ids[0] … ids[QUERIES − 1], lined up, with every row of a table: score[row, query]."""


def implement(operation: Callable[..., Any], *models: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function what compiled code runs for `operation` where the model is one of these.

    It is put into its callers: to hand over four or five arrays, with their sizes, takes as long as to score a row.
    """
    MODELS.update(models)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @overload(operation, jit_options={"forceinline": True})
        @wraps(function)
        def choose(*types: Any) -> Callable[..., Any] | None:
            return function if types[0].instance_class in models else None

        return function

    return register
