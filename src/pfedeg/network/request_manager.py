"""Requests to clients over a channel: send, wait, retry, time out, and check whose response it is."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pfedeg.errors import RunError
from pfedeg.graphs.alignment import ClientId
from pfedeg.network.channel import ClientStatus, RefusedError, RunEndedError, ServerChannel, UnreachableError
from pfedeg.network.messages import Message, ProtocolError, pack, split, unpack

POLL = (0.05, 0.2)  # seconds between polls for responses: at first, and at most
STATUS_POLL = 1.0  # seconds between polls for the clients' status
MOST_FORGERIES = 3  # invalid responses in a client's name before the manager gives up on it for the round


@dataclass(frozen=True, slots=True)
class Member:
    """A client that may take part in the run."""

    identity: bytes  # its public key, as the network knows it
    verify: Callable[[bytes, bytes], bool]  # whether it signed a body with this signature


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How many responses a round needs, and how long to wait for the others."""

    quorum: int = 0  # clients that must respond in a round; 0: all that got a request
    timeout: float = 600.0  # seconds for the response of a client that is online
    absent_timeout: float = 90.0  # seconds for one that is offline, or did not respond the last time


@dataclass(slots=True)
class _Pending:
    """A request that waits for its response."""

    message: Message
    body: bytes
    nonce: str
    sent: dict[str, None] = field(default_factory=dict)  # ids under which it was sent
    since: str = ""  # when the client had joined at the time of sending
    retry_at: float = 0.0
    forgeries: int = 0  # invalid responses in the client's name
    problem: str = ""  # the last error instead of a response


