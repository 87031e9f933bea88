"""Mixes uploaded rows on the server: for each aligned id, over the clients that own it."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pfedeg.engine.interface import cores
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.methods.base import Weights
from pfedeg.models.base import Mat

if TYPE_CHECKING:
    from pfedeg.engine.lowlevel.compile import Team

SPACING = 128  # bytes between the data of two threads, so that they do not share a cache line


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
    `out` is optional memory for the new rows of all selected clients, in order.
    """
    from pfedeg.methods import mixing_compiled

    team = server_threads(threads)
    changes, weights = per_thread(team.size, _width(latest), np.float32), np.ascontiguousarray(weights, np.float64)
    return _run(mixing_compiled.mix, shared, latest, selected, out, team, changes, weights, float(p))


def mean(
    shared: Shared,
    latest: Mapping[ClientId, Rows],
    selected: Sequence[ClientId],
    threads: int | None = None,
    out: Mat | None = None,
) -> dict[ClientId, Rows]:
    """FedE: the plain mean over the owners of each id; `out` as in `mix`."""
    from pfedeg.methods import mixing_compiled

    team = server_threads(threads)
    totals = per_thread(team.size, _width(latest), np.float64)  # the mean of equal rows is exactly that row
    return _run(mixing_compiled.mean, shared, latest, selected, out, team, totals)


def _run(
    kernel: Callable[..., None],
    shared: Shared,
    latest: Mapping[ClientId, Rows],
    selected: Sequence[ClientId],
    out: Mat | None,
    team: "Team",
    *arguments: Any,
) -> dict[ClientId, Rows]:
    """New rows for the selected clients, as views of one array: a single large allocation is faster."""
    uploads, width = addresses(shared, latest)
    shape = (sum(len(shared.travelling[client]) for client in selected), width)
    values = np.empty(shape, np.float32) if out is None else out
    if values.shape != shape or values.dtype != np.float32 or not values.flags.c_contiguous:
        raise ValueError(f"out is not a contiguous float32 array of {shape[0]} × {width}")
    results = np.zeros(len(shared.clients), np.uintp)
    knowledge, end, chosen = {}, 0, set(selected)
    for place, client in enumerate(shared.clients):
        if client in chosen:
            begin, end = end, end + len(shared.travelling[client])
            knowledge[client] = Rows(latest[client].ids, values[begin:end])
            results[place] = values.ctypes.data + 4 * width * begin
    team.run(kernel, shared.ownership, uploads, width, results, *arguments)
    return knowledge


def addresses(shared: Shared, latest: Mapping[ClientId, Rows]) -> tuple[NDArray[np.uintp], int]:
    """The address of each client's first row, and the row width; checks shapes, which compiled code cannot do."""
    width = _width(latest)
    for client, ids in shared.travelling.items():
        rows = latest[client]
        shape = (len(ids), width)
        if rows.values.dtype != np.float32 or rows.values.shape != shape or not rows.values.flags.c_contiguous:
            raise ValueError(f"client {client!r}: its rows are not a contiguous float32 array of {len(ids)} × {width}")
        if rows.ids is not ids and not np.array_equal(rows.ids, ids):
            raise ValueError(f"client {client!r}: its rows are not those of its travelling ids")
    return np.array([latest[client].values.ctypes.data for client in shared.clients], np.uintp), width


def _width(latest: Mapping[ClientId, Rows]) -> int:
    return int(next(iter(latest.values())).values.shape[1])


@cache
def server_threads(threads: int | None) -> "Team":
    """A thread team, by default one thread per core; results do not depend on the number."""
    from pfedeg.engine.lowlevel.compile import Team

    return Team(threads or cores())


def per_thread(threads: int, size: int, kind: type[np.generic]) -> NDArray[Any]:
    """Zeros for each thread, spaced so that no two threads share a cache line."""
    return np.zeros((threads, size + SPACING // np.dtype(kind).itemsize), kind)
