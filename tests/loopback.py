"""A network in memory: a ServerChannel to clients in this process; responses can be read, lost or forged."""

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from pfedeg.engine.interface import MultiThreaded, default_engine
from pfedeg.graphs.federation import Federation
from pfedeg.network.channel import ClientStatus, Response
from pfedeg.network.client_agent import ClientAgent
from pfedeg.network.limits import Limits
from pfedeg.network.request_manager import Member, RequestManager, WaitPolicy
from pfedeg.network.server_run import ServerRun
from pfedeg.network.server_transport import RemoteTransport
from pfedeg.training.config import Config

SOON = WaitPolicy(timeout=0.3, absent_timeout=0.2)
SECRET = b"a secret of the clients, 32 bytes"


class FakeSigner:
    """A signature for tests: a keyed hash. The key is the name, so anybody could forge it."""

    def __init__(self, name: str) -> None:
        self._key = name.encode()

    def sign(self, body: bytes) -> bytes:
        return hashlib.sha256(self._key + body).digest()

    def verify(self, body: bytes, signature: bytes) -> bool:
        return signature == self.sign(body)


class Network:
    """Carries every message at once; `change` may look at, alter or lose (None) a client's response."""

    def __init__(self, agents: Mapping[str, ClientAgent]) -> None:
        self.agents = dict(agents)
        self.sent: list[bytes] = []
        self.heard: list[bytes] = []
        self.change: Callable[[str, bytes], bytes | None] = lambda name, raw: raw
        self.offline: set[str] = set()
        self.removed: set[str] = set()
        self.joined = dict.fromkeys(agents, 0)
        self._count = itertools.count()
        self._replies: dict[str, bytes] = {}

    def open(self) -> None:
        self._replies.clear()

    def close(self) -> None:
        pass

    def clients(self) -> Mapping[bytes, ClientStatus]:
        return {
            name.encode(): ClientStatus(i, name not in self.offline, str(self.joined[name]))
            for i, name in enumerate(self.agents)
        }

    def push(self, node: int, body: bytes) -> str:
        name, message = list(self.agents)[node], str(next(self._count))
        self.sent.append(body)
        response = self.agents[name].respond(body)
        response = None if response is None else self.change(name, response)
        if response is not None:
            self.heard.append(response)
            self._replies[message] = response
        return message

    def pull(self, requests: Iterable[str], limit: int) -> Iterator[Response]:
        for message in list(requests):
            if message in self._replies:
                body = self._replies.pop(message)
                yield Response(message, body if len(body) <= limit else None, "too large")


def make_agents(
    federation: Federation,
    home: Path,
    secret: bytes = SECRET,
    *,
    engine: MultiThreaded | None = None,
    allowed: Collection[str] = (),
    limits: Callable[[], Limits] = Limits,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, ClientAgent]:
    return {
        name: ClientAgent(
            home / name,
            name,
            lambda seed, graph=graph: graph,
            secret,
            hashlib.sha256(secret).hexdigest()[:32],
            sign=FakeSigner(name).sign,
            trusted=lambda certificate, body, signature: FakeSigner("server").verify(body, signature),
            engine=lambda: engine or default_engine(1),
            allowed=lambda: allowed,
            limits=limits,
            log=log,
        )
        for name, graph in federation.graphs.items()
    }


def start_run(
    network: Network,
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    policy: WaitPolicy = SOON,
    log: list[str] | None = None,
) -> ServerRun:
    def connect(run: str) -> RemoteTransport:
        members = {name: Member(name.encode(), FakeSigner(name).verify) for name in network.agents}
        write = [].append if log is None else log.append
        requests = RequestManager(
            network,
            run,
            members,
            sign=FakeSigner("server").sign,
            certificate=b"certificate",
            policy=policy,
            enrolled=lambda name: name not in network.removed,
            log=write,
        )
        return RemoteTransport(requests, config, log=write)

    return ServerRun(config, connect, out=out, resume=resume, threads=1)
