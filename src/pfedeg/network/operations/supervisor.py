"""Keeps the processes of a folder running: one watches the others, restarts them when they die, and can be stopped."""

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
from pfedeg.files import try_lock, write_json
from pfedeg.processes import end_with_parent, memory_of_machine

BACKOFF = (0.5, 30.0)  # seconds before a dead process is restarted: at first, and at most
STABLE = 60.0  # seconds of running after which the backoff starts from its minimum again
MOST_MEMORY = 0.8  # share of the machine's memory that one process may take
MOST_LOG_BYTES = 10 << 20  # before a log is rotated
RUNNING = "is already running; see `status`, or `stop` it first"


@dataclass
class Child:
    """A process to keep running."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    started: Callable[[], None] = lambda: None  # called after each start
    process: "subprocess.Popen[bytes] | None" = None
    since: float = 0.0
    delay: float = BACKOFF[0]


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock a folder for its one watching process; the lock file holds its process id."""
    (folder / "run").mkdir(mode=0o700, exist_ok=True)
    with open(folder / "run" / "lock", "a+") as file:
        for left in range(5, -1, -1):  # `find` holds it for a moment
            if try_lock(file):
                break
            if not left:
                raise InputError(f"{folder}: {RUNNING}")
            time.sleep(0.1)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def find(folder: Path) -> int | None:
    """The id of the process that watches a folder, if there is one."""
    try:
        with open(folder / "run" / "lock") as file:
            if not try_lock(file):
                return int(file.read() or 0) or None
    except (FileNotFoundError, ValueError):
        pass
    return None


def check_stopped(folder: Path) -> None:
    """Refuse to go on while the processes of a folder are running."""
    if find(folder):
        raise InputError(f"{folder}: {RUNNING}")


def start(folder: Path, command: Sequence[str], ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Start a watching process in the background and wait until it is ready."""
    check_stopped(folder)
    with open_log(folder, "watch") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pfedeg", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    until = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            if process.poll() is None:
                process.terminate()
            raise RunError(f"{folder}: did not start; for the reason, see the end of {folder / 'log' / 'watch.log'}")
        time.sleep(0.1)


def stop(folder: Path, seconds: float = 20.0) -> bool:
    """Stop all processes of a folder; whether there were any."""
    found = find(folder)
    if found is None:
        return False
    os.kill(found, signal.SIGTERM)
    until = time.monotonic() + seconds
    while find(folder):
        if time.monotonic() > until:
            raise RunError(f"{folder}: process {found} does not stop; kill it")
        time.sleep(0.05)
    return True


def open_log(folder: Path, name: str) -> Any:
    """A log to append to."""
    (folder / "log").mkdir(mode=0o700, exist_ok=True)
    return open(folder / "log" / f"{name}.log", "ab")


def watch(folder: Path, children: Sequence[Child], log: Callable[[str], None]) -> None:
    """Keep processes running until SIGTERM or SIGINT."""
    stopped, rotate_at = False, 0.0
    written: dict[str, int] | None = None

    def leave(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    for left in ("ended.json", "status.json"):  # of an earlier process
        (folder / "run" / left).unlink(missing_ok=True)
    try:
        while not stopped:
            for child in children:
                _check(folder, child, log)
            now = {child.name: child.process.pid for child in children if child.process}
            if now != written:
                write_json(folder / "run" / "processes.json", now)
                written = now
            if time.monotonic() > rotate_at:
                _rotate(folder)
                rotate_at = time.monotonic() + STABLE
            time.sleep(0.2)
    finally:
        end(children)
        (folder / "run" / "processes.json").unlink(missing_ok=True)
        log("stopped")


def _last_line(folder: Path, name: str) -> str:
    with open(folder / "log" / f"{name}.log", "rb") as file:
        file.seek(max(0, file.seek(0, 2) - 2000))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _rotate(folder: Path) -> None:
    """Copy large logs to .old and truncate them in place, since processes keep them open."""
    for path in (folder / "log").glob("*.log"):
        if path.stat().st_size > MOST_LOG_BYTES:
            shutil.copyfile(path, path.with_suffix(".log.old"))
            os.truncate(path, 0)


def _check(folder: Path, child: Child, log: Callable[[str], None]) -> None:
    now = time.monotonic()
    if child.process is not None and child.process.poll() is None:
        if now - child.since > STABLE:
            child.delay = BACKOFF[0]
        return
    if child.process is not None:
        log(f"{child.name} exited with code {child.process.returncode}; restarting in {child.delay:.1f} s")
        ended = {"name": child.name, "code": child.process.returncode, "last_line": _last_line(folder, child.name)}
        write_json(folder / "run" / "ended.json", ended)
        _kill_group(child.process)
        child.process, child.since = None, now + child.delay
        child.delay = min(2 * child.delay, BACKOFF[1])
        return
    if now < child.since:
        return
    with open_log(folder, child.name) as output:
        child.process = subprocess.Popen(
            list(child.command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **child.environment},
            process_group=0,
            **end_with_parent(int(MOST_MEMORY * memory_of_machine())),
        )
    child.since = now
    log(f"{child.name} started as process {child.process.pid}")
    child.started()


def end(children: Sequence[Child], seconds: float = 5.0) -> None:
    """Terminate processes, the last first; kill those that do not end."""
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
            _kill_group(child.process)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill what a dead process leaves behind: nginx's workers survive it and keep its port."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
