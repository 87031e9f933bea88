"""The server's update, compiled: id after id over its owners only, the same for any number of threads.

An id's rows are read from memory once and its new rows written once. Uploads stay where they are: kernels get the
address of each client's first row (0: nothing is wanted there). What is summed over ids is summed in whole numbers,
whose order does not matter, so every thread has a table of its own and takes whichever ids come next.
"""

import math

import numpy as np

from pfedeg.engine.lowlevel.compile import STOP, inline, jit, kernel, take
from pfedeg.engine.lowlevel.dots import all_dots, dot, four_dots
from pfedeg.engine.lowlevel.memory import LANE, address_of, fetch, row_at, stream
from pfedeg.engine.lowlevel.vectors import WIDE, expect_line, fill_wide, load_wide, send

IDS = 64  # that a thread takes at a time
AHEAD = 8  # owners whose rows are fetched in advance: where clients are many, no row follows the one before
AHEAD_IDS = 3  # ids whose weights are fetched in advance
PLACES = 8  # from so many clients on, rows lie in so many places that the processor does not guess the next one
TILE = 16  # rows that stay in the first cache while all before them are compared with them


@kernel
def count(thread, threads, sync, owners, clients, tables):
    """How many ids each two clients i < j share."""
    while thread < len(tables):
        first, last = _next(sync, owners)
        if first >= last:
            return
        for k in range(first, last):
            for a in range(owners.start[k], owners.start[k + 1]):
                i = clients * owners.client[a]
                for b in range(a + 1, owners.start[k + 1]):
                    tables[thread, i + owners.client[b]] += 1


@kernel
def relate(thread, threads, sync, owners, uploads, width, scale, inverses, cosines, tables):
    """Σ over the ids that two clients i < j share of exp(cos(E_i, E_j)), in units of 1 / scale."""
    while thread < len(tables):
        first, last = _next(sync, owners)
        if first >= last:
            return
        inverse, cosine, table = inverses[thread], cosines[thread], tables[thread]
        for k in range(first, last):
            begin, end = owners.start[k], owners.start[k + 1]
            _fetch_entries(address_of(table), owners, k, len(uploads))
            for a in range(begin, end):
                _fetch_ahead(uploads, owners, a, width)
            if end - begin <= 4:
                _relate_few(owners, begin, end, uploads, width, scale, inverse, table)
            else:
                _relate_many(owners, begin, end, uploads, width, scale, inverse, cosine, table)


