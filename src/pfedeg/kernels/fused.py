"""The kernels that run: numba's, behind the interface of `Kernels`."""

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.kernels import Absorb, Knowledge, Local, Moments, Positives, Questions, Tables, epoch_keys, passes, ranking
from pfedeg.kernels.jit import Team
from pfedeg.kernels.scratch import apart_if_narrow, make_contrast, make_scratch, make_settings
from pfedeg.models import Mat, Model


class Fused:
    """`Kernels` compiled by numba, run by a team of threads."""

    def __init__(self, threads: int = 1) -> None:
        """Results are the same for any number of threads."""
        self._team = Team(threads)

    def train(
        self,
        model: Model,
        local: Local,
        absorb: Absorb,
        tables: Tables,
        moments: Moments,
        knowledge: Knowledge,
        positives: Positives,
        key: int,
    ) -> float:
        """See `Kernels.train`."""
        n = len(positives.triples)
        keys = [epoch_keys(key, epoch) for epoch in range(local.epochs)]
        orders = np.stack([randomness.permutation(order, n) for order, _ in keys])
        negative_keys = np.array([negative for _, negative in keys], np.uint64)
        settings = make_settings(local, absorb)
        chunk = local.chunk if local.sampling == "shared" else None
        scratch = make_scratch(settings, chunk, tables, min(local.batch, n), self._team.size)
        entity1, entity2, relation1, relation2 = (apart_if_narrow(array) for array in moments[:4])
        worked = Moments(entity1, entity2, relation1, relation2, moments.steps)
        arguments = (
            model,
            settings,
            chunk,
            make_contrast(absorb),
            tables,
            worked,
            knowledge,
            positives,
            orders,
            negative_keys,
            scratch,
        )
        self._team.run(passes.train, *arguments)
        for kept, changed in zip(moments[:4], worked[:4], strict=True):
            if kept is not changed:
                kept[...] = changed
        moments.steps[0] += local.epochs * -(-n // local.batch)
        return float(scratch.total[0]) / (n * local.epochs)

    def scores(self, model: Model, tables: Tables, queries: Mat) -> Mat:
        """See `Kernels.scores`."""
        result = np.zeros((len(queries), len(tables.entity)), np.float32)
        self._team.run(ranking.scores, model, tables.entity, queries, result)
        return result

    def ranks(self, model: Model, tables: Tables, queries: Mat, questions: Questions) -> NDArray[np.float64]:
        """See `Kernels.ranks`."""
        result = np.zeros(len(questions.truth))
        buffer = np.zeros((self._team.size, ranking.BLOCK, len(tables.entity)), np.float32)
        self._team.run(ranking.ranks, model, tables.entity, queries, questions, buffer, result)
        return result
