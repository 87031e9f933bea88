"""The client's half of a federation: answers what the server asks, with the client's own graph and code."""

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.engine.interface import Engine
from pfedeg.errors import InputError, PfedegError
from pfedeg.graphs.alignment import TOKEN_BYTES, ClientId, token
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.network.client_session import WORK, Session, alignment_digest, digest
from pfedeg.network.messages import PROTOCOL, Note, ProtocolError, pack, pack_contents, split, unpack
from pfedeg.training.config import REGISTRIES, USUAL, Config
from pfedeg.training.run_folder import RunFolder, package_version, provenance, saved_settings, write_arrays

RUN = re.compile("[0-9a-z-]{1,64}")
MOST = 1 << 30  # bytes of a message at most; a table of a million entities has 0.5 to 1 GB


class Agent:
    """Answers messages for one client; whoever it trusts as the server is decided by `trusted`."""

    def __init__(
        self,
        home: Path,
        name: ClientId,
        graph: Callable[[int], KnowledgeGraph],
        secret: bytes,
        fingerprint: str,
        *,
        sign: Callable[[bytes], bytes],
        trusted: Callable[[bytes, bytes, bytes], bool],
        engine: Engine,
        source: str = "",
        allowed: Callable[[], Collection[str]] = tuple,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`home` is where runs go; graph(seed) is the client's, split by a seed if it is not split already.

        trusted(certificate, body, signature) says whether the server has signed. allowed() names the plug-ins that
        may be loaded: methods, models, objectives and optimisers that are not built in are code.
        """
        self._home, self.name, self._graph, self._fingerprint = home, name, graph, fingerprint
        self._secret, self._sign, self._trusted, self._engine = secret, sign, trusted, engine
        self._source, self._allowed, self._log = source, allowed, log
        self._session: Session | None = None

    def answer(self, raw: bytes) -> bytes | None:
        """The reply to a message; None to one that is not from the server, which is better not answered at all."""
        try:
            signature, body = split(raw)
            note = unpack(body)
            certificate = note.text("certificate").encode()
            if not self._trusted(certificate, body, signature):
                raise ProtocolError("not signed by the server that this client trusts")
            to, run, nonce = note.text("to"), note.text("run"), note.text("nonce")
            if len(nonce) > 64 or len(run) > 200:
                raise ProtocolError("not a question of ours")
        except ProtocolError as error:
            self._log(f"ignored a message: {error}")
            return None
        try:
            if to != self.name:
                raise ProtocolError(f"this client is called {self.name!r}, and the server has enrolled it as {to!r}")
            answer = self._answer(note, run)
        except ProtocolError as error:
            self._log(f"refused: {error}")
            answer = Note("refusal", {"reason": str(error)[:500]})
        except Exception as error:  # whatever it is, the server and the operator should hear of it
            self._log(f"failed: {type(error).__name__}: {error}")
            self._session = None
            kind = "cannot read or write its files" if isinstance(error, PfedegError) else type(error).__name__
            answer = Note("refusal", {"reason": f"the client failed ({kind}); its own log says more"})
        facts = {"from": to, "run": run, "nonce": nonce, "asked": note.kind} | dict(answer.facts)
        return pack(Note(answer.kind, facts, answer.arrays), self._sign)

    def _answer(self, note: Note, run: str) -> Note:
        if not RUN.fullmatch(run):
            raise ProtocolError("the run's name is not one")
        if note.kind == "hello":
            return self._hello(note, run)
        if note.kind == "begin":
            return self._begin(note, run)
        session = self._open(run)
        if note.kind == "finish":
            return session.finish(note)
        if session.finished:
            raise ProtocolError("this run is finished")
        if note.kind == "train":
            return session.train(note)
        if note.kind == "evaluate":
            return session.evaluate(note)
        raise ProtocolError(f"{note.kind}: a client is not asked that")

    def _hello(self, note: Note, run: str) -> Note:
        """Agree on versions and settings; show the alignment tokens, once."""
        config = self._agree(note)
        graph = self._graph(config.seed)
        folder = self._home / run
        facts: dict[str, Any] = {
            "protocol": PROTOCOL,
            "package": package_version(),
            "fingerprint": self._fingerprint,
            "entities": len(graph.entities),
            "triples": len(graph.train),
        }
        known = alignment_digest(folder) if folder.exists() else ""
        if known and known == note.facts.get("alignment"):
            self._log(f"run {run}: goes on")
            return Note("hello", facts | {"alignment": known})
        size = len(graph.entities)
        self._log(f"run {run}: {config.title}, {config.rounds} rounds at most; sends {size:,} tokens")
        tokens = b"".join(sorted(token(name, self._secret) for name in graph.entities))
        return Note("hello", facts, {"tokens": np.frombuffer(tokens, np.uint8).reshape(-1, TOKEN_BYTES)})

    def _agree(self, note: Note) -> Config:
        if note.number("protocol") != PROTOCOL:
            raise ProtocolError(f"the server speaks protocol {note.facts['protocol']}, this client {PROTOCOL}")
        if note.text("package") != package_version():
            text = f"the server runs pfedeg {note.text('package')}, this client {package_version()}"
            raise ProtocolError(f"{text}; install the same version on both sides")
        settings = note.facts.get("settings")
        if not isinstance(settings, dict):
            raise ProtocolError("settings are missing")
        self._check_allowed(settings)
        try:
            config = Config(**settings)
        except (InputError, TypeError) as error:
            raise ProtocolError(f"settings: {error}") from None
        if not config.method_type.is_federated or config.as_dict() != settings:
            raise ProtocolError("settings that are not complete, or not of a federated method")
        return config

    def _check_allowed(self, settings: Mapping[str, Any]) -> None:
        """Refuse a run whose method, model, objective or optimiser is neither built in nor allowed here."""
        for part, registry in REGISTRIES.items():
            identifier = settings.get(part)
            if not isinstance(identifier, str):
                raise ProtocolError(f"settings: {part} is missing")
            if identifier in registry:
                continue
            if identifier not in self._allowed():  # before any of its code is loaded
                text = f"the {part} {identifier!r} is not built in, and this client does not allow it"
                raise ProtocolError(f"{text}; its operator can: pfedeg client allow DIR {shlex.quote(identifier)}")
            try:
                registry.get(identifier)
            except InputError as error:
                self._log(f"error: {error}")
                text = f"the {part} {identifier!r} is allowed at this client but cannot be loaded"
                raise ProtocolError(f"{text}; is it installed there? The client's log has the error") from None

    def _begin(self, note: Note, run: str) -> Note:
        """Take the aligned ids of the tokens, in the tokens' order; show the rows to start from."""
        config = self._agree(note)
        graph = self._graph(config.seed)
        size = len(graph.entities)
        given = note.array("aligned", np.int32, (size,))
        travelling = note.array("travelling", np.int32, (None,))
        if size and (given[0] < 0 or (given[1:] <= given[:-1]).any()):
            raise ProtocolError("begin: the aligned ids are not in order")
        if (travelling[1:] <= travelling[:-1]).any() or not np.isin(travelling, given).all():
            raise ProtocolError("begin: shared ids that were not assigned")
        self._log(f"run {run}: {len(travelling):,} of {size:,} entities are shared; only their rows will leave")
        tokens = [token(name, self._secret) for name in graph.entities]
        aligned = np.empty(size, np.int32)
        aligned[sorted(range(size), key=tokens.__getitem__)] = given
        folder = RunFolder(self._home / run)
        known, found = alignment_digest(folder.path), digest(given, travelling)
        if known and known != found:
            raise ProtocolError("begin: this run has begun already, with other ids")
        if not folder.exists():
            origin = provenance(Federation({self.name: graph}).fingerprint, self._source, config.seed)
            origin |= {"labels": config.labels(), "clients": [self.name], "federation": run}
            folder.create(config.as_dict(), origin, {self.name: graph})
        if not known:
            (folder.path / WORK).mkdir(mode=0o700, exist_ok=True)
            arrays = {"aligned": aligned, "travelling": travelling}
            write_arrays(folder.path / WORK / "alignment.safetensors", arrays, {"digest": found})
        self._session = None
        session = self._open(run)
        if session.finished or session.kept.round:
            raise ProtocolError("begin: this run has begun already")
        arrays, facts = pack_contents(session.upload())
        return Note("begin", facts, arrays)

    def _open(self, run: str) -> "Session":
        if self._session is None or self._session.run != run:
            if not (self._home / run / WORK / "alignment.safetensors").exists():
                raise ProtocolError(f"this client knows no run {run}; the server has to say hello first")
            self._check_allowed(USUAL | saved_settings(RunFolder(self._home / run).read("config.json")))
            self._session = Session(self._home / run, run, self.name, self._engine, self._log)
        return self._session
