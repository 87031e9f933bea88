"""File names, atomic files and folders, their permissions, and locks."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedeg import files
from pfedeg.errors import InputError, RunError
from pfedeg.files import create_folder, locked, safe_name, try_lock, write_bytes, write_private

# File names


@pytest.mark.parametrize("name", ["atlas", "client-07", "a_b", "0"])
def test_plain_names_are_kept(name: str) -> None:
    assert safe_name(name) == name


AWKWARD = [
    "",
    ".",
    "..",
    "../x",
    "/x",
    "x",
    "X",
    "a/b",
    "ab",
    "con",
    "CON",
    "nul",
    "com1",
    "-x",
    "_x",
    " x",
    "x ",
    "x.",
]
AWKWARD += [
    "a\\b",
    "a\0b",
    "a\nb",
    "🌍",
    "é",
    "e",
    "x" * 300,
    "x" * 301,
    "x" * 40,
    "x" * 41,
    safe_name("é"),
    "a:b",
    "~",
]


@given(st.lists(st.one_of(st.sampled_from(AWKWARD), st.text(st.characters(codec="utf-8"))), unique=True))
def test_file_names_are_safe_and_differ(names: list[str]) -> None:
    files = [safe_name(name) for name in [*AWKWARD, *(name for name in names if name not in AWKWARD)]]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,60}", file) for file in files)
    assert not {"con", "prn", "aux", "nul", "com1"} & set(files)
    assert len(set(files)) == len(files)


def test_a_plain_name_cannot_take_the_file_of_a_hashed_one() -> None:
    assert safe_name(safe_name("é")) != safe_name("é")


# Atomic writes


def failing(folder: Path) -> None:
    (folder / "half").touch()
    raise OSError(28, "No space left on device")


def test_failed_writes_leave_no_files(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"new: cannot be written: No space left on device$"):
        create_folder(tmp_path / "new", failing)
    assert list(tmp_path.iterdir()) == []


# Permissions


def test_private_files_are_private_and_others_follow_the_umask(tmp_path: Path) -> None:
    (tmp_path / ".key.999.tmp").write_text("left behind")
    write_private(tmp_path / "key", b"secret")
    write_bytes(tmp_path / "shown", b"content")
    (tmp_path / "plain").write_bytes(b"content")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert (tmp_path / "shown").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_readable_file_left_by_a_killed_process_does_not_receive_a_secret(tmp_path: Path) -> None:
    left = tmp_path / f".key.{os.getpid()}.tmp"
    left.write_text("half")
    left.chmod(0o644)
    write_private(tmp_path / "key", b"secret")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_the_umask_of_the_process_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(mask: int) -> int:
        raise AssertionError("os.umask affects all threads")

    monkeypatch.setattr(os, "umask", refuse)
    write_private(tmp_path / "key", b"secret")
    create_folder(tmp_path / "new", lambda folder: write_bytes(folder / "file", b"content"))


# Locks


def test_a_lock_excludes_other_processes_until_it_is_released(tmp_path: Path) -> None:
    code = f"from pfedeg.files import try_lock; print(try_lock(open({str(tmp_path / 'lock')!r}, 'a')))"

    def other() -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    with locked(tmp_path / "lock", "in use"):
        assert other() == "False"
        with pytest.raises(InputError, match=r"^in use$"), locked(tmp_path / "lock", "in use"):
            pass
    assert other() == "True"


def test_windows_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Python on Windows, where fcntl cannot be imported."""
    calls: list[tuple[int, int]] = []

    def locking(number: int, mode: int, size: int) -> None:
        calls.append((mode, size))
        if len(calls) > 1:
            raise OSError(13, "Permission denied")

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setattr(files, "os", SimpleNamespace(name="nt"))
    with open(tmp_path / "lock", "a") as file:
        assert try_lock(file)
        assert not try_lock(file)
    assert calls == [(2, 1), (2, 1)]
