"""The client-wise relation graph: who learns how much from whom, and the knowledge mixed by it."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.federation import ClientId, Mat, Rows, Shared

Weights = NDArray[np.float64]  # C × C, clients in the order of Shared.clients


def overlap_weights(shared: Shared) -> Weights:
    """PFedEG*: Ŵ_ij = |E_i ∩ E_j| / |E_i ∪ E_j| (i ≠ j), Ŵ_ii = min over k ≠ i of Ŵ_ik; rows normalised."""
    clients = shared.clients
    weights = np.zeros((len(clients), len(clients)))
    for (i, j), place in shared.common.items():
        union = len(shared.ids[i]) + len(shared.ids[j]) - len(place)
        weights[clients.index(i), clients.index(j)] = len(place) / union
    for place_of_self, row in enumerate(weights):
        row[place_of_self] = np.delete(row, place_of_self).min(initial=1.0)
    return _normalise(weights)


def distance_weights(
    shared: Shared, latest: Mapping[ClientId, Rows], reduce: Literal["sum", "mean"] = "sum"
) -> Weights:
    """PFedEG+: Ŵ_ij = Σ over shared k of exp(cos(E_i[k], E_j[k])) (i ≠ j), Ŵ_ii = e⁻¹; rows normalised."""
    clients = shared.clients
    weights = np.eye(len(clients)) * np.exp(-1)
    length = {c: np.sqrt(np.einsum("kw,kw->k", v := rows.values, v, dtype=np.float64)) for c, rows in latest.items()}
    for (i, j), place in shared.common.items():
        if i > j:  # the weights before normalisation are symmetric
            continue
        other = shared.common[j, i]
        dot = np.einsum("kw,kw->k", latest[i].values[place], latest[j].values[other], dtype=np.float64)
        product = length[i][place] * length[j][other]
        cosine = np.divide(dot, product, out=np.zeros_like(dot), where=product > 0)
        affinity = np.exp(cosine).sum() if reduce == "sum" else np.exp(cosine).mean()
        a, b = clients.index(i), clients.index(j)
        weights[a, b] = weights[b, a] = affinity
    return _normalise(weights)


def mix(
    shared: Shared, latest: Mapping[ClientId, Rows], weights: Weights, p: float, selected: Sequence[ClientId]
) -> dict[ClientId, Rows]:
    """Each selected client's knowledge: its own rows moved towards those of the others, weighted by affinity.

    K_i[e] = p · (Σ_{j owns e} W_ij E_j[e]) / (Σ_{j owns e} W_ij) + (1 − p) · E_i[e], computed as
    E_i[e] + p · Σ_{j owns e} W_ij (E_j[e] − E_i[e]) / Σ_{j owns e} W_ij, which leaves equal rows exactly as they are.
    """
    knowledge = {}
    for i in selected:
        row = weights[shared.clients.index(i)]
        own = latest[i].values
        change: Mat = np.zeros_like(own)
        total = np.full(len(own), row[shared.clients.index(i)])
        for j, weight in zip(shared.clients, row, strict=True):
            if (i, j) in shared.common:
                place = shared.common[i, j]
                change[place] += np.float32(weight) * (latest[j].values[shared.common[j, i]] - own[place])
                total[place] += weight
        share = np.divide(p, total, out=np.zeros_like(total), where=total > 0).astype(np.float32)
        knowledge[i] = Rows(latest[i].ids, own + share[:, None] * change)
    return knowledge


def mean(shared: Shared, latest: Mapping[ClientId, Rows], selected: Sequence[ClientId]) -> dict[ClientId, Rows]:
    """FedE: the plain mean over the owners of each id, the same for all of them."""
    width = next(iter(latest.values())).values.shape[1]
    total = np.zeros((len(shared.owners), width))  # float64: the mean of equal rows is exactly that row
    for client in shared.clients:
        total[latest[client].ids] += latest[client].values
    result = {}
    for client in selected:
        ids = latest[client].ids
        result[client] = Rows(ids, (total[ids] / shared.owners[ids, None]).astype(np.float32))
    return result


def _normalise(weights: Weights) -> Weights:
    """W_ij = Ŵ_ij / Σ_j Ŵ_ij; a row without any weight stays zero."""
    total = weights.sum(1, keepdims=True)
    normal: Weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return normal
