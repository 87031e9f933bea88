"""The client's side of a federation: checks the server's requests and responds from its own graph and code."""

import hashlib
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.checked_files import write_arrays
from pfedeg.engine.interface import MultiThreaded
from pfedeg.errors import InputError, PfedegError
from pfedeg.graphs.alignment import TOKEN_BYTES, ClientId, token
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.network.client_session import WORK, ClientSession, alignment_digest, digest
from pfedeg.network.limits import Limits, run_bytes
from pfedeg.network.messages import PROTOCOL, Message, ProtocolError, pack, pack_contents, split, unpack
from pfedeg.training.config import DEFAULT_PARTS, REGISTRIES, Config
from pfedeg.training.run_folder import RunFolder, package_version, provenance, saved_settings

RUN = re.compile("[0-9a-z-]{1,64}")
MOST_NONCES = 10_000  # that are remembered


class ClientAgent:
    """Responds to requests on behalf of one client."""

    def __init__(
        self,
        runs: Path,
        name: ClientId,
        graph: Callable[[int], KnowledgeGraph],
        secret: bytes,
        fingerprint: str,
        *,
        sign: Callable[[bytes], bytes],
        trusted: Callable[[bytes, bytes, bytes], bool],
        engine: Callable[[], MultiThreaded],
        source: str = "",
        allowed: Callable[[], Collection[str]] = tuple,
        limits: Callable[[], Limits] = Limits,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`runs` is the folder for runs; graph(seed) is the client's graph, split by the seed if its files are not.

        trusted(certificate, body, signature) says whether the server signed a request. allowed() names the plug-ins
        that may be loaded: methods, models, objectives and optimisers that are not built in are code. limits() is what
        the owner of the data allows. Both are called for each request. engine() is a new engine, to be used until it
        is stopped.
        """
        self._runs, self.name, self._graph, self._fingerprint = runs, name, graph, fingerprint
        self._secret, self._sign, self._trusted, self._engine = secret, sign, trusted, engine
        self._source, self._allowed, self._limits, self._log = source, allowed, limits, log
        self._session: ClientSession | None = None
        self._nonces: dict[str, bytes] = {}  # of the server's requests, the latest last, with digests of the requests

    def respond(self, raw: bytes) -> bytes | None:
        """The response to a request; None, and so no response, if the server did not sign it."""
        try:
            self._limits().check_message(len(raw))
            signature, body = split(raw)
            request = unpack(body)
            certificate = request.text("certificate").encode()
            if not self._trusted(certificate, body, signature):
                raise ProtocolError("not signed by the server that this client trusts")
            to, run, nonce = request.text("to"), request.text("run"), request.text("nonce")
            if not 0 < len(nonce) <= 64 or len(run) > 200:
                raise ProtocolError("not a valid request")
            self._check_nonce(nonce, body)
        except ProtocolError as error:
            self._log(f"ignored a message: {error}")
            return None
        except Exception as error:  # nobody has signed this: whatever it is, the client goes on
            self._log(f"ignored a message: it cannot be read ({type(error).__name__})")
            return None
        try:
            if to != self.name:
                raise ProtocolError(f"this client is called {self.name!r}, and the server has enrolled it as {to!r}")
            response = self._handle(request, run)
        except ProtocolError as error:
            self._log(f"refused: {error}")
            response = Message("refusal", {"reason": str(error)[:500]})
        except Exception as error:  # the server gets the type only: texts may contain names or paths
            self._log(f"failed: {type(error).__name__}: {error}")
            self._session = None
            kind = "error with its files" if isinstance(error, PfedegError) else type(error).__name__
            response = Message("refusal", {"reason": f"the client failed ({kind}); see its log"})
        fields = {"from": to, "run": run, "nonce": nonce, "request": request.kind} | dict(response.fields)
        return pack(Message(response.kind, fields, response.arrays), self._sign)

    def _check_nonce(self, nonce: str, body: bytes) -> None:
        """Refuse a repeated request, except the latest one, which the server repeats after a fault."""
        found = hashlib.sha256(body).digest()
        latest = next(reversed(self._nonces), None)
        if nonce in self._nonces and (nonce != latest or self._nonces[nonce] != found):
            raise ProtocolError("a request that repeats the nonce of an earlier one")
        self._nonces[nonce] = found
        if len(self._nonces) > MOST_NONCES:
            del self._nonces[next(iter(self._nonces))]

    def _handle(self, request: Message, run: str) -> Message:
        if not RUN.fullmatch(run):
            raise ProtocolError("invalid name of the run")
        if request.kind == "hello":
            return self._hello(request, run)
        if request.kind == "begin":
            return self._begin(request, run)
        session = self._open(run)
        if request.kind == "finish":
            return session.finish(request)
        if session.finished:
            raise ProtocolError("the run is finished")
        limits = self._limits()
        limits.check_settings(session.config, self._allowed())
        limits.check_shared(session.config, session.shared, session.entities)
        limits.check_round(request.integer("round", 1))
        limits.check_folders(self._runs)
        if request.kind == "train":
            return session.train(request, limits.seconds)
        if request.kind == "evaluate":
            return session.evaluate(request, limits.seconds)
        raise ProtocolError(f"{request.kind}: not a request to a client")

    def _hello(self, request: Message, run: str) -> Message:
        """Check versions and settings; send the alignment tokens, once per run."""
        config, limits = self._agree(request), self._limits()
        graph = self._graph(config.seed)
        folder = self._runs / run
        fields: dict[str, Any] = {
            "protocol": PROTOCOL,
            "package": package_version(),
            "fingerprint": self._fingerprint,
            "entities": len(graph.entities),
            "triples": len(graph.train),
        }
        known = alignment_digest(folder) if folder.exists() else ""
        if known and known == request.fields.get("alignment"):
            self._log(f"run {run}: resumed")
            return Message("hello", fields | {"alignment": known})
        size = len(graph.entities)
        limits.check_folders(self._runs, run_bytes(config, graph))
        limits.check_message(size * TOKEN_BYTES)
        self._log(f"run {run}: {config.title}, up to {config.rounds} rounds; sending {size:,} tokens")
        tokens = b"".join(sorted(token(name, self._secret) for name in graph.entities))
        return Message("hello", fields, {"tokens": np.frombuffer(tokens, np.uint8).reshape(-1, TOKEN_BYTES)})

    def _agree(self, request: Message) -> Config:
        if request.integer("protocol") != PROTOCOL:
            raise ProtocolError(f"the server speaks protocol {request.fields['protocol']}, this client {PROTOCOL}")
        if request.text("package") != package_version():
            text = f"the server runs pfedeg {request.text('package')}, this client {package_version()}"
            raise ProtocolError(f"{text}; install the same version on both sides")
        settings = request.fields.get("settings")
        if not isinstance(settings, dict):
            raise ProtocolError("settings: missing")
        self._check_allowed(settings)
        try:
            config = Config(**settings)
        except (InputError, TypeError) as error:
            raise ProtocolError(f"settings: {error}") from None
        if not config.method_type.is_federated or config.as_dict() != settings:
            raise ProtocolError("settings: incomplete, or not of a federated method")
        self._limits().check_settings(config, self._allowed())
        return config

    def _check_allowed(self, settings: Mapping[str, Any]) -> None:
        """Refuse a run whose method, model, objective or optimiser is neither built in nor allowed here."""
        for part, registry in REGISTRIES.items():
            identifier = settings.get(part)
            if not isinstance(identifier, str):
                raise ProtocolError(f"settings: {part} is missing")
            if identifier in registry:
                continue
            if identifier not in self._allowed():  # checked before any of its code is loaded
                text = f"the {part} {identifier!r} is not built in, and this client does not allow it"
                raise ProtocolError(f"{text}; to allow it: pfedeg client allow DIR {shlex.quote(identifier)}")
            try:
                registry.get(identifier)
            except InputError as error:
                self._log(f"error: {error}")
                text = f"the {part} {identifier!r} is allowed at this client but cannot be loaded"
                raise ProtocolError(f"{text}; is it installed there? The client's log has the error") from None

    def _begin(self, request: Message, run: str) -> Message:
        """Store the aligned ids, which come in the order of the tokens; respond with the rows to start from."""
        config = self._agree(request)
        graph = self._graph(config.seed)
        size = len(graph.entities)
        given = request.array("aligned", np.int32, (size,))
        travelling = request.array("travelling", np.int32, (None,))
        if size and (given[0] < 0 or (given[1:] <= given[:-1]).any()):
            raise ProtocolError("begin: the aligned ids are not in ascending order")
        if (travelling[1:] <= travelling[:-1]).any() or not np.isin(travelling, given).all():
            raise ProtocolError("begin: shared ids are not in ascending order, or not among the aligned ids")
        self._log(f"run {run}: {len(travelling):,} of {size:,} entities are shared; only their rows are sent")
        limits = self._limits()
        limits.check_shared(config, len(travelling), size)
        tokens = [token(name, self._secret) for name in graph.entities]
        aligned = np.empty(size, np.int32)
        aligned[sorted(range(size), key=tokens.__getitem__)] = given
        folder = RunFolder(self._runs / run)
        known, found = alignment_digest(folder.path), digest(given, travelling)
        if known and known != found:
            raise ProtocolError("begin: this run has already begun, with other ids")
        if not folder.exists():
            limits.check_folders(self._runs, run_bytes(config, graph))
            origin = provenance(Federation({self.name: graph}).fingerprint, self._source, config.seed)
            origin |= {"labels": config.labels(), "traits": config.traits()}
            origin |= {"clients": [self.name], "federation": run}
            folder.create(config.as_dict(), origin, {self.name: graph})
        if not known:
            (folder.path / WORK).mkdir(mode=0o700, exist_ok=True)
            arrays = {"aligned": aligned, "travelling": travelling}
            write_arrays(folder.path / WORK / "alignment.safetensors", arrays, {"digest": found})
        self._session = None
        session = self._open(run)
        if session.finished or session.saved.round:
            raise ProtocolError("begin: this run has already begun")
        arrays, fields = pack_contents(session.upload())
        return Message("begin", fields, arrays)

    def _open(self, run: str) -> ClientSession:
        if self._session is None or self._session.run != run:
            if not (self._runs / run / WORK / "alignment.safetensors").exists():
                raise ProtocolError(f"this client has no run {run}; the server must send hello first")
            self._check_allowed(DEFAULT_PARTS | saved_settings(RunFolder(self._runs / run).read("config.json")))
            self._session = ClientSession(self._runs / run, run, self.name, self._engine, self._log)
        return self._session
