"""How Adam writes rows, through the caches or past them: both ways are tried now and then, and the faster is taken.

What a core writes, others must first give up. Cores that share a cache hardly notice; between others, to have back the
rows that all of them have read takes longer than all the rest of Adam, unless they are written past the caches. Which
cores threads run on may change at any time, so it is measured. Numbers are the same either way.
"""

import numpy as np

from pfedeg.engine.lowlevel.compile import inline, jit, ticks
from pfedeg.engine.lowlevel.vectors import WIDE, load_wide, send, store

SINCE, THROUGH, PAST, WAY = range(4)  # in `Scratch.pace`: the last step's time, the shortest steps each way, the choice
PERIOD, TRIES = 128, 3  # steps between trials, and in a trial of each way


@jit
def choose_way(threads, step, pace):
    """Choose how the next step writes; on one thread, at the end of a step."""
    now, turn = ticks(), step % PERIOD
    took, pace[SINCE] = now - pace[SINCE], now  # this step's reading and writing
    if threads == 1:
        return
    if turn == 0:
        pace[THROUGH] = pace[PAST] = np.iinfo(np.int64).max
        pace[WAY] = THROUGH
    elif turn <= 2 * TRIES:
        pace[pace[WAY]] = min(pace[pace[WAY]], took)
        if turn < 2 * TRIES:
            pace[WAY] = THROUGH if turn < TRIES else PAST
        else:
            pace[WAY] = PAST if pace[PAST] < pace[THROUGH] else THROUGH


@inline
def write(row, k, value, past):
    """Some numbers of a row, that nothing reads before threads meet."""
    if past:
        send(row, k, value)
    else:
        store(row, k, value)


@jit
def copy(row, other, past):
    """Write a row to where another thread reads it."""
    for k in range(0, len(row), WIDE):
        write(other, k, load_wide(row, k), past)
