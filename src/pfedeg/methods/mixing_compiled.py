"""The server's sums over the owners of each aligned id, compiled; the same for any number of threads.

Uploads stay where they are: kernels get the address of each client's first row (0 for a client that is not selected).
Every thread has a part of the ids. What is summed over ids is summed in integers, whose order does not matter.
"""

import math

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from pfedeg.engine.lowlevel.compile import inline, jit, jit_reordered, kernel
from pfedeg.engine.lowlevel.vectors import prefetch

AHEAD = 8  # prefetch distance, in owners


@kernel
def count(thread, threads, sync, owners, clients, tables):
    """How many ids each two clients i < j share; one table per thread, as long as there are tables."""
    if thread < len(tables):
        for k in _part_of_ids(thread, len(tables), owners):
            for a in range(owners.start[k], owners.start[k + 1]):
                for b in range(a + 1, owners.start[k + 1]):
                    tables[thread, clients * owners.client[a] + owners.client[b]] += 1


@kernel
def similarities(thread, threads, sync, owners, uploads, width, scale, inverses, tables):
    """Σ over the ids that two clients i < j share of exp(cos(E_i, E_j)), in units of 1 / scale."""
    if thread < len(tables):
        for k in _part_of_ids(thread, len(tables), owners):
            begin, end = owners.start[k], owners.start[k + 1]
            for a in range(begin, end):
                _prefetch_row(uploads, owners, a + AHEAD, width)
                row = _row_at(uploads[owners.client[a]], owners.row[a], width)
                square = _dot(row, row)  # the cosine with a row that is zero or infinite is 0
                inverses[thread, a - begin] = 1.0 / math.sqrt(square) if 0.0 < square < np.inf else 0.0
                for b in range(begin, a):
                    cosine = _dot(row, _row_at(uploads[owners.client[b]], owners.row[b], width))
                    cosine *= inverses[thread, a - begin] * inverses[thread, b - begin]
                    entry = len(uploads) * owners.client[b] + owners.client[a]
                    tables[thread, entry] += np.int64(math.exp(cosine) * scale + 0.5)


@kernel
def mix(thread, threads, sync, owners, uploads, width, results, changes, weights, p):
    """E_i + p · Σ_j W_ij (E_j − E_i) / Σ_j W_ij over the owners j of each id, for its selected owners i."""
    change = changes[thread, :width]
    for k in _part_of_ids(thread, threads, owners):
        begin, end = owners.start[k], owners.start[k + 1]
        for a in range(begin, end):
            i = owners.client[a]
            _prefetch_row(uploads, owners, a + AHEAD, width)
            _prefetch_row(results, owners, a + AHEAD, width)
            if results[i] == 0:
                continue
            own, new = _row_at(uploads[i], owners.row[a], width), _row_at(results[i], owners.row[a], width)
            change[:], total = np.float32(0.0), 0.0
            for b in range(begin, end):
                j = owners.client[b]
                other, weight = _row_at(uploads[j], owners.row[b], width), np.float32(weights[i, j])
                total += weights[i, j]
                for w in range(width):
                    change[w] += weight * (other[w] - own[w])
            share = np.float32(p / total if total > 0.0 else 0.0)
            for w in range(width):
                new[w] = own[w] + share * change[w]


@kernel
def mean(thread, threads, sync, owners, uploads, width, results, totals):
    """The mean of the owners' rows, for all selected owners; summed in float64."""
    total = totals[thread, :width]
    for k in _part_of_ids(thread, threads, owners):
        begin, end = owners.start[k], owners.start[k + 1]
        total[:] = 0.0
        for a in range(begin, end):
            _prefetch_row(uploads, owners, a + AHEAD, width)
            _prefetch_row(results, owners, a + AHEAD, width)
            row = _row_at(uploads[owners.client[a]], owners.row[a], width)
            for w in range(width):
                total[w] += row[w]
        for a in range(begin, end):
            if results[owners.client[a]] != 0:
                new = _row_at(results[owners.client[a]], owners.row[a], width)
                for w in range(width):
                    new[w] = total[w] / (end - begin)


@inline
def _part_of_ids(thread, threads, owners):
    """The ids of a thread."""
    ids = len(owners.start) - 1
    return range(ids * thread // threads, ids * (thread + 1) // threads)


@jit
def _prefetch_row(addresses, owners, place, width):
    """Begin to read a row that comes soon: with many clients, no row follows the one before in memory."""
    if place < len(owners.client):
        prefetch(_row_at(addresses[owners.client[place]], owners.row[place], width))


@jit_reordered
def _dot(a, b):
    total = 0.0
    for w in range(len(a)):
        total += np.float64(a[w]) * np.float64(b[w])
    return total


@intrinsic
def _row_at(typing, address, number, width):
    """A row of the client whose first row is at an address; not reference-counted, as numba's `carray` would be."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.return_type)(context, builder)
        first, number, width = arguments
        start = builder.gep(builder.inttoptr(first, array.data.type), [builder.mul(number, width)])
        step = context.get_constant(types.intp, 4)
        populate_array(array, start, [width], [step], step, None)
        return array._getvalue()

    return types.Array(types.float32, 1, "C")(types.uintp, types.intp, types.intp), generate
