"""What the owner of a client's data lets a server ask for: kept in client.json, checked before and during runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.methods.exchange import Contents
from pfedeg.methods.registry import METHODS
from pfedeg.network.messages import ProtocolError
from pfedeg.settings import check_setting, setting, setting_fields
from pfedeg.text import suggest
from pfedeg.training.config import Config

SPARE_BYTES = 1 << 20  # of a message, beside its rows
MOST_BYTES = 1 << 30  # of a message by default; a table of a million entities has 0.5 to 1 GB
DIMS = (1024, 512, 256, 128)  # the largest that fits into such a message becomes the limit
FILES_OF_TABLES = 4  # of an unfinished run: its state, the previous, the best and the latest evaluated tables


@dataclass(frozen=True, slots=True)
class Limits:
    """The object `limits` of client.json. A server that asks for more is refused."""

    dim: int = setting(1024, "embedding dimension", least=1)
    epochs: int = setting(50, "local epochs per round", least=1)
    batch: int = setting(16_384, "triples per batch", least=1)
    negatives: int = setting(2048, "corrupted tails per triple", least=1)
    rounds: int = setting(1000, "rounds of a run", least=1)
    minutes_per_round: float = setting(30.0, "minutes that training or evaluation in a round may take", above=0)
    message_mb: float = setting(1024.0, "size of a message in MB, in each direction", least=1, most=2000)
    shared: float = setting(1.0, "share of this client's entities that the server may declare shared", least=0, most=1)
    runs: int = setting(200, "folders of runs", least=1)
    disk_gb: float = setting(10.0, "disk space of all runs in GB", above=0)
    methods: tuple[str, ...] = field(default_factory=lambda: federated_methods())  # built-in; plug-ins are in `allowed`

    @classmethod
    def suited(cls, graph: KnowledgeGraph) -> "Limits":
        """The defaults for a client's graph."""
        number = len(graph.entities)
        row = {dim: 4 * (2 * dim + 1) for dim in DIMS}  # bytes; the widest built-in models have 2 · dim numbers
        dim = next((dim for dim in DIMS if number * row[dim] + SPARE_BYTES <= MOST_BYTES), DIMS[-1])
        message = number * row[dim] + SPARE_BYTES
        return cls(
            dim=dim,
            minutes_per_round=float(max(30, len(graph.train) // 40_000)),
            message_mb=float(min(2000, -(-message // 1_000_000))),
            disk_gb=float(max(10, -(-20 * FILES_OF_TABLES * message // 1_000_000_000))),
        )

    @classmethod
    def read(cls, found: Any, where: str) -> "Limits":
        """Limits from JSON; what is not given gets its default. `where` names the file in errors."""
        if not isinstance(found, Mapping):
            raise InputError(f"{where}: limits is not an object")
        known = [item.name for item in fields(cls)]
        for name in found:
            if name not in known:
                raise InputError(f"{where}: unknown limit {name!r}{suggest(str(name), known)}")
        methods = found.get("methods", list(federated_methods()))
        if not isinstance(methods, list | tuple) or not all(name in federated_methods() for name in methods):
            text = f"a list of {', '.join(federated_methods())}; plug-ins are allowed by `pfedeg client allow`"
            raise InputError(f"{where}: limits: methods must be {text}")
        given: dict[str, Any] = {}
        for name, item in setting_fields(cls).items():
            try:
                given[name] = check_setting(cls, item, found.get(name, item.default))
            except InputError as error:
                raise InputError(f"{where}: limits: {error}") from None
        return replace(cls(**given), methods=tuple(methods))

    @property
    def message_bytes(self) -> int:
        """The size of the largest message."""
        return int(self.message_mb * 1_000_000)

    @property
    def seconds(self) -> float:
        """The time for a request in a round."""
        return self.minutes_per_round * 60

    def check_settings(self, config: Config, allowed: Collection[str]) -> None:
        """Refuse a run with larger settings, or of a method that is neither listed nor an allowed plug-in."""
        for name in ("dim", "epochs", "batch", "negatives", "rounds"):
            _check(name, getattr(config, name), getattr(self, name))
        if config.method not in self.methods and config.method not in allowed:
            names = ", ".join(self.methods) or "none"
            raise ProtocolError(f"the method {config.method!r} is not one that {OWNER} allows (methods: {names})")

    def check_shared(self, config: Config, shared: int, entities: int) -> None:
        """Refuse a run in which too many entities are declared shared, or whose messages would be too large."""
        if shared > self.shared * entities:
            text = f"{shared:,} of {entities:,} entities are declared shared"
            raise ProtocolError(f"{text}; {OWNER} allows a share of at most {self.shared:g} (shared)")
        width, strategy = config.build_model().entity_width, config.build_strategy(1)
        self.check_message(max(_message_bytes(each, shared, width) for each in (strategy.uploads, strategy.downloads)))

    def check_message(self, size: int) -> None:
        """Refuse a message of more bytes than allowed."""
        if size > self.message_bytes:
            text = f"a message of {size / 1e6:,.1f} MB"
            raise ProtocolError(f"{text}; {OWNER} allows at most {self.message_mb:,g} (message_mb)")

    def check_round(self, number: int) -> None:
        """Refuse further rounds."""
        _check("round", number, self.rounds, " (rounds)")

    def check_folders(self, runs: Path, more: int = 0) -> None:
        """Refuse a run if the folder of all runs has, with `more` bytes, more content than allowed."""
        folders = [each for each in runs.iterdir() if each.is_dir() and not each.is_symlink()] if runs.exists() else []
        if len(folders) + bool(more) > self.runs:
            text = f"this client has {len(folders):,} runs; {OWNER} allows at most {self.runs:,} (runs)"
            raise ProtocolError(f"{text}; remove folders from its `runs`")
        used = sum(_size(folder) for folder in folders)
        if used + more > self.disk_gb * 1_000_000_000:
            text = f"the runs of this client take {used / 1e9:.3f} GB and need {more / 1e9:.3f} GB more"
            raise ProtocolError(f"{text}; {OWNER} allows at most {self.disk_gb:g} (disk_gb)")


OWNER = "the owner of this client's data"


def federated_methods() -> tuple[str, ...]:
    """The built-in methods that run over a network."""
    return tuple(method.name for method in METHODS.values() if method.is_federated)


def run_bytes(config: Config, graph: KnowledgeGraph) -> int:
    """The disk space of an unfinished run, without its graph: tables, the last download, moments."""
    model = config.build_model()
    table = 4 * (len(graph.entities) * model.entity_width + len(graph.relations) * model.relation_width)
    return FILES_OF_TABLES * table * (4 if config.moments == "keep" else 2) + SPARE_BYTES


def _message_bytes(contents: Contents, rows: int, width: int) -> int:
    return SPARE_BYTES + rows * sum(4 * ((table.width or width) + 1) for table in contents.tables)


def _check(name: str, asked: int, most: int, hint: str = "") -> None:
    if asked > most:
        raise ProtocolError(f"{name} is {asked:,}; {OWNER} allows at most {most:,}{hint}")


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
