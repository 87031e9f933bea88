"""Asking clients elsewhere: who is there, who has answered, how long to wait, and whose answer it is."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pfedeg.errors import RunError
from pfedeg.graphs.alignment import ClientId
from pfedeg.network.channel import EndedError, Hub, RefusedError, Seen, UnreachableError
from pfedeg.network.messages import Note, ProtocolError, pack, split, unpack

POLL = (0.05, 0.2)  # seconds between two looks for replies: at first, and at last
LOOK = 1.0  # seconds between two looks at who is there
STRANGE = 3  # answers of somebody else in the name of a client before it is given up for the round


@dataclass(frozen=True, slots=True)
class Member:
    """A client that may take part."""

    identity: bytes  # by which the network knows it
    verify: Callable[[bytes, bytes], bool]  # whether a body and a signature are its own


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, and for how many."""

    quorum: int = 0  # clients that must answer in a round; 0: all that were asked
    wait: float = 600.0  # seconds for the answer of a client that is there
    absent: float = 90.0  # seconds for one that is not there, or did not answer the last time


@dataclass(slots=True)
class _Asked:
    """What one client was asked."""

    note: Note
    body: bytes
    nonce: str
    sent: dict[str, None] = field(default_factory=dict)  # names of the messages it went out as
    since: str = ""  # when the client had joined, as it went out
    again: float = 0.0  # not before this time
    strange: int = 0  # answers that were somebody else's, or to something else
    trouble: str = ""  # what came instead of an answer


