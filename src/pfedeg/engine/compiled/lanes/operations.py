"""What a model needs to run compiled: each operation is overloaded for a model or a kind of model.

`loops` makes of these whatever is the same for all models. A kind of model also implements compare_group and exchange
(shared negatives), line_up and score_all (ranking).

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
    """Write what composing needs of a relation's row r: r itself, or for RotatE cos θ and sin θ, once per step."""


def compose(model, h, r, q):
    """Forward: write the query of (h, r), r prepared, into q."""


def spread(model, h, r, q, g, by_h, by_r):
    """Backward: write the gradients of h and r, given the gradient g of q."""


def start(model):
    """The number in every lane from which a score, the sum of all lanes, is accumulated."""


def accumulate(model, q, t, sums):
    """The sums, and what these parts of a query and a row add to them."""


def add_slope(model, weight, q, t, gradient):
    """The gradient and weight · ∂s/∂q, at these parts of a query and a row; or of a row, as scores are symmetric."""


def compare_group(model, query, table, ids, j, score):
    """Write the scores of all queries with rows ids[j] … ids[j + 7] into score[·, j] …, and prefetch the next eight."""


def line_up(model, queries, ids, panel):
    """Write what `score_all` needs of the queries ids[0] … ids[QUERIES − 1]."""


def score_all(model, table, queries, ids, panel, score):
    """Scores of the queries ids[0] … ids[QUERIES − 1], lined up, with every row of a table: score[row, query]."""


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
