"""A client's folder: its key, the secret, where its graph and its server are; and the process that answers for it."""

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.files import create_folder, write_bytes, write_json, write_private
from pfedeg.graphs.alignment import fingerprint
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triples import normal
from pfedeg.network.channel import EndedError, Node, RefusedError, StrangeError, UnreachableError
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor as processes
from pfedeg.network.operations.alignment_secret import read_secret
from pfedeg.text import suggest
from pfedeg.training.config import REGISTRIES

POLL = (0.1, 0.3, 2.0)  # seconds between two looks for a message: after one, during a run, and when idle
IDLE = 120.0  # seconds without a message after which a client is idle
AGAIN = (1.0, 10.0)  # seconds before joining again: at first, and at most


@dataclass(frozen=True, slots=True)
class Place:
    """Who the client is, and where its graph and its server are."""

    name: str
    data: str
    server: str
    threads: int | None = None
    allowed: tuple[str, ...] = ()  # plug-ins that may be loaded


class ClientHome:
    """Everything of a client in one folder."""

    def __init__(self, path: Path) -> None:
        """An existing one."""
        self.path = path.resolve()
        try:
            self.place = self._read_place()
        except FileNotFoundError:
            raise InputError(f"{path}: not a client's folder; `pfedeg client init` makes one") from None
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path / 'client.json'}: damaged ({error})") from None

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        name: str,
        data: Path,
        server: str,
        ca: Path,
        secret: Path,
        threads: int | None = None,
        allowed: Sequence[str] = (),
    ) -> "ClientHome":
        """A new one, with a key pair of its own."""
        name = normal(name)
        if not name.strip() or len(name) > 200:
            raise InputError(f"--name {name!r}: a client needs a name of 1 to 200 characters")
        address(server)
        keys.read_certificate(ca)
        read_secret(secret)
        source = "world" if str(data) == "world" and not data.exists() else str(data.resolve())
        read_graph(source, name, 0)
        for identifier in allowed:
            check_plugin(identifier)

        def fill(folder: Path) -> None:
            keys.make_pair(folder, name)
            write_bytes(folder / "ca.crt", ca.read_bytes())
            write_private(folder / "secret", secret.read_bytes())
            write_json(folder / "client.json", asdict(Place(name, source, server, threads, tuple(allowed))))
            (folder / "runs").mkdir()

        create_folder(path.resolve(), fill)
        path.chmod(0o700)
        return cls(path)

    def _read_place(self) -> Place:
        found = json.loads((self.path / "client.json").read_text(encoding="utf-8"))
        return Place(**found | {"allowed": tuple(found.get("allowed", ()))})

    def allowed(self) -> tuple[str, ...]:
        """The plug-ins that may be loaded, as client.json has them now."""
        return self._read_place().allowed

    def allow(self, identifiers: Sequence[str]) -> None:
        """Let runs use these plug-ins from now on."""
        for identifier in identifiers:
            check_plugin(identifier)
        self._set_allowed(dict.fromkeys((*self.allowed(), *identifiers)))

    def disallow(self, identifiers: Sequence[str]) -> None:
        """Let no new run use these plug-ins."""
        allowed = self.allowed()
        for identifier in identifiers:
            if identifier not in allowed:
                raise InputError(f"{self.path}: {identifier!r} is not allowed anyway{suggest(identifier, allowed)}")
        self._set_allowed(name for name in allowed if name not in identifiers)

    def _set_allowed(self, identifiers: Iterable[str]) -> None:
        self.place = replace(self.place, allowed=tuple(identifiers))
        write_json(self.path / "client.json", asdict(self.place))

    @property
    def public(self) -> Path:
        """The file to give to the server operator."""
        return self.path / "client.pub"

    def check(self) -> None:
        """Whether all is there that the process needs."""
        keys.read_certificate(self.path / "ca.crt")
        keys.read_pair(self.path / "client.key")
        read_secret(self.path / "secret")
        read_graph(self.place.data, self.place.name, 0)

    def start(self) -> None:
        """Start in the background."""
        self.check()
        processes.start(
            self.path, ["client", "start", str(self.path), "--foreground"], lambda: bool(self.status()["running"])
        )

    def watch(self, say: Callable[[str], None]) -> None:
        """Keep the process that answers alive, until told to stop."""
        with processes.alone(self.path):
            command = [sys.executable, "-m", "pfedeg", "client", "work", str(self.path)]
            processes.watch(self.path, [processes.Child("client", command)], say)

    def status(self) -> dict[str, Any]:
        """Whether it runs, whether it has joined, and what it has done last."""
        running = processes.watcher(self.path) is not None
        told, ended = self._read("status.json") or {"state": "starts"}, self._read("ended.json")
        if ended:
            told = {"state": "ended, starts again", "detail": f"exit code {ended['code']}, last line: {ended['said']}"}
        if not running:
            told = {"state": "stopped"}
        finished = [run.name for run in self.runs() if (run / "result.json").exists()]
        open_ = [run.name for run in self.runs() if run.name not in finished]
        known: dict[str, Any] = {"allowed": list(self.allowed()), "key": keys.short(keys.read_public(self.public))}
        with suppress(InputError):
            known["secret"] = fingerprint(read_secret(self.path / "secret"))
        where = {"name": self.place.name, "server": self.place.server, **known}
        return {**where, "running": running, **told, "finished": finished, "unfinished": open_}

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.path / "run" / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def runs(self) -> list[Path]:
        """The run directories, the latest last."""
        found = [run for run in (self.path / "runs").iterdir() if (run / "provenance.json").exists()]
        return sorted(found, key=lambda run: run.stat().st_mtime)

    def work(self, say: Callable[[str], None]) -> None:
        """Join the server and answer what it asks, for ever."""
        from pfedeg.engine.interface import default_engine
        from pfedeg.network import flower
        from pfedeg.network.client_agent import Agent

        place, authority = self.place, keys.read_certificate(self.path / "ca.crt")
        secret, key = read_secret(self.path / "secret"), keys.read_pair(self.path / "client.key")
        signer = keys.Signer(key)

        def trusted(certificate: bytes, body: bytes, signature: bytes) -> bool:
            found = keys.certified(authority, certificate)
            return found is not None and keys.signed_by(found, body, signature)

        agent = Agent(
            self.path / "runs",
            place.name,
            lru_cache(1)(lambda seed: read_graph(place.data, place.name, seed)),
            secret,
            fingerprint(secret),
            sign=signer.sign,
            trusted=trusted,
            engine=default_engine(place.threads),
            source=place.data,
            allowed=self.allowed,
            log=say,
        )
        signal.signal(signal.SIGTERM, lambda *about: sys.exit(0))
        remembered = self.path / "run" / "node.json"
        number = json.loads(remembered.read_text())["node"] if remembered.exists() else 0
        pause = AGAIN[0]
        told = ""
        while True:
            reason = ""
            node = flower.Node(address(place.server), str(self.path / "ca.crt"), key, number)
            try:
                node.join()
                number = node.node
                write_json(remembered, {"node": number})
                self._tell("joined", "")
                say(f"joined {place.server}")
                pause, told = AGAIN[0], ""
                self._serve(node, agent, say)
            except UnreachableError as error:
                reason = f"cannot reach {place.server}: {_explain(str(error))}"
                self._tell("unreachable", _explain(str(error)))
            except RefusedError as error:
                reason = (
                    f"the server refuses this client; is its key enrolled, and this machine's clock right? ({error})"
                )
                self._tell("refused", reason)
            except EndedError as error:
                reason = f"a run has ended: {error}"
            except SystemExit:
                node.leave()
                raise
            if reason != told:
                say(reason)
            told = reason
            node.close()
            time.sleep(pause)
            pause = min(2 * pause, AGAIN[1])

    def _serve(self, node: Node, agent: Any, say: Callable[[str], None]) -> None:
        from pfedeg.network.client_agent import MOST

        pause, heard = POLL[0], time.monotonic()
        while True:
            try:
                request = node.receive(MOST)
            except StrangeError as error:
                say(f"ignored a message: {error}")
                continue
            if request is None:
                time.sleep(pause)
                pause = min(1.1 * pause, POLL[1] if time.monotonic() - heard < IDLE else POLL[2])
                continue
            answer = agent.answer(request.body)
            if answer is not None:
                with suppress(RefusedError, EndedError):  # a run of yesterday; the server asks again if it wants
                    node.reply(request, answer)
            pause, heard = POLL[0], time.monotonic()
            self._tell("joined", "")

    def _tell(self, state: str, detail: str) -> None:
        (self.path / "run").mkdir(mode=0o700, exist_ok=True)
        told = {"state": state, "detail": detail, "at": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        write_json(self.path / "run" / "status.json", told)
        (self.path / "run" / "ended.json").unlink(missing_ok=True)


def _explain(error: str) -> str:
    """What can be done about a server that cannot be reached."""
    if "CERTIFICATE_VERIFY_FAILED" in error:
        return "its certificate is not one of this client's ca.crt; ask the server operator for the right ca.crt"
    if "Connection refused" in error or error.startswith("502"):
        return f"{error}; is the server started, and the port right?"
    return error


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


def address(server: str) -> str:
    """host:port of a URL."""
    found = re.fullmatch(r"https://([A-Za-z0-9.-]+):([0-9]{1,5})/?", server)
    if not found or not 0 < int(found[2]) < 65536:
        raise InputError(f"--server {server}: expected https://HOST:PORT")
    return f"{found[1]}:{found[2]}"


def read_graph(source: str, name: str, seed: int) -> KnowledgeGraph:
    """The client's graph: alone in a folder or file, or one of several by its name."""
    graphs = Federation.read(source, seed).graphs
    if len(graphs) == 1:
        return next(iter(graphs.values()))
    if name not in graphs:
        raise InputError(f"{source}: holds {len(graphs)} clients, none called {name!r}{suggest(name, graphs)}")
    return graphs[name]
