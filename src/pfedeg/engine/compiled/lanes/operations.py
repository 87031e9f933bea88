"""What a model needs to run compiled: each operation is overloaded for a model or a kind of model.

prepare       what a relation's row r means for a head: r itself, or for RotatE cos θ and sin θ, once per step
compose       forward: q = compose(h, r), r prepared
spread        backward: gradients of h and r from the gradient of q, r prepared
span, part, put_part, no_part    how loops go over a row: by vectors, or by vectors of complex numbers
accumulate, sign, offset         the score: offset + sign · the sum of what is accumulated
add_slope     backward: the gradient of a query or, as scores are symmetric, of a row

`loops` makes of these whatever is the same for all models. A kind of model also implements compare_group and exchange
(shared negatives), line_up and score_all (ranking).

`pfedeg.models` has each equation. Rows are whole vectors, as are the halves of complex ones (`workspace.pad`).
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from numba.extending import overload

MODELS: set[type] = set()  # that have these operations
QUERIES = 32  # that are compared with all rows together


def prepare(model, r, prepared):
    """Write what composing needs of a relation's row r."""


def compose(model, h, r, q):
    """Write the query of (h, r) into q."""


def spread(model, h, r, q, g, by_h, by_r):
    """Write the gradients of h and r, given the gradient g of q."""


def span(model, row):
    """How many numbers loops go over: all of a real row, half of a complex one."""


def part(model, row, k):
    """A vector of numbers from k on, as a tuple; of complex ones: real and imaginary parts."""


def put_part(model, row, k, numbers):
    """Write what `part` reads."""


def no_part(model):
    """A part that is zero."""


def accumulate(model, q, t, sums):
    """The sums, and what these parts of a query and a row add to them."""


def sign(model):
    """The factor of the sum in the score."""


def offset(model):
    """The constant in the score."""


def add_slope(model, weight, q, t, gradient):
    """The gradient and weight · ∂s/∂q, at these parts of a query and a row."""


def exchange_slopes(model, weight, q, t, by_q, by_t):
    """Both gradients with weight · ∂s/∂q and weight · ∂s/∂t added."""


def compare_group(model, query, begin, end, table, ids, j, score):
    """Write the scores of queries begin … end − 1 with rows ids[j] … ids[j + 7] into score[·, j] … score[·, j + 7].

    Meanwhile the rows ids[j + 8] … ids[j + 15] are prefetched.
    """


def exchange(model, query, begin, end, table, ids, weight, by_query, by_row, panel):
    """For queries begin … end − 1 and rows ids[·], add all weight[i, j] · ∂s to ∂/∂q, and write the rows' sums.

    by_query[0] … are the gradients of these queries, by_row[0] … those of the rows.
    """


def line_up(model, queries, ids, panel):
    """Write what `score_all` needs of the queries ids[0] … ids[QUERIES − 1]."""


def score_all(model, table, queries, ids, panel, score):
    """Scores of the queries ids[0] … ids[QUERIES − 1], lined up, with every row of a table: score[row, query]."""


def implement(operation: Callable[..., Any], *models: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function what compiled code runs for `operation` where the model is one of these.

    It is inlined: passing four or five arrays, with their sizes, takes as long as scoring a row.
    """
    MODELS.update(models)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @overload(operation, jit_options={"forceinline": True})
        @wraps(function)
        def choose(*types: Any) -> Callable[..., Any] | None:
            return function if types[0].instance_class in models else None

        return function

    return register
