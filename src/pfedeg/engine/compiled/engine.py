"""The kernels that run: numba's, behind the interface of `Kernels`."""

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.engine.compiled import ranking
from pfedeg.engine.compiled import training_loop as passes
from pfedeg.engine.compiled.lanes import QUERIES
from pfedeg.engine.compiled.workspace import make_contrast, make_rates, make_scratch, make_settings, narrow, widen
from pfedeg.engine.interface import Absorb, Knowledge, Local, Moments, Positives, Questions, Tables, epoch_keys
from pfedeg.engine.lowlevel import aligned_arrays
from pfedeg.engine.lowlevel.compile import Team
from pfedeg.models.base import Mat, Model


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
        settings = make_settings(local, absorb, len(tables.entity))
        chunk = local.chunk if local.sampling == "shared" else None
        wide = Tables(*(widen(model, table) for table in tables))
        known = Knowledge(*(widen(model, rows) for rows in knowledge))
        entity1, entity2, relation1, relation2 = (widen(model, array) for array in moments[:4])
        worked = Moments(entity1, entity2, relation1, relation2, moments.steps)
        done, steps = int(moments.steps[0]), local.epochs * -(-n // local.batch)
        scratch = make_scratch(settings, chunk, wide, min(local.batch, n), self._team.size)
        scratch.steps[:] = 0 if done else -1
        arguments = (
            model,
            settings,
            chunk,
            make_contrast(absorb),
            wide,
            worked,
            known,
            positives,
            orders,
            negative_keys,
            make_rates(local, done, steps),
            scratch,
        )
        self._team.run(passes.train, *arguments)
        for changed, kept in zip((*wide, *worked[:4]), (*tables, *moments[:4]), strict=True):
            narrow(model, changed, kept)
        moments.steps[0] += steps
        return float(scratch.total[0]) / (n * local.epochs)

    def scores(self, model: Model, tables: Tables, queries: Mat) -> Mat:
        """See `Kernels.scores`."""
        blocks = -(-len(queries) // QUERIES)
        result = aligned_arrays.zeros((blocks, len(tables.entity), QUERIES), np.float32)
        entity, queries = widen(model, tables.entity), widen(model, queries)
        room = ranking.make_room(self._team.size, entity.shape[1])
        self._team.run(ranking.scores, model, entity, queries, room, result)
        return result.transpose(0, 2, 1).reshape(-1, len(tables.entity))[: len(queries)]

    def ranks(self, model: Model, tables: Tables, queries: Mat, questions: Questions) -> NDArray[np.float64]:
        """See `Kernels.ranks`."""
        result, truths = np.zeros(len(questions.truth)), np.zeros(len(questions.truth), np.float32)
        entity, queries = widen(model, tables.entity), widen(model, queries)
        room = ranking.make_room(self._team.size, entity.shape[1])
        blocks = min(ranking.BLOCKS, -(-len(queries) // (QUERIES * self._team.size)))  # work for every thread
        self._team.run(ranking.ranks, model, entity, queries, questions, blocks, room, truths, result)
        return result
