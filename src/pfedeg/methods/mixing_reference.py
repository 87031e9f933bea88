"""The server's update in plain numpy, pair by pair of clients: the specification of the compiled code."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.alignment import ClientId, Mat, Rows, Shared
from pfedeg.methods.base import Weights


def overlaps(shared: Shared) -> Weights:
    """|E_i ∩ E_j| for i ≠ j; 0 for i = j."""
    result = np.zeros((len(shared.clients), len(shared.clients)))
    for i, j, places, _ in _pairs(shared):
        result[i, j] = result[j, i] = len(places)
    return result


def similarities(shared: Shared, latest: Mapping[ClientId, Rows]) -> Weights:
    """Σ over shared ids k of exp(cos(E_i[k], E_j[k])) for i ≠ j; 0 for i = j. The cosine with a zero row is 0."""
    result = np.zeros((len(shared.clients), len(shared.clients)))
    values = [latest[client].values for client in shared.clients]
    length = [np.sqrt(np.einsum("kw,kw->k", rows, rows, dtype=np.float64)) for rows in values]
    for i, j, mine, theirs in _pairs(shared):
        dot = np.einsum("kw,kw->k", values[i][mine], values[j][theirs], dtype=np.float64)
        product = length[i][mine] * length[j][theirs]
        cosine = np.divide(dot, product, out=np.zeros_like(dot), where=product > 0)
        result[i, j] = result[j, i] = np.exp(cosine).sum()
    return result


def mix(
    shared: Shared, latest: Mapping[ClientId, Rows], weights: Weights, p: float, selected: Sequence[ClientId]
) -> dict[ClientId, Rows]:
    """K_i[e] = E_i[e] + p · Σ_{j owns e} W_ij (E_j[e] − E_i[e]) / Σ_{j owns e} W_ij, E_i[e] if that sum is 0."""
    values = [latest[client].values for client in shared.clients]
    change = [np.zeros_like(rows) for rows in values]
    total = [np.full(len(rows), weights[i, i]) for i, rows in enumerate(values)]
    for i, j, mine, theirs in _pairs(shared):
        difference = values[j][theirs] - values[i][mine]
        change[i][mine] += np.float32(weights[i, j]) * difference
        change[j][theirs] -= np.float32(weights[j, i]) * difference
        total[i][mine] += weights[i, j]
        total[j][theirs] += weights[j, i]
    knowledge = {}
    for client in selected:
        i = shared.clients.index(client)
        share = np.divide(p, total[i], out=np.zeros_like(total[i]), where=total[i] > 0).astype(np.float32)
        knowledge[client] = Rows(latest[client].ids, values[i] + share[:, None] * change[i])
    return knowledge


def mean(shared: Shared, latest: Mapping[ClientId, Rows], selected: Sequence[ClientId]) -> dict[ClientId, Rows]:
    """The plain mean over the owners of each id."""
    width = next(iter(latest.values())).values.shape[1]
    total = np.zeros((len(shared.owners), width))  # float64: the mean of equal rows is exactly that row
    for client in shared.clients:
        total[latest[client].ids] += latest[client].values
    result = {}
    for client in selected:
        ids = latest[client].ids
        values: Mat = (total[ids] / shared.owners[ids, None]).astype(np.float32)
        result[client] = Rows(ids, values)
    return result


def _pairs(shared: Shared) -> Iterator[tuple[int, int, NDArray[np.intp], NDArray[np.intp]]]:
    """Every pair of clients i < j that share ids, with the positions of these ids in the rows of each."""
    ids = list(shared.travelling.values())
    for i, mine in enumerate(ids):
        for j in range(i + 1, len(ids)):
            both, places, others = np.intersect1d(mine, ids[j], assume_unique=True, return_indices=True)
            if len(both):
                yield i, j, places, others
