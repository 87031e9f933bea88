"""A network in memory: a Hub whose clients answer in this process; what they say can be watched, lost or forged."""

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from pfedeg.engine.interface import Engine, default_engine
from pfedeg.graphs.federation import Federation
from pfedeg.network.channel import Reply, Seen
from pfedeg.network.client_agent import Agent
from pfedeg.network.request_manager import Member, Patience
from pfedeg.network.server_run import Coordination
from pfedeg.network.server_transport import Remote
from pfedeg.training.config import Config

SOON = Patience(wait=0.3, absent=0.2)
SECRET = b"a secret of the clients, 32 bytes"


class Hand:
    """A signature for tests: a keyed hash, which whoever knows the name could make."""

    def __init__(self, name: str) -> None:
        self._key = name.encode()

    def sign(self, body: bytes) -> bytes:
        return hashlib.sha256(self._key + body).digest()

    def verify(self, body: bytes, signature: bytes) -> bool:
        return signature == self.sign(body)


class Network:
    """Carries every message at once; `change` may look at, alter or lose (None) what a client answers."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self.agents = dict(agents)
        self.sent: list[bytes] = []
        self.heard: list[bytes] = []
        self.change: Callable[[str, bytes], bytes | None] = lambda name, raw: raw
        self.away: set[str] = set()
        self.removed: set[str] = set()
        self.joined = dict.fromkeys(agents, 0)
        self._count = itertools.count()
        self._replies: dict[str, bytes] = {}

    def open(self) -> None:
        self._replies.clear()

    def close(self) -> None:
        pass

    def clients(self) -> Mapping[bytes, Seen]:
        return {
            name.encode(): Seen(i, name not in self.away, str(self.joined[name])) for i, name in enumerate(self.agents)
        }

    def push(self, node: int, body: bytes) -> str:
        name, message = list(self.agents)[node], str(next(self._count))
        self.sent.append(body)
        answer = self.agents[name].answer(body)
        answer = None if answer is None else self.change(name, answer)
        if answer is not None:
            self.heard.append(answer)
            self._replies[message] = answer
        return message

    def pull(self, sent: Iterable[str], most: int) -> Iterator[Reply]:
        for message in list(sent):
            if message in self._replies:
                body = self._replies.pop(message)
                yield Reply(message, body if len(body) <= most else None, "too large")


def make_agents(
    federation: Federation,
    home: Path,
    secret: bytes = SECRET,
    *,
    engine: Engine | None = None,
    allowed: Collection[str] = (),
) -> dict[str, Agent]:
    return {
        name: Agent(
            home / name,
            name,
            lambda seed, graph=graph: graph,
            secret,
            hashlib.sha256(secret).hexdigest()[:32],
            sign=Hand(name).sign,
            trusted=lambda certificate, body, signature: Hand("server").verify(body, signature),
            engine=engine or default_engine(1),
            allowed=lambda: allowed,
        )
        for name, graph in federation.graphs.items()
    }


def coordinate(
    network: Network,
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    patience: Patience = SOON,
    log: list[str] | None = None,
) -> Coordination:
    def connect(run: str) -> Remote:
        members = {name: Member(name.encode(), Hand(name).verify) for name in network.agents}
        told = [] if log is None else log
        return Remote(
            network,
            run,
            config,
            members,
            sign=Hand("server").sign,
            certificate=b"certificate",
            patience=patience,
            enrolled=lambda name: name not in network.removed,
            log=told.append,
        )

    return Coordination(config, connect, out=out, resume=resume, threads=1)
