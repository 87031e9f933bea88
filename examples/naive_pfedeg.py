"""PFedEG as plain loops, to read beside the paper: all of PFedEG* and PFedEG+ with TransE, simple rather than fast.

The names are the paper's: a client has an entity table E, a relation table R and, in every round, knowledge K from the
server; W says how much clients learn from each other. The script compares the results with those of the library.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

import pfedeg
from pfedeg import randomness
from pfedeg.graphs.splitting import split_graph
from pfedeg.training.evaluation import weighted

Table = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Settings, named as in pfedeg.Config."""

    seed: int = 0
    rounds: int = 10
    epochs: int = 3
    batch: int = 16
    dim: int = 8
    negatives: int = 8
    gamma: float = 10.0
    lr: float = 0.05
    beta: float = 3e-3
    p: float = 0.5


class Client:
    """A client: its triples, the aligned id of each of its entities, and its tables."""

    def __init__(self, name: str, graph: pfedeg.KnowledgeGraph, ids: list[int], s: Settings) -> None:
        """Aligned entities start from the same values everywhere: their random numbers depend on their ids alone."""
        self.name, self.ids = name, ids
        self.row = {id_: row for row, id_ in enumerate(ids)}  # the paper's permutation P^c
        self.train = [tuple(triple) for triple in graph.train.tolist()]
        self.valid = [tuple(triple) for triple in graph.valid.tolist()]
        self.facts = {*self.train, *self.valid, *(tuple(triple) for triple in graph.test.tolist())}
        self.E = start(randomness.key("start", "entity", s.seed), ids, s)
        self.R = start(randomness.key(s.seed, name, "start", "relation"), list(range(len(graph.relations))), s)


def start(key: int, ids: list[int], s: Settings) -> Table:
    """Uniform in ± (γ + 2) / m."""
    table = np.zeros((len(ids), s.dim))
    for row, id_ in enumerate(ids):
        for k in range(s.dim):
            u = randomness.uniform(key, np.array([id_ * s.dim + k], np.uint64))[0]
            table[row, k] = np.float32((2 * u - 1) * (s.gamma + 2) / s.dim)
    return table


# --- the server ---


def overlap_weights(clients: list[Client]) -> Table:
    """PFedEG*: the share of common entities; the self weight is the least of the others."""
    W = np.zeros((len(clients), len(clients)))
    for i, a in enumerate(clients):
        for j, b in enumerate(clients):
            if i != j:
                W[i, j] = len(set(a.ids) & set(b.ids)) / len(set(a.ids) | set(b.ids))
        W[i, i] = min(W[i, j] for j in range(len(clients)) if j != i)
        W[i] /= W[i].sum()
    return W


def distance_weights(clients: list[Client]) -> Table:
    """PFedEG+: Σ exp(cos) over common entities; the self weight is exp(−1)."""
    W = np.zeros((len(clients), len(clients)))
    for i, a in enumerate(clients):
        for j, b in enumerate(clients):
            for id_ in set(a.ids) & set(b.ids):
                W[i, j] += exp(cosine(a.E[a.row[id_]], b.E[b.row[id_]]))
        W[i, i] = exp(-1)
        W[i] /= W[i].sum()
    return W


def cosine(x: Table, y: Table) -> float:
    """The cosine of two rows."""
    return float(x @ y) / sqrt(float(x @ x) * float(y @ y))


def knowledge(clients: list[Client], i: int, W: Table, p: float) -> Table:
    """K_i: for each entity the weighted mean over its owners, blended with the client's own row."""
    own = clients[i]
    K = own.E.copy()
    for id_, row in own.row.items():
        total, mixed = 0.0, np.zeros(K.shape[1])
        for j, other in enumerate(clients):
            if id_ in other.row:
                mixed += W[i, j] * other.E[other.row[id_]]
                total += W[i, j]
        if total > 0:
            K[row] = p * mixed / total + (1 - p) * own.E[row]
    return K


# --- a client ---


def update(client: Client, K: Table, number: int, s: Settings) -> None:
    """E ← K, then some epochs of Adam on the mean of L_KGE + β · ‖E − K‖."""
    client.E = K.copy()
    moments = [np.zeros((2, *table.shape)) for table in (client.E, client.R)]
    step = 0
    key = randomness.key(s.seed, client.name, "train", number)
    for epoch in range(s.epochs):
        order = randomness.permutation(randomness.derive(key, 2 * epoch), len(client.train)).tolist()
        for first in range(0, len(order), s.batch):
            by_E, by_R = np.zeros_like(client.E), np.zeros_like(client.R)
            batch = order[first : first + s.batch]
            for position, triple in enumerate(batch, first):
                negatives = corrupt(client, client.train[triple], position, randomness.derive(key, 2 * epoch + 1), s)
                add_gradient(client, client.train[triple], negatives, by_E, by_R, len(batch), s)
            distance = sqrt(((client.E - K) ** 2).sum())
            if distance > 0:
                by_E += s.beta * (client.E - K) / distance
            step += 1
            adam(client.E, moments[0], by_E, step, s.lr)
            adam(client.R, moments[1], by_R, step, s.lr)


