"""The self-adversarial loss of a positive and its negatives, compiled."""

import numpy as np

from pfedeg.engine.compiled.lanes.loops import compare_one, gather_one
from pfedeg.engine.compiled.negative_sampling import EXCLUDED
from pfedeg.engine.lowlevel.compile import jit
from pfedeg.engine.lowlevel.vectors import (
    LANES,
    ONE,
    ZERO,
    choose,
    clear,
    exp,
    fill,
    fma,
    largest,
    load,
    log1p,
    magnitude,
    scale,
    store,
    total,
)

SUM, LOSS, TOP = 0, LANES, 2 * LANES  # places in the state of a running softmax: Σ w, Σ w · softplus(s), and s of w = 1
LIMIT = np.float32(32.0)  # e^LIMIT times a weight of 1 is far from the largest float32


@jit
def weigh(alpha, begin, end, score, state):
    """Turn scores begin … end − 1 of a positive into gradients of Σ_j w_j softplus(s_j), w = softmax(α · s_·).

    The softmax is a running one (Milakov and Gimelshein 2018): weights are relative to the largest score of the first
    block. When a later score is larger by `LIMIT`, all sums and gradients so far are scaled by the factor that is
    returned. When all blocks are done, `finish` divides by Σ w.
    """
    top = load(score, begin)
    for j in range(begin + LANES, end, LANES):
        top = choose(load(score, j), top, load(score, j), top)
    highest, decay = largest(top), ONE
    if begin == 0:
        clear(state)
        state[TOP] = highest
    elif alpha * (highest - state[TOP]) > LIMIT:
        decay = largest(exp(fill(alpha * (state[TOP] - highest))))
        scale(score[:begin], decay)
        state[TOP] = highest
    sum_, loss, top = fill(decay) * load(state, SUM), fill(decay) * load(state, LOSS), fill(state[TOP])
    for j in range(begin, end, LANES):
        x = load(score, j)
        weight = choose(x, fill(EXCLUDED), exp(fill(alpha) * (x - top)), fill(ZERO))
        softplus, sigmoid = softplus_and_sigmoid(x)
        sum_ = sum_ + weight
        loss = fma(weight, softplus, loss)
        store(score, j, weight * sigmoid)
    store(state, SUM, sum_)
    store(state, LOSS, loss)
    return decay


@jit
def finish(count, factor, weight, state):
    """Scale the gradients by scores to those of factor · loss; returns the loss, and the scale."""
    if count == 0:
        clear(weight)
        return ZERO, ZERO
    sum_ = total(load(state, SUM))
    scale(weight, factor / sum_)
    return total(load(state, LOSS)) / sum_, factor / sum_


@jit
def weigh_positive(model, q, tail, factor, by_query, by_tail):
    """softplus(−s) of the positive; its query's gradient, times the factor, is added, its tail's is written."""
    softplus, sigmoid = softplus_and_sigmoid(fill(-compare_one(model, q, tail)))
    weight = -factor * largest(sigmoid)
    gather_one(model, q, tail, weight, by_query)
    clear(by_tail)
    gather_one(model, tail, q, weight, by_tail)
    return largest(softplus)


@jit
def softplus_and_sigmoid(score):
    """log(1 + eˢ) and its derivative 1 / (1 + e⁻ˢ)."""
    zero, one = fill(ZERO), fill(ONE)
    small = exp(zero - magnitude(score))
    softplus = choose(zero, score, zero, score) + log1p(small)
    return softplus, choose(zero, score, small, one) / (one + small)
