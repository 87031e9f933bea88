"""How models make a query of a head and a relation, and what its gradient means for both."""

import numpy as np

from pfedeg.engine.compiled.lanes.operations import compose, implement, prepare, spread
from pfedeg.engine.lowlevel.vectors import LANES, fill, fma, load, store
from pfedeg.models.complex import ComplEx
from pfedeg.models.distmult import DistMult
from pfedeg.models.rotate import RotatE
from pfedeg.models.transe import TransE


@implement(prepare, TransE, ComplEx, DistMult)
def _prepare_itself(model, r, prepared):
    for k in range(0, len(r), LANES):
        store(prepared, k, load(r, k))


@implement(prepare, RotatE)
def _prepare_rotation(model, r, prepared):
    m = len(r)
    phase = np.float32(np.pi * model.dim / (model.gamma + 2))
    for k in range(m):
        prepared[k], prepared[m + k] = np.cos(r[k] * phase), np.sin(r[k] * phase)


@implement(compose, TransE)
def _compose_translate(model, h, r, q):
    for k in range(0, len(q), LANES):
        store(q, k, load(h, k) + load(r, k))


@implement(compose, DistMult)
def _compose_multiply(model, h, r, q):
    for k in range(0, len(q), LANES):
        store(q, k, load(h, k) * load(r, k))


@implement(compose, RotatE, ComplEx)
def _compose_multiply_complex(model, h, r, q):
    m = len(q) // 2
    for k in range(0, m, LANES):
        h_re, h_im, r_re, r_im = load(h, k), load(h, m + k), load(r, k), load(r, m + k)
        store(q, k, h_re * r_re - h_im * r_im)
        store(q, m + k, fma(h_re, r_im, h_im * r_re))


@implement(spread, TransE)
def _spread_translate(model, h, r, q, g, by_h, by_r):
    for k in range(0, len(g), LANES):
        store(by_h, k, load(g, k))
        store(by_r, k, load(g, k))


@implement(spread, DistMult)
def _spread_multiply(model, h, r, q, g, by_h, by_r):
    for k in range(0, len(g), LANES):
        store(by_h, k, load(g, k) * load(r, k))
        store(by_r, k, load(g, k) * load(h, k))


@implement(spread, RotatE)
def _spread_rotate(model, h, r, q, g, by_h, by_r):
    m = len(by_r)
    phase = fill(np.float32(np.pi * model.dim / (model.gamma + 2)))
    for k in range(0, m, LANES):
        g_re, g_im, r_re, r_im = load(g, k), load(g, m + k), load(r, k), load(r, m + k)
        store(by_h, k, fma(g_re, r_re, g_im * r_im))
        store(by_h, m + k, g_im * r_re - g_re * r_im)
        store(by_r, k, (g_im * load(q, k) - g_re * load(q, m + k)) * phase)


@implement(spread, ComplEx)
def _spread_multiply_complex(model, h, r, q, g, by_h, by_r):
    m = len(g) // 2
    for k in range(0, m, LANES):
        g_re, g_im, r_re, r_im = load(g, k), load(g, m + k), load(r, k), load(r, m + k)
        h_re, h_im = load(h, k), load(h, m + k)
        store(by_h, k, fma(g_re, r_re, g_im * r_im))
        store(by_h, m + k, g_im * r_re - g_re * r_im)
        store(by_r, k, fma(g_re, h_re, g_im * h_im))
        store(by_r, m + k, g_im * h_re - g_re * h_im)
