"""The client-wise relation graph: who learns how much from whom, and the knowledge mixed by it.

All work is done by compiled code over the owners of each id; `strategies.reference` says the same in plain numpy.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import cores
from pfedeg.engine.lowlevel import aligned_arrays
from pfedeg.graphs.alignment import ClientId, Mat, Rows, Shared

if TYPE_CHECKING:
    from pfedeg.engine.lowlevel.compile import Team

Weights = NDArray[np.float64]  # C × C, clients in the order of Shared.clients
TABLES = 1 << 27  # bytes for tables of C × C numbers, one per thread: more clients, fewer threads that sum
LINE = 128  # bytes between what two threads write, so that they do not fight for a line of the cache


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
    weights = likenesses(shared, latest, threads)
    if reduce == "mean":
        weights /= np.maximum(overlaps(shared, threads), 1)
    np.fill_diagonal(weights, np.exp(-1))
    return _normalise(weights)


def overlaps(shared: Shared, threads: int | None = None) -> Weights:
    """|E_i ∩ E_j| for i ≠ j; 0 for i = j."""
    from pfedeg.methods import mixing_compiled as mixing

    clients = len(shared.clients)
    team, tables = _team(threads), _tables(clients, threads)
    team.run(mixing.count, shared.ownership, clients, tables)
    return _symmetric(tables, clients, 1.0)


def likenesses(shared: Shared, latest: Mapping[ClientId, Rows], threads: int | None = None) -> Weights:
    """Σ over shared ids k of exp(cos(E_i[k], E_j[k])) for i ≠ j; 0 for i = j. The cosine with a zero row is 0."""
    from pfedeg.methods import mixing_compiled as mixing

    owners, clients, team = shared.ownership, len(shared.clients), _team(threads)
    uploads, width = _addresses(shared, latest)
    tables = _tables(clients, threads)
    # Whole numbers, as fine as 64 bits allow when an id adds at most e: for some hundred ids as fine as float64.
    scale = 2.0 ** (61 - len(owners.start).bit_length())
    inverses = _apart(team.size, int(np.diff(owners.start).max(initial=0)), np.float64)
    cosines = _apart(team.size, mixing.TILE, np.float64)
    team.run(mixing.relate, owners, uploads, width, scale, inverses, cosines, tables)
    return _symmetric(tables, clients, scale)


def mix(
    shared: Shared,
    latest: Mapping[ClientId, Rows],
    weights: Weights,
    p: float,
    selected: Sequence[ClientId],
    threads: int | None = None,
    out: Mat | None = None,
) -> dict[ClientId, Rows]:
    """Each selected client's knowledge: its own rows moved towards those of the others, weighted by affinity.

    K_i[e] = p · (Σ_{j owns e} W_ij E_j[e]) / (Σ_{j owns e} W_ij) + (1 − p) · E_i[e], computed as
    E_i[e] + p · Σ_{j owns e} W_ij (E_j[e] − E_i[e]) / Σ_{j owns e} W_ij, which leaves equal rows exactly as they are.
    `out` may hold memory for the new rows of all selected clients, one client after another.
    """
    from pfedeg.methods import mixing_compiled as mixing

    weights = np.ascontiguousarray(weights, np.float64)
    return _rows(mixing.mix, shared, latest, selected, out, _team(threads), weights, float(p))


def mean(
    shared: Shared,
    latest: Mapping[ClientId, Rows],
    selected: Sequence[ClientId],
    threads: int | None = None,
    out: Mat | None = None,
) -> dict[ClientId, Rows]:
    """FedE: the plain mean over the owners of each id, the same for all of them; `out` as in `mix`."""
    from pfedeg.methods import mixing_compiled as mixing

    team, width = _team(threads), _width(latest)
    totals = _apart(team.size, width, np.float64)  # the mean of equal rows is exactly that row
    return _rows(mixing.mean, shared, latest, selected, out, team, totals)


def _rows(
    kernel: Callable[..., None],
    shared: Shared,
    latest: Mapping[ClientId, Rows],
    selected: Sequence[ClientId],
    out: Mat | None,
    team: "Team",
    *arguments: Any,
) -> dict[ClientId, Rows]:
    """New rows for the selected clients, all in one piece of memory, which the system hands out faster."""
    uploads, width = _addresses(shared, latest)
    shape = (sum(len(shared.travelling[client]) for client in selected), width)
    values = aligned_arrays.empty(shape, np.float32) if out is None else out
    if values.shape != shape or values.dtype != np.float32 or not values.flags.c_contiguous:
        raise ValueError(f"out is not a contiguous float32 array of {shape[0]} × {width}")
    results = np.zeros(len(shared.clients), np.uintp)
    knowledge, end, chosen = {}, 0, set(selected)
    for place, client in enumerate(shared.clients):
        if client in chosen:
            begin, end = end, end + len(shared.travelling[client])
            knowledge[client] = Rows(latest[client].ids, values[begin:end])
            results[place] = values.ctypes.data + 4 * width * begin
    buffer = _apart(team.size, width, np.float32)
    buffers = (buffer.ctypes.data + buffer.strides[0] * np.arange(team.size)).astype(np.uintp)
    team.run(kernel, shared.ownership, uploads, width, *arguments, buffers, results)
    return knowledge


def _addresses(shared: Shared, latest: Mapping[ClientId, Rows]) -> tuple[NDArray[np.uintp], int]:
    """Where each client's rows begin, and how wide they are; compiled code believes this without looking."""
    width = _width(latest)
    for client, ids in shared.travelling.items():
        rows = latest[client]
        if (
            rows.values.dtype != np.float32
            or rows.values.shape != (len(ids), width)
            or not rows.values.flags.c_contiguous
        ):
            raise ValueError(f"client {client!r}: its rows are not a contiguous float32 array of {len(ids)} × {width}")
        if rows.ids is not ids and not np.array_equal(rows.ids, ids):
            raise ValueError(f"client {client!r}: its rows are not those of its travelling ids")
    return np.array([latest[client].values.ctypes.data for client in shared.clients], np.uintp), width


def _width(latest: Mapping[ClientId, Rows]) -> int:
    return int(next(iter(latest.values())).values.shape[1])


@cache
def _team(threads: int | None) -> "Team":
    """By default all cores: results do not depend on it."""
    from pfedeg.engine.lowlevel.compile import Team

    return Team(threads or cores())


def _tables(clients: int, threads: int | None) -> NDArray[np.int64]:
    """A table of sums for every thread, as far as memory for them goes; further threads have nothing to do."""
    most = max(1, TABLES // (8 * clients**2))
    return _apart(min(_team(threads).size, most), clients**2, np.int64)


def _apart(threads: int, size: int, kind: type[np.generic]) -> NDArray[Any]:
    return np.zeros((threads, size + LINE // np.dtype(kind).itemsize), kind)


def _symmetric(tables: NDArray[np.int64], clients: int, scale: float) -> Weights:
    """The threads' sums for i < j, put together and for j < i too."""
    half: Weights = tables.sum(0)[: clients**2].reshape(clients, clients) / scale
    return half + half.T


def _normalise(weights: Weights) -> Weights:
    """W_ij = Ŵ_ij / Σ_j Ŵ_ij; a row without any weight stays zero."""
    total = weights.sum(1, keepdims=True)
    normal: Weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return normal
