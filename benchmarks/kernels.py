"""Our kernels and PyKEEN's on the same client graph in one process run: training and ranking, with ratios.

python benchmarks/kernels.py --data DIR     the first client of DIR/fb15k-237-fed3.parquet
python benchmarks/kernels.py                a synthetic graph of that size
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pfedeg.federation import Federation
from pfedeg.graph import KnowledgeGraph
from pfedeg.kernels import Absorb, Knowledge, Local, Moments, Positives, Tables, positives, questions
from pfedeg.kernels.fused import Fused
from pfedeg.models import MODELS, start_rows

DIM, BATCH, NEGATIVES = 128, 512, 256
NAMES = {"transe": "TransE", "rotate": "RotatE", "complex": "ComplEx"}
PEER_BATCHES = {"transe": 8, "rotate": 4, "complex": 3}
PEER_RANKS = {"transe": 256, "rotate": 128, "complex": 512}


def synthetic_graph() -> KnowledgeGraph:
    """A random graph of the size of one client of FB15k-237-Fed3; heads, relations and tails are skewed as there."""
    entities, relations, triples = 12_843, 79, 125_000
    rng = np.random.default_rng(0)
    h, t = (rng.permutation(entities)[(entities * rng.random(triples) ** 3).astype(np.int32)] for _ in range(2))
    r = (relations * rng.random(triples) ** 3).astype(np.int32)
    ids = np.unique(np.stack([h, r, t], 1).astype(np.int32), axis=0)
    parts = np.split(ids[rng.permutation(len(ids))], [92_000, 103_500])[:3]
    train, valid, test = (
        np.ascontiguousarray(part[:limit]) for part, limit in zip(parts, (92_000, 11_500, 11_500), strict=True)
    )
    names = [tuple(f"{kind}{i}" for i in range(n)) for kind, n in (("e", entities), ("r", relations))]
    return KnowledgeGraph(names[0], names[1], train, valid, test)


def best_of(repeats: int, work: Callable[[], None]) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


class Ours:
    """Triples per second of our kernels."""

    def __init__(self, graph: KnowledgeGraph, name: str, threads: int) -> None:
        """Tables at their start; the kernels are compiled here."""
        self.graph, self.model, self.kernels = graph, MODELS[name](DIM), Fused(threads)
        model = self.model
        entity = start_rows(model, model.entity_width, 1, np.arange(len(graph.entities)))
        relation = start_rows(model, model.relation_width, 2, np.arange(len(graph.relations)))
        self.tables, self.positives = Tables(entity, relation), positives(graph)
        self.questions, _ = questions(graph.test, graph.known(), len(graph.relations))
        self.train("own", 0.0, BATCH, 1)
        self.rank(1)

    def train(self, sampling: str, pull: float, triples: int, repeats: int) -> float:
        """One epoch over the first `triples` triples."""
        local = Local(epochs=1, batch=BATCH, negatives=NEGATIVES, sampling="own" if sampling == "own" else "shared")
        tables = self.tables.copy()
        moments, known = Moments.zeros(tables), self.tables.entity.copy()
        part = Positives(self.positives.triples[:triples], self.positives.group[:triples], *self.positives[2:])
        knowledge = Knowledge(known, known[:0])

        def work() -> None:
            self.kernels.train(self.model, local, Absorb(pull=pull), tables, moments, knowledge, part, 7)

        return len(part.triples) / best_of(repeats, work)

    def rank(self, repeats: int) -> float:
        """Filtered tail ranks of the test triples."""
        given, relation = self.tables.entity[self.questions.given], self.tables.relation[self.questions.relation]
        queries = np.ascontiguousarray(self.model.compose(given, relation), np.float32)

        def work() -> None:
            self.kernels.ranks(self.model, self.tables, queries, self.questions)

        return len(self.questions.truth) / best_of(repeats, work)


class Peer:
    """Triples per second of PyKEEN with the same loss, optimiser, filtered negatives and sizes."""

    def __init__(self, graph: KnowledgeGraph, name: str, threads: int) -> None:
        """PyKEEN's model, loss and optimiser."""
        import logging
        import warnings

        import torch
        from pykeen.losses import NSSALoss
        from pykeen.models import ComplEx, RotatE, TransE
        from pykeen.triples import CoreTriplesFactory

        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        torch.set_num_threads(threads)
        self.graph, self.name = graph, name
        triples = torch.from_numpy(graph.train[: BATCH * PEER_BATCHES[name]].astype(np.int64))
        self.factory = CoreTriplesFactory(triples, len(graph.entities), len(graph.relations))
        loss = NSSALoss(margin=10.0, adversarial_temperature=1.0)
        kinds = {"transe": TransE, "rotate": RotatE, "complex": ComplEx}
        extra = {"scoring_fct_norm": 1} if name == "transe" else {}
        self.model = kinds[name](
            triples_factory=self.factory, embedding_dim=DIM, loss=loss, random_seed=0, regularizer=None, **extra
        )

    def train(self, repeats: int) -> float:
        """One epoch over a few batches, own negatives, dense Adam."""
        from pykeen.training import SLCWATrainingLoop
        from torch.optim import Adam

        optimizer = Adam(self.model.parameters(), lr=1e-3)
        sampling = {"num_negs_per_pos": NEGATIVES, "corruption_scheme": ("tail",), "filtered": True}

        def work() -> None:  # a loop of its own each time: a loop that has made its epochs would do nothing
            SLCWATrainingLoop(
                model=self.model,
                triples_factory=self.factory,
                optimizer=optimizer,
                negative_sampler="basic",
                negative_sampler_kwargs=sampling,
            ).train(self.factory, num_epochs=1, batch_size=BATCH, use_tqdm=False, use_tqdm_batch=False)

        return len(self.factory.mapped_triples) / best_of(repeats, work)

    def rank(self, repeats: int) -> float:
        """Filtered tail ranks of some test triples."""
        import torch
        from pykeen.evaluation import RankBasedEvaluator

        test = torch.from_numpy(self.graph.test[: PEER_RANKS[self.name]].astype(np.int64))
        known = [
            torch.from_numpy(part.astype(np.int64)) for part in (self.graph.train, self.graph.valid, self.graph.test)
        ]

        def work() -> None:
            RankBasedEvaluator(filtered=True).evaluate(
                self.model, test, additional_filter_triples=known, batch_size=64, use_tqdm=False, targets=["tail"]
            )

        return len(test) / best_of(repeats, work)