class RequestManager:
    """Sends requests to the members of a run and waits for their responses. Progress goes to `log`."""

    def __init__(
        self,
        channel: ServerChannel,
        run: str,
        members: Mapping[ClientId, Member],
        *,
        sign: Callable[[bytes], bytes],
        certificate: bytes,
        policy: WaitPolicy,
        enrolled: Callable[[ClientId], bool],
        log: Callable[[str], None],
    ) -> None:
        """enrolled(name) is called before each message is sent or accepted."""
        self._channel, self._run, self.members = channel, run, dict(members)
        self._sign, self._certificate, self._policy = sign, certificate.decode(), policy
        self.enrolled, self._log = enrolled, log
        self.missing: dict[ClientId, str] = {}  # clients without a response to the last request, and why
        self.invalid: dict[ClientId, str] = {}  # clients whose response to it was refused, and why
        self._slow: set[ClientId] = set()
        self._reported_offline: set[ClientId] = set()
        self._connected = False

    def request(
        self,
        requests: Mapping[ClientId, Message],
        check: Callable[[ClientId, Message], Message],
        limit: int,
        need_all: bool = False,
    ) -> Iterator[tuple[ClientId, Message]]:
        """Send requests; yield each response of at most `limit` bytes that passes its check, refusals included.

        Ends when all clients have responded, or when the quorum has and the others timed out. A client that rejoins
        gets its request again, since the first may be lost; clients respond to the same request in the same way.
        A client whose response is refused does not hold up the others, if any response is valid.
        """
        self.missing, self.invalid = {}, {}
        waiting = {name: self._prepare(name, message) for name, message in requests.items()}
        accepted = 0
        refused: dict[ClientId, str] = {}
        quorum = len(requests) if need_all else min(self._policy.quorum or len(requests), len(requests))
        started = time.monotonic()
        offline: set[ClientId] = set()
        clients: Mapping[bytes, ClientStatus] = {}
        pause, polled, warned = POLL[0], -STATUS_POLL, False
        while waiting:
            now = time.monotonic()
            try:
                if not self._connected:
                    self._channel.open()
                    self._connected, warned, started = True, False, now
                    for each in waiting.values():
                        each.sent.clear()
                if now - polled >= STATUS_POLL:
                    clients, polled = self._channel.clients(), now
                    self._send(waiting, clients, offline, now)
                for name, message in [*self._removed(waiting), *self._collect(waiting, check, limit)]:
                    del waiting[name]
                    accepted += message.kind != "refusal"
                    pause = POLL[0]
                    self._slow.discard(name)
                    if message.kind == "refusal":
                        refused[name] = message.text("reason")
                    yield name, message
            except (RefusedError, RunEndedError, UnreachableError) as error:
                if not warned:
                    hint = "; is it running?" if isinstance(error, UnreachableError) else ""
                    self._log(f"reconnecting to the SuperLink: {error}{hint}")
                self._connected, pause, warned = False, POLL[1], True
            late = {name for name in waiting if now - started > self._timeout(name, offline)}
            if waiting and late >= set(waiting):
                quorum = min(quorum, self._reachable(len(requests), accepted, need_all))
                if accepted >= quorum or (not need_all and accepted + len(waiting) < quorum):
                    break
                text = f"{accepted} of {len(requests)} clients responded, {quorum} are needed"
                action = "still waiting" if need_all else "repeating the round"
                self._log(f"{text}: {action} for {', '.join(sorted(waiting))}")
                started = now
                for each in waiting.values():
                    each.sent.clear()
            time.sleep(pause)
            pause = min(pause * 1.2, POLL[1])
        quorum = min(quorum, self._reachable(len(requests), accepted, need_all))
        if accepted < quorum and not need_all:
            why = "; ".join(f"{name}: {reason}" for name, reason in sorted(refused.items()))
            hint = f"continue with --resume --quorum {accepted}" if accepted else "then continue with --resume"
            raise RunError(f"{accepted} of {len(requests)} clients responded, {quorum} are needed ({why}); {hint}")
        self._give_up(waiting, offline)

    def _reachable(self, clients: int, accepted: int, need_all: bool) -> int:
        """The most valid responses that can be asked for, now that some are known to be invalid."""
        return clients if need_all or not accepted else clients - len(self.invalid)

    def _give_up(self, waiting: Mapping[ClientId, _Pending], offline: set[ClientId]) -> None:
        """Record who did not respond in time, and why."""
        for name, each in waiting.items():
            if name in offline:
                self.missing[name] = "is offline"
                continue
            self._slow.add(name)
            self.missing[name] = each.problem or "does not respond"
            self._log(f"continuing without {name!r}: {self.missing[name]}")

    def _timeout(self, name: ClientId, offline: set[ClientId]) -> float:
        policy = self._policy
        short = name in offline or name in self._slow
        return min(policy.absent_timeout, policy.timeout) if short else policy.timeout

    def _prepare(self, name: ClientId, message: Message) -> _Pending:
        nonce = secrets.token_hex(16)
        fields = {"to": name, "run": self._run, "nonce": nonce, "certificate": self._certificate}
        whole = Message(message.kind, fields | dict(message.fields), message.arrays)
        return _Pending(message, pack(whole, self._sign), nonce)

    def _send(
        self,
        waiting: Mapping[ClientId, _Pending],
        clients: Mapping[bytes, ClientStatus],
        offline: set[ClientId],
        now: float,
    ) -> None:
        """Send each request to its client if that is online and has not got it since it joined."""
        for name, each in waiting.items():
            status = clients.get(self.members[name].identity)
            if status is None or not status.online:
                if name not in self._reported_offline:
                    self._log(f"client {name!r} is offline")
                    self._reported_offline.add(name)
                offline.add(name)
                continue
            offline.discard(name)
            if name in self._reported_offline:
                self._log(f"client {name!r} is online")
                self._reported_offline.discard(name)
            if (each.sent and each.since == status.since) or now < each.retry_at:
                continue
            sent = self._channel.push(status.node, each.body)
            if sent:
                each.sent[sent], each.since = None, status.since
            else:  # the client may just have been removed
                each.retry_at = now + 2 * STATUS_POLL

    def _removed(self, waiting: Mapping[ClientId, _Pending]) -> list[tuple[ClientId, Message]]:
        """Refusals in the name of clients that were removed meanwhile."""
        gone = [name for name in waiting if not self.enrolled(name)]
        return [(name, Message("refusal", {"reason": "is no longer enrolled"})) for name in gone]

    def _collect(
        self, waiting: Mapping[ClientId, _Pending], check: Callable[[ClientId, Message], Message], limit: int
    ) -> Iterator[tuple[ClientId, Message]]:
        """The valid responses that have arrived; a refusal in place of an invalid one."""
        sender = {request: name for name, each in waiting.items() for request in each.sent}
        if not sender:
            return
        done: set[ClientId] = set()
        for response in self._channel.pull(sender, limit):
            name = sender.get(response.to)
            if name is None or name in done or not self.enrolled(name):
                continue
            each = waiting[name]
            each.sent.pop(response.to, None)
            if response.body is None:
                each.retry_at = time.monotonic() + 2 * STATUS_POLL
                each.problem = response.error
                self._log(f"client {name!r}: {response.error}")
                continue
            try:
                message = self._read(name, each, response.body)
            except ProtocolError as error:  # perhaps somebody else's: request it again
                self._log(f"refused a response in the name of {name!r}: {error}")
                each.forgeries, each.problem = each.forgeries + 1, f"its responses were refused: {error}"
                if each.forgeries < MOST_FORGERIES:
                    continue
                self.invalid[name] = each.problem
                message = Message("refusal", {"reason": each.problem})
            try:
                found = check(name, message)
            except (ProtocolError, ArithmeticError, ValueError, TypeError) as error:
                self._log(f"refused a response of {name!r}: {error}")
                self.invalid[name] = str(error)
                found = Message("refusal", {"reason": f"its response was refused: {error}"})
            done.add(name)
            yield name, found

    def _read(self, name: ClientId, each: _Pending, raw: bytes) -> Message:
        """A response that this client signed, to exactly this request."""
        signature, body = split(raw)
        if not self.members[name].verify(body, signature):
            raise ProtocolError("not signed by this client")
        message = unpack(body)
        expected = {"from": name, "run": self._run, "nonce": each.nonce, "request": each.message.kind}
        for key, value in expected.items():
            if message.fields.get(key) != value:
                raise ProtocolError(f"{key} is {str(message.fields.get(key))[:80]!r}, expected {value!r}")
        if message.kind not in (each.message.kind, "refusal"):
            raise ProtocolError(f"response {message.kind!r} to request {each.message.kind!r}")
        if message.kind == "refusal":
            return Message("refusal", {"reason": message.text("reason")[:500]})
        return message
