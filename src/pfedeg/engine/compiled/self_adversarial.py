"""The self-adversarial loss of a positive, compiled: scores of negatives turned into weights by a running softmax."""

import numpy as np

from pfedeg.engine.compiled.lanes import compare_one, gather_one
from pfedeg.engine.compiled.negative_sampling import NEVER
from pfedeg.engine.compiled.row_updates import ONE
from pfedeg.engine.lowlevel import vectors
from pfedeg.engine.lowlevel.compile import inline, jit
from pfedeg.engine.lowlevel.vectors import LANES, ZERO, choose, clear, fill, fma, largest, load, magnitude, store

SHARE, PLUS, TOP = 0, LANES, 2 * LANES  # places in the state of a running softmax
ROOM = np.float32(32.0)  # eᴿᴼᴼᴹ times a weight of 1 is far from the largest float32


@jit
def begin(state):
    """Nothing is weighed yet."""
    clear(state)
    state[TOP] = NEVER


@inline
def strike(negatives, end, score):
    """What only fills up the last vector does not count."""
    for j in range(negatives, end):
        score[j] = NEVER


@jit
def weigh(alpha, begin, end, score, state):
    """Turn scores begin … end − 1 of a positive into ∂/∂s of Σ_j w_j softplus(s_j), w = softmax(α · s_·).

    The softmax runs along (Milakov and Gimelshein 2018): w is taken relative to a score that was large so far. When one
    comes that is larger by `ROOM`, all that was summed is scaled down, by the factor that is returned; smaller ones, so
    nearly all, need not wait for each other. Who has weighed all of them divides by Σ w.
    """
    highest = load(score, begin)
    for j in range(begin + LANES, end, LANES):
        highest = choose(load(score, j), highest, load(score, j), highest)
    highest = largest(highest)
    factor = ONE
    if begin == 0:
        state[TOP] = highest
    elif alpha * (highest - state[TOP]) > ROOM:
        factor = fade(alpha, state[TOP], highest)
        vectors.scale(score[:begin], factor)
        state[TOP] = highest
    top = fill(state[TOP])
    share, plus = fill(factor) * load(state, SHARE), fill(factor) * load(state, PLUS)
    for j in range(begin, end, LANES):
        s = load(score, j)
        w = choose(s, fill(NEVER), vectors.exp(fill(alpha) * (s - top)), fill(ZERO))
        softplus, sigmoid = softplus_and_sigmoid(s)
        share += w
        plus = fma(w, softplus, plus)
        store(score, j, w * sigmoid)
    store(state, SHARE, share)
    store(state, PLUS, plus)
    return factor


@jit
def fade(alpha, low, high):
    """By what weights relative to one score are scaled to be relative to a higher one."""
    return largest(vectors.exp(fill(alpha * (low - high))))


@jit
def softplus_and_sigmoid(score):
    """log(1 + eˢ) and its derivative 1 / (1 + e⁻ˢ)."""
    zero, one = fill(ZERO), fill(ONE)
    small = vectors.exp(zero - magnitude(score))
    softplus = choose(zero, score, zero, score) + vectors.log1p(small)
    return softplus, choose(zero, score, small, one) / (one + small)


@jit
def weigh_positive(model, q, tail, scale, g, by_tail, past):
    """softplus(−s) of the positive; its shares of ∂L/∂q and ∂L/∂t are written."""
    softplus, sigmoid = softplus_and_sigmoid(fill(-compare_one(model, q, tail)))
    weight = -scale * largest(sigmoid)
    gather_one(model, q, tail, weight, g, False)
    gather_one(model, tail, q, weight, by_tail, past)
    return largest(softplus)
