"""Faults at every write, sync and rename of a run, power cuts, and single flipped bits: never a silent change."""

import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pfedeg import files
from pfedeg.checked_files import read_arrays
from pfedeg.engine.interface import default_engine
from pfedeg.errors import InputError, RunError
from pfedeg.files import Disk
from pfedeg.graphs.federation import Federation
from pfedeg.training import run_loop
from pfedeg.training.config import Config
from pfedeg.training.link_prediction import Calibration
from pfedeg.training.local_run import Training
from pfedeg.training.run_check import check_run
from pfedeg.training.saved_run import Run
from toy import toy_federation

ENGINE = default_engine(1)
CONFIG = Config(
    method="pfedeg-plus", moments="keep", dim=4, negatives=2, batch=32, lr=0.02, rounds=3, eval_every=1, epochs=1
)
BITS = 60  # flipped in each file


class Killed(BaseException):
    """The process is dead."""


class FaultyDisk(Disk):
    """A disk whose n-th call fails, has no effect, or is the last; a power cut loses all that was not synced."""

    def __init__(self, n: int, fault: str) -> None:
        self.calls, self._n, self._fault = 0, n, fault
        self._unsynced: dict[int, tuple[Path, int]] = {}  # inode → file, length that is on the disk
        self._renamed: list[tuple[Path, Path, bytes | None]] = []

    def _strikes(self) -> bool:
        """Count a call; whether it has no effect."""
        self.calls += 1
        if self._fault in ("kill", "power") and self.calls >= self._n:
            if self.calls == self._n and self._fault == "power":
                self._cut()
            raise Killed
        if self.calls == self._n and self._fault == "fail":
            raise OSError(5, "Input/output error")
        return self.calls == self._n

    def _cut(self) -> None:
        for old, new, before in reversed(self._renamed):
            if not new.exists():
                continue
            os.replace(new, old)
            if before is not None:
                new.write_bytes(before)
        for path, length in self._unsynced.values():
            if path.exists():
                os.truncate(path, length)

    def write(self, file: IO[bytes], *parts: bytes | memoryview) -> None:
        path, whole = Path(file.name) if isinstance(file.name, str) else None, b"".join(parts)
        if self.calls + 1 == self._n and self._fault == "kill":
            super().write(file, whole[: len(whole) // 2])
        if self._strikes():
            return
        if path is not None:
            self._unsynced.setdefault(os.fstat(file.fileno()).st_ino, (path, os.path.getsize(path)))
        super().write(file, whole)

    def sync(self, file: IO[bytes]) -> None:
        if not self._strikes():
            self._unsynced.pop(os.fstat(file.fileno()).st_ino, None)

    def rename(self, old: Path, new: Path) -> None:
        if self._strikes():
            return
        self._renamed.append((old, new, new.read_bytes() if new.is_file() else None))
        super().rename(old, new)

    def sync_folder(self, folder: Path) -> None:
        if not self._strikes():
            self._renamed = [each for each in self._renamed if each[1].parent != folder]


@pytest.fixture(scope="module")
def federation() -> Federation:
    return toy_federation(2)


def start(federation: Federation, out: Path, **options: Any) -> Training:
    return Training(federation, CONFIG, out=out, engine=ENGINE, **options)


def without(content: Any) -> Any:
    """Without what differs between equal runs."""
    if isinstance(content, dict):
        return {name: without(each) for name, each in content.items() if name != "seconds"}
    return [without(each) for each in content] if isinstance(content, list) else content


def resume(federation: Federation, out: Path, into: list[Any]) -> None:
    start(federation, out, resume=True).run()
    observed(out, into)


def observed(path: Path, into: list[Any] | None = None) -> list[Any]:
    """All that a finished run says."""
    run, found = Run(path, ENGINE), into if into is not None else []
    found += [without(run.result), without(run.history), run.settings, run.clients]
    found.append({name: each for name, each in run.provenance.items() if name != "seed"})
    mix = run.mix()
    if mix is None:  # users may delete it; `predict --explain` says that it is not there
        raise InputError(f"{path}: no mix.safetensors")
    found += [{name: each.tolist() for name, each in mix.mix.arrays().items()}, mix.mix.fields()]
    for client in run.clients:
        graph = run.graph(client)
        found += [each.tolist() for each in run.tables(client)]
        found += [graph.entities, graph.relations, graph.train.tolist(), graph.valid.tolist(), graph.test.tolist()]
        found.append(run.calibration(client))
    return found


@pytest.fixture(scope="module")
def expected(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    start(federation, path).run()
    return path


@pytest.mark.parametrize("fault", ["fail", "kill", "power", "drop"])
def test_a_fault_at_any_call_leaves_the_result_or_a_clear_error(
    federation: Federation, expected: Path, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loop, "CHECKPOINT_SECONDS", -1.0)
    wanted, n, errors = observed(expected), 0, 0
    while True:
        n += 1
        out, disk = tmp_path / str(n) / "run", FaultyDisk(n, fault)
        monkeypatch.setattr(files, "DISK", disk)
        try:
            start(federation, out).run()
        except (RunError, Killed):
            pass
        except (InputError, FileNotFoundError):  # what was dropped was missed at once
            if fault != "drop":
                raise
        monkeypatch.setattr(files, "DISK", Disk())
        found: list[Any] = []
        if error := problem(partial(resume, federation, out, found)):
            assert fault == "drop", (n, error)  # a disk that lies
            assert str(out) in error
            errors += 1
        else:
            assert found == wanted, n
        shutil.rmtree(tmp_path / str(n), ignore_errors=True)
        if disk.calls < n:
            break
    assert n > 50
    assert errors or fault != "drop"


def problem(call: Callable[[], object]) -> str:
    """The error that a call ends with, or ""."""
    try:
        call()
    except InputError as error:
        return str(error)
    return ""


def flips(path: Path) -> list[tuple[Path, int]]:
    """Seeded bits of every file of a run."""
    found = []
    for file in sorted(each for each in path.rglob("*") if each.is_file() and each.stat().st_size):
        rng = random.Random(file.name)
        found += [(file, rng.randrange(8 * file.stat().st_size)) for _ in range(BITS)]
    return found


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def test_a_flipped_bit_in_a_finished_run_is_noticed(federation: Federation, expected: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(expected, out)
    run = Run(out, ENGINE)
    for client in run.clients:
        run.calibrate(client, {"tail": Calibration((0.0, 1.0), (0.25, 0.75))})
    assert [each.file for each in check_run(out) if each.problem or not each.checksum] == []
    wanted, noticed = observed(out), 0
    for file, bit in flips(out):
        before = file.read_bytes()
        flip(file, bit)
        found: list[Any] = []
        if error := problem(partial(observed, out, found)):
            noticed += 1
            assert file.name in error or "history.jsonl" in error, (file, bit, error)
            named = {each.file for each in check_run(out) if each.problem}
            assert file.relative_to(out).as_posix() in named, (file, bit)
        else:
            assert found == wanted, (file, bit)
        file.write_bytes(before)
    assert noticed > 8 * BITS
    assert observed(out) == wanted


def test_a_flipped_bit_in_an_unfinished_run_is_noticed(
    federation: Federation, expected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loop, "CHECKPOINT_SECONDS", -1.0)
    for done in start(federation, tmp_path / "begun"):
        if done.number == 2:
            break
    wanted, noticed = observed(expected), 0
    for number, (file, bit) in enumerate(flips(tmp_path / "begun")):
        out = tmp_path / str(number)
        shutil.copytree(tmp_path / "begun", out)
        flip(out / file.relative_to(tmp_path / "begun"), bit)
        found: list[Any] = []
        if error := problem(partial(resume, federation, out, found)):
            noticed += 1
            assert file.name in error, (file, bit, error)
        else:
            assert found == wanted, (file, bit)
        shutil.rmtree(out)
    assert noticed > 4 * BITS


def test_a_history_behind_its_checkpoint_is_noticed(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loop, "CHECKPOINT_SECONDS", -1.0)
    for done in start(federation, tmp_path / "run"):
        if done.number == 2:
            break
    path = tmp_path / "run" / "history.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(InputError, match=r"history\.jsonl: ends with round 1, but the checkpoint is of round 2"):
        start(federation, tmp_path / "run", resume=True)
    assert [each.file for each in check_run(tmp_path / "run") if each.problem] == ["history.jsonl"]


@pytest.mark.parametrize("link", [".lock", "clients", "history.jsonl", "clients/client-0"])
def test_nothing_is_written_through_a_link(
    federation: Federation, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loop, "CHECKPOINT_SECONDS", -1.0)
    for _ in start(federation, tmp_path / "run"):
        break
    place, target = tmp_path / "run" / link, tmp_path / "elsewhere"
    if place.is_dir():
        shutil.move(place, target)
    else:
        place.rename(target)
        target.write_bytes(target.read_bytes() + b"mine")
    place.symlink_to(target)
    before = {path: path.read_bytes() for path in [target, *target.rglob("*")] if path.is_file()}
    if link == "history.jsonl":  # replaced as a whole, since its content is damaged anyway
        start(federation, tmp_path / "run", resume=True).run()
    else:
        with pytest.raises(InputError, match=r"is a link; nothing is written through it"):
            start(federation, tmp_path / "run", resume=True).run()
        assert [each.file for each in check_run(tmp_path / "run") if "link" in each.problem] == [link]
    assert {path: path.read_bytes() for path in [target, *target.rglob("*")] if path.is_file()} == before


def test_a_checkpoint_without_checksum_that_does_not_fit_is_refused(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loop, "CHECKPOINT_SECONDS", -1.0)
    for _ in start(federation, tmp_path / "run"):
        break
    path = tmp_path / "run" / "checkpoint.safetensors"
    arrays, about = read_arrays(path)
    for name, array in arrays.items():
        if name.startswith(("client/", "best/", "mix/upload/")):
            for wrong in (array[:-1], array.astype(np.float64)):
                save_file(arrays | {name: np.ascontiguousarray(wrong)}, path, about)
                with pytest.raises(InputError, match=r"checkpoint\.safetensors: damaged"):
                    start(federation, tmp_path / "run", resume=True)
    save_file(arrays, path, about)  # as an earlier version wrote it
    start(federation, tmp_path / "run", resume=True).run()
