"""How clients share the threads of one machine: side by side with a thread each, or one after another with all.

Threads inside one client meet at barriers and wait while one of them does what cannot be divided. With a thread to
each client nobody waits, until no client is left for some of the threads. Results are the same bit for bit.
Evaluation is not scheduled: ranking has no barriers, and all threads inside one client were the faster way.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from pfedeg.engine.interface import Engine, MultiThreaded, SingleThreaded
from pfedeg.graphs.alignment import ClientId

# The share of a client's training that several threads inside it do no faster than one: measured on two cores as 12 to
# 39 %, more for small clients.
SERIAL = 0.2

T = TypeVar("T")


class Job(NamedTuple, Generic[T]):
    """A client's work: how much it is, in any unit, and what to call with engine to have it done."""

    size: float
    do: Callable[[Engine], T]


def carry_out(jobs: Mapping[ClientId, Job[T]], engine: Engine) -> dict[ClientId, T]:
    """Everybody's result, in the order given. Of several errors the first in that order is raised."""
    names = list(jobs)
    begun: dict[ClientId, Future[T]] = {}
    if isinstance(engine, MultiThreaded):
        places = side_by_side([job.size for job in jobs.values()], engine.threads)
        begun = _at_once({names[i]: jobs[names[i]] for i in places}, engine)
    return {name: begun[name].result() if name in begun else job.do(engine) for name, job in jobs.items()}


def side_by_side(sizes: Sequence[float], threads: int) -> list[int]:
    """The places of those that should run at the same time, largest first; the others get all threads in turn.

    As many clients as there are threads, of neighbouring sizes, take the time of the largest when each has a thread,
    and Σ size · (SERIAL + (1 − SERIAL) / threads) when each has all of them.
    """
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    chosen: list[int] = []
    for first in range(0, len(order) if threads > 1 else 0, threads):
        bunch = order[first : first + threads]
        in_turn = sum(sizes[i] for i in bunch) * (SERIAL + (1 - SERIAL) / threads)
        if sizes[bunch[0]] < in_turn:
            chosen += bunch
    return chosen


def _at_once(jobs: Mapping[ClientId, Job[T]], crew: MultiThreaded) -> dict[ClientId, Future[T]]:
    """Begin with the first; whoever is done takes the next. Ctrl-C stops all of them."""
    futures: dict[ClientId, Future[T]] = {}
    solos = [crew.single() for _ in range(min(crew.threads, len(jobs)))]
    idle: SimpleQueue[SingleThreaded] = SimpleQueue()
    for solo in solos:
        idle.put(solo)

    def work(job: Job[T]) -> T:
        solo = idle.get()
        try:
            return job.do(solo)
        finally:
            idle.put(solo)

    with ThreadPoolExecutor(crew.threads, "pfedeg-client") as pool:  # left only when nothing runs any more
        try:
            for name, job in jobs.items():
                futures[name] = pool.submit(work, job)
            wait(futures.values())
        except BaseException:
            for future in futures.values():
                future.cancel()
            for solo in solos:
                solo.stop()
            raise
    return futures