def row(*cells: str) -> None:
    """One line of the table."""
    print(f"{cells[0]:8} {cells[1]:7}" + "".join(f"{cell:>14}" for cell in cells[2:]), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with fb15k-237-fed3.parquet")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="only our own figures")
    parser.add_argument("--json", action="store_true", help="print the ratios as JSON on the last line")
    options = parser.parse_args()
    if options.data:
        graph = next(iter(Federation.read(options.data / "fb15k-237-fed3.parquet").graphs.values()))
    else:
        graph = synthetic_graph()
    kind = "first client of FB15k-237-Fed3" if options.data else "synthetic graph"
    print(
        f"{kind}: {len(graph.train):,} triples, {len(graph.entities):,} entities; dim {DIM}, batch {BATCH}, "
        f"{NEGATIVES} negatives, {options.threads} threads, best of {options.repeats}"
    )
    row("", "", "own, pull", "shared", "ranking")
    ratios: dict[str, dict[str, object]] = {"train": {}, "rank": {}}
    for name in options.models:
        ours = Ours(graph, name, options.threads)
        own = ours.train("own", 3e-3, len(graph.train), options.repeats)
        shared = ours.train("shared", 0.0, len(graph.train), options.repeats)
        rank = ours.rank(options.repeats)
        row(NAMES[name], "ours", f"{own:,.0f}/s", f"{shared:,.0f}/s", f"{rank:,.0f}/s")
        if options.no_peer:
            continue
        peer = Peer(graph, name, options.threads)
        peer.train(1)
        their_train, their_rank = peer.train(options.repeats), peer.rank(options.repeats)
        row("", "PyKEEN", f"{their_train:,.0f}/s", "", f"{their_rank:,.0f}/s")
        row("", "ratio", *(f"{x:.0f}×" for x in (own / their_train, shared / their_train, rank / their_rank)))
        ratios["train"][name] = {"own": round(own / their_train, 1), "shared": round(shared / their_train, 1)}
        ratios["rank"][name] = round(rank / their_rank, 1)
    if options.json:
        print(json.dumps(ratios))


if __name__ == "__main__":
    main()
