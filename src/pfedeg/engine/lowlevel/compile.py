"""How functions are compiled, teams of threads that run them, and random numbers."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core import config as numba_config
from numba.extending import intrinsic
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.engine.lowlevel import code_cache as cache

config: Any = numba_config  # its settings are made at run time
F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a part of a kernel, for calls from compiled code only: without an entry for Python it compiles faster."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def jit_reordered(function: F) -> F:
    """Like `jit`, and the compiler may reorder sums, always in the same way: a sum over a row then runs in vectors."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath={"reassoc", "contract"})


def inline(function: F) -> F:
    """Like `jit`, but inlined: passing arrays takes as long as the work on a pair or row."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def kernel(function: F) -> F:
    """Compile what Python calls; keep the machine code, with all its parts, on disk."""
    if cache.folder() is None:
        return _compile(function, no_cfunc_wrapper=True)
    before, config.CACHE_DIR = config.CACHE_DIR, str(cache.folder())
    try:
        compiled = _compile(function, cache=True, no_cfunc_wrapper=True)
    finally:
        config.CACHE_DIR = before
    cache.keep_apart(compiled)
    return compiled


def _compile(function: F, **options: Any) -> F:
    """Compile on first use, for the types of the arguments.

    The code runs without the GIL and without counting references to arrays: counters that threads share would cost
    more than the arithmetic. So it cannot allocate: all memory is passed in.
    """
    njit: Any = numba.njit  # its annotations do not know all of its options
    return cast(F, njit(nogil=True, _nrt=False, error_model="numpy", **options)(function))


# Threads. Python threads enter a compiled function together and stay in it for a whole round; they wait for each other
# at barriers and share out work by atomic counters in one int64 array.
STRIDE = 8  # int64 numbers from one counter to the next: a cache line
STOP, ARRIVED, PHASE, NEXT = 0, STRIDE, 2 * STRIDE, 3 * STRIDE


class Team:
    """A fixed number of threads that run one compiled function together."""

    def __init__(self, size: int) -> None:
        """Threads are made on first use; each has the same part in every call: its core may still have it."""
        self.size = size
        self._workers: list[ThreadPoolExecutor] = []
        self._lock = Lock()  # two calls at once would wait for each other's threads forever
        self._sync = np.zeros(4 * STRIDE, np.int64)
        self._stopped = False

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call function(thread, threads, sync, *arguments) on every thread; Ctrl-C stops all of them."""
        with self._lock:
            sync = self._sync = np.zeros(4 * STRIDE, np.int64)  # set before the flag is read: `stop` sets both
            if self._stopped:
                return
            self._workers = self._workers or [ThreadPoolExecutor(1, "pfedeg") for _ in range(self.size)]
            threads = enumerate(self._workers)
            futures = [worker.submit(function, thread, self.size, sync, *arguments) for thread, worker in threads]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                sync[STOP] = 1
                for future in futures:
                    future.exception()
                raise

    def stop(self) -> None:
        """Called from another thread: end what runs, and run nothing more."""
        self._stopped = True
        self._sync[STOP] = 1


@intrinsic
def atomic_add(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """Atomically array[place] += value; the value before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(context, builder, kind, view, [arguments[1]])
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


_give_way = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


@jit
def barrier(threads: int, sync: NDArray[np.int64]) -> None:
    """Wait until every thread has arrived."""
    phase = atomic_add(sync, PHASE, 0)
    if atomic_add(sync, ARRIVED, 1) == threads - 1:
        sync[NEXT] = 0
        atomic_add(sync, ARRIVED, -threads)
        atomic_add(sync, PHASE, 1)
    else:
        spins = 0
        while atomic_add(sync, PHASE, 0) == phase:
            spins += 1
            if spins > 2000:
                _give_way()


@jit
def take(sync: NDArray[np.int64], amount: int) -> int:
    """The first of the next `amount` units of work; every barrier starts again from 0."""
    return atomic_add(sync, NEXT, amount)


@jit
def random_below(key: np.uint64, counter: np.uint64, bound: np.uint64) -> np.int32:
    """`randomness.below`, one number at a time."""
    x = key + (counter + np.uint64(1)) * np.uint64(randomness.GOLDEN)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(randomness.MIX1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(randomness.MIX2)
    x = x ^ (x >> np.uint64(31))
    return np.int32(((x >> np.uint64(32)) * bound) >> np.uint64(32))
