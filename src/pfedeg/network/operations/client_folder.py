"""A client's folder: its key pair, the secret, its graph and server, the plug-ins it allows, its runs."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.files import create_folder, load_json, write_bytes, write_json, write_private
from pfedeg.graphs.alignment import fingerprint
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.naming import Naming
from pfedeg.network.limits import Limits
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor
from pfedeg.network.operations.alignment_secret import read_secret
from pfedeg.network.operations.enrollment import check_name
from pfedeg.text import suggest
from pfedeg.training.config import REGISTRIES


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The content of client.json."""

    name: str
    data: str
    server: str
    threads: int | None = None
    allowed: tuple[str, ...] = ()  # plug-ins that may be loaded
    names: str = "full"  # how the graph's names are written before tokens are made
    map: str | None = None  # a file of new names
    prefixes: tuple[str, ...] = ()
    limits: Limits | None = None  # what a server may ask for; None: not yet chosen

    def naming(self) -> Naming | None:
        """The rules for names; None to take them exactly as they are."""
        found = Naming.of(self.names, self.prefixes, self.map)
        return None if found.is_plain else found


class ClientFolder:
    """A client's folder."""

    def __init__(self, path: Path) -> None:
        """An existing one."""
        self.path = path.resolve()
        self.config = self._read_config()

    @classmethod
    def create(cls, path: Path, config: ClientConfig, *, ca: Path, secret: Path) -> "ClientFolder":
        """Create a client folder with a new key pair."""
        name = check_name(config.name)
        parse_address(config.server)
        keys.read_certificate(ca)
        read_secret(secret)
        data = (
            config.data if config.data == "world" and not Path("world").exists() else str(Path(config.data).resolve())
        )
        config = replace(config, name=name, data=data, map=_resolved(config.map))
        graph = read_graph(config, 0)
        config = replace(config, limits=config.limits or Limits.suited(graph))
        for identifier in config.allowed:
            check_plugin(identifier)

        def fill(folder: Path) -> None:
            keys.make_pair(folder, name)
            write_bytes(folder / "ca.crt", ca.read_bytes())
            write_private(folder / "secret", secret.read_bytes())
            write_json(folder / "client.json", asdict(config))
            (folder / "runs").mkdir()

        create_folder(path.resolve(), fill)
        path.chmod(0o700)
        return cls(path)

    def _read_config(self) -> ClientConfig:
        file = self.path / "client.json"
        try:
            found = load_json(file)
        except FileNotFoundError:
            raise InputError(f"{self.path}: not a client's folder; `pfedeg client init` makes one") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{file}: damaged ({error})") from None
        try:
            name, data, server = found["name"], found["data"], found["server"]
            allowed, prefixes = tuple(found.get("allowed", ())), tuple(found.get("prefixes", ()))
            names, map_ = found.get("names", "full"), found.get("map")
            if not all(isinstance(text, str) for text in (name, data, server, *allowed, names, map_ or "", *prefixes)):
                raise TypeError
        except (KeyError, TypeError, AttributeError):
            hint = "it needs the texts name, data and server, and may have a list `allowed` of plug-ins"
            raise InputError(f"{file}: damaged; {hint}") from None
        limits = None if found.get("limits") is None else Limits.read(found["limits"], str(file))
        return ClientConfig(name, data, server, found.get("threads"), allowed, names, map_, prefixes, limits)

    @property
    def public(self) -> Path:
        """The file to send to the server operator."""
        return self.path / "client.pub"

    # Plug-ins

    def allowed(self) -> tuple[str, ...]:
        """The plug-ins that may be loaded, as client.json lists them now."""
        return self._read_config().allowed

    def allow(self, identifiers: Sequence[str]) -> None:
        """Let runs use these plug-ins."""
        for identifier in identifiers:
            check_plugin(identifier)
        self._set_allowed(dict.fromkeys((*self.allowed(), *identifiers)))

    def disallow(self, identifiers: Sequence[str]) -> None:
        """Let runs no longer use these plug-ins."""
        allowed = self.allowed()
        for identifier in identifiers:
            if identifier not in allowed:
                raise InputError(f"{self.path}: {identifier!r} is not among the allowed{suggest(identifier, allowed)}")
        self._set_allowed(name for name in allowed if name not in identifiers)

    def _set_allowed(self, identifiers: Iterable[str]) -> None:
        self.config = replace(self._read_config(), allowed=tuple(identifiers))
        write_json(self.path / "client.json", asdict(self.config))

    def limits(self) -> Limits:
        """What a server may ask for, as client.json says now."""
        return self._read_config().limits or Limits()

    # Names

    def set_naming(self, names: str, map: Path | None, prefixes: Sequence[str]) -> None:
        """Write names another way, from the next run on; the client must be stopped."""
        supervisor.check_stopped(self.path)
        config = replace(
            self._read_config(), names=names, map=_resolved(str(map) if map else None), prefixes=tuple(prefixes)
        )
        read_graph(config, 0)
        self.config = config
        write_json(self.path / "client.json", asdict(config))

    # The process

    def start(self) -> None:
        """Start the client in the background, if its folder is complete."""
        supervisor.check_stopped(self.path)
        self._check()
        command = ["client", "start", str(self.path), "--foreground"]
        supervisor.start(self.path, command, lambda: bool(self.status()["running"]))

    def watch(self, log: Callable[[str], None]) -> None:
        """Keep the client's process running until stopped."""
        with supervisor.lock(self.path):
            self._check()
            command = [sys.executable, "-m", "pfedeg", "client", "work", str(self.path)]
            supervisor.watch(self.path, [supervisor.Child("client", command)], log)

    def _check(self) -> None:
        keys.check_valid(self.path / "ca.crt", "get the new one from the server operator")
        keys.read_pair(self.path / "client.key")
        read_secret(self.path / "secret")
        parse_address(self.config.server)
        graph = read_graph(self.config, 0)
        if self.config.limits is None:  # a folder made by an earlier version
            self.config = replace(self._read_config(), limits=Limits.suited(graph))
            write_json(self.path / "client.json", asdict(self.config))

    def write_status(self, state: str, detail: str = "") -> None:
        """Record what the process is doing, for `status`."""
        (self.path / "run").mkdir(mode=0o700, exist_ok=True)
        content = {"state": state, "detail": detail, "at": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        write_json(self.path / "run" / "status.json", content)
        (self.path / "run" / "ended.json").unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        """Whether the client is running and has joined, its key and plug-ins, its runs."""
        running = supervisor.find(self.path) is not None
        status, ended = self._read("status.json") or {"state": "starting"}, self._read("ended.json")
        if ended:
            detail = f"exit code {ended['code']}, last line: {ended['last_line']}"
            status = {"state": "crashed, restarting", "detail": detail}
        if not running:
            status = {"state": "stopped"}
        runs = self.runs()
        finished = [run.name for run in runs if (run / "result.json").exists()]
        known: dict[str, Any] = {"key": keys.short(keys.read_public(self.public))}
        until, problem = keys.validity(self.path / "ca.crt")
        known["certificate"] = {"until": until, "problem": problem}
        with suppress(InputError):
            known["secret"] = fingerprint(read_secret(self.path / "secret"))
        return {
            "name": self.config.name,
            "server": self.config.server,
            "running": running,
            **status,
            **known,
            "allowed": list(self.config.allowed),
            "finished": finished,
            "unfinished": [run.name for run in runs if run.name not in finished],
        }

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = load_json(self.path / "run" / name)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def runs(self) -> list[Path]:
        """The run folders, the latest last."""
        found = [run for run in (self.path / "runs").iterdir() if (run / "provenance.json").exists()]
        return sorted(found, key=lambda run: run.stat().st_mtime)


def check_plugin(identifier: str) -> None:
    """Refuse what is no method, model, objective or optimiser, is built in, or cannot be loaded here."""
    reasons = set()
    for part, registry in REGISTRIES.items():
        if identifier in registry:
            raise InputError(f"{identifier}: is a built-in {part}, which needs no permission")
        try:
            registry.get(identifier)
            return
        except InputError as error:
            reasons.add(str(error).partition(": ")[2])
    reason = reasons.pop() if len(reasons) == 1 else ""  # the same for all: its module cannot be imported
    raise InputError(f"{identifier}: {reason or 'no method, model, objective or optimiser of this name is installed'}")


def parse_address(server: str) -> str:
    """host:port of a URL."""
    found = re.fullmatch(r"https://([A-Za-z0-9.-]+):([0-9]{1,5})/?", server)
    if not found or not 0 < int(found[2]) < 65536:
        raise InputError(f"--server {server}: expected https://HOST:PORT")
    return f"{found[1]}:{found[2]}"


def _resolved(path: str | None) -> str | None:
    return str(Path(path).resolve()) if path else None


def read_graph(config: ClientConfig, seed: int) -> KnowledgeGraph:
    """The client's graph, with names as the client writes them: the only one in its data, or the one with its name."""
    graphs = Federation.read(config.data, seed, config.naming()).graphs
    if len(graphs) == 1:
        return next(iter(graphs.values()))
    if config.name not in graphs:
        hint = suggest(config.name, graphs)
        raise InputError(f"{config.data}: holds {len(graphs)} clients, none called {config.name!r}{hint}")
    return graphs[config.name]
