"""What a malicious server learns from the uploads of one client: linked pairs of entities, and relation rows.

python benchmarks/attack_server.py [--dim 1024] [--rounds 26] [--json]

The server declares all entities of the client atlas shared, chooses the settings (FedE, TransE), and sends what suits
it. It is measured twice: against a client without limits for downloads, as before, and against the present one.

Pairs: the server sends random rows, as far from each other as the client lets it. Training moves the head and the tail
of a triple towards each other. A pair's evidence is how much each of the two rows moved towards the other, summed over
rounds; the attack names as many pairs as there are.
Relations: the server knows one triple of some relations, with an entity that is in no other triple. With a tiny
learning rate, a client's step tells the sign of h + r - t, number by number, so t - h is chosen to halve the interval
in which r lies. All other rows are far away, where negatives have no gradient. A passive server guesses from uploads.
"""

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # clients without a network

from loopback import SECRET, FakeSigner, make_agents  # type: ignore[import-not-found]  # in tests/
from pfedeg.graphs.alignment import token
from pfedeg.graphs.federation import Federation
from pfedeg.network.messages import PROTOCOL, Message, pack, split, unpack
from pfedeg.training.config import PRESETS, Config
from pfedeg.training.run_folder import package_version

VICTIM = "atlas"
FAR = 100.0  # the size of numbers that have nothing to do with embeddings
RATES = (1e-3, 1e-2, 1e-1)  # learning rates for pairs, of which the server takes the best
MARGINS = (5.9, 3.0, 1.0, 0.0)  # times the last change of the rows, of which a client takes some


class Server:
    """A server that sends what it likes to one client."""

    def __init__(self, folder: Path, config: Config) -> None:
        """Begin a run in which all entities of the client count as shared."""
        federation = Federation.world()
        self.graph, self._run = federation.graphs[VICTIM], secrets.token_hex(4)
        self._agent = make_agents(Federation({VICTIM: self.graph}), folder)[VICTIM]
        terms = {"protocol": PROTOCOL, "package": package_version(), "settings": config.as_dict()}
        self.send("hello", terms)
        size = len(self.graph.entities)
        self._ids = np.arange(size, dtype=np.int32)
        names = self.graph.entities  # the order of ids is that of the tokens; used only to judge the attack
        order = sorted(range(size), key=lambda i: token(names[i], SECRET))
        self.id_of = np.empty(size, np.int64)
        self.id_of[order] = np.arange(size)
        self.rows = self.send("begin", terms, {"aligned": self._ids, "travelling": self._ids}).arrays["entity/values"]
        self.round = 0

    def send(self, kind: str, fields: dict[str, Any], arrays: dict[str, Any] | None = None) -> Message:
        """The client's response."""
        about = {"to": VICTIM, "run": self._run, "nonce": secrets.token_hex(16), "certificate": "c"}
        raw = self._agent.respond(pack(Message(kind, about | fields, arrays or {}), FakeSigner("server").sign))
        assert raw is not None
        return unpack(split(raw)[1])

    def train(self, rows: Any) -> Any | None:
        """What the client uploads after training from these rows; None if it refuses them."""
        arrays = {"entity/ids": self._ids, "entity/values": rows.astype(np.float32)}
        response = self.send("train", {"round": self.round + 1, "best_round": 0}, arrays)
        if response.kind == "refusal":
            return None
        self.round += 1
        return response.arrays["entity/values"]

    def relation_rows(self) -> Any:
        """The truth, to judge the attack."""
        session = self._agent._session
        assert session is not None
        return session.saved.state.tables.relation


@contextmanager
def no_limits() -> Iterator[None]:
    """As before: the numbers are believed."""
    with mock.patch("pfedeg.network.client_session.check_download"):
        yield


