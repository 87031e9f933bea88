"""The client-wise relation graph: how much each client learns from each other client.

Compiled code does the work, over the owners of each id; `mixing_reference` is the specification in plain numpy.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.methods.base import Weights
from pfedeg.methods.mixing import addresses, per_thread, server_threads

TABLES = 1 << 27  # bytes for the C × C tables of all threads; with many clients, fewer threads get a table


def overlap_weights(shared: Shared, threads: int | None = None) -> Weights:
    """PFedEG*: Ŵ_ij = |E_i ∩ E_j| / |E_i ∪ E_j| (i ≠ j), Ŵ_ii = min over k ≠ i of Ŵ_ik; rows normalised."""
    both = overlaps(shared, threads)
    size = np.array([len(ids) for ids in shared.ids.values()])
    weights = np.divide(both, size[:, None] + size - both, out=np.zeros_like(both), where=both > 0)
    for i, row in enumerate(weights):
        row[i] = np.delete(row, i).min(initial=1.0)
    return _normalise(weights)


def distance_weights(
    shared: Shared,
    latest: Mapping[ClientId, Rows],
    reduce: Literal["sum", "mean"] = "sum",
    threads: int | None = None,
) -> Weights:
    """PFedEG+: Ŵ_ij = Σ over shared k of exp(cos(E_i[k], E_j[k])) (i ≠ j), Ŵ_ii = e⁻¹; rows normalised."""
    weights = similarities(shared, latest, threads)
    if reduce == "mean":
        weights /= np.maximum(overlaps(shared, threads), 1)
    np.fill_diagonal(weights, np.exp(-1))
    return _normalise(weights)


def overlaps(shared: Shared, threads: int | None = None) -> Weights:
    """|E_i ∩ E_j| for i ≠ j; 0 for i = j."""
    from pfedeg.methods import mixing_compiled

    clients = len(shared.clients)
    team, tables = server_threads(threads), _tables(clients, threads)
    team.run(mixing_compiled.count, shared.ownership, clients, tables)
    return _symmetric(tables, clients, 1.0)


def similarities(shared: Shared, latest: Mapping[ClientId, Rows], threads: int | None = None) -> Weights:
    """Σ over shared ids k of exp(cos(E_i[k], E_j[k])) for i ≠ j; 0 for i = j. The cosine with a zero row is 0."""
    from pfedeg.methods import mixing_compiled

    owners, clients, team = shared.ownership, len(shared.clients), server_threads(threads)
    uploads, width = addresses(shared, latest)
    tables = _tables(clients, threads)
    # Fixed-point sums, so that their order does not matter: each id adds at most e, and 64 bits must not overflow.
    scale = 2.0 ** (61 - len(owners.start).bit_length())
    inverses = per_thread(team.size, int(np.diff(owners.start).max(initial=0)), np.float64)
    team.run(mixing_compiled.similarities, owners, uploads, width, scale, inverses, tables)
    return _symmetric(tables, clients, scale)


def _tables(clients: int, threads: int | None) -> NDArray[np.int64]:
    """A table of sums per thread, for as many threads as `TABLES` bytes allow; the other threads stay idle."""
    most = max(1, TABLES // (8 * clients**2))
    return per_thread(min(server_threads(threads).size, most), clients**2, np.int64)


def _symmetric(tables: NDArray[np.int64], clients: int, scale: float) -> Weights:
    """Add up the tables of all threads, which cover i < j, and mirror the result."""
    half: Weights = tables.sum(0)[: clients**2].reshape(clients, clients) / scale
    return half + half.T


def _normalise(weights: Weights) -> Weights:
    """W_ij = Ŵ_ij / Σ_j Ŵ_ij; a row without any weight stays zero."""
    total = weights.sum(1, keepdims=True)
    normal: Weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return normal
