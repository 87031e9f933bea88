"""PyKEEN with the same loss, optimiser, filtered negatives and sizes as ours: triples per second."""

import numpy as np

from ours import BATCH, DIM, NEGATIVES, best_of
from pfedeg.graphs.knowledge_graph import KnowledgeGraph

BATCHES = {"transe": 8, "rotate": 4, "complex": 3}  # it is slow: a few batches tell its speed
RANKS = {"transe": 256, "rotate": 128, "complex": 512}


class PyKEEN:
    """Its model and loss on the first triples of a graph."""

    def __init__(self, graph: KnowledgeGraph, name: str, threads: int, least: float) -> None:
        """ComplEx without its default regulariser, which ours does not have."""
        import logging
        import warnings

        import torch
        from pykeen.losses import NSSALoss
        from pykeen.models import ComplEx, RotatE, TransE
        from pykeen.triples import CoreTriplesFactory

        for chatty in ("pykeen", "torch_max_mem"):
            logging.getLogger(chatty).setLevel(logging.ERROR)
        warnings.simplefilter("ignore")
        torch.set_num_threads(threads)
        self.graph, self.name, self.least = graph, name, least
        triples = torch.from_numpy(graph.train[: BATCH * BATCHES[name]].astype(np.int64))
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

        work()  # the first is slower
        return len(self.factory.mapped_triples) / best_of(repeats, work, self.least)

    def rank(self, repeats: int) -> float:
        """Filtered tail ranks of some test triples."""
        import torch
        from pykeen.evaluation import RankBasedEvaluator

        test = torch.from_numpy(self.graph.test[: RANKS[self.name]].astype(np.int64))
        known = [
            torch.from_numpy(part.astype(np.int64)) for part in (self.graph.train, self.graph.valid, self.graph.test)
        ]

        def work() -> None:
            RankBasedEvaluator(filtered=True).evaluate(
                self.model, test, additional_filter_triples=known, batch_size=64, use_tqdm=False, targets=["tail"]
            )

        return len(test) / best_of(repeats, work, self.least)
