"""The rows of the server's update, moved and nothing else: how fast it could be where clients are many."""

from pfedeg.engine.lowlevel.compile import kernel
from pfedeg.methods.mixing_compiled import _at, _fetch_ahead, _next, _write


@kernel
def copy_rows(thread, threads, sync, owners, uploads, width, buffers, results):
    """What `mixing.mix` reads and writes, id after id."""
    while True:
        first, last = _next(sync, owners)
        if first >= last:
            return
        for a in range(owners.start[first], owners.start[last]):
            _fetch_ahead(uploads, owners, a, width)
            _write(_at(uploads, owners, a, width), _at(results, owners, a, width), width)
