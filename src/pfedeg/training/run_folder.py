"""Reads and writes run folders: files are written atomically and checked when read."""

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.checked_files import (
    Arrays,
    is_complete,
    json_bytes,
    parse_json,
    parsing,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from pfedeg.errors import InputError
from pfedeg.files import append, check_no_links, create_folder, locked, safe_name, sync, write_bytes
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph, Side
from pfedeg.models.base import Tables
from pfedeg.training.calibration_file import read_calibrations, write_calibrations
from pfedeg.training.config import Config
from pfedeg.training.last_mix import Change, Mix, SavedMix, check_change, pack_mix, unpack_mix
from pfedeg.training.link_prediction import Calibration

CHECKPOINT = "checkpoint.safetensors"
MIX = "mix.safetensors"
RECEIVED = "received.safetensors"
SCHEMA = 2  # of the files in a run folder
SCHEMA_1_STRATEGIES = ("Single", "FedE", "PFedEGStar", "PFedEGPlus")  # all others were users' own classes


class RunFolder:
    """The files of one run, described in docs/run-directory.md."""

    def __init__(self, path: Path) -> None:
        """Does not touch the disk."""
        self.path = path

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """Open an existing run."""
        folder = cls(Path(path))
        if not folder.path.is_dir():
            raise InputError(f"{path}: {'not a folder' if folder.path.exists() else 'no such folder'}")
        if not folder.exists():
            raise InputError(f"{path}: not a run (no config.json and provenance.json); make one with `pfedeg train`")
        return folder

    def exists(self) -> bool:
        """Whether the folder contains a run."""
        return (self.path / "config.json").exists() and (self.path / "provenance.json").exists()

    def create(
        self, config: Mapping[str, Any], provenance: Mapping[str, Any], graphs: Mapping[ClientId, KnowledgeGraph]
    ) -> None:
        """Create the folder with settings and graphs, atomically."""

        def fill(folder: Path) -> None:
            for client, graph in graphs.items():
                home = folder / "clients" / safe_name(client)
                home.mkdir(parents=True)
                write_arrays(home / "graph.safetensors", _graph_arrays(graph), {"client": client})
            write_json(folder / "config.json", {"schema": SCHEMA, **config})
            write_json(folder / "provenance.json", provenance)

        create_folder(self.path, fill)

    def remove(self) -> None:
        """Delete the run."""
        shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that keeps other processes from this run."""
        with locked(self.path / ".lock", f"{self.path}: another process is working on this run"):
            for left in self.path.glob("**/.*.tmp"):  # left by a killed process
                left.unlink()
            yield

    def read(self, name: str) -> dict[str, Any]:
        """Read one of the JSON files."""
        path = self.path / name
        if name == "result.json" and not path.exists():
            hint = "the run is not finished; repeat the `pfedeg train` command with --resume"
            raise InputError(f"{self.path}: {hint}")
        return read_json(path)

    def settings(self) -> dict[str, Any]:
        """The settings of the run as saved, also by an earlier version."""
        try:
            return saved_settings(self.read("config.json"))
        except InputError as error:
            text = str(error)
            raise InputError(text if str(self.path) in text else f"{self.path / 'config.json'}: {text}") from None

    def config(self) -> Config:
        """The settings of the run, checked; folders of earlier versions are readable."""
        try:
            return Config(**self.settings())
        except InputError as error:
            text = str(error)
            raise InputError(text if str(self.path) in text else f"{self.path / 'config.json'}: {text}") from None

    def finished(self) -> bool:
        """Whether there is a result."""
        return (self.path / "result.json").exists()

    def reopen(self, config: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> None:
        """Make a run unfinished that continues with more rounds: remove what depends on its final tables."""
        self.write_history(history)  # a crash after any of these steps leaves a run that can be resumed
        (self.path / "result.json").unlink(missing_ok=True)
        for path in self.path.glob("clients/*/calibration.json"):
            path.unlink()
        write_json(self.path / "config.json", {"schema": SCHEMA, **config})

    def append_history(self, line: Mapping[str, Any]) -> None:
        """Append the line of a round."""
        append(self.path / "history.jsonl", json_bytes(line))

    def history(self, until: int | None = None) -> list[dict[str, Any]]:
        """The lines of rounds 1 … until; an incomplete last line is ignored."""
        path = self.path / "history.jsonl"
        if not path.exists():
            return []
        lines: list[dict[str, Any]] = []
        *texts, last = path.read_bytes().split(b"\n")
        for number, text in enumerate([*texts, last] if is_complete(last) else texts, 1):
            try:
                line = parse_json(text + b"\n")
                number_of_round = int(line["round"])
                if until is None or number_of_round <= until:
                    lines.append(line)
            except (ValueError, TypeError, KeyError):
                raise InputError(f"{path}, line {number}: damaged") from None
        return lines

    def truncate_history(self, until: int) -> None:
        """Remove the rounds after `until`."""
        self.write_history(self.history(until))

    def write_history(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Replace all lines, atomically."""
        write_bytes(self.path / "history.jsonl", *map(json_bytes, lines))

    def save_checkpoint(self, arrays: Arrays, fields: Mapping[str, Any]) -> None:
        """Save everything needed to resume in one file."""
        self._sync_history()
        write_arrays(self.path / CHECKPOINT, arrays, {"about": json.dumps(fields)})

    def _sync_history(self) -> None:
        """What the history lacks after a power cut must be missing from later files, too."""
        if (self.path / "history.jsonl").exists():
            sync(self.path / "history.jsonl")

    def load_checkpoint(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The last checkpoint, if there is one."""
        if not (self.path / CHECKPOINT).exists():
            return None
        arrays, metadata = read_arrays(self.path / CHECKPOINT)
        with parsing(self.path / CHECKPOINT):
            fields = json.loads(metadata["about"])
            if "trained" in fields and "loss" not in fields:  # schema 1
                fields["loss"] = [0.0] * len(fields["trained"])
                arrays = {name.replace("/moments/", "/optimizer/"): array for name, array in arrays.items()}
            fields["round"] = int(fields["round"])
        return arrays, fields

    def finish(
        self,
        tables: Mapping[ClientId, Tables],
        graphs: Mapping[ClientId, KnowledgeGraph],
        result: Mapping[str, Any],
        keep_checkpoint: bool = False,
    ) -> None:
        """Write the tables, then result.json, which marks the run as finished."""
        self._sync_history()
        for client, table in tables.items():
            arrays = pack_tables(table, graphs[client])
            write_arrays(self._own(self.home(client) / "tables.safetensors"), arrays, {"client": client})
        write_json(self.path / "result.json", result)
        if not keep_checkpoint:
            (self.path / CHECKPOINT).unlink(missing_ok=True)

    def save_mix(self, mix: Mix, shared: Shared) -> None:
        """Save the last mix in the tables that the run keeps."""
        write_arrays(self.path / MIX, *pack_mix(mix, shared))

    def mix(self) -> SavedMix | None:
        """The saved last mix, if there is one."""
        path = self.path / MIX
        if not path.exists():
            return None
        with parsing(path):
            return unpack_mix(*read_arrays(path))

    def save_change(self, client: ClientId, change: Change) -> None:
        """Save what the last mix changed in a client's tables, where other clients' uploads are not known."""
        write_arrays(self._own(self.home(client) / RECEIVED), change.arrays(), {"client": client})

    def change(self, client: ClientId) -> Change | None:
        """What `save_change` saved, if anything."""
        path = self.home(client) / RECEIVED
        if not path.exists():
            return None
        change = Change.of(read_arrays(path)[0])
        if change is not None:
            with parsing(path):
                check_change(change, self.tables(client))
        return change

    def _own(self, path: Path) -> Path:
        """A path to write to, which no link leads out of this folder."""
        check_no_links(self.path, path)
        return path

    def home(self, client: ClientId) -> Path:
        """The folder of a client's files."""
        return self.path / "clients" / safe_name(client)

    def has_tables(self, client: ClientId) -> bool:
        """Whether the folder contains a client's graph and final tables."""
        return all((self.home(client) / f"{name}.safetensors").exists() for name in ("graph", "tables"))

    def tables(self, client: ClientId) -> Tables:
        """A client's final tables, checked."""
        path = self.home(client) / "tables.safetensors"
        arrays, _ = read_arrays(path)
        for name in ("entity", "relation"):
            table = arrays.get(name)
            if table is None or table.dtype != np.float32 or table.ndim != 2 or not np.isfinite(table).all():
                raise InputError(f"{path}: damaged ({name} is not a finite float32 table)")
        return Tables(arrays["entity"], arrays["relation"])

    def save_calibrations(self, client: ClientId, curves: Mapping[Side, Calibration]) -> None:
        """Save a client's curves from scores to probabilities."""
        write_calibrations(self._own(self.home(client) / "calibration.json"), curves)

    def calibrations(self, client: ClientId) -> dict[Side, Calibration]:
        """A client's saved curves; none if it is not calibrated."""
        return read_calibrations(self.home(client) / "calibration.json")

    def graph(self, client: ClientId) -> KnowledgeGraph:
        """A client's graph, checked."""
        path = self.home(client) / "graph.safetensors"
        arrays, _ = read_arrays(path)
        with parsing(path):
            entities, relations = unpack_names("entity", arrays), unpack_names("relation", arrays)
            parts = [arrays[split] for split in SPLITS]
            labels = {}
            if "label_names" in arrays:
                labels = dict(zip(unpack_names("labelled", arrays), unpack_names("label", arrays), strict=True))
        limit = (len(entities), len(relations), len(entities))
        for part in parts:
            if part.dtype != np.int32 or part.ndim != 2 or part.shape[1] != 3:
                raise InputError(f"{path}: damaged (triples are not (n, 3) int32)")
            if len(part) and (part.min() < 0 or (part.max(0) >= limit).any()):
                raise InputError(f"{path}: damaged (a triple names an unknown id)")
        return KnowledgeGraph(entities, relations, *parts, labels=labels)


def saved_settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a config.json of this version's schema or an earlier one."""
    schema = content.get("schema", 1)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise InputError(f"written by a newer version of pfedeg (schema {schema!r}; this one reads up to {SCHEMA})")
    # schema 1 had null where a method did not use a setting, and neither objective nor optimizer
    found = {name: value for name, value in content.items() if name != "schema" and (schema > 1 or value is not None)}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise InputError(f"{name}: {value!r} is neither a number nor a text")
    return found


def custom_strategy(provenance: Mapping[str, Any]) -> str:
    """The class of a user's strategy, which schema 1 allowed in place of the method's; otherwise empty."""
    strategy = provenance.get("strategy")
    return strategy if isinstance(strategy, str) and strategy not in SCHEMA_1_STRATEGIES else ""


def provenance(fingerprint: str, source: str, seed: int) -> dict[str, Any]:
    """The origin of a result: versions, data, seed and machine."""
    libraries = {name: version(name) for name in ("numpy", "numba")}
    return {
        "package": package_version(),
        "git_revision": _git_revision(),
        "data": source,
        "data_fingerprint": fingerprint,
        "seed": seed,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": libraries,
    }


def package_version() -> str:
    """The version of this package."""
    try:
        return version("pfedeg")
    except PackageNotFoundError:
        return "unknown"


def _git_revision() -> str | None:
    """The git commit of this source, with "+" if it has local changes; None outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", __file__)
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def pack_tables(tables: Tables, graph: KnowledgeGraph) -> Arrays:
    """Tables with the names of their rows."""
    arrays: Arrays = {"entity": tables.entity, "relation": tables.relation}
    return arrays | pack_names("entity", graph.entities) | pack_names("relation", graph.relations)


def pack_names(kind: str, names: tuple[str, ...]) -> Arrays:
    """Names as one UTF-8 blob and the offsets of their ends."""
    raw = [name.encode() for name in names]
    ends = np.cumsum([len(name) for name in raw], dtype=np.int64)
    return {f"{kind}_names": np.frombuffer(b"".join(raw), np.uint8), f"{kind}_name_ends": ends}


def unpack_names(kind: str, arrays: Arrays) -> tuple[str, ...]:
    """The inverse of `pack_names`."""
    blob, ends = arrays[f"{kind}_names"].tobytes(), arrays[f"{kind}_name_ends"].tolist()
    return tuple(blob[start:end].decode() for start, end in zip([0, *ends], ends, strict=False))


def _graph_arrays(graph: KnowledgeGraph) -> Arrays:
    arrays: Arrays = {split: graph.triples(split) for split in SPLITS}
    arrays |= pack_names("entity", graph.entities) | pack_names("relation", graph.relations)
    if graph.labels:
        arrays |= pack_names("labelled", tuple(graph.own_labels))
        arrays |= pack_names("label", tuple(graph.own_labels.values()))
    return arrays
