"""Uploads as a robust mix sees them: without outlying numbers, and without clients that were left out of the run.

What is dropped is replaced by the mean of what is kept, number by number. So the mean over the owners becomes the
trimmed mean or the median exactly, and every other method mixes these rows in place of the uploaded ones.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.alignment import ClientId, Rows
from pfedeg.methods.exchange import Upload
from pfedeg.models.base import Mat

Robust = Literal["none", "trimmed", "median"]
Table = Mapping[ClientId, Rows]
LEAST_OWNERS = 3  # with two owners, nobody can tell which of them lies
NUMBERS = 1 << 23  # that are sorted at once


def robust_uploads(
    uploads: Mapping[ClientId, Upload], robust: Robust, left_out: Collection[ClientId] = ()
) -> Mapping[ClientId, Upload]:
    """The uploads to mix; the same object if nothing is to be changed.

    The rows of clients that are `left_out` become the mean of the other owners' rows; a row that nobody else has stays.
    With "trimmed", a quarter of the owners, at least one, is dropped at either end; "median" drops all but the middle.
    """
    found = uploads
    if left_out:
        found = _changed(found, lambda table: _without(table, left_out))
    if robust != "none":
        found = _changed(found, lambda table: _trimmed(table, robust, left_out))
    return found


def _changed(uploads: Mapping[ClientId, Upload], change: Callable[[Table], Table]) -> dict[ClientId, Upload]:
    """The uploads with the changed rows of every table; scalars stay."""
    tables = {client: dict(upload.tables) for client, upload in uploads.items()}
    for name in dict.fromkeys(name for own in tables.values() for name in own):
        for client, rows in change({client: own[name] for client, own in tables.items() if name in own}).items():
            tables[client][name] = rows
    return {client: Upload(tables[client], upload.scalars) for client, upload in uploads.items()}


def _without(table: Table, left_out: Collection[ClientId]) -> Table:
    """The rows of clients that were left out, replaced by the mean of the others'."""
    kept = [rows for client, rows in table.items() if client not in left_out]
    if not kept or len(kept) == len(table):
        return {}
    ids = np.unique(np.concatenate([rows.ids for rows in kept]))
    total, owners = np.zeros((len(ids), kept[0].values.shape[1])), np.zeros((len(ids), 1))
    for rows in kept:
        place = np.searchsorted(ids, rows.ids)
        total[place] += rows.values
        owners[place] += 1
    mean, changed = (total / owners).astype(np.float32), {}
    for client in (client for client in table if client in left_out):
        values = table[client].values.copy()
        _, own, place = np.intersect1d(table[client].ids, ids, assume_unique=True, return_indices=True)
        values[own] = mean[place]
        changed[client] = Rows(table[client].ids, values)
    return changed


def _trimmed(table: Table, robust: Robust, left_out: Collection[ClientId]) -> Table:
    """The rows with outlying numbers replaced, for ids with enough owners."""
    kept = {client: rows for client, rows in table.items() if client not in left_out}
    if len(kept) < LEAST_OWNERS:
        return {}
    ids = np.concatenate([rows.ids for rows in kept.values()])
    values: Mat = np.concatenate([rows.values for rows in kept.values()])
    order = np.argsort(ids, kind="stable")
    _, start, number = np.unique(ids[order], return_index=True, return_counts=True)
    for owners in np.unique(number[number >= LEAST_OWNERS]).tolist():
        drop = (owners - 1) // 2 if robust == "median" else max(1, owners // 4)
        places = order[start[number == owners][:, None] + np.arange(owners)]
        for part in np.array_split(places, 1 + places.size * values.shape[1] // NUMBERS):
            _trim(values, part, drop)
    ends = np.cumsum([len(rows.ids) for rows in kept.values()])[:-1]
    return {
        client: Rows(rows.ids, np.ascontiguousarray(own))
        for (client, rows), own in zip(kept.items(), np.split(values, ends), strict=True)
    }


def _trim(values: Mat, places: NDArray[np.intp], drop: int) -> None:
    """Replace the `drop` smallest and largest numbers by the mean of the rest; `places` has a line of rows per id."""
    found = values[places]
    rank = np.argsort(np.argsort(found, axis=1, kind="stable"), axis=1, kind="stable")
    keep = (rank >= drop) & (rank < found.shape[1] - drop)
    mean = found.mean(axis=1, keepdims=True, where=keep, dtype=np.float64)
    values[places] = np.where(keep, found, mean)
