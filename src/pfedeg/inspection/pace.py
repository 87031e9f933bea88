"""How long a round takes on this machine, by a few batches of real training on the federation's own triples."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from pfedeg.engine.interface import Absorb, cores, default_engine, questions
from pfedeg.graphs.alignment import Rows, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import distinct
from pfedeg.inspection.excerpt import BYTES, Excerpt, pooled, sample, whole
from pfedeg.training.config import Config
from pfedeg.training.evaluation import queries
from pfedeg.training.in_process import Local

GOAL = 0.25  # seconds of training for each measurement
BATCHES = (4, 16)  # of the largest client, at least and at most
QUESTIONS = 256
LIMIT = 20.0  # seconds after which nothing more is measured
FREE = 0.9  # on a machine that does nothing else, at least one thread works for so much of the time
TINY = Excerpt("tiny", np.stack([np.arange(8), np.zeros(8), np.arange(8)[::-1]], 1).astype(np.int32), 8, 1, 4)


class Pace:
    """Measures what several methods have in common once, when it is first asked for."""

    def __init__(self, federation: Federation, entity: Shared, relation: Shared, threads: int | None) -> None:
        """Of a federation whose entities and relations are aligned."""
        self._federation, self._entity, self._relation, self._threads = federation, entity, relation, threads or cores()
        self._engine = default_engine(threads)
        self._trained: dict[tuple[str, bool, bool, bool], tuple[float, float]] = {}
        self._ranked: dict[str, float] = {}
        self._mixed: dict[tuple[str, int], float] = {}
        self._spent = self._worked = 0.0  # seconds, and processor seconds

    @property
    def busy(self) -> bool:
        """Whether others used the machine so much that this process had to wait."""
        return self._worked < FREE * self._spent

    def _timed(self, work: Callable[[], object]) -> float:
        """Seconds that some work takes, at most those that processors worked on it: more is waiting for others."""
        began, before = time.perf_counter(), time.process_time()
        work()
        spent, worked = time.perf_counter() - began, time.process_time() - before
        self._spent += spent
        self._worked += worked
        return min(spent, worked)

    def seconds(self, config: Config) -> float | None:
        """Of one round, with its share of an evaluation; None if measuring has taken too long already."""
        assert config.epochs is not None
        assert config.eval_every is not None
        if self._spent > LIMIT:
            return None
        both = config.evaluate == "after_aggregation"
        mixing = self._mixing(config) * (1 + both / config.eval_every)
        return self._training(config) + mixing + self._evaluation(config) / config.eval_every

    def _compile(self, work: Callable[[], object]) -> None:
        """Something small for the first time, which does not count."""
        before = self._spent, self._worked
        work()
        self._spent, self._worked = before

    @cached_property
    def _clients(self) -> list[Excerpt]:
        return whole(self._federation, self._entity)

    @cached_property
    def _pool(self) -> list[Excerpt]:
        return pooled(self._federation, self._entity, self._relation)

    def _training(self, config: Config) -> float:
        absorb, alone = config.build_strategy().absorb, config.method == "collective"
        dense = absorb.pull > 0 or absorb.contrast > 0
        clients = self._pool if alone else self._clients
        chosen = sample(clients, self._threads, config.build_model().entity_width)
        way = (config.model, absorb.pull > 0, absorb.contrast > 0, alone)
        if way not in self._trained:
            self._trained[way] = self._measure(config, absorb, chosen, dense)
        fixed, unit = self._trained[way]
        larger = sum(client.entities for client in clients) / sum(client.entities for client in chosen)
        work = sum(client.work(config, dense) for client in clients) * (config.epochs or 1)
        return (fixed * larger + unit * work) * (config.fraction or 1.0)

    def _measure(self, config: Config, absorb: Absorb, chosen: Sequence[Excerpt], dense: bool) -> tuple[float, float]:
        """Seconds of a round without triples, and for each unit of work."""
        self._compile(partial(self._step, config, absorb, [TINY], 1, dense))
        self._step(config, absorb, chosen, 1, dense)  # memory is there from now on
        first, little = self._step(config, absorb, chosen, 1, dense)
        batches = int(np.clip(round(GOAL / max(first, 1e-6)), *BATCHES))
        second, more = self._step(config, absorb, chosen, batches, dense)
        unit = (second - first) / (more - little)
        if unit <= 0:  # something held up the first
            return 0.0, second / more
        return max(0.0, first - unit * little), unit

    def _step(
        self, config: Config, absorb: Absorb, chosen: Sequence[Excerpt], batches: int, dense: bool
    ) -> tuple[float, float]:
        """Seconds in which all clients train, the largest for so many batches, and how much work that is."""
        largest = max(len(client.triples) for client in chosen)
        share = min(1.0, batches * config.batch / largest)
        epochs = min(batches, -(-batches * config.batch // largest)) if share == 1.0 else 1
        parts = [client.part(share) for client in chosen]
        settings = replace(config, epochs=epochs)
        clients = {part.name: part.client(settings, absorb) for part in parts}
        states = {part.name: part.state(config.build_model()) for part in parts}
        downloads = {part.name: part.download(states[part.name]) for part in parts}
        transport = Local(clients, self._engine, states)
        work = epochs * sum(part.work(config, dense) for part in parts)
        return self._timed(partial(transport.exchange, 1, downloads)), work

    def _evaluation(self, config: Config) -> float:
        """Seconds in which the valid triples of all clients are ranked."""
        if config.model not in self._ranked:
            self._compile(partial(self._rank, config, TINY))
            (largest,) = sample(self._clients, 1, config.build_model().entity_width)
            self._ranked[config.model] = self._rank(config, largest)
        asked = 0
        for graph in self._federation.graphs.values():
            h, r, _ = graph.valid.T.astype(np.int64)
            asked += len(distinct(h * len(graph.relations) + r)) * len(graph.entities)
        return self._ranked[config.model] * asked

    def _rank(self, config: Config, client: Excerpt) -> float:
        """Seconds per question and candidate."""
        model, graph = config.build_model(), client.part(QUESTIONS / len(client.triples)).graph()
        tables = client.state(model).tables
        asked, _ = questions(graph.train, graph.known("tail", ("train",)), client.relations)
        composed = queries(model, tables, asked, "tail")
        return self._timed(partial(self._engine.ranks, model, tables, composed, asked)) / (
            len(asked.given) * client.entities
        )

    def _mixing(self, config: Config) -> float:
        """Seconds of the server's half of a round."""
        strategy, width = config.build_strategy(self._threads), config.build_model().entity_width
        if strategy.shares is None:
            return 0.0
        key = (type(strategy).__name__, width)
        if key not in self._mixed:
            rows = sum(map(len, self._entity.travelling.values()))
            every = max(1, 4 * width * rows // BYTES)
            shared = Shared({client: ids[ids % every == 0] for client, ids in self._entity.ids.items()})
            latest = {
                client: Rows(ids, np.ones((len(ids), width), np.float32)) for client, ids in shared.travelling.items()
            }
            state = strategy.init(shared)
            work = partial(strategy.aggregate, state, shared, latest, shared.clients)
            work()  # compiles
            self._mixed[key] = self._timed(work) * every
        return self._mixed[key]
