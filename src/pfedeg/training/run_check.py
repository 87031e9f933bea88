"""Verifies the files of a run folder: checksums, contents, and whether they fit together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pfedeg.checked_files import arrays_checksum, has_checksum, parsing, read_arrays, read_json
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId
from pfedeg.training.run_folder import CHECKPOINT, MIX, RECEIVED, RunFolder
from pfedeg.training.run_result import check_result, check_rounds
from pfedeg.training.saved_run import Run

LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Checked:
    """A file of a run: its name in the folder, whether it has a checksum, and what is wrong with it, if anything."""

    file: str
    checksum: bool
    problem: str = ""


def check_run(path: str | Path) -> list[Checked]:
    """Verify every file of the run at `path`, in the order of their names; nothing is changed."""
    folder = RunFolder.open(path)
    contents = _contents(folder)
    found = []
    for file in sorted(folder.path.rglob("*")):
        name = file.relative_to(folder.path).as_posix()
        if file.is_symlink():
            found.append(Checked(name, False, "is a link; a run has none"))
        elif file.is_file() and name != LOCK:
            problem, sealed = "", False
            try:
                sealed = _has_checksum(file)
                contents.pop(name, partial(_check_other, file))()
            except (InputError, OSError) as error:
                problem = str(error).removeprefix(f"{file}: ").removeprefix(f"{file}, ")
            found.append(Checked(name, sealed, problem))
    missing = [name for name in contents if name in _needed(folder)]
    return [*found, *(Checked(name, False, "missing") for name in missing)]


def _needed(folder: RunFolder) -> set[str]:
    """The files that a run must have, apart from those of single clients."""
    return {"config.json", "provenance.json"} | ({"history.jsonl"} if folder.finished() else set())


def _contents(folder: RunFolder) -> dict[str, Callable[[], object]]:
    """How the content of each known file is checked."""
    history = folder.path / "history.jsonl"

    def rounds() -> None:
        run = Run(folder.path)  # checks that the rounds have no gap
        if (folder.path / CHECKPOINT).exists() and "federation" not in run.provenance and not folder.finished():
            saved = folder.load_checkpoint()
            check_rounds(history, run.history, saved[1]["round"] if saved else 0)

    def result() -> None:
        run = Run(folder.path)
        lines = () if "federation" in run.provenance else run.history
        check_result(folder.path / "result.json", folder.read("result.json"), lines)

    known: dict[str, Callable[[], object]] = {
        "config.json": folder.settings,
        "provenance.json": partial(folder.read, "provenance.json"),
        "history.jsonl": rounds,
        CHECKPOINT: folder.load_checkpoint,
        MIX: folder.mix,
        "result.json": result,
    }
    for client in _clients(folder):
        home = folder.home(client).relative_to(folder.path).as_posix()
        known |= {
            f"{home}/graph.safetensors": partial(folder.graph, client),
            f"{home}/tables.safetensors": partial(_check_tables, folder, client),
            f"{home}/{RECEIVED}": partial(folder.change, client),
            f"{home}/calibration.json": partial(folder.calibrations, client),
        }
    return known


def _clients(folder: RunFolder) -> Iterator[ClientId]:
    try:
        named = folder.read("provenance.json").get("clients")
    except InputError:
        return
    for client in named if isinstance(named, list) else []:
        if isinstance(client, str):
            yield client


def _check_tables(folder: RunFolder, client: ClientId) -> None:
    """The tables must be finite, and fit the graph and, if it can be loaded, the model."""
    path, tables, graph = folder.home(client) / "tables.safetensors", folder.tables(client), folder.graph(client)
    sizes = (len(tables.entity), len(tables.relation)), (len(graph.entities), len(graph.relations))
    if sizes[0] != sizes[1]:
        raise InputError(f"{path}: damaged ({sizes[0]} rows for {sizes[1]} entities and relations)")


def _check_other(file: Path) -> None:
    """A file that only its checksum can check, such as those of a client in a federation."""
    if file.suffix == ".safetensors":
        read_arrays(file)
    elif file.suffix == ".json":
        read_json(file)
    elif file.suffix == ".tmp":
        raise InputError(f"{file}: left by a process that was killed; the next `pfedeg train --resume` removes it")


def _has_checksum(file: Path) -> bool:
    """Whether a file carries a checksum."""
    if file.suffix == ".safetensors":
        with parsing(file):
            return arrays_checksum(file) is not None
    lines = file.read_bytes().splitlines(keepends=True) if file.suffix == ".jsonl" else [file.read_bytes()]
    return bool(lines) and all(has_checksum(line) for line in lines)
