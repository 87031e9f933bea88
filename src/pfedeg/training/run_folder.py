"""The run directory: what is in it, how it is written whole or not at all, and how it is read back with suspicion."""

import json
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pfedeg.errors import InputError
from pfedeg.files import create_folder, locked, safe_name, write_bytes, write_json, writing
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.models.base import Tables
from pfedeg.training.config import Config

Arrays = dict[str, NDArray[Any]]
CHECKPOINT = "checkpoint.safetensors"
SCHEMA = 2  # of the files in a run folder


class RunFolder:
    """Reads and writes the files of one run. docs/run-directory.md describes them."""

    def __init__(self, path: Path) -> None:
        """Does not touch the disk."""
        self.path = path

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """An existing run."""
        folder = cls(Path(path))
        if not folder.path.is_dir():
            raise InputError(f"{path}: {'not a folder' if folder.path.exists() else 'no such folder'}")
        if not folder.exists():
            raise InputError(f"{path}: not a run (no config.json and provenance.json in it); `pfedeg train` makes one")
        return folder

    def exists(self) -> bool:
        """Whether there is a run."""
        return (self.path / "config.json").exists() and (self.path / "provenance.json").exists()

    def create(
        self, config: Mapping[str, Any], provenance: Mapping[str, Any], graphs: Mapping[ClientId, KnowledgeGraph]
    ) -> None:
        """A new run with its settings and graphs; it appears at once or not at all."""

        def fill(folder: Path) -> None:
            for client, graph in graphs.items():
                home = folder / "clients" / safe_name(client)
                home.mkdir(parents=True)
                write_arrays(home / "graph.safetensors", _graph_arrays(graph), {"client": client})
            write_json(folder / "config.json", {"schema": SCHEMA, **config})
            write_json(folder / "provenance.json", provenance)

        create_folder(self.path, fill)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from working on the same run."""
        with locked(self.path / ".lock", f"{self.path}: another process is working on this run"):
            for left in self.path.glob("**/.*.tmp"):  # by a process that was killed while writing
                left.unlink()
            yield

    def read(self, name: str) -> dict[str, Any]:
        """One of the JSON files."""
        path = self.path / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if name == "result.json":
                hint = "the run is not finished; continue it by the same `pfedeg train` command with --resume"
                raise InputError(f"{self.path}: {hint}") from None
            raise InputError(f"{path}: missing") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: damaged ({error})") from None
        if not isinstance(content, dict):
            raise InputError(f"{path}: damaged (not a JSON object)")
        return content

    def settings(self) -> dict[str, Any]:
        """The settings of the run as saved, also by an earlier version."""
        try:
            return saved_settings(self.read("config.json"))
        except InputError as error:
            text = str(error)
            raise InputError(text if str(self.path) in text else f"{self.path / 'config.json'}: {text}") from None

    def config(self) -> Config:
        """The settings of the run, checked; also those of a folder that an earlier version wrote."""
        try:
            return Config(**self.settings())
        except InputError as error:
            text = str(error)
            raise InputError(text if str(self.path) in text else f"{self.path / 'config.json'}: {text}") from None

    def finished(self) -> bool:
        """Whether there is a result."""
        return (self.path / "result.json").exists()

    def append_history(self, line: Mapping[str, Any]) -> None:
        """A line for a round."""
        with writing(self.path / "history.jsonl"), open(self.path / "history.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def history(self, until: int | None = None) -> list[dict[str, Any]]:
        """The lines for rounds 1 … until; a last line that was cut off by a crash does not count."""
        path = self.path / "history.jsonl"
        if not path.exists():
            return []
        lines: list[dict[str, Any]] = []
        *texts, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")
        for number, text in enumerate(texts, 1):
            try:
                line = json.loads(text)
                number_of_round = int(line["round"])
                if until is None or number_of_round <= until:
                    lines.append(line)
            except (ValueError, TypeError, KeyError):
                raise InputError(f"{path}, line {number}: damaged") from None
        return lines

    def truncate_history(self, until: int) -> None:
        """Forget rounds after `until`."""
        self.write_history(self.history(until))

    def write_history(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """All lines anew, at once."""
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_bytes(self.path / "history.jsonl", text.encode())

    def save_checkpoint(self, arrays: Arrays, about: Mapping[str, Any]) -> None:
        """All that is needed to go on, in one file."""
        write_arrays(self.path / CHECKPOINT, arrays, {"about": json.dumps(about)})

    def load_checkpoint(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The last checkpoint, if there is one."""
        if not (self.path / CHECKPOINT).exists():
            return None
        arrays, metadata = read_arrays(self.path / CHECKPOINT)
        about = json.loads(metadata["about"])
        if "trained" in about and "loss" not in about:  # written with schema 1
            about["loss"] = [0.0] * len(about["trained"])
            arrays = {name.replace("/moments/", "/optimizer/"): array for name, array in arrays.items()}
        return arrays, about

    def finish(
        self,
        tables: Mapping[ClientId, Tables],
        graphs: Mapping[ClientId, KnowledgeGraph],
        result: Mapping[str, Any],
        keep_checkpoint: bool = False,
    ) -> None:
        """Write the tables, then the result, whose presence says that the run is complete."""
        for client, table in tables.items():
            arrays = pack_tables(table, graphs[client])
            write_arrays(self._home(client) / "tables.safetensors", arrays, {"client": client})
        write_json(self.path / "result.json", result)
        if not keep_checkpoint:
            (self.path / CHECKPOINT).unlink(missing_ok=True)

    def _home(self, client: ClientId) -> Path:
        return self.path / "clients" / safe_name(client)

    def has_tables(self, client: ClientId) -> bool:
        """Whether a client's graph and final tables are here."""
        return all((self._home(client) / f"{name}.safetensors").exists() for name in ("graph", "tables"))

    def tables(self, client: ClientId) -> Tables:
        """A client's final tables, checked."""
        path = self._home(client) / "tables.safetensors"
        arrays, _ = read_arrays(path)
        for name in ("entity", "relation"):
            table = arrays.get(name)
            if table is None or table.dtype != np.float32 or table.ndim != 2 or not np.isfinite(table).all():
                raise InputError(f"{path}: damaged ({name} is not a finite float32 table)")
        return Tables(arrays["entity"], arrays["relation"])

    def save_calibration(self, client: ClientId, scores: Sequence[float], probabilities: Sequence[float]) -> None:
        """Points of a curve from a client's scores to probabilities."""
        points = {"scores": list(scores), "probabilities": list(probabilities)}
        write_json(self._home(client) / "calibration.json", points)

    def calibration(self, client: ClientId) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """The points that were saved, checked; None if there are none."""
        path = self._home(client) / "calibration.json"
        if not path.exists():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            points = np.array([content["scores"], content["probabilities"]], np.float64)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}: damaged ({error}); remove it, or run `pfedeg calibrate` again") from None
        rising = points.shape[1] > 0 and bool((np.diff(points) >= 0).all())
        if not np.isfinite(points).all() or not rising or points[1, 0] < 0 or points[1, -1] > 1:
            raise InputError(f"{path}: damaged (not a rising curve of probabilities); run `pfedeg calibrate` again")
        return tuple(points[0].tolist()), tuple(points[1].tolist())

    def graph(self, client: ClientId) -> KnowledgeGraph:
        """A client's graph, checked."""
        path = self._home(client) / "graph.safetensors"
        arrays, _ = read_arrays(path)
        try:
            entities, relations = unpack_names("entity", arrays), unpack_names("relation", arrays)
            parts = [arrays[split] for split in SPLITS]
            labels = {}
            if "label_names" in arrays:
                labels = dict(zip(unpack_names("labelled", arrays), unpack_names("label", arrays), strict=True))
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: damaged ({error})") from None
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


