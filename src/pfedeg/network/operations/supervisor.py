"""Processes that stay: one watches over the others of a folder, starts them again when they die, and can be stopped."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError, RunError
from pfedeg.files import write_json
from pfedeg.processes import end_with_parent

BACKOFF = (0.5, 30.0)  # seconds before a dead process is started again: at first, and at most
CALM = 60.0  # seconds after which a process counts as well
LOG = 10 << 20  # bytes of a log before it is begun anew


@dataclass
class Child:
    """A process to keep alive."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    started: Callable[[], None] = lambda: None  # called after each start
    process: "subprocess.Popen[bytes] | None" = None
    since: float = 0.0
    delay: float = BACKOFF[0]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the only one who watches over a folder; others find the number of this process in the lock."""
    (folder / "run").mkdir(mode=0o700, exist_ok=True)
    with open(folder / "run" / "lock", "a+") as file:
        for left in range(5, -1, -1):  # somebody who only looks holds it for a moment
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not left:
                    raise InputError(f"{folder}: is running already; see `status`, or `stop` it first") from None
                time.sleep(0.1)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def watcher(folder: Path) -> int | None:
    """The process that watches over a folder, if there is one."""
    try:
        with open(folder / "run" / "lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return int(file.read() or 0) or None
    except (FileNotFoundError, ValueError):
        pass
    return None


def start(folder: Path, command: Sequence[str], ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Start a watcher in the background, and wait until it is ready."""
    if watcher(folder):
        raise InputError(f"{folder}: is running already; see `status`, or `stop` it first")
    with open_log(folder, "watch") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pfedeg", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    until = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            if process.poll() is None:
                process.terminate()
            raise RunError(f"{folder}: did not start; the reason is at the end of {folder / 'log' / 'watch.log'}")
        time.sleep(0.1)


def stop(folder: Path, seconds: float = 20.0) -> bool:
    """Stop the watcher of a folder and all its processes; whether there was one."""
    found = watcher(folder)
    if found is None:
        return False
    os.kill(found, signal.SIGTERM)
    until = time.monotonic() + seconds
    while watcher(folder):
        if time.monotonic() > until:
            raise RunError(f"{folder}: process {found} does not stop; kill it by hand")
        time.sleep(0.05)
    return True


def open_log(folder: Path, name: str) -> Any:
    """A log to append to."""
    (folder / "log").mkdir(mode=0o700, exist_ok=True)
    return open(folder / "log" / f"{name}.log", "ab")


def watch(folder: Path, children: Sequence[Child], say: Callable[[str], None]) -> None:
    """Keep processes alive until told to stop (SIGTERM, SIGINT)."""
    stopped, trim = False, 0.0
    told: dict[str, int] | None = None

    def leave(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    for left in ("ended.json", "status.json"):  # of another time
        (folder / "run" / left).unlink(missing_ok=True)
    try:
        while not stopped:
            for child in children:
                _tend(folder, child, say)
            now = {child.name: child.process.pid for child in children if child.process}
            if now != told:
                write_json(folder / "run" / "processes.json", now)
                told = now
            if time.monotonic() > trim:
                _trim(folder)
                trim = time.monotonic() + CALM
            time.sleep(0.2)
    finally:
        end(children)
        (folder / "run" / "processes.json").unlink(missing_ok=True)
        say("stopped")


def _last_line(folder: Path, name: str) -> str:
    with open(folder / "log" / f"{name}.log", "rb") as file:
        file.seek(max(0, file.seek(0, 2) - 2000))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _trim(folder: Path) -> None:
    """Put large logs aside; whoever writes to them goes on at their beginning."""
    for path in (folder / "log").glob("*.log"):
        if path.stat().st_size > LOG:
            shutil.copyfile(path, path.with_suffix(".log.old"))
            os.truncate(path, 0)


def _tend(folder: Path, child: Child, say: Callable[[str], None]) -> None:
    now = time.monotonic()
    if child.process is not None and child.process.poll() is None:
        if now - child.since > CALM:
            child.delay = BACKOFF[0]
        return
    if child.process is not None:
        say(f"{child.name} ended with {child.process.returncode}; starts again in {child.delay:.1f} s")
        ended = {"name": child.name, "code": child.process.returncode, "said": _last_line(folder, child.name)}
        write_json(folder / "run" / "ended.json", ended)
        _clear(child.process)
        child.process, child.since = None, now + child.delay
        child.delay = min(2 * child.delay, BACKOFF[1])
        return
    if now < child.since:
        return
    with open_log(folder, child.name) as log:
        child.process = subprocess.Popen(
            list(child.command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **child.environment},
            process_group=0,
            **end_with_parent(),
        )
    child.since = now
    say(f"{child.name} started as process {child.process.pid}")
    child.started()


def end(children: Sequence[Child], seconds: float = 5.0) -> None:
    """End processes, the last first; by force those that do not listen."""
    for child in reversed(children):
        if child.process is not None and child.process.poll() is None:
            child.process.terminate()
    until = time.monotonic() + seconds
    for child in reversed(children):
        if child.process is not None:
            try:
                child.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            _clear(child.process)


def _clear(process: "subprocess.Popen[bytes]") -> None:
    """End what a dead process has left: nginx's workers survive it, and keep its port."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
