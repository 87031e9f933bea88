"""Child processes that end when their parent ends, and that may not take all memory (Linux only)."""

import os
import signal
import sys
from functools import partial
from typing import Any


def end_with_parent(memory: int = 0) -> dict[str, Any]:
    """Arguments of subprocess.Popen that end the child with its parent; empty except on Linux.

    With `memory`, it may not take more bytes than that.
    """
    return {"preexec_fn": partial(_prepare, memory)} if sys.platform == "linux" else {}


def memory_of_machine() -> int:
    """The bytes of memory of this machine; 0 if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def _prepare(memory: int) -> None:
    import ctypes
    import resource

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if memory:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
