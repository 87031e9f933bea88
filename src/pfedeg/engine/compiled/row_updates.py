"""What happens to one row of a table, compiled: steps of Adam, the pull towards K, and FedEC's contrast."""

import numpy as np

from pfedeg.engine.lowlevel.compile import inline, jit
from pfedeg.engine.lowlevel.vectors import LANES, ONE, ZERO, fill, fma, load, root, store, total

RATE, UNBIAS, DECAY, DECAY_ROOT = range(4)  # columns of `rates`, see `workspace.make_rates`


@jit
def adam(s, rates, step, rows, g):
    """One step of Adam; `rows` are x, m and v."""
    rate, unbias = fill(rates[step, RATE]), fill(rates[step, UNBIAS])
    for k in range(0, len(g), LANES):
        store(rows[0], k, _moved(s, rate, unbias, rows, load(g, k), k))


@jit
def adam_pulled(s, rates, step, rows, g, weight, received):
    """One step of Adam on g + weight · (x − K), in one visit of the row; the moved row's part of ‖E − K‖²."""
    rate, unbias, pull, square = fill(rates[step, RATE]), fill(rates[step, UNBIAS]), fill(weight), fill(ZERO)
    for k in range(0, len(g), LANES):
        known = load(received, k)
        x = _moved(s, rate, unbias, rows, fma(pull, load(rows[0], k) - known, load(g, k)), k)
        store(rows[0], k, x)
        square = fma(x - known, x - known, square)
    return total(square)


@inline
def _moved(s, rate, unbias, rows, g, k):
    """M ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g²; returns x − rate · m / (unbias · √v + ε)."""
    row, first, second = rows
    m = fma(fill(np.float32(s.beta1)), load(first, k), fill(np.float32(1.0 - s.beta1)) * g)
    v = fma(fill(np.float32(s.beta2)), load(second, k), fill(np.float32(1.0 - s.beta2)) * g * g)
    store(first, k, m)
    store(second, k, v)
    return load(row, k) - rate * m / fma(root(v), unbias, fill(s.epsilon))


@jit
def catch_up(s, rates, begin, end, rows):
    """Steps begin … end − 1 of a row that has no gradient in them: the moments decay, and still move it.

    After n such steps m is β₁ⁿ m and √v is √β₂ⁿ √v. Where β₁ⁿ is below 2⁻³², `s.horizon`, it moves no further.
    """
    row, first, second = rows
    number, epsilon = end - begin, fill(s.epsilon)
    if begin < 0 or number == 0:  # it has no moments yet, or missed nothing
        return
    decay, decay_root = fill(rates[number - 1, DECAY]), fill(rates[number - 1, DECAY_ROOT])
    for k in range(0, len(row), LANES):
        x, m, v = load(row, k), load(first, k), load(second, k)
        length = root(v)
        for n in range(min(number, s.horizon)):
            rate = fill(rates[begin + n, RATE] * rates[n, DECAY])
            unbias = fill(rates[begin + n, UNBIAS] * rates[n, DECAY_ROOT])
            x = x - rate * m / fma(length, unbias, epsilon)
        store(row, k, x)
        store(first, k, decay * m)
        store(second, k, decay_root * decay_root * v)


@jit
def add_pull_gradient(weight, row, received, g):
    """Add the gradient of β · ‖E − K‖; `weight` is β / ‖E − K‖."""
    by = fill(weight)
    for k in range(0, len(row), LANES):
        store(g, k, fma(by, load(row, k) - load(received, k), load(g, k)))


@jit
def add_contrast_gradient(s, pooled_difference, entities, row, received, previous, g):
    """Add FedEC's gradient: μ / (n τ) · σ((s_l − s_g) / τ) · (∂s_l − ∂s_g)."""
    inverse_g, s_g = _cosine(row, received)
    inverse_l, s_l = _cosine(row, previous)
    difference = pooled_difference if s.pooled else np.float64(s_l - s_g)
    slope = 1.0 / (1.0 + np.exp(-difference / s.temperature))
    weight = fill(np.float32(s.contrast / (entities * s.temperature) * slope))
    square = _dot(row, row)
    shrink_g = s_g / square if inverse_g > ZERO else ZERO
    shrink_l = s_l / square if inverse_l > ZERO else ZERO
    for k in range(0, len(row), LANES):
        by_l = load(previous, k) * fill(inverse_l) - load(row, k) * fill(shrink_l)
        by_g = load(received, k) * fill(inverse_g) - load(row, k) * fill(shrink_g)
        store(g, k, fma(weight, by_l - by_g, load(g, k)))


@inline
def measure(s, row, knowledge, e, rows):
    """A row's part of the sums over the whole table that the next step needs."""
    if s.pull != 0:
        square = fill(ZERO)
        for k in range(0, len(row), LANES):
            difference = load(row, k) - load(knowledge.received[e], k)
            square = fma(difference, difference, square)
        rows.square[e] = total(square)
    if s.contrast != 0 and s.pooled:
        _, s_g = _cosine(row, knowledge.received[e])
        _, s_l = _cosine(row, knowledge.previous[e])
        rows.difference[e] = s_l - s_g


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
