"""A team of threads runs one call at a time."""

import threading
import time

from pfedeg.engine.lowlevel.compile import Team


def test_calls_from_several_threads_take_turns():
    team, running, most = Team(2), [], []

    def work(thread, threads, sync):
        running.append(thread)
        most.append(len(running))
        time.sleep(0.002)
        running.remove(thread)

    def call():
        for _ in range(20):
            team.run(work)

    callers = [threading.Thread(target=call, daemon=True) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert not any(caller.is_alive() for caller in callers)
    assert len(most) == 3 * 20 * 2
    assert max(most) <= 2