def provenance(fingerprint: str, source: str, seed: int) -> dict[str, Any]:
    """Where a result comes from."""
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
    """The commit of the source this runs from, "+" if changed since; None where it is no checkout."""
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
    """Names as one UTF-8 blob and the places where they end: any Unicode, any number."""
    raw = [name.encode() for name in names]
    ends = np.cumsum([len(name) for name in raw], dtype=np.int64)
    return {f"{kind}_names": np.frombuffer(b"".join(raw), np.uint8), f"{kind}_name_ends": ends}


def unpack_names(kind: str, arrays: Arrays) -> tuple[str, ...]:
    """The counterpart of `pack_names`."""
    blob, ends = arrays[f"{kind}_names"].tobytes(), arrays[f"{kind}_name_ends"].tolist()
    return tuple(blob[start:end].decode() for start, end in zip([0, *ends], ends, strict=False))


def write_arrays(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """A safetensors file, atomically."""
    write_bytes(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, dict(metadata)))


def read_arrays(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Arrays and metadata of a safetensors file."""
    if not path.exists():
        raise InputError(f"{path}: missing; is the run finished? was it copied whole?")
    try:
        with safe_open(path, "numpy") as file:
            names = file.keys()  # an open file is no dict and cannot be iterated over
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: damaged ({error})") from None


def _graph_arrays(graph: KnowledgeGraph) -> Arrays:
    arrays: Arrays = {split: graph.triples(split) for split in SPLITS}
    arrays |= pack_names("entity", graph.entities) | pack_names("relation", graph.relations)
    if graph.labels:
        arrays |= pack_names("labelled", tuple(graph.own_labels))
        arrays |= pack_names("label", tuple(graph.own_labels.values()))
    return arrays
