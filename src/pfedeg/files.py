"""Atomic files and folders, file locks, and file names for arbitrary client names."""

import hashlib
import json
import os
import re
import secrets
import shutil
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import EBADF, EINVAL, ELOOP, ENOTSUP
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from pfedeg.errors import InputError, RunError

HASHED = re.compile("-[0-9a-f]{10}$")  # the end of a hashed name; plain names must not end like this
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
RESERVED = {"con", "prn", "aux", "nul"} | {f"{port}{i}" for port in ("com", "lpt") for i in range(10)}  # on Windows


class Disk:
    """The calls that change files which must survive a crash. Tests replace `DISK` to make each call fail."""

    def write(self, file: IO[bytes], *parts: bytes | memoryview) -> None:
        """Write to an open file."""
        for part in parts:
            file.write(part)
        file.flush()

    def sync(self, file: IO[bytes]) -> None:
        """Wait until the content of a file is on the disk."""
        os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or a folder; a file that exists is replaced."""
        os.replace(old, new)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk; some file systems, and Windows, know no such thing."""
        if os.name == "nt":
            return
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        except OSError as error:
            if error.errno not in (EBADF, EINVAL, ENOTSUP):
                raise
        finally:
            os.close(number)


DISK = Disk()


def safe_name(client: str) -> str:
    """A file name for a client: its own name if that is plain and safe, else a simplified form and a hash."""
    ascii_form = unicodedata.normalize("NFKD", client).lower().replace(" ", "-")
    plain = "".join(char for char in ascii_form if char in "abcdefghijklmnopqrstuvwxyz0123456789-_")[:40]
    if plain == client and plain and plain[0] not in "-_" and plain not in RESERVED and not HASHED.search(plain):
        return client
    return f"{plain.lstrip('-_') or 'client'}-{hashlib.sha256(client.encode()).hexdigest()[:10]}"


def check_free(path: Path) -> None:
    """Raise InputError if something exists at this path, or if nothing can be created there."""
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise InputError(f"{path}: already exists; choose another --out or another folder")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        problem = "is read-only" if parent.is_dir() else "is not a folder"
        raise InputError(f"{path}: cannot be created: {parent} {problem}")


def check_output(path: Path, force: bool, replaceable: Sequence[str] = ()) -> None:
    """Raise InputError if a command may not write here; call it before long work. The same rule for every command.

    Nothing that exists is overwritten without `force`. With it, a file is replaced, and a folder if all its files have
    names that match `replaceable`: those that the command itself writes.
    """
    if path.is_dir() and not path.is_symlink():
        found = [each for each in path.rglob("*") if not each.is_dir() or each.is_symlink()]
        foreign = [each for each in found if not any(fnmatch(each.name, pattern) for pattern in replaceable)]
        if not replaceable:
            raise InputError(f"{path}: is a folder; expected a file")
        if foreign and force:
            text = f"contains {foreign[0].relative_to(path)}, which this command did not write"
            raise InputError(f"{path}: {text}; --force does not delete it: choose another name")
        if not any(path.iterdir()) or force:
            return
    elif force and path.is_file():
        if replaceable:
            raise InputError(f"{path}: is a file; expected a folder")
        return
    if path.exists() or path.is_symlink():
        raise InputError(f"{path}: already exists; choose another name, or replace it with --force")
    check_free(path)


def create_folder(folder: Path, fill: Callable[[Path], None], replaceable: Sequence[str] = ()) -> None:
    """Create a folder atomically: fill a temporary one beside it, then rename that.

    With `replaceable`, replace a folder in which all files have such names (see `check_output`).
    """
    if replaceable:
        check_output(folder, True, replaceable)
    else:
        check_free(folder)
    temporary = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}") from None
    try:
        fill(temporary)
        for each in (*(path for path in temporary.rglob("*") if path.is_dir()), temporary):
            DISK.sync_folder(each)
        _put_in_place(temporary, folder)
        DISK.sync_folder(folder.parent)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, folder: Path) -> None:
    """Rename a folder; one that is replaced is moved away first and deleted last."""
    before = temporary.with_name(f"{temporary.name}.before")
    if folder.exists():
        DISK.rename(folder, before)
    try:
        DISK.rename(temporary, folder)
    except OSError:
        if before.exists():
            DISK.rename(before, folder)
        raise
    shutil.rmtree(before, ignore_errors=True)


@contextmanager
def locked(path: Path, message: str) -> Iterator[None]:
    """Hold an exclusive lock on a file; InputError with this message if another process holds it."""
    with open_own(path, "a") as file:
        if not try_lock(file):
            raise InputError(message)
        yield


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file exclusively until it is closed or the process ends; False if another process holds the lock."""
    try:
        try:
            import fcntl
        except ModuleNotFoundError:  # Windows
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]  # Windows only
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically."""
    write_bytes(path, (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_bytes(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file atomically, its content in one or several parts."""
    _write(path, parts, 0o666)


def write_private(path: Path, content: bytes) -> None:
    """Write a file atomically, readable only by its owner from the start."""
    _write(path, [content], 0o600)


def _write(path: Path, parts: Sequence[bytes | memoryview], mode: int) -> None:
    with writing(path) as temporary:
        temporary.unlink(missing_ok=True)  # a killed process may have left a readable file
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, mode), "wb") as file:
            DISK.write(file, *parts)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` on success; an OSError becomes a RunError with the file name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if temporary.exists():
            with open(temporary, "rb+") as file:
                DISK.sync(file)
            rename(temporary, path)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def rename(old: Path, new: Path) -> None:
    """Rename a file, and wait until the new name is on the disk."""
    DISK.rename(old, new)
    DISK.sync_folder(new.parent)


def append(path: Path, content: bytes) -> None:
    """Append to a file; nothing is certain to be on the disk before `sync`."""
    try:
        with open_own(path, "ab") as file:
            DISK.write(file, content)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None


def sync(path: Path) -> None:
    """Wait until a file that was appended to is on the disk, with its name."""
    try:
        with open_own(path, "ab") as file:
            DISK.sync(file)
        DISK.sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None


def open_own(path: Path, mode: str) -> IO[Any]:
    """Open a file of our own to write; InputError if it is a link, whose target may be somebody else's."""
    try:
        return open(path, mode, opener=lambda name, flags: os.open(name, flags | NO_LINKS, 0o666))
    except OSError as error:
        if error.errno == ELOOP:
            raise InputError(f"{path}: is a link; nothing is written through it: remove the link") from None
        raise


def check_no_links(root: Path, path: Path) -> None:
    """Raise InputError if a folder between `root` and a path in it is a link: files would be written elsewhere."""
    for folder in path.parents:
        if folder == root:
            return
        if folder.is_symlink():
            raise InputError(f"{folder}: is a link; nothing is written through it: put the folder itself there")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not valid UTF-8; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise InputError(f"{path}: not readable as TOML: {error}") from None


def load_json(path: Path) -> Any:
    """The content of a JSON file; ValueError if it is damaged, also where it is nested too deep to be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deep") from None