@inline
def _relate_few(owners, begin, end, uploads, width, scale, inverse, table):
    """Up to four owners: all products in one walk through the rows."""
    last = end - 1
    a, b = _at(uploads, owners, begin, width), _at(uploads, owners, min(begin + 1, last), width)
    c, d = _at(uploads, owners, min(begin + 2, last), width), _at(uploads, owners, last, width)
    products = all_dots(a, b, c, d, width)
    place = 0
    for i in range(end - begin):
        inverse[i] = _inverse_length(products[place])
        place += 4 - i
    for i in range(end - begin):
        for j in range(i + 1, end - begin):
            x = products[4 * i - i * (i + 1) // 2 + j] * inverse[i] * inverse[j]
            entry = len(uploads) * owners.client[begin + i] + owners.client[begin + j]
            table[entry] += np.int64(math.exp(x) * scale + 0.5)


@inline
def _relate_many(owners, begin, end, uploads, width, scale, inverse, cosine, table):
    """More owners: a tile of them stays in the first cache while all before it are compared with it."""
    for a in range(begin, end):
        row = _at(uploads, owners, a, width)
        inverse[a - begin] = _inverse_length(dot(row, row, width))
    for tile in range(begin, end, TILE):
        stop = min(tile + TILE, end)
        for a in range(begin, stop):
            own, low = _at(uploads, owners, a, width), max(a + 1, tile)
            b = low
            while b + 4 <= stop:
                cosine[b - tile], cosine[b + 1 - tile], cosine[b + 2 - tile], cosine[b + 3 - tile] = four_dots(
                    own,
                    _at(uploads, owners, b, width),
                    _at(uploads, owners, b + 1, width),
                    _at(uploads, owners, b + 2, width),
                    _at(uploads, owners, b + 3, width),
                    width,
                )
                b += 4
            while b < stop:
                cosine[b - tile] = dot(own, _at(uploads, owners, b, width), width)
                b += 1
            i = len(uploads) * owners.client[a]
            for b in range(low, stop):
                x = cosine[b - tile] * inverse[a - begin] * inverse[b - begin]
                table[i + owners.client[b]] += np.int64(math.exp(x) * scale + 0.5)


@kernel
def mix(thread, threads, sync, owners, uploads, width, weights, p, buffers, results):
    """E_i + p · Σ_j W_ij (E_j − E_i) / Σ_j W_ij over the owners j of each id, for its owners i."""
    change, whole = buffers[thread], width % WIDE == 0 and len(uploads) >= PLACES
    while True:
        first, last = _next(sync, owners)
        if first >= last:
            return
        for k in range(first, last):
            begin, end = owners.start[k], owners.start[k + 1]
            _fetch_entries(address_of(weights), owners, k, len(uploads))
            for a in range(begin, end):
                i, own, target = owners.client[a], _at(uploads, owners, a, width), _at(results, owners, a, width)
                total, few = 0.0, end - begin <= 4
                direct = whole and few and results[i] != 0 and target % np.uintp(4 * WIDE) == 0
                if not direct:
                    _fetch_ahead(uploads, owners, a, width)
                if results[i] == 0:
                    continue
                if not few:
                    _clear(change, width)
                for b in range(begin, end, 4):
                    other, left = _at(uploads, owners, b, width), end - b
                    w, x, y, z = weights[i, owners.client[b]], 0.0, 0.0, 0.0
                    c = d = e = own  # where fewer than four are left: it changes nothing
                    if left > 1:
                        x, c = weights[i, owners.client[b + 1]], _at(uploads, owners, b + 1, width)
                    if left > 2:
                        y, d = weights[i, owners.client[b + 2]], _at(uploads, owners, b + 2, width)
                    if left > 3:
                        z, e = weights[i, owners.client[b + 3]], _at(uploads, owners, b + 3, width)
                    total += w + x + y + z
                    if direct:
                        soon = _at(uploads, owners, min(a + AHEAD, len(owners.client) - 1), width)
                        _blend_past(target, own, other, c, d, e, w, x, y, z, _share(p, total), soon, width)
                    elif few:
                        _blend(change, own, other, c, d, e, w, x, y, z, _share(p, total), width)
                    else:
                        _approach(change, own, other, c, d, e, w, x, y, z, width)
                if not few:
                    _settle(change, own, _share(p, total), width)
                if not direct:
                    _write(change, target, width)


@kernel
def mean(thread, threads, sync, owners, uploads, width, totals, buffers, results):
    """The mean of the owners' rows, for all of them."""
    total, new = totals[thread], row_at(buffers[thread], width)
    while True:
        first, last = _next(sync, owners)
        if first >= last:
            return
        for k in range(first, last):
            begin, end = owners.start[k], owners.start[k + 1]
            total[:] = 0.0
            for a in range(begin, end):
                _fetch_ahead(uploads, owners, a, width)
                row = row_at(_at(uploads, owners, a, width), width)
                for w in range(width):
                    total[w] += row[w]
            for w in range(width):
                new[w] = total[w] / (end - begin)
            for a in range(begin, end):
                if results[owners.client[a]] != 0:
                    _write(buffers[thread], _at(results, owners, a, width), width)


@jit
def _next(sync, owners):
    """The next ids for a thread; none when all are taken or everybody shall stop."""
    first = take(sync, IDS)
    return first, 0 if sync[STOP] != 0 else min(first + IDS, len(owners.start) - 1)


@jit
def _inverse_length(square):
    """0 for a row without a direction, zero or infinite: its cosine with all others is 0."""
    return 1.0 / math.sqrt(square) if 0.0 < square < np.inf else 0.0


@jit
def _clear(target, width):
    row = row_at(target, width)
    for w in range(width):
        row[w] = np.float32(0.0)


@jit
def _approach(change, own, b, c, d, e, wb, wc, wd, we, width):
    """Change += Σ W (E − own) over four owners."""
    change, own, b, c = row_at(change, width), row_at(own, width), row_at(b, width), row_at(c, width)
    d, e = row_at(d, width), row_at(e, width)
    wb, wc, wd, we = np.float32(wb), np.float32(wc), np.float32(wd), np.float32(we)
    for w in range(width):
        change[w] += wb * (b[w] - own[w]) + wc * (c[w] - own[w]) + wd * (d[w] - own[w]) + we * (e[w] - own[w])


@jit
def _blend(new, own, b, c, d, e, wb, wc, wd, we, share, width):
    """What `_approach` and `_settle` come to, in one go."""
    new, own, b, c = row_at(new, width), row_at(own, width), row_at(b, width), row_at(c, width)
    d, e = row_at(d, width), row_at(e, width)
    wb, wc, wd, we = np.float32(wb), np.float32(wc), np.float32(wd), np.float32(we)
    for w in range(width):
        change = wb * (b[w] - own[w]) + wc * (c[w] - own[w]) + wd * (d[w] - own[w]) + we * (e[w] - own[w])
        new[w] = own[w] + share * change


@inline
def _blend_past(new, own, b, c, d, e, wb, wc, wd, we, share, soon, width):
    """The same, written past the caches; meanwhile the row `soon` is asked for, a line at a time."""
    new, own, b, c = row_at(new, width), row_at(own, width), row_at(b, width), row_at(c, width)
    d, e, soon = row_at(d, width), row_at(e, width), row_at(soon, width)
    wb, wc = fill_wide(np.float32(wb)), fill_wide(np.float32(wc))
    wd, we, share = fill_wide(np.float32(wd)), fill_wide(np.float32(we)), fill_wide(share)
    for w in range(0, width, WIDE):
        expect_line(soon, w)
        x = load_wide(own, w)
        change = wb * (load_wide(b, w) - x) + wc * (load_wide(c, w) - x)
        change = change + wd * (load_wide(d, w) - x) + we * (load_wide(e, w) - x)
        send(new, w, x + share * change)


@jit
def _share(p, total):
    return np.float32(p / total if total > 0.0 else 0.0)


@jit
def _settle(change, own, share, width):
    change, own = row_at(change, width), row_at(own, width)
    for w in range(width):
        change[w] = own[w] + share * change[w]


@jit
def _write(source, target, width):
    if (target | np.uintp(4 * width)) % np.uintp(4 * LANE) == 0:
        stream(source, target, width)
    else:
        old, new = row_at(source, width), row_at(target, width)
        for w in range(width):
            new[w] = old[w]


@jit
def _fetch_ahead(addresses, owners, place, width):
    if place + AHEAD < len(owners.client):
        address = _at(addresses, owners, place + AHEAD, width)
        for line in range(0, 4 * width, 64):
            fetch(address + np.uintp(line))
        fetch(address + np.uintp(4 * width - 1))  # a row that begins within a line ends in one more


@jit
def _fetch_entries(table, owners, k, clients):
    """Begin to read what a table of C × C numbers of 8 bytes has for an id to come, if its owners are few."""
    if k + AHEAD_IDS + 1 < len(owners.start):
        begin, end = owners.start[k + AHEAD_IDS], owners.start[k + AHEAD_IDS + 1]
        if end - begin <= 4:
            for a in range(begin, end):
                for b in range(begin, end):
                    fetch(table + np.uintp(8) * np.uintp(clients * owners.client[a] + owners.client[b]))


@jit
def _at(addresses, owners, place, width):
    """Where the row of an id at one of its owners begins."""
    return addresses[owners.client[place]] + np.uintp(owners.row[place]) * np.uintp(width) * np.uintp(4)
