"""What compiled kernels are made of: each model's operations on vectors (`operations`), written for it or its kind."""

from pfedeg.engine.compiled.lanes import distances, products, queries  # to import them is to register them
from pfedeg.engine.compiled.lanes.operations import (
    QUERIES,
    compare,
    compare_group,
    compare_one,
    compose,
    exchange,
    gather,
    gather_eight,
    gather_one,
    line_up,
    prepare,
    score_all,
    spread,
)

__all__ = [
    "QUERIES",
    "compare",
    "compare_group",
    "compare_one",
    "compose",
    "distances",
    "exchange",
    "gather",
    "gather_eight",
    "gather_one",
    "line_up",
    "prepare",
    "products",
    "queries",
    "score_all",
    "spread",
]
