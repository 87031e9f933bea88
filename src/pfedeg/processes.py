"""Child processes that end with the process that started them, where the system can do that."""

import signal
import sys
from typing import Any


def end_with_parent() -> dict[str, Any]:
    """Arguments of subprocess.Popen. On Linux the child ends when its parent dies; elsewhere there are none."""
    return {"preexec_fn": _terminate_with_parent} if sys.platform == "linux" else {}


def _terminate_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
