"""The round loop's transport to remote clients: requests of each kind, and checks of every response."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from pfedeg import randomness
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import TOKEN_BYTES, ClientId, Rows, Shared, align
from pfedeg.graphs.knowledge_graph import Split
from pfedeg.methods.base import Strategy
from pfedeg.methods.exchange import Download, Upload
from pfedeg.models.base import start_rows
from pfedeg.network.messages import (
    PROTOCOL,
    Message,
    ProtocolError,
    check_change,
    pack_contents,
    read_contents,
    read_metrics,
)
from pfedeg.network.request_manager import RequestManager
from pfedeg.network.upload_limits import Sizes, UploadLimits, counted_triples
from pfedeg.training.config import Config
from pfedeg.training.evaluation import Metrics
from pfedeg.training.rounds import Update
from pfedeg.training.run_folder import package_version

SPARE_BYTES = 1 << 20  # of a response, beside its rows
MOST_TOKEN_BYTES = 1 << 28  # the tokens of eight million entities


class RemoteTransport:
    """A `Transport` to clients that a `RequestManager` reaches. Progress goes to `log`."""

    def __init__(
        self,
        requests: RequestManager,
        config: Config,
        *,
        names: Callable[[ClientId, ClientId], str] = lambda learner, name: name,
        log: Callable[[str], None] = lambda text: None,
        most_triples: Mapping[ClientId, int] = MappingProxyType({}),
    ) -> None:
        """names(learner, name) is the name under which one client knows another.

        `most_triples` says of some clients how many training triples they may claim to have.
        """
        self._most_triples = most_triples
        self._requests, self._config, self._names, self._log = requests, config, names, log
        self.shared = Shared({})
        self.latest: dict[ClientId, Upload] = {}
        self.accepted: dict[ClientId, int] = {}  # the round of the latest upload
        self.triples: dict[ClientId, int] = {}
        self.missing: dict[ClientId, str] = {}  # clients without a response in the last exchange, and why
        self.suspicious: dict[ClientId, str] = {}  # clients whose upload was refused in the last exchange, and why
        self.limits = UploadLimits()
        self.best_round = 0
        self.finished: dict[ClientId, int] = {}  # the round of each client's final tables
        self._evaluated: dict[ClientId, int] = {}  # validation triples by client
        self._affinity: tuple[int, Any] | None = None
        self._width = config.build_model().entity_width
        self._strategy = config.build_strategy()

    # Before the first round

    def handshake(self, alignment: Mapping[ClientId, str] | None = None) -> None:
        """Agree with every client on version, settings and secret, and align entities by their tokens.

        With `alignment`, a run is resumed: clients must still have theirs, and send no tokens.
        """
        known, members = alignment or {}, self._requests.members
        requests = {name: Message("hello", self._terms() | {"alignment": known.get(name, "")}) for name in members}
        accepted: dict[ClientId, Message] = {}
        resumed = alignment is not None

        def check(name: ClientId, message: Message) -> Message:
            return _check_alignment(message, known[name]) if resumed else self._check_hello(message)

        for name, message in self._request(requests, check, need_all=not resumed):
            if resumed and not self._requests.enrolled(name):
                continue
            if message.kind == "refusal":
                raise InputError(f"client {name!r} refuses the run: {message.text('reason')}")
            accepted[name] = message
        if not resumed:
            self._align(accepted)

    def _align(self, hellos: Mapping[ClientId, Message]) -> None:
        """Aligned ids from everyone's tokens, if all clients have the same secret and share any entity."""
        fingerprints = {name: message.text("fingerprint") for name, message in hellos.items()}
        if len(set(fingerprints.values())) > 1:
            found = ", ".join(f"{name!r} {fingerprint[:8]}…" for name, fingerprint in sorted(fingerprints.items()))
            raise InputError(f"the clients have different alignment secrets ({found}); all need the same file")
        self.triples = {name: message.integer("triples", 1) for name, message in hellos.items()}
        for name, message in sorted(hellos.items()):
            most = self._most_triples.get(name, self.triples[name])
            if self.triples[name] > most:
                text = f"claims {self.triples[name]:,} training triples, but is enrolled with {most:,} at most"
                raise InputError(f"client {name!r} {text}; ask its owner, then remove it or enrol it anew")
            sizes = f"{message.integer('entities'):,} entities, {self.triples[name]:,} training triples"
            self._log(f"client {name!r} accepts the run: {sizes}")
        for name, counted in counted_triples(self.triples).items():
            if counted < self.triples[name]:
                text = f"claims {self.triples[name]:,} training triples, many more than the others"
                self._log(f"warning: client {name!r} {text}; its uploads may change as those of {counted:,} triples")
        self.shared = align({name: message.arrays["tokens"] for name, message in hellos.items()})
        hint = "do all clients use the same names (same spelling, same identifiers)?"
        if len(hellos) > 1 and not any(len(ids) for ids in self.shared.travelling.values()):
            raise InputError(f"the clients share no entities; {hint}")
        for name, ids in self.shared.travelling.items():
            if not len(ids) and len(hellos) > 1:
                self._log(f"warning: client {name!r} shares no entities with the others; {hint}")

    def _terms(self) -> dict[str, Any]:
        """What both sides must agree on."""
        return {"protocol": PROTOCOL, "package": package_version(), "settings": self._config.as_dict()}

    def _check_hello(self, message: Message) -> Message:
        if message.kind == "refusal":
            return message
        message.integer("triples", 1)
        if len(message.text("fingerprint")) != 32:
            raise ProtocolError("hello: not a fingerprint")
        tokens = message.array("tokens", np.uint8, (message.integer("entities", 1), TOKEN_BYTES))
        view = np.ascontiguousarray(tokens).view(">u8")
        ascending = np.zeros(len(view) - 1, bool)
        for column in range(TOKEN_BYTES // 8 - 1, -1, -1):
            before, after = view[:-1, column], view[1:, column]
            ascending = (after > before) | ((after == before) & ascending)
        if not ascending.all():
            raise ProtocolError("hello: tokens are not in ascending order, or not distinct")
        return message

    # The transport

    def uploads(self) -> Mapping[ClientId, Upload]:
        """See `Transport.uploads`: from the checkpoint, or what clients start from."""
        if not self.latest:
            shared = self.shared
            requests = {}
            for name in shared.clients:
                arrays = {"aligned": shared.ids[name], "travelling": shared.travelling[name]}
                requests[name] = Message("begin", self._terms(), arrays)
            for name, message in self._request(requests, self._check_start, need_all=True):
                if message.kind == "refusal":
                    raise InputError(f"client {name!r} does not begin: {message.text('reason')}")
                self.latest[name] = self._upload(name, message)
                self.accepted[name] = 0
        return dict(self.latest)

    def exchange(self, number: int, downloads: Mapping[ClientId, Download]) -> Mapping[ClientId, Update]:
        """See `Transport.exchange`; `missing` says why clients did not respond."""
        requests = {}
        for name, download in downloads.items():
            arrays, fields = pack_contents(download)
            requests[name] = Message("train", {"round": number, **fields, **self._news(name)}, arrays)
        self.missing = {}
        updates = {}

        def check(name: ClientId, message: Message) -> Message:
            return self._check_update(name, message, number, downloads[name])

        for name, message in self._request(requests, check):
            if message.kind == "refusal":
                self._refused(name, message)
                continue
            updates[name] = Update(self._upload(name, message), message.loss())
        self._refuse_outliers(number, downloads, updates)
        self.latest |= {name: update.upload for name, update in updates.items()}
        self.accepted |= dict.fromkeys(updates, number)
        return updates

    def _refuse_outliers(
        self, number: int, downloads: Mapping[ClientId, Download], updates: dict[ClientId, Update]
    ) -> None:
        """Drop updates that are far larger than those of most clients; leave out clients that are refused again."""
        self.suspicious = dict(self._requests.invalid)
        if self._limits_apply:
            sizes = {name: self._sizes(name, number, downloads[name], updates[name].upload) for name in updates}
            for name, reason in self.limits.judge(sizes).items():
                del updates[name]
                self.suspicious[name] = reason
                self.missing[name] = f"its upload was refused: {reason}"
                self._log(f"refused the upload of {name!r}: {reason}")
        for name in self.limits.count(updates, self.suspicious, len(self.shared.clients)):
            self._log(f"client {name!r} is left out from now on: {self.limits.left_out[name]}")

    def _sizes(self, name: ClientId, number: int, download: Download, upload: Upload) -> Sizes:
        after, steps = upload.tables["entity"], self._steps(name)
        if not self._strategy.absorb.replace:
            return Sizes.of(self.latest[name].tables["entity"], after, steps, number - self.accepted[name])
        before = self.latest[name].tables["entity"].values.copy()
        sent = download.tables["entity"]
        before[np.searchsorted(after.ids, sent.ids)] = sent.values
        return Sizes.of(Rows(after.ids, before), after, steps)

    def _steps(self, name: ClientId) -> int:
        """How many training steps a client makes in a round, as far as its claimed number of triples counts."""
        return self._config.epochs * -(-counted_triples(self.triples)[name] // self._config.batch)

    def evaluate(
        self, number: int, split: Split, downloads: Mapping[ClientId, Download] | None
    ) -> Mapping[ClientId, Metrics]:
        """See `Transport.evaluate`; clients keep the tables that they evaluated."""
        requests = {}
        for name in self._active:
            arrays, fields = pack_contents(downloads[name]) if downloads is not None else ({}, {})
            requests[name] = Message("evaluate", {"round": number, **fields, **self._news(name)}, arrays)
        metrics = {}
        for name, message in self._request(
            requests, lambda name, message: self._check_evaluation(name, message, number)
        ):
            if message.kind == "refusal":
                self._refused(name, message)
                continue
            metrics[name] = read_metrics(message.fields["valid"], "evaluate")
            self._evaluated.setdefault(name, metrics[name].triples)
        return metrics

    def finish(self, rounds: int) -> Mapping[str, Mapping[ClientId, Metrics]]:
        """Let clients keep the tables of the best round; their metrics by split."""
        requests = {name: Message("finish", {"rounds": rounds, **self._news(name)}) for name in self._active}
        found: dict[str, dict[ClientId, Metrics]] = {"valid": {}, "test": {}}
        self.missing = {}
        for name, message in self._request(requests, _check_result):
            if message.kind == "refusal":
                self._refused(name, message)
                continue
            self.finished[name] = message.integer("round")
            for part in found:
                found[part][name] = read_metrics(message.fields[part], "finish")
        return found

    def _refused(self, name: ClientId, message: Message) -> None:
        self.missing[name] = message.text("reason")
        self._log(f"client {name!r} gives no result: {self.missing[name]}")

    def set_affinity(self, number: int, weights: Any) -> None:
        """The relation graph of a round; each client gets its own row with the next request."""
        self._affinity = (number, weights)

    def _news(self, name: ClientId) -> dict[str, Any]:
        """What every request carries once rounds have begun."""
        fields: dict[str, Any] = {"best_round": self.best_round}
        if self._affinity is not None and self._affinity[1] is not None:
            number, weights = self._affinity
            row = weights[self.shared.clients.index(name)].tolist()
            named = {self._names(name, other): w for other, w in zip(self.shared.clients, row, strict=True)}
            fields["affinity"] = {"round": number, "row": named}
        return fields

    def _request(
        self,
        requests: Mapping[ClientId, Message],
        check: Callable[[ClientId, Message], Message],
        need_all: bool = False,
    ) -> Iterator[tuple[ClientId, Message]]:
        """See `RequestManager.request`. A response may be as large as rows of all shared entities, or as tokens."""
        tables = self._strategy.uploads.tables
        row = sum(4 * ((table.width or self._width) + 1) for table in tables)  # bytes
        rows = [row * len(ids) for ids in self.shared.travelling.values()]
        limit = SPARE_BYTES + max(rows, default=MOST_TOKEN_BYTES)
        yield from self._requests.request(requests, check, limit, need_all)
        self.missing |= self._requests.missing

    # Checks

    @property
    def _uploads_are_rows(self) -> bool:
        """Whether the table "entity" of an upload holds the rows of the client's table, unchanged."""
        return type(self._strategy).upload is Strategy.upload

    @property
    def _limits_apply(self) -> bool:
        """Whether uploads are rows that training has changed, and nothing else."""
        return self._uploads_are_rows and type(self._strategy).knowledge is Strategy.knowledge

    @property
    def _active(self) -> list[ClientId]:
        """The clients that were not left out."""
        return [name for name in self.shared.clients if name not in self.limits.left_out]

    def _upload(self, name: ClientId, message: Message) -> Upload:
        return read_contents(message, self._strategy.uploads, self.shared.travelling[name], self._width)

    def _check_start(self, name: ClientId, message: Message) -> Message:
        """The rows that a client starts from must follow from the seed, or at least be in range."""
        if message.kind == "refusal":
            return message
        model, config = self._config.build_model(), self._config
        rows = self._upload(name, message).tables.get("entity")
        if rows is None or not self._uploads_are_rows:
            return message
        if config.start == "shared":
            key = randomness.key("start", "entity", config.seed)
            if not np.allclose(rows.values, start_rows(model, self._width, key, rows.ids), rtol=1e-4, atol=1e-6):
                raise ProtocolError("begin: rows differ from those that follow from the seed")
        elif np.abs(rows.values).max(initial=0.0) > 1.001 * model.start_range:
            raise ProtocolError("begin: rows are outside the range of start values")
        return message

    def _check_update(self, name: ClientId, message: Message, number: int, download: Download) -> Message:
        if message.kind == "refusal":
            return message
        if message.integer("round") != number:
            raise ProtocolError(f"train: round is {message.fields['round']}, expected {number}")
        message.loss()
        rows = self._upload(name, message).tables.get("entity")
        if rows is not None:
            self._check_reach(name, number, download, rows)
        return message

    def _check_reach(self, name: ClientId, number: int, download: Download, rows: Rows) -> None:
        """Refuse rows that changed more than the optimiser's steps can change them.

        Rows that are not replaced may have changed in earlier rounds, too, whose uploads did not arrive. A method with
        an `upload` or `knowledge` of its own may send other numbers, whose change has no known bound.
        """
        if not self._limits_apply:
            return
        config, before = self._config, self.latest[name].tables["entity"]
        reach = 1.01 * config.build_optimizer().reach(self._steps(name))
        if self._strategy.absorb.replace and "entity" in download.tables:
            sent = download.tables["entity"]
            check_change(sent, rows, reach)
            others = ~np.isin(before.ids, sent.ids)
            before = Rows(before.ids[others], before.values[others])
        check_change(before, rows, reach * (number - self.accepted[name]))

    def _check_evaluation(self, name: ClientId, message: Message, number: int) -> Message:
        if message.kind != "refusal":
            if message.integer("round") != number:
                raise ProtocolError(f"evaluate: round is {message.fields['round']}, expected {number}")
            triples = read_metrics(message.fields.get("valid"), "evaluate").triples
            if self._evaluated.get(name, triples) != triples:
                raise ProtocolError(f"evaluate: {triples} validation triples, before {self._evaluated[name]}")
        return message


def _check_alignment(message: Message, alignment: str) -> Message:
    """A client that resumes a run must have the same alignment as before."""
    if message.kind != "refusal" and message.fields.get("alignment") != alignment:
        return Message("refusal", {"reason": "its files of this run are missing; start a new run"})
    return message


def _check_result(name: ClientId, message: Message) -> Message:
    if message.kind != "refusal":
        message.integer("round")
        for part in ("valid", "test"):
            read_metrics(message.fields.get(part), "finish")
    return message
