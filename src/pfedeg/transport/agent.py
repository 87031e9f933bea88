"""The client's half of a federation: answers what the server asks, with the client's own graph, code and files.

All that changes is kept in the client's own folder before it answers, so that it may die at any moment, be asked the
same again, and give the same answer. A round is undone if the server, after a fault of its own, asks for it again with
other knowledge.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.client import Client, ClientState
from pfedeg.config import FEDERATED, Config
from pfedeg.course import summary
from pfedeg.errors import InputError, PfedegError
from pfedeg.federation import Federation, token
from pfedeg.graph import Ids, KnowledgeGraph
from pfedeg.kernels import Kernels, Moments, Tables
from pfedeg.shared import ClientId, Rows
from pfedeg.store import RunFolder, package_version, provenance, read_arrays, write_arrays
from pfedeg.transport.messages import (
    PROTOCOL,
    TOKEN,
    Note,
    ProtocolError,
    metrics_facts,
    pack,
    read_rows,
    rows_arrays,
    split,
    unpack,
)

RUN = re.compile("[0-9a-z-]{1,64}")
MOST = 1 << 30  # bytes of a message at most; a table of a million entities has 0.5 to 1 GB


@dataclass(frozen=True, slots=True)
class Kept:
    """A client's state after some round, and what led to it."""

    state: ClientState
    round: int
    cause: str = ""  # a digest of the download
    loss: float = 0.0
    seconds: float = 0.0


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
        kernels: Kernels,
        source: str = "",
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`home` is where runs go; graph(seed) is the client's, split by a seed if it is not split already.

        trusted(certificate, body, signature) says whether the server has signed.
        """
        self._home, self.name, self._graph, self._fingerprint = home, name, graph, fingerprint
        self._secret, self._sign, self._trusted, self._kernels = secret, sign, trusted, kernels
        self._source, self._log = source, log
        self._session: Session | None = None

    def answer(self, raw: bytes) -> bytes | None:
        """The reply to a message; None to one that is not from the server, which is better not answered at all."""
        try:
            signature, body = split(raw)
            note = unpack(body)
            certificate = note.text("certificate").encode()
            if not self._trusted(certificate, body, signature):
                raise ProtocolError("not signed by the server that this client trusts")
            if note.text("to") != self.name:
                raise ProtocolError(f"meant for {note.text('to')!r}")
            run, nonce = note.text("run"), note.text("nonce")
        except ProtocolError as error:
            self._log(f"ignored a message: {error}")
            return None
        try:
            answer = self._answer(note, run)
        except (ProtocolError, PfedegError) as error:
            self._log(f"refused: {error}")
            answer = Note("refusal", {"reason": str(error)[:500]})
        except Exception as error:  # whatever it is, the server and the operator should hear of it
            self._log(f"failed: {type(error).__name__}: {error}")
            self._session = None
            answer = Note("refusal", {"reason": f"the client failed ({type(error).__name__}); its log says more"})
        facts = {"from": self.name, "run": run, "nonce": nonce, "asked": note.kind} | dict(answer.facts)
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
        self._log(f"run {run}: {config.method}, {config.model}, {config.rounds} rounds at most; sends alignment tokens")
        tokens = b"".join(sorted(token(name, self._secret) for name in graph.entities))
        return Note("hello", facts, {"tokens": np.frombuffer(tokens, np.uint8).reshape(-1, TOKEN)})

    def _agree(self, note: Note) -> Config:
        if note.number("protocol") != PROTOCOL:
            raise ProtocolError(f"the server speaks protocol {note.facts['protocol']}, this client {PROTOCOL}")
        if note.text("package") != package_version():
            text = f"the server runs pfedeg {note.text('package')}, this client {package_version()}"
            raise ProtocolError(f"{text}; install the same version on both sides")
        settings = note.facts.get("settings")
        try:
            config = Config(**settings) if isinstance(settings, dict) else None
        except (InputError, TypeError) as error:
            raise ProtocolError(f"settings: {error}") from None
        if config is None or config.method not in FEDERATED or config.resolved().as_dict() != settings:
            raise ProtocolError("settings that are not complete, or not of a federated method")
        return config

    def _begin(self, note: Note, run: str) -> Note:
        """Take the aligned ids of the tokens, in the tokens' order; show the rows to start from."""
        config = self._agree(note)
        graph = self._graph(config.seed)
        size = len(graph.entities)
        given = note.array("aligned", np.int32, (size,))
        travelling = note.array("travelling", np.int32, (None,))
        if size and (given[0] < 0 or (np.diff(given) <= 0).any()):
            raise ProtocolError("begin: the aligned ids are not in order")
        if (np.diff(travelling) <= 0).any() or not np.isin(travelling, given).all():
            raise ProtocolError("begin: shared ids that were not assigned")
        tokens = [token(name, self._secret) for name in graph.entities]
        aligned = np.empty(size, np.int32)
        aligned[sorted(range(size), key=tokens.__getitem__)] = given
        folder = RunFolder(self._home / run)
        if folder.exists() and alignment_digest(folder.path) != digest(given, travelling):
            raise ProtocolError("begin: this run has begun already, with other ids")
        if not folder.exists():
            strategy = config.build_strategy()
            origin = provenance(Federation({self.name: graph}).fingerprint, self._source, config.seed)
            origin |= {"strategy": type(strategy).__name__, "clients": [self.name], "federation": run}
            folder.create(config.as_dict(), origin, {self.name: graph})
            (folder.path / WORK).mkdir(mode=0o700)
            arrays = {"aligned": aligned, "travelling": travelling}
            about = {"digest": digest(given, travelling)}
            write_arrays(folder.path / WORK / "alignment.safetensors", arrays, about)
        self._session = None
        session = self._open(run)
        if session.finished or session.kept.round:
            raise ProtocolError("begin: this run has begun already")
        return Note("begin", {}, rows_arrays(session.upload()))

    def _open(self, run: str) -> "Session":
        if self._session is None or self._session.run != run:
            if not (self._home / run / WORK / "alignment.safetensors").exists():
                raise ProtocolError(f"this client knows no run {run}; the server has to say hello first")
            self._session = Session(self._home / run, run, self.name, self._graph, self._kernels, self._log)
        return self._session


