"""Child processes that end when their parent ends (Linux only)."""

import signal
import sys
from typing import Any


def end_with_parent() -> dict[str, Any]:
    """Arguments of subprocess.Popen that end the child with its parent; empty except on Linux."""
    return {"preexec_fn": _terminate_with_parent} if sys.platform == "linux" else {}


def _terminate_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