def pairs(dim: int, rounds: int, rate: float) -> dict[str, Any]:
    """The share of linked pairs that the server finds after these rounds, at a learning rate for dim 64."""
    lr = rate * 64 / dim  # in proportion to the rows
    config = Config(method="fede", dim=dim, epochs=1, batch=512, negatives=16, lr=lr, rounds=rounds + 1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), config)
        truth = server.id_of[server.graph.train[:, [0, 2]]]
        linked = {(min(pair), max(pair)) for pair in truth.tolist() if pair[0] != pair[1]}
        evidence, own, refused, moved = np.zeros((len(server.rows),) * 2), server.rows, 0, 0.0
        for _ in range(rounds):
            sent = FAR * rng.uniform(-1, 1, own.shape)
            uploaded = server.train(sent)
            refused += uploaded is None
            for margin in MARGINS if uploaded is None else ():  # as random as it may be
                sent = own + margin * moved * rng.choice([-1.0, 1.0], own.shape)
                uploaded = server.train(sent)
                if uploaded is not None:
                    break
            assert uploaded is not None
            change = uploaded - sent.astype(np.float32)
            moved = float(np.sqrt(np.square(change, dtype=np.float64).mean()))
            change -= change.mean(0)  # what all rows have in common comes from negatives
            change /= np.maximum(np.abs(change).mean(1, keepdims=True), 1e-30)
            towards = change @ (sent - sent.mean(0)).T / np.abs(sent).mean()
            evidence += towards + towards.T
            own = uploaded
    upper = np.triu_indices(len(own), 1)
    best = np.argsort(-evidence[upper])[: len(linked)]
    named = set(zip(upper[0][best].tolist(), upper[1][best].tolist(), strict=True))
    return {"recovered": round(len(named & linked) / len(linked), 3), "refused": refused, "pairs": len(linked)}


def relations(dim: int, rounds: int) -> dict[str, Any]:
    """How well the server knows relation rows after these rounds: the median error, relative to their size."""
    size = (10 + 2) / dim  # of a number, at most
    config = Config(method="fede", dim=dim, epochs=1, batch=1 << 12, negatives=1, lr=1e-6 * size, rounds=rounds + 1)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), config)
        triples = server.id_of[server.graph.train[:, [0, 2]]]
        times = np.bincount(triples.ravel(), minlength=len(server.rows))
        known: dict[int, tuple[int, int, int]] = {}  # relation → an entity of one triple, its other one, and the sign
        for r, (head, tail) in zip(server.graph.train[:, 1].tolist(), triples.tolist(), strict=True):
            taken = {entity for each in known.values() for entity in each[:2]}
            for own, other, sign in ((tail, head, 1), (head, tail, -1)):
                if r not in known and times[own] == 1 and not {own, other} & taken:
                    known[r] = own, other, sign
        low, high = ({r: np.full(dim, bound) for r in known} for bound in (-size, size))
        refused = 0
        for _ in range(rounds):
            sent = FAR * np.sign(server.rows)  # the gradients of negatives vanish
            for r, (own, other, sign) in known.items():
                sent[own], sent[other] = sign * (low[r] + high[r]) / 2, 0
            uploaded = server.train(sent)
            if uploaded is None:
                refused += 1
                continue
            for r, (own, _, sign) in known.items():
                moved, middle = sign * (uploaded[own] - sent[own].astype(np.float32)), (low[r] + high[r]) / 2
                low[r], high[r] = np.where(moved > 0, middle, low[r]), np.where(moved < 0, middle, high[r])
        truth = server.relation_rows()
        errors = [np.median(np.abs((low[r] + high[r]) / 2 - truth[r])) / np.abs(truth[r]).mean() for r in known]
    return {"error": float(f"{np.median(errors):.2g}"), "relations": len(known), "refused": refused}


def passive(rounds: int) -> dict[str, Any]:
    """The same error for a server that keeps to the protocol, knows a tenth of the triples, and takes t - h for r."""
    config = Config(method="fede", **{**PRESETS["quick"], "rounds": rounds + 1})
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), config)
        rows: Any = server.rows
        for _ in range(rounds):
            rows = server.train(rows)
        train, truth = server.graph.train, server.relation_rows()
        known = train[rng.random(len(train)) < 0.1]
        apart = rows[server.id_of[known[:, 2]]] - rows[server.id_of[known[:, 0]]]
        guess = {r: apart[known[:, 1] == r].mean(0) for r in set(known[:, 1].tolist())}
        errors = [np.median(np.abs(each - truth[r])) / np.abs(truth[r]).mean() for r, each in guess.items()]
    return {"error": float(f"{np.median(errors):.2g}"), "relations": len(guess)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=26, help="of the longest attack")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for limits in (False, True):
        found["limits" if limits else "no limits"] = each = {}
        with nullcontext() if limits else no_limits():
            for dim in sorted({64, options.dim}):
                for rounds in (1, 4, options.rounds):
                    tried = [pairs(dim, rounds, rate) for rate in RATES]
                    each[f"pairs, dim {dim}, rounds {rounds}"] = max(tried, key=lambda one: one["recovered"])
            each[f"relations, dim {options.dim}, rounds {options.rounds}"] = relations(options.dim, options.rounds)
            each[f"relations, passive, rounds {options.rounds}"] = passive(options.rounds)
        for name, result in each.items():
            print(f"{'with' if limits else 'without'} limits: {name}: {result}", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