WORK = ".work"


def digest(*arrays: Any) -> str:
    """What arrays contain, in short."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def alignment_digest(folder: Path) -> str:
    """Which alignment a run has, if it has one."""
    path = folder / WORK / "alignment.safetensors"
    return read_arrays(path)[1].get("digest", "") if path.exists() else ""


class Session:
    """One run at this client: its state between two messages, and the files that keep it."""

    def __init__(
        self,
        path: Path,
        run: str,
        name: ClientId,
        graph: Callable[[int], KnowledgeGraph],
        kernels: Kernels,
        log: Callable[[str], None],
    ) -> None:
        """Go on where the files say."""
        self.run, self._name, self._kernels, self._log = run, name, kernels, log
        self._folder, self._work = RunFolder(path), path / WORK
        self._config = Config(**self._folder.read("config.json"))
        self._graph = graph(self._config.seed)
        self.finished = self._folder.finished()
        if self.finished:
            return
        arrays, _ = read_arrays(self._work / "alignment.safetensors")
        self._travelling: Ids = arrays["travelling"]
        strategy = self._config.build_strategy()
        self._client: Client = self._config.build_client(
            name, self._graph, arrays["aligned"], self._travelling, strategy.absorb
        )
        state = self._load("state")
        self.kept = state or self._load("previous") or Kept(self._client.start(), 0)
        self._stored = state.round if state else 0  # the round in the file
        shown = self._work / "shown.safetensors"
        self._shown = int(read_arrays(shown)[1]["round"]) if shown.exists() else 0

    def upload(self) -> Rows:
        """The rows of shared entities as they are now."""
        return self._client.upload(self.kept.state)

    def train(self, note: Note) -> Note:
        """Take the knowledge, train for one round, show the shared rows."""
        number = note.number("round", 1)
        self._heed(note)
        download = self._download(note)
        cause = digest(download.ids, download.values)
        if self.kept.round != number or self.kept.cause != cause:
            self._back_before(number)
            began = time.perf_counter()
            state, loss = self._client.step(self.kept.state, number, download, self._kernels)
            self._keep(Kept(state, number, cause, loss, time.perf_counter() - began))
            self._record(number, download)
            self._log(f"run {self.run}: round {number}, loss {loss:.4f}, {self.kept.seconds:.1f} s")
        elif number not in [line["round"] for line in self._folder.history()[-1:]]:  # it died in between
            self._record(number, download)
        facts = {"round": number, "loss": self.kept.loss, "seconds": self.kept.seconds}
        return Note("train", facts, rows_arrays(self.upload()))

    def evaluate(self, note: Note) -> Note:
        """Rank the validation triples with the tables as they are, or with the knowledge in place."""
        number = note.number("round", 1)
        self._heed(note)
        if self.kept.round > number:
            self._back_before(number + 1)
        tables = self.kept.state.tables
        if "ids" in note.arrays:
            tables = self._client.absorbed(tables, self._download(note))
        metrics = self._client.evaluate(tables, "valid", self._kernels)
        write_arrays(self._work / "shown.safetensors", tables._asdict(), {"round": str(number)})
        self._shown = number
        lines = self._folder.history()
        if lines and lines[-1]["round"] == number:
            self._folder.cut_history(number - 1, lines[-1] | {"valid": summary({self._name: metrics})})
        return Note("evaluate", {"round": number, "valid": metrics_facts(metrics)})

    def finish(self, note: Note) -> Note:
        """Make the best tables the result, and say how good they are."""
        if not self.finished:
            best, rounds = note.number("best_round"), note.number("rounds")
            self._heed(note)
            self._folder.cut_history(rounds)
            tables = self._best()
            valid, test = (self._client.evaluate(tables, split, self._kernels) for split in ("valid", "test"))
            result: dict[str, Any] = {
                "method": self._config.method,
                "model": self._config.model,
                "seed": self._config.seed,
                "rounds": rounds,
                "best_round": best,
                "seconds": round(sum(line["seconds"] for line in self._folder.history()), 3),
                "valid": summary({self._name: valid}),
                "test": summary({self._name: test}),
            }
            self._folder.finish({self._name: tables}, {self._name: self._graph}, result)
            for file in self._work.iterdir():
                if file.name != "alignment.safetensors":
                    file.unlink()
            self.finished = True
            self._log(f"run {self.run}: finished; the tables of round {best} are in {self._folder.path}")
        result = self._folder.read("result.json")
        return Note("finish", {split: result[split]["clients"][self._name] for split in ("valid", "test")})

    def _download(self, note: Note) -> Rows:
        return read_rows(note, self._travelling, self._client.model.entity_width)

    def _heed(self, note: Note) -> None:
        """What the server says beside its request: which evaluation was the best so far, and who is close."""
        if self._shown and note.facts.get("best_round") == self._shown:
            os.replace(self._work / "shown.safetensors", self._work / "best.safetensors")
            self._shown = 0
        affinity, lines = note.facts.get("affinity"), self._folder.history()
        if lines and "affinity" not in lines[-1] and isinstance(affinity, dict) and affinity.get("round"):
            row = affinity.get("row")
            if lines[-1]["round"] == affinity["round"] and isinstance(row, dict) and len(row) <= 100_000:
                shares = {str(name)[:200]: float(w) for name, w in row.items() if isinstance(w, float) and 0 <= w <= 1}
                self._folder.cut_history(lines[-1]["round"] - 1, lines[-1] | {"affinity": {self._name: shares}})

    def _best(self) -> Tables:
        path = self._work / "best.safetensors"
        if not path.exists():
            return self.kept.state.tables
        arrays, _ = read_arrays(path)
        return Tables(arrays["entity"], arrays["relation"])

    def _record(self, number: int, download: Rows) -> None:
        """A line of the client's own history."""
        line = {
            "round": number,
            "selected": [self._name],
            "loss": {self._name: self.kept.loss},
            "seconds": round(self.kept.seconds, 4),
            "bytes_up": self.upload().nbytes,
            "bytes_down": download.nbytes,
        }
        self._folder.cut_history(number - 1, line)

    def _back_before(self, number: int) -> None:
        """Undo the last round if it is not before `number`."""
        if self.kept.round < number:
            return
        earlier = self._load("previous") or (Kept(self._client.start(), 0) if self.kept.round == 1 else None)
        if earlier is None or earlier.round >= number:
            raise ProtocolError(f"this client is at round {self.kept.round} and cannot go back before round {number}")
        self._log(f"run {self.run}: undoes round {self.kept.round}")
        self.kept = earlier

    def _keep(self, kept: Kept) -> None:
        """Keep a state, and the one before it; a crash between the two leaves the latter."""
        path = self._work / "state.safetensors"
        if self._stored and self._stored == self.kept.round:
            os.replace(path, self._work / "previous.safetensors")
        tables, moments = kept.state.tables, kept.state.moments
        arrays = {f"tables/{name}": array for name, array in tables._asdict().items()}
        arrays |= {f"moments/{name}": array for name, array in (moments._asdict() if moments else {}).items()}
        about = {"round": str(kept.round), "cause": kept.cause, "loss": repr(kept.loss), "seconds": repr(kept.seconds)}
        write_arrays(path, arrays, about)
        self.kept, self._stored = kept, kept.round

    def _load(self, name: str) -> Kept | None:
        path = self._work / f"{name}.safetensors"
        if not path.exists():
            return None
        arrays, about = read_arrays(path)
        tables = Tables(*(arrays[f"tables/{kind}"] for kind in Tables._fields))
        moments = None
        if "moments/steps" in arrays:
            moments = Moments(*(arrays[f"moments/{kind}"] for kind in Moments._fields))
        state = ClientState(tables, moments, True)
        return Kept(state, int(about["round"]), about["cause"], float(about["loss"]), float(about["seconds"]))
