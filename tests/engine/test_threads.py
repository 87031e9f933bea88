"""A team of threads runs one call at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from pfedeg.engine.lowlevel.compile import Team


class SlowFirst(ThreadPoolExecutor):
    """A worker that accepts the work of its first caller late, so that another caller could come in between."""

    called = False

    def submit(self, function, /, *arguments, **named):
        first, self.called = not self.called, True
        if first:
            time.sleep(0.2)
        return super().submit(function, *arguments, **named)


def test_calls_whose_threads_wait_for_each_other_take_turns():
    team = Team(2)
    team._workers = [ThreadPoolExecutor(1), SlowFirst(1)]
    errors = []

    def call():
        barrier = threading.Barrier(2)
        try:
            team.run(lambda thread, threads, sync: barrier.wait(3))
        except threading.BrokenBarrierError as error:
            errors.append(error)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
        time.sleep(0.05)
    for caller in callers:
        caller.join(30)
    assert errors == []
