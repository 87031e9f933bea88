"""The compiled engine: calls numba's code with padded tables and the memory that it needs."""

import numpy as np
from numpy.typing import NDArray

from pfedeg import aligned_arrays, randomness
from pfedeg.engine.compiled import ranking, workspace
from pfedeg.engine.compiled.lanes.operations import MODELS, QUERIES
from pfedeg.engine.compiled.training_loop import train
from pfedeg.engine.compiled.workspace import LOSS, Moments, pad, unpad
from pfedeg.engine.interface import Knowledge, Positives, Questions, Recipe, epoch_keys
from pfedeg.engine.lowlevel.compile import Team
from pfedeg.engine.reference import NumpyEngine
from pfedeg.models.base import Mat, Model, Tables
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam
from pfedeg.optimizers.base import OptimizerState


def has_compiled_code(recipe: Recipe) -> bool:
    """Whether a recipe trains with compiled code; subclasses may compute something else, so their code is not used."""
    return type(recipe.model) in MODELS and type(recipe.optimizer) is Adam and type(recipe.objective) is SelfAdversarial


class CompiledEngine:
    """`Engine` compiled by numba, run by a team of threads; what has no compiled code runs in numpy."""

    def __init__(self, threads: int = 1) -> None:
        """Results are the same for any number of threads."""
        self.threads = threads
        self._team, self._numpy = Team(threads), NumpyEngine()

    def single(self) -> "CompiledEngine":
        """See `MultiThreaded.single`."""
        return CompiledEngine(1)

    def stop(self) -> None:
        """See `SingleThreaded.stop`."""
        self._numpy.stop()
        self._team.stop()

    def train(
        self, recipe: Recipe, tables: Tables, state: OptimizerState, knowledge: Knowledge, data: Positives, key: int
    ) -> float:
        """See `Engine.train`."""
        model, batches, absorb = recipe.model, recipe.batches, recipe.absorb
        adam, objective = recipe.optimizer, recipe.objective
        if not has_compiled_code(recipe) or not (isinstance(adam, Adam) and isinstance(objective, SelfAdversarial)):
            return self._numpy.train(recipe, tables, state, knowledge, data, key)
        n, done = len(data.triples), int(state["steps"][0])
        steps = batches.epochs * -(-n // batches.size)
        keys = [epoch_keys(key, epoch) for epoch in range(batches.epochs)]
        orders = np.stack([randomness.permutation(order, n) for order, _ in keys])
        negative_keys = np.array([negative for _, negative in keys], np.uint64)
        settings = workspace.make_settings(batches, objective, adam, absorb, len(tables.entity))
        chunk = batches.chunk if batches.sampling == "shared" else None
        moments = Moments(*(state[name] for name in Moments._fields))
        padded = Tables(*(pad(model, table) for table in tables))
        padded_moments = Moments(*(pad(model, moment) for moment in moments))
        rates = workspace.make_rates(adam, done, steps)
        w = workspace.make_workspace(settings, chunk, padded, min(batches.size, n), self._team.size)
        w.rows.steps[:] = 0 if done else -1
        knowledge = Knowledge(*(pad(model, rows) for rows in knowledge))
        arguments = padded, padded_moments, knowledge, data, orders, negative_keys, rates, w
        self._team.run(train, model, settings, chunk, *arguments)
        for changed, kept in zip((*padded, *padded_moments), (*tables, *moments), strict=True):
            unpad(model, changed, kept)
        state["steps"][0] += steps
        return float(w.total[LOSS]) / (n * batches.epochs)

    def scores(self, model: Model, tables: Tables, queries: Mat) -> Mat:
        """See `Engine.scores`."""
        if type(model) not in MODELS:
            return self._numpy.scores(model, tables, queries)
        blocks = -(-len(queries) // QUERIES)
        result = aligned_arrays.zeros((blocks, len(tables.entity), QUERIES), np.float32)
        entity, queries = pad(model, tables.entity), pad(model, queries)
        w = ranking.make_workspace(self._team.size, entity.shape[1])
        self._team.run(ranking.scores, model, entity, queries, w, result)
        return result.transpose(0, 2, 1).reshape(-1, len(tables.entity))[: len(queries)]

    def ranks(self, model: Model, tables: Tables, queries: Mat, questions: Questions) -> NDArray[np.float64]:
        """See `Engine.ranks`."""
        if type(model) not in MODELS:
            return self._numpy.ranks(model, tables, queries, questions)
        result, truths = np.zeros(len(questions.truth)), np.zeros(len(questions.truth), np.float32)
        entity, queries = pad(model, tables.entity), pad(model, queries)
        w = ranking.make_workspace(self._team.size, entity.shape[1])
        self._team.run(ranking.ranks, model, entity, queries, questions, w, truths, result)
        return result
