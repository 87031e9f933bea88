"""The specification of the kernels: readable numpy, one batch at a time. Slow on purpose."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.engine.interface import Absorb, Knowledge, Local, Moments, Positives, Questions, Tables, epoch_keys
from pfedeg.graphs.triples import Ids
from pfedeg.models.base import Array, Mat, Model


class Gradient(NamedTuple):
    """The gradient of a loss by both tables."""

    entity: Array
    relation: Array


def train(
    model: Model,
    local: Local,
    absorb: Absorb,
    tables: Tables,
    moments: Moments,
    knowledge: Knowledge,
    positives: Positives,
    key: int,
) -> float:
    """Some epochs of Adam on L = L_KGE + β · D(E, K) + μ · contrast; see `Kernels.train`."""
    total, n = 0.0, len(positives.triples)
    for epoch in range(local.epochs):
        order_key, negative_key = epoch_keys(key, epoch)
        order = randomness.permutation(order_key, n)
        for first in range(0, n, local.batch):
            chosen = order[first : first + local.batch]
            negatives, valid = sample(local, positives, chosen, first, len(tables.entity), negative_key)
            losses, gradient = kge_loss(model, local, tables, positives.triples[chosen], negatives, valid)
            gradient.entity[...] += pull_gradient(tables.entity, knowledge, absorb)
            gradient.entity[...] += contrast_gradient(tables.entity, knowledge, absorb)
            adam(local, tables, moments, gradient)
            total += float(losses.sum(dtype=np.float64))
    return total / (n * local.epochs)


def sample(
    local: Local, positives: Positives, chosen: Ids, first: int, entities: int, key: int
) -> tuple[Ids, NDArray[np.bool_]]:
    """Negatives (batch, n) and which of them count, for the positives at places first, first + 1, … of the epoch.

    Own: u uniform below the number of entities that are no known tails of (h, r); if u is a known tail, the i-th such,
    the i-th free entity beyond that number stands in for it. The counter is place · n + j.
    Shared: any entity, the same for all positives of a chunk, the counter is (the chunk's first place) · n + j; for
    each positive the known tails of its (h, r) do not count.
    """
    size, n = len(chosen), local.negatives
    column = randomness.counters(n)
    ids = np.zeros((size, n), np.int32)
    valid = np.zeros((size, n), np.bool_)
    for i, triple in enumerate(chosen):
        group = positives.group[triple]
        known = positives.tails[positives.start[group] : positives.start[group + 1]]
        if local.sampling == "own":
            free = entities - len(known)
            u = randomness.below(key, np.uint64((first + i) * n) + column, free)
            stand_ins = np.setdiff1d(np.arange(free, entities), known)
            taken = np.isin(u, known) & (free > 0)
            ids[i] = u
            ids[i, taken] = stand_ins[np.searchsorted(known, u[taken])]
            valid[i] = free > 0
        else:
            place = (first + i // local.chunk * local.chunk) * n
            ids[i] = randomness.below(key, np.uint64(place) + column, entities)
            valid[i] = ~np.isin(ids[i], known)
    return ids, valid


def kge_loss(
    model: Model, local: Local, tables: Tables, triples: Ids, negatives: Ids, valid: NDArray[np.bool_]
) -> tuple[Array, Gradient]:
    """L_KGE of every positive, and the gradient of their mean (or sum).

    L_KGE = ½ [ −log σ(s(h,r,t)) − Σ_j w_j log σ(−s(h,r,t'_j)) ],  w = softmax(α · s(h,r,t'_·)) held constant.
    """
    entity, relation = tables
    h, r, t = triples.T
    q = model.compose(entity[h], relation[r])
    s = model.compare(q, entity[t])
    s_neg = model.compare(q[:, None], entity[negatives])
    w = _softmax(local.alpha * s_neg, valid)
    losses = 0.5 * (_softplus(-s) + (w * _softplus(s_neg)).sum(-1))

    scale = 1 / len(triples) if local.loss == "mean" else 1.0
    by_s = -0.5 * scale * _sigmoid(-s)
    by_s_neg = 0.5 * scale * w * _sigmoid(s_neg)
    q_pos, t_pos = model.compare_grad(q, entity[t])
    q_neg, t_neg = model.compare_grad(q[:, None], entity[negatives])
    by_q = by_s[:, None] * q_pos + (by_s_neg[..., None] * q_neg).sum(1)
    by_h, by_r = model.compose_grad(entity[h], relation[r], q, by_q)

    gradient = Gradient(np.zeros_like(entity), np.zeros_like(relation))
    np.add.at(gradient.entity, negatives, by_s_neg[..., None] * t_neg)
    np.add.at(gradient.entity, t, by_s[:, None] * t_pos)
    np.add.at(gradient.entity, h, by_h)
    np.add.at(gradient.relation, r, by_r)
    return losses, gradient


def pull_gradient(entity: Array, knowledge: Knowledge, absorb: Absorb) -> Array | float:
    """Gradient of β · D(E, K), D the Frobenius norm of E − K: β · (E − K) / D, and 0 where E = K."""
    if not absorb.pull:
        return 0.0
    difference = entity - knowledge.received
    distance = float(np.sqrt((difference.astype(np.float64) ** 2).sum()))
    return difference * (absorb.pull / distance) if distance else 0.0


def contrast_gradient(entity: Array, knowledge: Knowledge, absorb: Absorb) -> Array | float:
    """Gradient of μ · mean over entities of softplus((s_l − s_g) / τ), s_g = cos(E, G), s_l = cos(E, P).

    Pooled: of μ · softplus((mean s_l − mean s_g) / τ).
    """
    if not absorb.contrast:
        return 0.0
    s_g, by_s_g = _cosine(entity, knowledge.received)
    s_l, by_s_l = _cosine(entity, knowledge.previous)
    z = (s_l - s_g) / absorb.temperature
    if absorb.pooled:
        z = np.full_like(z, z.mean(dtype=np.float64))
    weight = absorb.contrast / (len(entity) * absorb.temperature) * _sigmoid(z)
    gradient: Array = weight[:, None] * (by_s_l - by_s_g)
    return gradient


def adam(local: Local, tables: Tables, moments: Moments, gradient: Gradient) -> None:
    """One step of dense Adam (Kingma and Ba 2015) on both tables, in place."""
    moments.steps[0] += 1
    step = int(moments.steps[0])
    rate = local.lr / (1 - local.beta1**step)
    unbias = 1 / np.sqrt(1 - local.beta2**step)
    for table, first, second, g in (
        (tables.entity, moments.entity1, moments.entity2, gradient.entity),
        (tables.relation, moments.relation1, moments.relation2, gradient.relation),
    ):
        first[...] = local.beta1 * first + (1 - local.beta1) * g
        second[...] = local.beta2 * second + (1 - local.beta2) * g * g
        table -= rate * first / (np.sqrt(second) * unbias + local.epsilon)


def scores(model: Model, tables: Tables, queries: Mat) -> Mat:
    """See `Kernels.scores`."""
    return np.stack([model.compare(q, tables.entity) for q in queries]).astype(np.float32)


def ranks(model: Model, tables: Tables, queries: Mat, questions: Questions) -> NDArray[np.float64]:
    """Rank = 1 + #greater + ½ · #equal among the candidates that are not known to be true."""
    result = np.zeros(len(questions.truth))
    for i, q in enumerate(queries):
        s = scores(model, tables, q[None])[0]
        open_ = np.ones(len(s), np.bool_)
        open_[questions.known[questions.start[i] : questions.start[i + 1]]] = False
        for place in range(questions.first[i], questions.first[i + 1]):
            truth = s[questions.truth[place]]
            result[place] = 1 + (s[open_] > truth).sum() + 0.5 * (s[open_] == truth).sum()
    return result


def _softmax(x: Array, valid: NDArray[np.bool_]) -> Array:
    """Along the last axis over the valid places; all zero where there is none."""
    top = np.max(x, -1, keepdims=True, where=valid, initial=-np.inf)
    weight = np.exp(np.minimum(x - np.where(np.isfinite(top), top, 0), 0)) * valid
    total = weight.sum(-1, keepdims=True)
    share: Array = weight / np.where(total > 0, total, 1)
    return share


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    share: Array = np.where(x >= 0, 1, small) / (1 + small)
    return share


def _cosine(e: Array, other: Array) -> tuple[Array, Array]:
    """Cosines of paired rows and their gradient by e; both 0 where a row is zero."""
    length_e, length = np.sqrt((e * e).sum(-1)), np.sqrt((other * other).sum(-1))
    product = length_e * length
    positive = product > 0
    inverse = np.divide(1, product, out=np.zeros_like(product), where=positive)
    cosine = (e * other).sum(-1) * inverse
    square = np.divide(1, length_e**2, out=np.zeros_like(product), where=positive)
    return cosine, other * inverse[:, None] - e * (cosine * square)[:, None]
