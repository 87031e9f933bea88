"""A server's folder: its certificates, who is enrolled, the SuperLink and the proxy in front of it, its runs."""

import hmac
import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError, RunError
from pfedeg.files import create_folder, safe_name, write_bytes, write_json, write_private
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.triples import normal
from pfedeg.network.channel import EndedError, RefusedError, Seen, UnreachableError
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor as processes
from pfedeg.network.operations.nginx import configuration, is_loopback
from pfedeg.network.request_manager import Member, Patience
from pfedeg.network.server_run import Coordination
from pfedeg.network.server_transport import Remote
from pfedeg.text import suggest
from pfedeg.training.config import Config
from pfedeg.training.run_folder import CHECKPOINT

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
PLAIN = re.compile(r"[\w./-]+")
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_LOG_LEVEL": "WARNING"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server listens: clients reach `host:port`, the SuperLink is behind it at `inner` on loopback."""

    host: str
    port: int
    inner: int
    pseudonyms: str = ""  # if set, clients know each other by names made from it


class ServerHome:
    """Everything of a server in one folder."""

    def __init__(self, path: Path) -> None:
        """An existing one."""
        self.path = path.resolve()
        try:
            self.place = Place(**json.loads((path / "server.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InputError(f"{path}: not a server's folder; `pfedeg server init` makes one") from None
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path / 'server.json'}: damaged ({error})") from None

    @classmethod
    def create(cls, path: Path, host: str, port: int, pseudonyms: bool = False) -> "ServerHome":
        """A new one: CA, server certificate, proxy configuration."""
        if not 1 <= port < 65535:
            raise InputError(f"--port {port}: must be 1 to 65534 (the next one is used on loopback)")
        if not HOST.fullmatch(host):
            raise InputError(f"--host {host!r}: a name or an IPv4 address, as clients will reach it")
        path = path.resolve()
        if not PLAIN.fullmatch(str(path)):
            raise InputError(f"{path}: nginx needs a path of plain letters, digits and ._-/; choose another folder")

        def fill(folder: Path) -> None:
            keys.make_authority(folder, host)
            (folder / "enrolled").mkdir()
            (folder / "runs").mkdir()
            secret = os.urandom(16).hex() if pseudonyms else ""
            place = {"host": host, "port": port, "inner": port + 1, "pseudonyms": secret}
            write_private(folder / "server.json", (json.dumps(place, indent=2) + "\n").encode())
            write_bytes(folder / "nginx.conf", configuration(path, host, port, port + 1).encode())

        create_folder(path, fill)
        path.chmod(0o700)
        return cls(path)

    # Who may take part

    def enrolled(self) -> dict[ClientId, Any]:
        """The public key of every enrolled client."""
        found = {}
        for file in sorted((self.path / "enrolled").glob("*.json")):
            entry = json.loads(file.read_text(encoding="utf-8"))
            found[entry["name"]] = keys.read_public(file.with_suffix(".pub"))
        return dict(sorted(found.items()))

    def enroll(self, name: ClientId, public: Path) -> Any:
        """Let the owner of a public key take part under a name."""
        name, key = normal(name), keys.read_public(public)
        if not name.strip() or len(name) > 200:
            raise InputError(f"{name!r}: a client needs a name of 1 to 200 characters")
        for other, known in self.enrolled().items():
            if other == name:
                raise InputError(f"{name!r} is enrolled already; `pfedeg server remove` it first to change its key")
            if keys.identity(known) == keys.identity(key):
                raise InputError(f"{public}: is the key of {other!r} already; every client makes its own")
        file = self.path / "enrolled" / safe_name(name)
        write_bytes(Path(f"{file}.pub"), keys.public_line(key, safe_name(name)).encode())
        write_json(Path(f"{file}.json"), {"name": name, "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        if processes.watcher(self.path):
            with self.hub() as hub:
                try:
                    self._register(hub, {name: key})
                except RefusedError as error:
                    self._forget(name)
                    text = "a key that was removed comes back only after `pfedeg server stop` and `start`"
                    raise InputError(f"{public}: the SuperLink does not take this key ({error}); {text}") from None
        return key

    def remove(self, name: ClientId) -> None:
        """Refuse a client from its next message on."""
        name, enrolled = normal(name), self.enrolled()
        if name not in enrolled:
            raise InputError(f"{name!r} is not enrolled{suggest(name, enrolled)}")
        self._forget(name)
        if processes.watcher(self.path):
            with self.hub() as hub:
                hub.unregister(enrolled[name])

    def _forget(self, name: ClientId) -> None:
        file = self.path / "enrolled" / safe_name(name)
        Path(f"{file}.json").unlink()
        Path(f"{file}.pub").unlink(missing_ok=True)

    def is_enrolled(self, name: ClientId) -> bool:
        """Whether a client may still take part."""
        return Path(f"{self.path / 'enrolled' / safe_name(name)}.json").exists()

    # SuperLink and proxy

    @contextmanager
    def hub(self) -> Iterator[Any]:
        """The SuperLink behind the proxy."""
        from pfedeg.network.flower import Hub

        port = self.place.inner if self._proxied() else self.place.port
        hub = Hub(f"127.0.0.1:{port}", str(self.path / "ca.crt"))
        try:
            yield hub
        except (UnreachableError, RefusedError, EndedError) as error:
            raise RunError(f"{self.path}: the SuperLink does not answer as it should: {error}") from None
        finally:
            hub.close()

    def _proxied(self) -> bool:
        return not (self.path / "run" / "no-proxy").exists()

    def start(self, proxy: bool = True) -> None:
        """Start SuperLink and proxy in the background."""
        if processes.watcher(self.path):
            raise InputError(f"{self.path}: is running already; see `status`, or `stop` it first")
        self._check_start(proxy)
        command = ["server", "start", str(self.path), "--foreground", *([] if proxy else ["--no-proxy"])]
        processes.start(self.path, command, lambda: (self.path / "run" / "ready").exists())

    def _check_start(self, proxy: bool) -> None:
        if proxy and nginx() is None:
            hint = "apt install nginx-light" + (", or add --no-proxy" if is_loopback(self.place.host) else "")
            raise InputError(
                f"nginx is not installed; it keeps strangers from the SuperLink's other interfaces: {hint}"
            )
        if not proxy and not is_loopback(self.place.host):
            text = "without the proxy, whoever reaches the port could start runs and enrol keys"
            raise InputError(f"--no-proxy: only for a --host on loopback; {text}")
        ports = (self.place.port, self.place.inner) if proxy else (self.place.port,)
        for port in ports:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    hint = "stop what uses it, or init a server with another --port"
                    raise InputError(f"port {port} cannot be used: {error.strerror}; {hint}") from None

    def serve(self, say: Callable[[str], None], proxy: bool = True) -> None:
        """Run SuperLink and proxy in the foreground, until told to stop."""
        with processes.alone(self.path):
            self._check_start(proxy)
            run = self.path / "run"
            (run / "ready").unlink(missing_ok=True)
            (run / "no-proxy").unlink(missing_ok=True)
            if not proxy:
                (run / "no-proxy").touch()
            children = [self._superlink(say)]
            if proxy:
                command = [str(nginx()), "-e", f"{self.path}/log/nginx.log", "-c", f"{self.path}/nginx.conf"]
                children.append(processes.Child("nginx", command))
            try:
                processes.watch(self.path, children, say)
            finally:
                (run / "ready").unlink(missing_ok=True)

    def _superlink(self, say: Callable[[str], None]) -> processes.Child:
        port = self.place.inner if self._proxied() else self.place.port
        command = [
            sys.executable,
            "-c",
            "from flwr.superlink.cli import flower_superlink; flower_superlink()",
            *("--ssl-ca-certfile", f"{self.path}/ca.crt"),
            *("--ssl-certfile", f"{self.path}/server.crt", "--ssl-keyfile", f"{self.path}/server.key"),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            *("--isolation", "process"),  # no code that somebody hands in is run
            *("--host", "127.0.0.1", "--port", str(port)),
        ]
        environment = {**QUIET, "FLWR_HOME": f"{self.path}/run/flower"}
        return processes.Child("superlink", command, environment, partial(self._greet, say))

    def _greet(self, say: Callable[[str], None]) -> None:
        """Tell a SuperLink that has just started who is enrolled; it does not remember."""

        def register() -> None:
            for _ in range(300):
                try:
                    with self.hub() as hub:
                        enrolled = self.enrolled()
                        self._register(hub, enrolled)
                    (self.path / "run" / "ready").touch()
                    say(f"SuperLink is ready; {len(enrolled)} enrolled")
                    return
                except RunError:
                    time.sleep(0.2)
                except InputError as error:
                    say(f"error: {error}")
                    return

        (self.path / "run" / "ready").unlink(missing_ok=True)
        threading.Thread(target=register, daemon=True).start()

    def _register(self, hub: Any, clients: Mapping[ClientId, Any]) -> None:
        known = hub.clients()
        for name, key in clients.items():
            if keys.identity(key) not in known:
                hub.register(name, key)

    def status(self) -> dict[str, Any]:
        """What runs, and who is there."""
        ready = processes.watcher(self.path) is not None and (self.path / "run" / "ready").exists()
        seen: Mapping[bytes, Seen] = {}
        if ready:
            with self.hub() as hub:
                seen = hub.clients()
        clients = {}
        for name, key in self.enrolled().items():
            found = seen.get(keys.identity(key))
            clients[name] = {
                "there": bool(found and found.online),
                "since": found.since if found and found.online else None,
                "key": keys.short(key),
            }
        return {
            "running": ready,
            "address": f"https://{self.place.host}:{self.place.port}",
            "proxy": "nginx" if self._proxied() else "none",
            "clients": clients,
            "runs": self.runs(),
        }

    # Runs

    def runs(self) -> dict[str, str]:
        """The runs, and whether they are finished."""
        found = {}
        for folder in sorted((self.path / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime):
            if (folder / "result.json").exists():
                missing = json.loads((folder / "result.json").read_text(encoding="utf-8")).get("missing", {})
                without = [name for name in missing if self.is_enrolled(name)]
                found[folder.name] = f"not finished for {', '.join(without)}" if without else "finished"
            elif (folder / CHECKPOINT).exists():
                found[folder.name] = "not finished"
        return found

    def coordinate(
        self,
        hub: Any,
        config: Config,
        out: Path,
        *,
        name: str,
        resume: bool,
        patience: Patience,
        threads: int | None,
        log: Callable[[str], None],
    ) -> Coordination:
        """A run with all that are enrolled now (of a run that goes on: those who began it)."""
        if processes.watcher(self.path) is None:
            raise InputError(f"{self.path}: the server does not run; start it by `pfedeg server start`")
        signer = keys.Signer.of_server(self.path)
        enrolled = self.enrolled()
        if not enrolled:
            raise InputError(f"{self.path}: nobody is enrolled; `pfedeg server enroll` takes a client's public key")
        if patience.quorum > len(enrolled):
            raise InputError(f"--quorum {patience.quorum}: only {len(enrolled)} are enrolled; a smaller one, or none")
        began = out / "provenance.json"
        names = json.loads(began.read_text(encoding="utf-8"))["clients"] if began.exists() else list(enrolled)
        members = {  # who was removed meanwhile is known by nothing, and counts with what it sent last
            name: Member(keys.identity(enrolled[name]), partial(keys.signed_by, enrolled[name]))
            if name in enrolled
            else Member(b"", lambda body, signature: False)
            for name in names
        }

        def connect(run: str) -> Remote:
            return Remote(
                hub,
                run,
                config,
                members,
                sign=signer.sign,
                certificate=signer.certificate,
                patience=patience,
                enrolled=self.is_enrolled,
                names=self._name,
                log=log,
            )

        return Coordination(config, connect, out=out, name=name, resume=resume, threads=threads)

    def _name(self, learner: ClientId, other: ClientId) -> str:
        """How one client may know another."""
        secret = self.place.pseudonyms
        if not secret or learner == other:
            return other
        found = hmac.digest(bytes.fromhex(secret), f"{learner}\0{other}".encode(), "sha256")
        return f"client-{found.hex()[:8]}"


def nginx() -> str | None:
    """Where nginx is; Debian puts it where only root looks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