def corrupt(client: Client, triple: tuple[int, ...], position: int, key: int, s: Settings) -> list[int]:
    """Tails drawn uniformly from the client's entities that are no known training tail of (h, r)."""
    h, r, _ = triple
    known = {tail for head, relation, tail in client.train if (head, relation) == (h, r)}
    free = [entity for entity in range(len(client.ids)) if entity not in known]
    last = [entity for entity in free if entity >= len(free)]  # each free entity once; the last ones fill the gaps
    pool = [last.pop(0) if entity in known else entity for entity in range(len(free))]
    counters = [position * s.negatives + j for j in range(s.negatives)]
    return [pool[u] for u in randomness.below(key, np.array(counters, np.uint64), len(pool)).tolist()] if pool else []


def add_gradient(
    client: Client, triple: tuple[int, ...], negatives: list[int], by_E: Table, by_R: Table, size: int, s: Settings
) -> None:
    """Add the gradient of ½ [−log σ(s(h,r,t)) − Σ_j w_j log σ(−s(h,r,t'_j))] / batch size; w is held constant."""
    h, r, t = triple
    scores = [score(client, h, r, tail, s.gamma) for tail in negatives]
    total = sum(exp(x - max(scores)) for x in scores)
    terms = [(t, -sigmoid(-score(client, h, r, t, s.gamma)) / 2)]
    terms += [(tail, exp(x - max(scores)) / total * sigmoid(x) / 2) for tail, x in zip(negatives, scores, strict=True)]
    for tail, by_score in terms:  # s = γ − ‖h + r − t‖₁, so ∂s/∂h = ∂s/∂r = −sign(h + r − t) = −∂s/∂t
        sign = np.sign(client.E[h] + client.R[r] - client.E[tail])
        by_E[h] -= by_score * sign / size
        by_R[r] -= by_score * sign / size
        by_E[tail] += by_score * sign / size


def score(client: Client, h: int, r: int, t: int, gamma: float) -> float:
    """TransE: γ − ‖h + r − t‖₁."""
    return gamma - float(np.abs(client.E[h] + client.R[r] - client.E[t]).sum())


def sigmoid(x: float) -> float:
    """σ(x) = 1 / (1 + e^−x)."""
    return 1 / (1 + exp(-x))


def adam(table: Table, moments: Table, gradient: Table, step: int, lr: float) -> None:
    """One step of Adam."""
    moments[0] = 0.9 * moments[0] + 0.1 * gradient
    moments[1] = 0.999 * moments[1] + 0.001 * gradient**2
    table -= lr * (moments[0] / (1 - 0.9**step)) / (np.sqrt(moments[1] / (1 - 0.999**step)) + 1e-8)


def mrr(clients: list[Client], gamma: float) -> float:
    """Filtered mean reciprocal rank over all validation triples, which weighs clients by their number."""
    reciprocals = []
    for client in clients:
        for h, r, t in client.valid:
            truth, rank = score(client, h, r, t, gamma), 1.0
            for entity in range(len(client.ids)):
                if (h, r, entity) not in client.facts:
                    other = score(client, h, r, entity, gamma)
                    rank += 1.0 if other > truth else 0.5 if other == truth else 0.0
            reciprocals.append(1 / rank)
    return sum(reciprocals) / len(reciprocals)


# --- the rounds ---


def pfedeg_naive(federation: pfedeg.Federation, method: str, s: Settings) -> Iterator[tuple[list[Client], float]]:
    """The clients and their validation MRR after every round."""
    ids = federation.shared().ids
    clients = [Client(name, graph, ids[name].tolist(), s) for name, graph in federation.graphs.items()]
    for number in range(1, s.rounds + 1):
        W = overlap_weights(clients) if method == "pfedeg-star" else distance_weights(clients)
        K = [knowledge(clients, i, W, s.p) for i in range(len(clients))]
        for client, received in zip(clients, K, strict=True):
            update(client, received, number, s)
        yield clients, mrr(clients, s.gamma)


def numbers() -> pfedeg.Federation:
    """Three clients that know residues of numbers: overlapping ranges of numbers, different divisors."""
    graphs = {}
    for name, first, divisors in (("low", 0, (2, 3)), ("middle", 8, (3, 4)), ("high", 16, (2, 4, 5))):
        pairs = [(n, d) for d in divisors for n in range(first, first + 24)]
        facts = [(f"number {n}", f"modulo {d}", f"residue {n % d} of {d}") for n, d in pairs]
        graphs[name] = split_graph(facts, seed=0, origin=name)
    return pfedeg.Federation(graphs)


def main() -> None:
    """Both methods, here and in the library."""
    s, federation = Settings(), numbers()
    for method in ("pfedeg-star", "pfedeg-plus"):
        config = pfedeg.Config(method=method, model="transe", eval_every=1, patience=s.rounds, **vars(s))
        print(f"{method}: validation MRR after each round, here and in the library")
        library = pfedeg.Training(federation, config)
        for (_, here), there in zip(pfedeg_naive(federation, method, s), library, strict=True):
            assert there.metrics is not None
            print(f"  {there.number:2}  {here:.4f}  {weighted(there.metrics).mrr:.4f}")


if __name__ == "__main__":
    main()
