"""The cache of machine code: a folder of this user, safe with several processes at once."""

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

UNUSED_DAYS = 30
_STATE = re.compile(r"[0-9a-f]{12}")


@cache
def folder() -> Path | None:
    """The folder for the present sources of compiled code; None where nothing can be written."""
    package = Path(__file__).parents[2]
    sources = sorted([*(package / "engine").glob("**/*.py"), *(package / "methods").glob("mixing*.py")])
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    for place in _places():
        with suppress(OSError):
            (place / state).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place / state):
                pass
            os.utime(place / state)  # it is in use
            _remove_unused(place)
            return place / state
    return None


def is_first_use() -> bool:
    """Whether nothing is cached yet for the present sources."""
    found = folder()
    return found is None or not any(found.glob("**/*.nbi"))


def keep_apart(dispatcher: Any) -> None:
    """Let every process write machine code to files with unique names.

    Numba numbers the files, and two processes that compile for different types at the same time take the same number:
    one would then load the other's code. With unique names only the index can be overwritten, atomically; code that
    is lost from it is compiled once more.
    """
    file = dispatcher._cache._cache_file
    file._data_name_pattern = file._data_name_pattern.replace("{number", f"{uuid4().hex[:12]}.{{number")


def _places() -> Iterator[Path]:
    """Candidates, best first. Nothing is written beside the sources, so the installation may be read-only."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"]) / "pfedeg"
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pfedeg"
    with suppress(OSError):  # not even a place for temporary files
        place = Path(tempfile.gettempdir()) / f"pfedeg-{os.getuid() if hasattr(os, 'getuid') else 0}"
        place.mkdir(mode=0o700, exist_ok=True)
        if _is_ours_alone(place):
            yield place


def _is_ours_alone(place: Path) -> bool:
    """Whether no other user can have put code there for us to run."""
    if not hasattr(os, "getuid"):
        return True  # Windows: temporary files are each user's own
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _remove_unused(place: Path) -> None:
    """Remove the caches of former sources that no process has used for UNUSED_DAYS."""
    oldest = time.time() - UNUSED_DAYS * 86400
    for path in place.iterdir():
        with suppress(FileNotFoundError):  # another process removes it too
            if _STATE.fullmatch(path.name) and path.lstat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)
