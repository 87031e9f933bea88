"""What happens to one row of a table, compiled: the pull towards K, FedEC's contrast, and steps of Adam."""

import numpy as np

from pfedeg.engine.compiled.writing import write
from pfedeg.engine.lowlevel.compile import inline, jit
from pfedeg.engine.lowlevel.vectors import (
    LANES,
    WIDE,
    ZERO,
    expect_line,
    fill,
    fill_like,
    fill_wide,
    fma,
    high,
    load,
    load_like,
    load_wide,
    low,
    root,
    store,
    total,
)

ONE = np.float32(1.0)
RATE, UNBIAS, FADE, FADE_ROOT = range(4)  # columns of `rates`, see `scratch.make_rates`


@jit
def adam(s, rates, step, rows, g, soon, past):
    """One step: m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², x ← x − rate · m / (unbias · √v + ε).

    `rows` are x, m and v; `soon` are those that come next, see `_ask`.
    """
    rate, unbias = fill(rates[step, RATE]), fill(rates[step, UNBIAS])
    for k in range(0, len(g), LANES):
        _ask(soon, k)
        write(rows[0], k, _adam(s, rate, unbias, rows, load(g, k), k), past)


@jit
def adam_pulled(s, rates, step, rows, g, past, weight, received):
    """The same with the gradient of β · ‖E − K‖; `weight` is β / ‖E − K‖. Returns the moved row's part of ‖E − K‖²."""
    rate, unbias = fill_wide(rates[step, RATE]), fill_wide(rates[step, UNBIAS])
    square, by = fill(ZERO), fill_wide(weight)
    for k in range(0, len(g), WIDE):
        known = load_wide(received, k)
        x = _adam(s, rate, unbias, rows, fma(by, load_wide(rows[0], k) - known, load_wide(g, k)), k)
        write(rows[0], k, x, past)
        away = x - known
        square = fma(high(away), high(away), fma(low(away), low(away), square))
    return total(square)


@inline
def _adam(s, rate, unbias, rows, g, k):
    """As many numbers as g has: their moments are stored, they are returned."""
    row, first, second = rows
    m = fma(fill_like(np.float32(s.beta1), g), load_like(first, k, g), fill_like(np.float32(1.0 - s.beta1), g) * g)
    v = fma(fill_like(np.float32(s.beta2), g), load_like(second, k, g), fill_like(np.float32(1.0 - s.beta2), g) * g * g)
    store(first, k, m)
    store(second, k, v)
    return load_like(row, k, g) - rate * m / fma(root(v), unbias, fill_like(s.epsilon, g))


@jit
def coast(s, rates, begin, end, rows, soon, past):
    """Steps begin … end − 1 of a row that has no gradient in them: the moments fade, and still move it.

    After n such steps m is β₁ⁿ m and √v is √β₂ⁿ √v. Where β₁ⁿ is below 2⁻³², `s.horizon`, it moves no further.
    """
    row, first, second = rows
    number, epsilon = end - begin, fill(s.epsilon)
    if begin < 0 or number == 0:  # it has no moments yet, or missed nothing
        return
    fade, fade_root = fill(rates[number - 1, FADE]), fill(rates[number - 1, FADE_ROOT])
    for k in range(0, len(row), LANES):
        _ask(soon, k)
        x, m, v = load(row, k), load(first, k), load(second, k)
        length = root(v)
        for n in range(min(number, s.horizon)):
            rate = fill(rates[begin + n, RATE] * rates[n, FADE])
            unbias = fill(rates[begin + n, UNBIAS] * rates[n, FADE_ROOT])
            x = x - rate * m / fma(length, unbias, epsilon)
        write(row, k, x, past)
        store(first, k, fade * m)
        store(second, k, fade_root * fade_root * v)


@inline
def _ask(soon, k):
    """Ask for one line of each of the rows that come next: asked for at once, they would stand in each other's way.

    Where rows lie side by side, the processor guesses, and `soon` is None.
    """
    if soon is not None:  # noqa: SIM102 (numba leaves out the branch by this test alone)
        if k % WIDE == 0:
            expect_line(soon[0], k)
            expect_line(soon[1], k)
            expect_line(soon[2], k)


@jit
def pull(weight, row, received, g):
    """Add the gradient of β · ‖E − K‖; `weight` is β / ‖E − K‖."""
    by = fill(weight)
    for k in range(0, len(row), LANES):
        store(g, k, fma(by, load(row, k) - load(received, k), load(g, k)))


@inline
def refer(s, contrast, row, knowledge, e, x):
    """A row's share of what the next step needs to know of the whole table."""
    if s.pull != 0:
        square = fill(ZERO)
        for k in range(0, len(row), LANES):
            difference = load(row, k) - load(knowledge.received[e], k)
            square = fma(difference, difference, square)
        x.square[e] = total(square)
    if contrast is not None:  # noqa: SIM102 (numba leaves out the branch by this test alone)
        if contrast.pooled:
            _, s_g = _cosine(row, knowledge.received[e])
            _, s_l = _cosine(row, knowledge.previous[e])
            x.lean[e] = s_l - s_g


@jit
def _dot(a, b):
    result = fill(ZERO)
    for k in range(0, len(a), LANES):
        result = fma(load(a, k), load(b, k), result)
    return total(result)


@jit
def _cosine(a, b):
    """1 / (|a| |b|) and the cosine; both 0 where a row is zero."""
    product = np.sqrt(_dot(a, a)) * np.sqrt(_dot(b, b))
    inverse = ONE / product if product > ZERO else ZERO
    return inverse, _dot(a, b) * inverse


@jit
def oppose(contrast, pooled_difference, entities, row, received, previous, g):
    """Add FedEC's gradient: μ / (n τ) · σ((s_l − s_g) / τ) · (∂s_l − ∂s_g)."""
    inverse_g, s_g = _cosine(row, received)
    inverse_l, s_l = _cosine(row, previous)
    difference = pooled_difference if contrast.pooled else np.float64(s_l - s_g)
    slope = 1.0 / (1.0 + np.exp(-difference / contrast.temperature))
    weight = fill(np.float32(contrast.weight / (entities * contrast.temperature) * slope))
    square = _dot(row, row)
    shrink_g = s_g / square if inverse_g > ZERO else ZERO
    shrink_l = s_l / square if inverse_l > ZERO else ZERO
    for k in range(0, len(row), LANES):
        by_l = load(previous, k) * fill(inverse_l) - load(row, k) * fill(shrink_l)
        by_g = load(received, k) * fill(inverse_g) - load(row, k) * fill(shrink_g)
        store(g, k, fma(weight, by_l - by_g, load(g, k)))
