"""A server's folder: its certificates, who is enrolled, its runs, and whether it is running."""

import hmac
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedeg.checked_files import read_json
from pfedeg.errors import InputError, RunError
from pfedeg.files import create_folder, load_json, write_bytes, write_private
from pfedeg.graphs.alignment import ClientId
from pfedeg.network.channel import ClientStatus, RefusedError, RunEndedError, UnreachableError
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor
from pfedeg.network.operations.enrollment import Enrollment
from pfedeg.network.operations.nginx import KEYS, configuration, enrolled_keys
from pfedeg.training.run_folder import CHECKPOINT

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
PLAIN = re.compile(r"[\w./-]+")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The content of server.json."""

    host: str
    port: int
    pseudonyms: str = ""  # if set, the key that pseudonyms of clients are derived from

    @property
    def superlink_port(self) -> int:
        """Where the SuperLink listens on loopback, behind the proxy."""
        return self.port + 1

    @property
    def url(self) -> str:
        """Where clients reach the server."""
        return f"https://{self.host}:{self.port}"


class ServerFolder:
    """A server's folder."""

    def __init__(self, path: Path) -> None:
        """An existing one."""
        self.path = path.resolve()
        try:
            found = load_json(path / "server.json")
            self.config = ServerConfig(found["host"], found["port"], found.get("pseudonyms", ""))
        except FileNotFoundError:
            raise InputError(f"{path}: not a server's folder; `pfedeg server init` makes one") from None
        except (TypeError, KeyError, AttributeError):
            raise InputError(f"{path / 'server.json'}: damaged; it needs host, port and pseudonyms") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{path / 'server.json'}: damaged ({error})") from None
        self.enrollment = Enrollment(self.path / "enrolled")

    @classmethod
    def create(cls, path: Path, host: str, port: int, pseudonyms: bool = False) -> "ServerFolder":
        """A new one: CA, server certificate, proxy configuration."""
        if not 1 <= port < 65535:
            raise InputError(f"--port {port}: must be 1 to 65534 (the next port is used on loopback)")
        if not HOST.fullmatch(host):
            raise InputError(f"--host {host!r}: must be the name or IPv4 address at which clients reach this machine")
        path = path.resolve()
        if not PLAIN.fullmatch(str(path)):
            raise InputError(f"{path}: nginx needs a path of plain letters, digits and ._-/; choose another folder")
        config = ServerConfig(host, port)

        def fill(folder: Path) -> None:
            keys.make_authority(folder, host)
            (folder / "enrolled").mkdir()
            (folder / "runs").mkdir()
            secret = os.urandom(16).hex() if pseudonyms else ""
            content = {"host": host, "port": port, "pseudonyms": secret}
            write_private(folder / "server.json", (json.dumps(content, indent=2) + "\n").encode())
            write_bytes(folder / "nginx.conf", configuration(path, host, port, config.superlink_port).encode())
            write_bytes(folder / KEYS, b"")

        create_folder(path, fill)
        path.chmod(0o700)
        return cls(path)

    # The SuperLink

    @property
    def behind_proxy(self) -> bool:
        """Whether the server was last started with the proxy."""
        return not (self.path / "run" / "no-proxy").exists()

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """A `FlowerServerChannel` to the SuperLink."""
        from pfedeg.network.flower_channels import FlowerServerChannel

        port = self.config.superlink_port if self.behind_proxy else self.config.port
        channel = FlowerServerChannel(f"127.0.0.1:{port}", str(self.path / "ca.crt"))
        try:
            yield channel
        except (UnreachableError, RefusedError, RunEndedError) as error:
            raise RunError(f"{self.path}: the SuperLink does not respond as it should: {error}") from None
        finally:
            channel.close()

    def configure_proxy(self) -> None:
        """Write the configuration of the proxy, also for a folder made by an earlier version."""
        config = self.config
        text = configuration(self.path, config.host, config.port, config.superlink_port)
        write_bytes(self.path / "nginx.conf", text.encode())
        self._write_keys()

    def _write_keys(self) -> None:
        """Let the proxy know the enrolled clients; one that runs reads them at once."""
        found = enrolled_keys(map(keys.identity, self.enrollment.keys().values()))
        write_bytes(self.path / KEYS, found.encode())
        try:
            running = json.loads((self.path / "run" / "processes.json").read_text(encoding="utf-8"))
            if "nginx" in running and supervisor.find(self.path):
                os.kill(int(running["nginx"]), signal.SIGHUP)
        except (OSError, ValueError, TypeError):  # it is not running
            pass

    def enroll(self, name: ClientId, public: Path, triples: int | None = None) -> Any:
        """Let the owner of a public key take part under a name, with so many training triples at most; the key."""
        name, key = self.enrollment.add(name, public, triples)
        if supervisor.find(self.path):
            with self.channel() as channel:
                try:
                    self.register(channel, {name: key})
                except RefusedError as error:
                    self.enrollment.remove(name)
                    text = "a removed key can be enrolled again only after `pfedeg server stop` and `start`"
                    raise InputError(f"{public}: the SuperLink refuses this key ({error}); {text}") from None
        self._write_keys()
        return key

    def remove(self, name: ClientId) -> None:
        """Refuse a client from its next request on."""
        key = self.enrollment.remove(name)
        self._write_keys()
        if supervisor.find(self.path):
            with self.channel() as channel:
                channel.unregister(key)

    def register(self, channel: Any, clients: Mapping[ClientId, Any]) -> None:
        """Tell the SuperLink which clients may join."""
        known = channel.clients()
        for name, key in clients.items():
            if keys.identity(key) not in known:
                channel.register(name, key)

    def status(self) -> dict[str, Any]:
        """Whether the server is running, which clients are online, which runs there are."""
        running = supervisor.find(self.path) is not None and (self.path / "run" / "ready").exists()
        known: Mapping[bytes, ClientStatus] = {}
        if running:
            with self.channel() as channel:
                known = channel.clients()
        clients = {}
        for name, key in self.enrollment.keys().items():
            found = known.get(keys.identity(key))
            online = bool(found and found.online)
            clients[name] = {
                "online": online,
                "since": found.since if found and online else None,
                "key": keys.short(key),
            }
        return {
            "running": running,
            "address": self.config.url,
            "proxy": "nginx" if self.behind_proxy else "none",
            "certificates": {
                file: dict(zip(("until", "problem"), keys.validity(self.path / file), strict=True))
                for file in ("server.crt", "ca.crt")
            },
            "clients": clients,
            "runs": self.runs(),
        }

    # Runs

    def runs(self) -> dict[str, str]:
        """The runs, oldest first, and whether they are finished."""
        found = {}
        for folder in sorted((self.path / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime):
            if (folder / "result.json").exists():
                missing = read_json(folder / "result.json").get("missing", {})
                if not isinstance(missing, dict):
                    raise InputError(f"{folder / 'result.json'}: damaged (missing is not an object)")
                without = [name for name in missing if self.enrollment.contains(name)]
                found[folder.name] = f"not finished for {', '.join(without)}" if without else "finished"
            elif (folder / CHECKPOINT).exists():
                found[folder.name] = "not finished"
        return found

    def name_for(self, learner: ClientId, other: ClientId) -> str:
        """The name under which one client knows another."""
        secret = self.config.pseudonyms
        if not secret or learner == other:
            return other
        found = hmac.digest(bytes.fromhex(secret), f"{learner}\0{other}".encode(), "sha256")
        return f"client-{found.hex()[:8]}"
