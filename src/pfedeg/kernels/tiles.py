"""The models' equations as vectorised loops over rows, one overload per model: what compiled kernels are made of.

prepare      what a relation's row r means for a head: r itself, or for RotatE cos θ and sin θ, once per step
compose      q = compose(h, r), r prepared                        (models.py has each equation)
spread       gradients of h and r from the gradient of q, r prepared
compare      scores of one query with four rows at a time
gather       gradient of a query, four rows at a time: Σ_k c_k · ∂s/∂q (q, row_k); also that of a row by its queries
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numba.extending import overload

from pfedeg.models import ComplEx, DistMult, RotatE, TransE

ZERO = np.float32(0.0)
TINY = np.float32(1e-37)


def prepare(model, r, prepared):
    """Write what composing needs of a relation's row."""


def compose(model, h, r, q):
    """Write the query of (h, r) into q."""


def spread(model, h, r, q, g, by_h, by_r):
    """Write the gradients of h and r, given the gradient g of q."""


def compare(model, q, table, a, b, c, d):
    """Scores of q with the rows a, b, c, d of a table."""


def gather(model, q, table, ids, weights, g):
    """Add Σ_k weights[k] · ∂s/∂q (q, table[ids[k]]) to g, for four k.

    The score is symmetric, s(q, t) = s(t, q), so this also gives the gradient of a row t from its queries.
    """


def implement(operation: Callable[..., Any], *models: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function what compiled code runs for `operation` where the model is one of these."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @overload(operation)
        @wraps(function)
        def choose(*types: Any) -> Callable[..., Any] | None:
            return function if types[0].instance_class in models else None

        return function

    return register


@implement(prepare, TransE, ComplEx, DistMult)
def _prepare_itself(model, r, prepared):
    for k in range(len(r)):
        prepared[k] = r[k]


@implement(prepare, RotatE)
def _prepare_rotation(model, r, prepared):
    m = len(r)
    phase = np.float32(np.pi * model.dim / (model.gamma + 2))
    for k in range(m):
        prepared[k], prepared[m + k] = np.cos(r[k] * phase), np.sin(r[k] * phase)


@implement(compose, TransE)
def _compose_translate(model, h, r, q):
    for k in range(len(q)):
        q[k] = h[k] + r[k]


@implement(compose, DistMult)
def _compose_multiply(model, h, r, q):
    for k in range(len(q)):
        q[k] = h[k] * r[k]


@implement(compose, RotatE, ComplEx)
def _compose_multiply_complex(model, h, r, q):
    m = len(r) // 2
    for k in range(m):
        q[k] = h[k] * r[k] - h[m + k] * r[m + k]
        q[m + k] = h[k] * r[m + k] + h[m + k] * r[k]


@implement(spread, TransE)
def _spread_translate(model, h, r, q, g, by_h, by_r):
    for k in range(len(g)):
        by_h[k] = g[k]
        by_r[k] = g[k]


@implement(spread, DistMult)
def _spread_multiply(model, h, r, q, g, by_h, by_r):
    for k in range(len(g)):
        by_h[k] = g[k] * r[k]
        by_r[k] = g[k] * h[k]


@implement(spread, RotatE)
def _spread_rotate(model, h, r, q, g, by_h, by_r):
    m = len(by_r)
    phase = np.float32(np.pi * model.dim / (model.gamma + 2))
    for k in range(m):
        by_h[k] = g[k] * r[k] + g[m + k] * r[m + k]
        by_h[m + k] = g[m + k] * r[k] - g[k] * r[m + k]
        by_r[k] = (g[m + k] * q[k] - g[k] * q[m + k]) * phase


@implement(spread, ComplEx)
def _spread_multiply_complex(model, h, r, q, g, by_h, by_r):
    m = len(r) // 2
    for k in range(m):
        by_h[k] = g[k] * r[k] + g[m + k] * r[m + k]
        by_h[m + k] = g[m + k] * r[k] - g[k] * r[m + k]
        by_r[k] = g[k] * h[k] + g[m + k] * h[m + k]
        by_r[m + k] = g[m + k] * h[k] - g[k] * h[m + k]


@implement(compare, TransE)
def _compare_distance(model, q, table, a, b, c, d):
    sa = sb = sc = sd = ZERO
    for k in range(len(q)):
        sa += abs(q[k] - table[a, k])
        sb += abs(q[k] - table[b, k])
        sc += abs(q[k] - table[c, k])
        sd += abs(q[k] - table[d, k])
    gamma = np.float32(model.gamma)
    return gamma - sa, gamma - sb, gamma - sc, gamma - sd


@implement(compare, RotatE)
def _compare_modulus(model, q, table, a, b, c, d):
    sa = sb = sc = sd = ZERO
    m = len(q) // 2
    for k in range(m):
        re, im = q[k], q[m + k]
        sa += np.sqrt((re - table[a, k]) ** 2 + (im - table[a, m + k]) ** 2)
        sb += np.sqrt((re - table[b, k]) ** 2 + (im - table[b, m + k]) ** 2)
        sc += np.sqrt((re - table[c, k]) ** 2 + (im - table[c, m + k]) ** 2)
        sd += np.sqrt((re - table[d, k]) ** 2 + (im - table[d, m + k]) ** 2)
    gamma = np.float32(model.gamma)
    return gamma - sa, gamma - sb, gamma - sc, gamma - sd


@implement(compare, ComplEx, DistMult)
def _compare_product(model, q, table, a, b, c, d):
    sa = sb = sc = sd = ZERO
    for k in range(len(q)):
        sa += q[k] * table[a, k]
        sb += q[k] * table[b, k]
        sc += q[k] * table[c, k]
        sd += q[k] * table[d, k]
    return sa, sb, sc, sd


@implement(gather, TransE)
def _gather_distance(model, q, table, ids, weights, g):
    a, b, c, d = ids
    wa, wb, wc, wd = weights
    for k in range(len(q)):
        x = q[k]
        ga = wa if x > table[a, k] else (-wa if x < table[a, k] else ZERO)
        gb = wb if x > table[b, k] else (-wb if x < table[b, k] else ZERO)
        gc = wc if x > table[c, k] else (-wc if x < table[c, k] else ZERO)
        gd = wd if x > table[d, k] else (-wd if x < table[d, k] else ZERO)
        g[k] -= (ga + gb) + (gc + gd)


@implement(gather, RotatE)
def _gather_modulus(model, q, table, ids, weights, g):
    m = len(q) // 2
    for i in range(0, 4, 2):
        a, b = ids[i], ids[i + 1]
        wa, wb = weights[i], weights[i + 1]
        for k in range(m):
            a_re, a_im = q[k] - table[a, k], q[m + k] - table[a, m + k]
            b_re, b_im = q[k] - table[b, k], q[m + k] - table[b, m + k]
            # where the difference is 0, so is the gradient: 0 · (w / a tiny length)
            a_unit = wa / np.sqrt(max(a_re * a_re + a_im * a_im, TINY))
            b_unit = wb / np.sqrt(max(b_re * b_re + b_im * b_im, TINY))
            g[k] -= a_re * a_unit + b_re * b_unit
            g[m + k] -= a_im * a_unit + b_im * b_unit


@implement(gather, ComplEx, DistMult)
def _gather_product(model, q, table, ids, weights, g):
    a, b, c, d = ids
    wa, wb, wc, wd = weights
    for k in range(len(q)):
        g[k] += (wa * table[a, k] + wb * table[b, k]) + (wc * table[c, k] + wd * table[d, k])
