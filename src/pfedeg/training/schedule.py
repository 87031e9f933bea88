"""Decides which clients train at the same time with one thread each, and which in turn with all threads.

The threads of one client wait for each other at barriers and during serial work; clients with one thread each never
wait. Results are the same bit for bit. Evaluation is not scheduled, since ranking has no barriers.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from pfedeg.engine.interface import Engine, MultiThreaded, SingleThreaded
from pfedeg.graphs.alignment import ClientId

SERIAL = 0.2  # serial share of a client's training; 0.12 to 0.39 measured on two cores

T = TypeVar("T")


class Work(NamedTuple, Generic[T]):
    """The work of a client: its size in any unit, and a function that does it on an engine."""

    size: float
    run: Callable[[Engine], T]


def run_all(work: Mapping[ClientId, Work[T]], engine: Engine) -> dict[ClientId, T]:
    """Every client's result, in the order of `work`. Of several errors, the first in that order is raised."""
    names = list(work)
    started: dict[ClientId, Future[T]] = {}
    if isinstance(engine, MultiThreaded):
        chosen = concurrent([one.size for one in work.values()], engine.threads)
        started = _run_concurrently({names[i]: work[names[i]] for i in chosen}, engine)
    return {name: started[name].result() if name in started else one.run(engine) for name, one in work.items()}


def concurrent(sizes: Sequence[float], threads: int) -> list[int]:
    """Indices of the clients that run at the same time, largest first; the others run in turn with all threads.

    A group of as many clients as there are threads, of similar sizes, takes the time of its largest client when each
    has a thread, and Σ size · (SERIAL + (1 − SERIAL) / threads) when each has all threads in turn.
    """
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    chosen: list[int] = []
    for first in range(0, len(order) if threads > 1 else 0, threads):
        group = order[first : first + threads]
        in_turn = sum(sizes[i] for i in group) * (SERIAL + (1 - SERIAL) / threads)
        if sizes[group[0]] < in_turn:
            chosen += group
    return chosen


def _run_concurrently(work: Mapping[ClientId, Work[T]], engine: MultiThreaded) -> dict[ClientId, Future[T]]:
    """Run clients on single-threaded engines; a free engine takes the next client. Ctrl-C stops all of them."""
    futures: dict[ClientId, Future[T]] = {}
    singles = [engine.single() for _ in range(min(engine.threads, len(work)))]
    idle: SimpleQueue[SingleThreaded] = SimpleQueue()
    for single in singles:
        idle.put(single)

    def run(one: Work[T]) -> T:
        single = idle.get()
        try:
            return one.run(single)
        finally:
            idle.put(single)

    with ThreadPoolExecutor(engine.threads, "pfedeg-client") as pool:
        try:
            for name, one in work.items():
                futures[name] = pool.submit(run, one)
            wait(futures.values())
        except BaseException:
            for future in futures.values():
                future.cancel()
            for single in singles:
                single.stop()
            raise
    return futures
