"""The server's half of a federation: asks clients elsewhere, waits for them, and believes only what it has checked."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pfedeg import randomness
from pfedeg.config import Config
from pfedeg.errors import InputError, RunError
from pfedeg.evaluation import Metrics
from pfedeg.graph import Split
from pfedeg.models import start_range, start_rows
from pfedeg.rounds import Update
from pfedeg.shared import ClientId, Rows, Shared
from pfedeg.store import package_version
from pfedeg.transport.channel import EndedError, Hub, RefusedError, Seen, UnreachableError
from pfedeg.transport.messages import (
    ADAM,
    PROTOCOL,
    TOKEN,
    Note,
    ProtocolError,
    check_change,
    pack,
    read_metrics,
    read_rows,
    rows_arrays,
    split,
    unpack,
)

POLL = (0.05, 0.2)  # seconds between two looks for replies: at first, and at last
LOOK = 1.0  # seconds between two looks at who is there
STRANGE = 3  # answers of somebody else in the name of a client before it is given up for the round
SPARE = 1 << 20  # bytes of a reply beside its arrays


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


class Remote:
    """A `Transport` to clients behind a `Hub`. What happened on the way is told to `log`."""

    def __init__(
        self,
        hub: Hub,
        run: str,
        config: Config,
        members: Mapping[ClientId, Member],
        *,
        sign: Callable[[bytes], bytes],
        certificate: bytes,
        patience: Patience = Patience(),  # noqa: B008
        enrolled: Callable[[ClientId], bool] = lambda name: True,
        names: Callable[[ClientId, ClientId], str] = lambda learner, name: name,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`enrolled` is asked before each message, `names` how a client may know another."""
        self._hub, self._run, self._config, self._members = hub, run, config, dict(members)
        self._sign, self._certificate, self._patience = sign, certificate.decode(), patience
        self._enrolled, self._names, self._log = enrolled, names, log
        self.shared = Shared({})
        self.latest: dict[ClientId, Rows] = {}
        self.accepted: dict[ClientId, int] = {}  # the round of the latest upload
        self.triples: dict[ClientId, int] = {}
        self.missing: dict[ClientId, str] = {}  # who did not answer in the last exchange, and why
        self.best_round = 0
        self._slow: set[ClientId] = set()
        self._evaluated: dict[ClientId, int] = {}  # how many validation triples each has
        self._affinity: tuple[int, Any] | None = None
        self._open = False
        self._width = config.build_model().entity_width
        self._strategy = config.build_strategy()

    # Before the first round

    def meet(self, alignment: Mapping[ClientId, str] | None = None) -> None:
        """Agree with every client on version, settings and secret, and align entities by their tokens.

        With `alignment`, a run goes on: clients must know theirs, and show no tokens.
        """
        facts = {
            "protocol": PROTOCOL,
            "package": package_version(),
            "settings": self._config.as_dict(),
        }
        asked = {name: Note("hello", facts | {"alignment": (alignment or {}).get(name, "")}) for name in self._members}
        heard: dict[ClientId, Note] = {}
        again = alignment is not None
        for name, note in self._ask(asked, lambda name, note: self._hello(name, note, alignment), everyone=not again):
            if again and not self._enrolled(name):
                continue
            if note.kind == "refusal":
                raise InputError(f"client {name!r} does not agree: {note.text('reason')}")
            heard[name] = note
            told = f"{note.number('entities'):,} entities, {note.number('triples'):,} triples"
            self._log(f"client {name!r} agrees: {told}")
        if again:
            return
        prints = {name: note.text("fingerprint") for name, note in heard.items()}
        usual = max(prints.values(), key=list(prints.values()).count)
        other = sorted(name for name, found in prints.items() if found != usual)
        if other:
            names = ", ".join(map(repr, other))
            text = f"{names} has" if len(other) == 1 else f"{names} have"
            raise InputError(f"{text} another alignment secret than the others; all clients need the same file")
        self.triples = {name: note.number("triples", 1) for name, note in heard.items()}
        self.shared = align({name: note.arrays["tokens"] for name, note in heard.items()})
        if len(self._members) > 1 and not any(len(ids) for ids in self.shared.travelling.values()):
            raise InputError(
                "the clients share no entity at all; do they name things alike (same spelling, same identifiers)?"
            )
        for name, ids in self.shared.travelling.items():
            if not len(ids) and len(self._members) > 1:
                self._log(f"warning: client {name!r} shares no entity with the others; does it name things alike?")

    def _hello(self, name: ClientId, note: Note, alignment: Mapping[ClientId, str] | None) -> Note:
        if note.kind == "refusal":
            return note
        note.number("triples", 1)
        note.number("entities", 1)
        if len(note.text("fingerprint")) != 32:
            raise ProtocolError("hello: not a fingerprint")
        if alignment is None:
            tokens = note.array("tokens", np.uint8, (note.number("entities", 1), TOKEN))
            view = np.ascontiguousarray(tokens).view(">u8")
            later = np.zeros(len(view) - 1, bool)
            for column in range(TOKEN // 8 - 1, -1, -1):
                before, after = view[:-1, column], view[1:, column]
                later = (after > before) | ((after == before) & later)
            if not later.all():
                raise ProtocolError("hello: tokens that are not in order, or twice the same")
        elif note.facts.get("alignment") != alignment[name]:
            text = "its files of this run are gone; begin a new run"
            return Note("refusal", {"reason": text})
        return note

    # The transport

    def uploads(self) -> Mapping[ClientId, Rows]:
        """See `Transport.uploads`: what was saved, or what clients start from."""
        if not self.latest:
            shared = self.shared
            asked = {}
            for name in shared.clients:
                arrays = {"aligned": shared.ids[name], "travelling": shared.travelling[name]}
                facts = {"protocol": PROTOCOL, "package": package_version(), "settings": self._config.as_dict()}
                asked[name] = Note("begin", facts, arrays)
            for name, note in self._ask(asked, self._rows, everyone=True):
                if note.kind == "refusal":
                    raise InputError(f"client {name!r} does not begin: {note.text('reason')}")
                self.latest[name] = Rows(note.arrays["ids"], note.arrays["values"])
                self.accepted[name] = 0
        return dict(self.latest)

    def exchange(self, number: int, downloads: Mapping[ClientId, Rows]) -> Mapping[ClientId, Update]:
        """See `Transport.exchange`; of those who do not answer, `missing` tells why."""
        asked = {
            name: Note("train", {"round": number, **self._beside(name)}, rows_arrays(rows))
            for name, rows in downloads.items()
        }
        self.missing = {}
        updates = {}
        for name, note in self._ask(asked, lambda name, note: self._update(name, note, number, downloads[name])):
            if note.kind == "refusal":
                self.missing[name] = note.text("reason")
                continue
            updates[name] = Update(Rows(note.arrays["ids"], note.arrays["values"]), note.loss())
        self.latest |= {name: update.rows for name, update in updates.items()}
        self.accepted |= dict.fromkeys(updates, number)
        return updates

    def evaluate(
        self, number: int, split: Split, downloads: Mapping[ClientId, Rows] | None
    ) -> Mapping[ClientId, Metrics]:
        """See `Transport.evaluate`; clients keep the tables that they evaluated."""
        asked = {}
        for name in self.shared.clients:
            arrays = rows_arrays(downloads[name]) if downloads is not None else {}
            asked[name] = Note("evaluate", {"round": number, **self._beside(name)}, arrays)
        metrics = {}
        for name, note in self._ask(asked, lambda name, note: self._metrics(name, note, number)):
            if note.kind == "refusal":
                self.missing[name] = note.text("reason")
                continue
            metrics[name] = read_metrics(note.facts["valid"], "evaluate")
            self._evaluated.setdefault(name, metrics[name].triples)
        return metrics

    def finish(self, rounds: int) -> Mapping[str, Mapping[ClientId, Metrics]]:
        """Let clients keep the tables of the best round; their metrics by split."""
        asked = {name: Note("finish", {"rounds": rounds, **self._beside(name)}) for name in self.shared.clients}
        found: dict[str, dict[ClientId, Metrics]] = {"valid": {}, "test": {}}
        self.missing = {}
        for name, note in self._ask(asked, self._results):
            if note.kind == "refusal":
                self.missing[name] = note.text("reason")
                continue
            for part in found:
                found[part][name] = read_metrics(note.facts[part], "finish")
        return found

    def tell(self, number: int, weights: Any) -> None:
        """What clients will be told with the next message: who is close to whom."""
        self._affinity = (number, weights)

    def _beside(self, name: ClientId) -> dict[str, Any]:
        """What goes with every request once rounds have begun."""
        facts: dict[str, Any] = {"best_round": self.best_round}
        if self._affinity is not None and self._affinity[1] is not None:
            number, weights = self._affinity
            row = weights[self.shared.clients.index(name)].tolist()
            called = {self._names(name, other): w for other, w in zip(self.shared.clients, row, strict=True)}
            facts["affinity"] = {"round": number, "row": called}
        return facts

    # Checks

    def _rows(self, name: ClientId, note: Note) -> Note:
        """Rows to start from must be those that the seed says, or at least small enough."""
        if note.kind != "refusal":
            model, config = self._config.build_model(), self._config
            rows = read_rows(note, self.shared.travelling[name], self._width, whole=True)
            if config.start == "shared":
                key = randomness.key("start", "entity", config.seed)
                if not np.allclose(rows.values, start_rows(model, self._width, key, rows.ids), rtol=1e-4, atol=1e-6):
                    raise ProtocolError("begin: other rows than the seed says")
            elif np.abs(rows.values).max(initial=0.0) > 1.001 * start_range(model):
                raise ProtocolError("begin: rows further from zero than they can start")
        return note

    def _update(self, name: ClientId, note: Note, number: int, download: Rows) -> Note:
        if note.kind == "refusal":
            return note
        if note.number("round") != number:
            raise ProtocolError(f"train: of round {note.facts['round']}, not {number}")
        note.loss()
        rows = read_rows(note, self.shared.travelling[name], self._width, whole=True)
        self._check_reach(name, number, download, rows)
        return note

    def _check_reach(self, name: ClientId, number: int, download: Rows, rows: Rows) -> None:
        """Refuse rows that are further from where they started than steps of Adam can carry them.

        Rows that are not replaced go on from where the client stands, perhaps after rounds that nobody heard of.
        """
        local, before = self._config.build_local(), self.latest[name]
        reach = 1.01 * ADAM * local.lr * local.epochs * -(-self.triples[name] // local.batch)
        if self._strategy.absorb.replace:
            check_change(download, rows, reach)
            others = ~np.isin(before.ids, download.ids)
            before = Rows(before.ids[others], before.values[others])
        check_change(before, rows, reach * (number - self.accepted[name]))

    def _metrics(self, name: ClientId, note: Note, number: int) -> Note:
        if note.kind != "refusal":
            if note.number("round") != number:
                raise ProtocolError(f"evaluate: of round {note.facts['round']}, not {number}")
            triples = read_metrics(note.facts.get("valid"), "evaluate").triples
            if self._evaluated.get(name, triples) != triples:
                raise ProtocolError(f"evaluate: of {triples} triples, before of {self._evaluated[name]}")
        return note

    def _results(self, name: ClientId, note: Note) -> Note:
        if note.kind != "refusal":
            for part in ("valid", "test"):
                read_metrics(note.facts.get(part), "finish")
        return note

    # Asking

    def _ask(
        self,
        asked: Mapping[ClientId, Note],
        check: Callable[[ClientId, Note], Note],
        everyone: bool = False,
    ) -> Iterator[tuple[ClientId, Note]]:
        """Ask clients and yield each answer that passes its check, a refusal among them.

        Goes on until all have answered, or enough have and the others have had their time. Whoever joins anew is
        asked anew, since what it was asked before may be lost; clients answer the same to the same question.
        """
        waiting = {name: self._prepare(name, note) for name, note in asked.items()}
        answered, counted = 0, 0
        quorum = len(asked) if everyone else min(self._patience.quorum or len(asked), len(asked))
        began = time.monotonic()
        gone: dict[ClientId, float] = {}
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
                for name, note in [*self._removed(waiting), *self._collect(waiting, check)]:
                    del waiting[name]
                    answered += 1
                    counted += note.kind != "refusal"
                    pause = POLL[0]
                    self._slow.discard(name)
                    yield name, note
            except (RefusedError, EndedError) as error:
                if not warned:
                    self._log(f"the run has to begin anew with the SuperLink: {error}")
                self._open, pause, warned = False, POLL[1], True
            except UnreachableError as error:
                if not warned:
                    self._log(f"the SuperLink does not answer; is it running? ({error})")
                self._open, pause, warned = False, POLL[1], True
            late = {name for name in waiting if now - began > self._time(name, gone, now)}
            if waiting and late >= set(waiting):
                if counted >= quorum:
                    break
                if everyone or counted + len(waiting) >= quorum:
                    names = ", ".join(sorted(waiting))
                    text = f"{counted} of {len(asked)} answered, {quorum} are needed"
                    self._log(f"{text}: the round is repeated for {names}")
                    began = now
                    for name in waiting:
                        waiting[name].sent.clear()
                else:
                    raise RunError(
                        f"{counted} of {len(asked)} clients answered, {quorum} are needed, and the others refuse"
                    )
            time.sleep(pause)
            pause = min(pause * 1.2, POLL[1])
        if counted < quorum and not everyone:
            raise RunError(f"{counted} of {len(asked)} clients answered, {quorum} are needed, and the others refuse")
        for name in waiting:
            if name not in gone:  # who is not there has less time anyway
                self._slow.add(name)
            reason = "is not there" if name in gone else waiting[name].trouble or "does not answer"
            self.missing[name] = reason
            self._log(f"goes on without {name!r}: {reason}")

    def _time(self, name: ClientId, gone: Mapping[ClientId, float], now: float) -> float:
        """How long a client has to answer."""
        patience = self._patience
        return min(patience.absent, patience.wait) if name in gone or name in self._slow else patience.wait

    def _prepare(self, name: ClientId, note: Note) -> _Asked:
        nonce = secrets.token_hex(16)
        facts = {"to": name, "run": self._run, "nonce": nonce, "certificate": self._certificate}
        whole = Note(note.kind, facts | dict(note.facts), note.arrays)
        return _Asked(note, pack(whole, self._sign), nonce)

    def _send(
        self, waiting: Mapping[ClientId, _Asked], seen: Mapping[bytes, Seen], gone: dict[ClientId, float], now: float
    ) -> None:
        """Ask those who are there and have not been asked since they came."""
        for name, each in waiting.items():
            found = seen.get(self._members[name].identity)
            if found is None or not found.online:
                if name not in gone:
                    self._log(f"client {name!r} is not there")
                gone.setdefault(name, now)
                continue
            if gone.pop(name, None) is not None:
                self._log(f"client {name!r} is there")
            if (each.sent and each.since == found.since) or now < each.again:
                continue
            sent = self._hub.push(found.node, each.body)
            if sent:
                each.sent[sent], each.since = None, found.since
            else:  # it may just have been removed
                each.again = now + 2 * LOOK

    def _removed(self, waiting: Mapping[ClientId, _Asked]) -> list[tuple[ClientId, Note]]:
        """Those who were removed meanwhile."""
        gone = [name for name in waiting if not self._enrolled(name)]
        return [(name, Note("refusal", {"reason": "is not enrolled any more"})) for name in gone]

    def _collect(
        self, waiting: Mapping[ClientId, _Asked], check: Callable[[ClientId, Note], Note]
    ) -> Iterator[tuple[ClientId, Note]]:
        """The answers that have come, if they are what they say."""
        of = {message: name for name, each in waiting.items() for message in each.sent}
        if not of:
            return
        most = (
            SPARE
            + 2 * max(len(each.body) for each in waiting.values())
            + max((4 * (self._width + 1) * len(ids) for ids in self.shared.travelling.values()), default=1 << 28)
        )
        done: set[ClientId] = set()
        for reply in self._hub.pull(of, most):
            name = of.get(reply.to)
            if name is None or name in done or not self._enrolled(name):
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
        if not self._members[name].verify(body, signature):
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


def align(tokens: Mapping[ClientId, Any]) -> Shared:
    """Aligned ids: positions in the sorted list of all clients' tokens, each client's in the order of its own."""
    listed = {name: np.ascontiguousarray(part).view(f"V{TOKEN}")[:, 0].tolist() for name, part in tokens.items()}
    position = {token: i for i, token in enumerate(sorted(set().union(*listed.values())))}
    return Shared({name: np.array([position[token] for token in part], np.int32) for name, part in listed.items()})
