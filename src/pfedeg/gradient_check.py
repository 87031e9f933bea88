"""Checks of a model, an objective or an optimiser of your own: gradients against finite differences, and bounds.

Each raises InputError with what differs. `check_model(MODEL(5))`, `check_objective(Objective())`,
`check_optimizer(Optimizer())`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.models.base import Model, Tables
from pfedeg.objectives.base import Objective
from pfedeg.optimizers.base import Optimizer

STEP, TOLERANCE = 1e-6, 1e-5
Numbers = NDArray[Any]


def check_model(model: Model, seed: int = 0) -> None:
    """Check the widths, all gradients, and that queries for heads and for tails give the same score."""
    rng = np.random.default_rng(seed)
    entity, relation = model.entity_width, model.relation_width
    h, r, t = (rng.standard_normal(width) for width in (entity, relation, entity))
    q = model.compose(h, r)
    by_q, by_t = model.score_backward(q, t)
    _compare("score_backward, by the query", by_q, _slope(lambda x: model.score(x, t), q))
    _compare("score_backward, by the tail", by_t, _slope(lambda x: model.score(q, x), t))
    by_h, by_r = model.compose_backward(h, r, q, by_q)
    _compare("compose_backward, by the head", by_h, _slope(lambda x: model.score(model.compose(x, r), t), h))
    _compare("compose_backward, by the relation", by_r, _slope(lambda x: model.score(model.compose(h, x), t), r))
    _compare("score of compose_inverse", model.score(model.compose_inverse(t, r), h), model.score(q, t))
    rows = rng.standard_normal((3, 4, entity))  # many candidates at once
    _compare("score of many tails", model.score(q, rows)[2, 1], model.score(q, rows[2, 1]))


def check_objective(objective: Objective, constant_weights: bool = False, seed: int = 0) -> None:
    """Check both gradients of the summed losses, and that masked negatives have none.

    `constant_weights`: the loss weighs negatives by their scores, but gradients hold the weights constant, as in
    self-adversarial sampling; finite differences then cannot check the gradient by the negatives.
    """
    rng = np.random.default_rng(seed)
    positive, negative = rng.standard_normal(3), rng.standard_normal((3, 5))
    mask = np.ones((3, 5), np.bool_)
    mask[0, 1:3] = mask[2] = False
    losses, by_positive, by_negative = objective.loss(positive, negative, mask)
    _compare("losses of masked scores", objective.loss(positive, np.where(mask, negative, 99.0), mask)[0], losses)
    _compare("gradient by the positives", by_positive, _slope(lambda x: objective.loss(x, negative, mask)[0], positive))
    if not constant_weights:
        slope = _slope(lambda x: objective.loss(positive, x.reshape(3, 5), mask)[0], negative.ravel())
        _compare("gradient by the negatives", by_negative, slope.reshape(3, 5))
    if by_negative[~mask].any():
        raise InputError("gradient by the negatives: not 0 outside of the mask")
    if np.isnan(by_negative).any() or by_negative.shape != negative.shape:
        raise InputError(f"gradient by the negatives: NaN, or of shape {by_negative.shape}, not {negative.shape}")


def check_optimizer(optimizer: Optimizer, steps: int = 20, seed: int = 0) -> None:
    """Check that a step moves tables against the gradient, in place, and never further than `reach`."""
    rng = np.random.default_rng(seed)
    tables = Tables(rng.standard_normal((4, 3)).astype(np.float32), rng.standard_normal((2, 3)).astype(np.float32))
    before, state = tables.copy(), optimizer.init(tables)
    for number in range(1, steps + 1):
        gradient = Tables(*(np.abs(rng.standard_normal(table.shape)).astype(np.float32) for table in tables))
        optimizer.step(tables, state, gradient)
        for name, table in tables._asdict().items():
            moved = getattr(before, name) - table
            if not (moved > 0).all():
                raise InputError(f"step {number}: positive gradients did not decrease the table {name!r}")
            if np.abs(moved).max() > optimizer.reach(number) * (1 + TOLERANCE):
                raise InputError(f"step {number}: table {name!r} moved by {np.abs(moved).max()}, further than `reach`")


def _slope(function: Callable[[Numbers], Any], x: Numbers) -> Numbers:
    """The gradient of a function (or of the sum of its results) by central differences."""
    steps = STEP * np.eye(len(x))
    return np.array([np.sum(function(x + step)) - np.sum(function(x - step)) for step in steps]) / (2 * STEP)


def _compare(what: str, found: Any, expected: Any) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise InputError(f"{what}: of shape {found.shape}, not {expected.shape}")
    if not np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE):
        raise InputError(f"{what}: {found}, but finite differences give {expected}")
