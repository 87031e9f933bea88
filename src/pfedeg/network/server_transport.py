"""The server's half of a federation: asks clients elsewhere, waits for them, and believes only what it has checked."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from pfedeg import randomness
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import TOKEN_BYTES, ClientId, Rows, Shared, align
from pfedeg.graphs.knowledge_graph import Split
from pfedeg.methods.base import Strategy
from pfedeg.methods.exchange import Download, Upload
from pfedeg.models.base import start_rows
from pfedeg.network.channel import Hub
from pfedeg.network.messages import (
    PROTOCOL,
    Note,
    ProtocolError,
    check_change,
    pack_contents,
    read_contents,
    read_metrics,
)
from pfedeg.network.request_manager import Asking, Member, Patience
from pfedeg.training.config import Config
from pfedeg.training.evaluation import Metrics
from pfedeg.training.rounds import Update
from pfedeg.training.run_folder import package_version

SPARE = 1 << 20  # bytes of a reply beside its rows
TOKENS = 1 << 28  # bytes of tokens at most: those of eight million entities


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
        patience: Patience,
        enrolled: Callable[[ClientId], bool] = lambda name: True,
        names: Callable[[ClientId, ClientId], str] = lambda learner, name: name,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`enrolled` is asked before each message, `names` how a client may know another."""
        self._config, self._names, self._log = config, names, log
        told: dict[str, Any] = {"sign": sign, "certificate": certificate, "patience": patience}
        self._asking = Asking(hub, run, members, **told, enrolled=enrolled, log=log)
        self.shared = Shared({})
        self.latest: dict[ClientId, Upload] = {}
        self.accepted: dict[ClientId, int] = {}  # the round of the latest upload
        self.triples: dict[ClientId, int] = {}
        self.missing: dict[ClientId, str] = {}  # who did not answer in the last exchange, and why
        self.best_round = 0
        self.finished: dict[ClientId, int] = {}  # of which round each client's final tables are
        self._evaluated: dict[ClientId, int] = {}  # how many validation triples each has
        self._affinity: tuple[int, Any] | None = None
        self._width = config.build_model().entity_width
        self._strategy = config.build_strategy()

    # Before the first round

    def meet(self, alignment: Mapping[ClientId, str] | None = None) -> None:
        """Agree with every client on version, settings and secret, and align entities by their tokens.

        With `alignment`, a run goes on: clients must know theirs, and show no tokens.
        """
        known, members = alignment or {}, self._asking.members
        asked = {name: Note("hello", self._terms() | {"alignment": known.get(name, "")}) for name in members}
        heard: dict[ClientId, Note] = {}
        again = alignment is not None
        for name, note in self._ask(asked, lambda name, note: self._hello(name, note, alignment), everyone=not again):
            if again and not self._asking.enrolled(name):
                continue
            if note.kind == "refusal":
                raise InputError(f"client {name!r} does not agree: {note.text('reason')}")
            heard[name] = note
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
        for name, note in sorted(heard.items()):
            told = f"{note.number('entities'):,} entities, {self.triples[name]:,} training triples"
            self._log(f"client {name!r} agrees: {told}")
        self.shared = align({name: note.arrays["tokens"] for name, note in heard.items()})
        if len(members) > 1 and not any(len(ids) for ids in self.shared.travelling.values()):
            raise InputError(
                "the clients share no entity at all; do they name things alike (same spelling, same identifiers)?"
            )
        for name, ids in self.shared.travelling.items():
            if not len(ids) and len(members) > 1:
                self._log(f"warning: client {name!r} shares no entity with the others; does it name things alike?")

    def _terms(self) -> dict[str, Any]:
        """What both sides must agree on."""
        return {"protocol": PROTOCOL, "package": package_version(), "settings": self._config.as_dict()}

    def _hello(self, name: ClientId, note: Note, alignment: Mapping[ClientId, str] | None) -> Note:
        if note.kind == "refusal":
            return note
        note.number("triples", 1)
        note.number("entities", 1)
        if len(note.text("fingerprint")) != 32:
            raise ProtocolError("hello: not a fingerprint")
        if alignment is None:
            tokens = note.array("tokens", np.uint8, (note.number("entities", 1), TOKEN_BYTES))
            view = np.ascontiguousarray(tokens).view(">u8")
            later = np.zeros(len(view) - 1, bool)
            for column in range(TOKEN_BYTES // 8 - 1, -1, -1):
                before, after = view[:-1, column], view[1:, column]
                later = (after > before) | ((after == before) & later)
            if not later.all():
                raise ProtocolError("hello: tokens that are not in order, or twice the same")
        elif note.facts.get("alignment") != alignment[name]:
            text = "its files of this run are gone; begin a new run"
            return Note("refusal", {"reason": text})
        return note

    # The transport

    def uploads(self) -> Mapping[ClientId, Upload]:
        """See `Transport.uploads`: what was saved, or what clients start from."""
        if not self.latest:
            shared = self.shared
            asked = {}
            for name in shared.clients:
                arrays = {"aligned": shared.ids[name], "travelling": shared.travelling[name]}
                asked[name] = Note("begin", self._terms(), arrays)
            for name, note in self._ask(asked, self._rows, everyone=True):
                if note.kind == "refusal":
                    raise InputError(f"client {name!r} does not begin: {note.text('reason')}")
                self.latest[name] = self._upload(name, note)
                self.accepted[name] = 0
        return dict(self.latest)

    def exchange(self, number: int, downloads: Mapping[ClientId, Download]) -> Mapping[ClientId, Update]:
        """See `Transport.exchange`; of those who do not answer, `missing` tells why."""
        asked = {}
        for name, download in downloads.items():
            arrays, facts = pack_contents(download)
            asked[name] = Note("train", {"round": number, **facts, **self._beside(name)}, arrays)
        self.missing = {}
        updates = {}
        for name, note in self._ask(asked, lambda name, note: self._update(name, note, number, downloads[name])):
            if note.kind == "refusal":
                self.missing[name] = note.text("reason")
                continue
            updates[name] = Update(self._upload(name, note), note.loss())
        self.latest |= {name: update.upload for name, update in updates.items()}
        self.accepted |= dict.fromkeys(updates, number)
        return updates

    def evaluate(
        self, number: int, split: Split, downloads: Mapping[ClientId, Download] | None
    ) -> Mapping[ClientId, Metrics]:
        """See `Transport.evaluate`; clients keep the tables that they evaluated."""
        asked = {}
        for name in self.shared.clients:
            arrays, facts = pack_contents(downloads[name]) if downloads is not None else ({}, {})
            asked[name] = Note("evaluate", {"round": number, **facts, **self._beside(name)}, arrays)
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
            self.finished[name] = note.number("round")
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

    def _ask(
        self, asked: Mapping[ClientId, Note], check: Callable[[ClientId, Note], Note], everyone: bool = False
    ) -> Iterator[tuple[ClientId, Note]]:
        """See `Asking.ask`. A reply is at most as large as rows of all shared entities, or tokens, may be."""
        tables = self._strategy.uploads.tables
        row = sum(4 * ((table.width or self._width) + 1) for table in tables)  # bytes
        rows = [row * len(ids) for ids in self.shared.travelling.values()]
        yield from self._asking.ask(asked, check, SPARE + max(rows, default=TOKENS), everyone)
        self.missing |= self._asking.missing

    # Checks

    @property
    def _sends_rows_as_they_are(self) -> bool:
        """Whether the table "entity" of an upload holds the rows of the client's table, unchanged."""
        return type(self._strategy).upload is Strategy.upload

    def _upload(self, name: ClientId, note: Note) -> Upload:
        return read_contents(note, self._strategy.uploads, self.shared.travelling[name], self._width)

    def _rows(self, name: ClientId, note: Note) -> Note:
        """Rows to start from must be those that the seed says, or at least small enough."""
        if note.kind != "refusal":
            model, config = self._config.build_model(), self._config
            rows = self._upload(name, note).tables.get("entity")
            if rows is None or not self._sends_rows_as_they_are:
                return note
            if config.start == "shared":
                key = randomness.key("start", "entity", config.seed)
                if not np.allclose(rows.values, start_rows(model, self._width, key, rows.ids), rtol=1e-4, atol=1e-6):
                    raise ProtocolError("begin: other rows than the seed says")
            elif np.abs(rows.values).max(initial=0.0) > 1.001 * model.start_range:
                raise ProtocolError("begin: rows further from zero than they can start")
        return note

    def _update(self, name: ClientId, note: Note, number: int, download: Download) -> Note:
        if note.kind == "refusal":
            return note
        if note.number("round") != number:
            raise ProtocolError(f"train: of round {note.facts['round']}, not {number}")
        note.loss()
        rows = self._upload(name, note).tables.get("entity")
        if rows is not None:
            self._check_reach(name, number, download, rows)
        return note

    def _check_reach(self, name: ClientId, number: int, download: Download, rows: Rows) -> None:
        """Refuse rows that are further from where they started than the optimiser's steps can carry them.

        Rows that are not replaced go on from where the client stands, perhaps after rounds that nobody heard of. A
        method with an `upload` or `knowledge` of its own may send other numbers; how far they can move is not known.
        """
        if not self._sends_rows_as_they_are or type(self._strategy).knowledge is not Strategy.knowledge:
            return
        config, before = self._config, self.latest[name].tables["entity"]
        steps = config.epochs * -(-self.triples[name] // config.batch)
        reach = 1.01 * config.build_optimizer().reach(steps)
        if self._strategy.absorb.replace and "entity" in download.tables:
            sent = download.tables["entity"]
            check_change(sent, rows, reach)
            others = ~np.isin(before.ids, sent.ids)
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
            note.number("round")
            for part in ("valid", "test"):
                read_metrics(note.facts.get(part), "finish")
        return note
