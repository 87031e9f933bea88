"""Files and folders that appear whole or not at all, locks, and file names for any name."""

import hashlib
import json
import os
import re
import shutil
import tempfile
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError, RunError


def safe_name(client: str) -> str:
    """A file name for a client of any name: itself if plain, else a plain form of it and a hash."""
    spelled = unicodedata.normalize("NFKD", client).lower().replace(" ", "-")
    plain = "".join(sign for sign in spelled if sign in "abcdefghijklmnopqrstuvwxyz0123456789-_")[:40]
    if plain == client and plain and plain[0] not in "-_" and plain not in _DEVICES and not _HASHED.search(plain):
        return client
    return f"{plain.lstrip('-_') or 'client'}-{hashlib.sha256(client.encode()).hexdigest()[:10]}"


_HASHED = re.compile("-[0-9a-f]{10}$")  # the ends of hashed names, which a plain name must not have


_DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{i}" for port in ("com", "lpt") for i in range(10)}


def check_free(path: Path) -> None:
    """Refuse a path where something is already, or nothing can be made."""
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise InputError(f"{path}: exists already; choose another --out or another folder")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "is read-only" if above.is_dir() else "is not a folder"
        raise InputError(f"{path}: cannot be created, since {above} {why}")


def create_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a new folder by filling a temporary one beside it and renaming that."""
    check_free(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}") from None
    try:
        fill(temporary)
        temporary.chmod(0o777 & ~_umask())
        os.replace(temporary, folder)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def locked(path: Path, otherwise: str) -> Iterator[None]:
    """Hold a lock by a file, which ends with the process; `otherwise` is said where another holds it."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks; there it is up to the user
        yield
        return
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(otherwise) from None
        yield


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON file, atomically."""
    write_bytes(path, (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    """A file, atomically."""
    with writing(path) as temporary:
        temporary.write_bytes(content)


def write_private(path: Path, content: bytes) -> None:
    """A file that only its owner can read, from the first byte on."""
    mask = os.umask(0o077)
    try:
        write_bytes(path, content)
    finally:
        os.umask(mask)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary path that takes the place of `path` when all went well; what goes wrong becomes one line."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if temporary.exists():
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not valid UTF-8; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
