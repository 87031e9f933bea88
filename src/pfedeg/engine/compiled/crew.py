"""The compiled kernels for several clients at once: all threads for one of them, or a thread for each."""

from collections.abc import Callable
from typing import Any

from pfedeg.engine.compiled.engine import Fused
from pfedeg.engine.lowlevel.compile import STOP, Team


class FusedCrew(Fused):
    """`Fused` on all threads, whose threads can also be had one by one."""

    def __init__(self, threads: int) -> None:
        """Results are the same either way."""
        super().__init__(threads)
        self.threads = threads

    def single(self) -> "FusedSolo":
        """See `MultiThreaded.single`."""
        return FusedSolo()


class FusedSolo(Fused):
    """`Fused` on one thread, which others can ask to stop."""

    def __init__(self) -> None:
        """One for each client that trains at the same time."""
        super().__init__(1)
        self._team: _Stoppable = _Stoppable()

    def stop(self) -> None:
        """See `SingleThreaded.stop`."""
        self._numpy.stop()
        self._team.stop()


class _Stoppable(Team):
    """A team of one that hears of Ctrl-C from another thread: Python tells only its main thread."""

    def __init__(self) -> None:
        super().__init__(1)
        self._stopped = False
        self._running: Any = None  # what the compiled function looks at now and then

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        def unless_stopped(thread: int, threads: int, sync: Any, *rest: Any) -> None:
            self._running = sync  # before looking at the flag, so that `stop` is missed by neither
            if not self._stopped:
                function(thread, threads, sync, *rest)

        super().run(unless_stopped, *arguments)

    def stop(self) -> None:
        """End what runs, and run nothing more."""
        self._stopped = True
        if self._running is not None:
            self._running[STOP] = 1
