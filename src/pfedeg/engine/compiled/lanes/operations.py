"""What a model needs to run compiled: each operation is overloaded for a model or a kind of model.

prepare       what a relation's row r means for a head: r itself, or for RotatE cos θ and sin θ, once per step
compose       forward: q = compose(h, r), r prepared
spread        backward: gradients of h and r from the gradient of q, r prepared
start, accumulate    the score: the sum of all lanes of what is accumulated
add_slope     backward: the gradient of a query or, as scores are symmetric, of a row

`loops` makes of these whatever is the same for all models. A kind of model also implements line_up and score_all
(many queries with many rows) and exchange (the gradients of shared negatives).

`pfedeg.models` has each equation. Both halves of a row are whole vectors (`workspace.pad`): loops go over pairs of a
vector of each half, which are real and imaginary parts in complex rows.
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


def start(model):
    """The number in every lane from which a score is accumulated."""


def accumulate(model, q, t, sums):
    """The sums, and what these parts of a query and a row add to them."""


def add_slope(model, weight, q, t, gradient):
    """The gradient and weight · ∂s/∂q, at these parts of a query and a row."""


def line_up(model, queries, ids, begin, panel):
    """Write what `score_all` needs of the queries ids[begin] … ids[begin + QUERIES − 1]."""


def score_all(model, table, queries, ids, begin, panel, score):
    """Write the scores of these queries, lined up, with every row of a table into score[row, begin] and following."""


def exchange(model, query, table, ids, weight, by_query, by_row, panel):
    """For all queries and the rows ids[·], add all weight[i, j] · ∂s to ∂/∂q, and write the rows' sums."""


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