class Asking:
    """Puts questions to the members of a run and waits for their answers. What happens on the way is told to `log`."""

    def __init__(
        self,
        hub: Hub,
        run: str,
        members: Mapping[ClientId, Member],
        *,
        sign: Callable[[bytes], bytes],
        certificate: bytes,
        patience: Patience,
        enrolled: Callable[[ClientId], bool],
        log: Callable[[str], None],
    ) -> None:
        """`enrolled` is asked before each message."""
        self._hub, self._run, self.members = hub, run, dict(members)
        self._sign, self._certificate, self._patience = sign, certificate.decode(), patience
        self.enrolled, self._log = enrolled, log
        self.missing: dict[ClientId, str] = {}  # who did not answer the last question, and why
        self._slow: set[ClientId] = set()
        self._away: set[ClientId] = set()  # who was said not to be there
        self._open = False

    def ask(
        self,
        asked: Mapping[ClientId, Note],
        check: Callable[[ClientId, Note], Note],
        most: int,
        everyone: bool = False,
    ) -> Iterator[tuple[ClientId, Note]]:
        """Ask clients and yield each answer of at most `most` bytes that passes its check, a refusal among them.

        Goes on until all have answered, or enough have and the others have had their time. Whoever joins anew is
        asked anew, since what it was asked before may be lost; clients answer the same to the same question.
        """
        self.missing = {}
        waiting = {name: self._prepare(name, note) for name, note in asked.items()}
        counted = 0
        refused: dict[ClientId, str] = {}
        quorum = len(asked) if everyone else min(self._patience.quorum or len(asked), len(asked))
        began = time.monotonic()
        gone: set[ClientId] = set()
        seen: Mapping[bytes, Seen] = {}
        pause, looked, warned = POLL[0], -LOOK, False
        while waiting:
            now = time.monotonic()
            try:
                if not self._open:
                    self._hub.open()
                    self._open, warned, began = True, False, now
                    for each in waiting.values():
                        each.sent.clear()
                if now - looked >= LOOK:
                    seen, looked = self._hub.clients(), now
                    self._send(waiting, seen, gone, now)
                for name, note in [*self._removed(waiting), *self._collect(waiting, check, most)]:
                    del waiting[name]
                    counted += note.kind != "refusal"
                    pause = POLL[0]
                    self._slow.discard(name)
                    if note.kind == "refusal":
                        refused[name] = note.text("reason")
                    yield name, note
            except (RefusedError, EndedError) as error:
                if not warned:
                    self._log(f"the run has to begin anew with the SuperLink: {error}")
                self._open, pause, warned = False, POLL[1], True
            except UnreachableError as error:
                if not warned:
                    self._log(f"the SuperLink does not answer; is it running? ({error})")
                self._open, pause, warned = False, POLL[1], True
            late = {name for name in waiting if now - began > self._time(name, gone)}
            if waiting and late >= set(waiting):
                if counted >= quorum:
                    break
                if not everyone and counted + len(waiting) < quorum:
                    break
                text = f"{counted} of {len(asked)} answered, {quorum} are needed"
                wish = "still waits" if everyone else "the round is repeated"
                self._log(f"{text}: {wish} for {', '.join(sorted(waiting))}")
                began = now
                for each in waiting.values():
                    each.sent.clear()
            time.sleep(pause)
            pause = min(pause * 1.2, POLL[1])
        if counted < quorum and not everyone:
            why = "; ".join(f"{name}: {reason}" for name, reason in sorted(refused.items()))
            hint = f"go on with --resume --quorum {counted}" if counted else "go on with --resume when this is mended"
            raise RunError(f"{counted} of {len(asked)} clients answered, {quorum} are needed ({why}); {hint}")
        for name in waiting:
            if name not in gone:  # who is not there has less time anyway
                self._slow.add(name)
            reason = "is not there" if name in gone else waiting[name].trouble or "does not answer"
            self.missing[name] = reason
            if name not in gone:
                self._log(f"goes on without {name!r}: {reason}")

    def _time(self, name: ClientId, gone: set[ClientId]) -> float:
        """How long a client has to answer."""
        patience = self._patience
        return min(patience.absent, patience.wait) if name in gone or name in self._slow else patience.wait

    def _prepare(self, name: ClientId, note: Note) -> _Asked:
        nonce = secrets.token_hex(16)
        facts = {"to": name, "run": self._run, "nonce": nonce, "certificate": self._certificate}
        whole = Note(note.kind, facts | dict(note.facts), note.arrays)
        return _Asked(note, pack(whole, self._sign), nonce)

    def _send(
        self, waiting: Mapping[ClientId, _Asked], seen: Mapping[bytes, Seen], gone: set[ClientId], now: float
    ) -> None:
        """Ask those who are there and have not been asked since they came."""
        for name, each in waiting.items():
            found = seen.get(self.members[name].identity)
            if found is None or not found.online:
                if name not in self._away:
                    self._log(f"client {name!r} is not there")
                    self._away.add(name)
                gone.add(name)
                continue
            gone.discard(name)
            if name in self._away:
                self._log(f"client {name!r} is there")
                self._away.discard(name)
            if (each.sent and each.since == found.since) or now < each.again:
                continue
            sent = self._hub.push(found.node, each.body)
            if sent:
                each.sent[sent], each.since = None, found.since
            else:  # it may just have been removed
                each.again = now + 2 * LOOK

    def _removed(self, waiting: Mapping[ClientId, _Asked]) -> list[tuple[ClientId, Note]]:
        """Those who were removed meanwhile."""
        gone = [name for name in waiting if not self.enrolled(name)]
        return [(name, Note("refusal", {"reason": "is not enrolled any more"})) for name in gone]

    def _collect(
        self, waiting: Mapping[ClientId, _Asked], check: Callable[[ClientId, Note], Note], most: int
    ) -> Iterator[tuple[ClientId, Note]]:
        """The answers that have come, if they are what they say."""
        of = {message: name for name, each in waiting.items() for message in each.sent}
        if not of:
            return
        done: set[ClientId] = set()
        for reply in self._hub.pull(of, most):
            name = of.get(reply.to)
            if name is None or name in done or not self.enrolled(name):
                continue
            each = waiting[name]
            each.sent.pop(reply.to, None)
            if reply.body is None:
                each.again = time.monotonic() + 2 * LOOK
                each.trouble = reply.error
                self._log(f"client {name!r}: {reply.error}")
                continue
            try:
                found = self._read(name, each, reply.body)
            except ProtocolError as error:  # somebody else's, perhaps: ask again
                self._log(f"refused an answer in the name of {name!r}: {error}")
                each.strange, each.trouble = each.strange + 1, f"its answers were refused: {error}"
                if each.strange < STRANGE:
                    continue
                found = Note("refusal", {"reason": each.trouble})
            try:
                answer = check(name, found)
            except (ProtocolError, ArithmeticError, ValueError, TypeError) as error:
                self._log(f"refused an answer of {name!r}: {error}")
                answer = Note("refusal", {"reason": f"its answer was refused: {error}"})
            done.add(name)
            yield name, answer

    def _read(self, name: ClientId, each: _Asked, raw: bytes) -> Note:
        """An answer that is this client's own, to this very question."""
        signature, body = split(raw)
        if not self.members[name].verify(body, signature):
            raise ProtocolError("not signed by this client")
        note = unpack(body)
        for fact, value in (("from", name), ("run", self._run), ("nonce", each.nonce), ("asked", each.note.kind)):
            if note.facts.get(fact) != value:
                raise ProtocolError(f"it has {fact} {str(note.facts.get(fact))[:80]!r}, not {value!r}")
        if note.kind not in (each.note.kind, "refusal"):
            raise ProtocolError(f"a {note.kind} to a {each.note.kind}")
        if note.kind == "refusal":
            return Note("refusal", {"reason": note.text("reason")[:500]})
        return note
