"""What training would cost: memory by a formula, time by a few batches on the real engine, scaled to a whole round.

Nothing here depends on which method, model, objective or optimiser it is: their own code is run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.engine.interface import cores, default_engine
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.triples import distinct
from pfedeg.methods.base import Strategy
from pfedeg.models.base import Tables
from pfedeg.training.client import Client, build_clients
from pfedeg.training.config import Config
from pfedeg.training.in_process import InProcess
from pfedeg.training.rounds import aggregate, init

CODE = 150 << 20  # bytes of compiled code, the compiler and its libraries once an engine is in use
PER_TRIPLE = 16  # bytes that training keeps per triple beside the graph
SAMPLE_BYTES = 1 << 26  # of all tables while time is measured: more than caches hold
SAMPLE_QUESTIONS = 256  # validation triples per client that are ranked
BATCHES = (1, 4, 16)  # training is repeated with more batches until it takes long enough
LONG_ENOUGH = 0.2  # seconds
LIMIT = 20.0  # seconds of measurements after which the rest is not measured
IDLE = 0.9  # processor time per elapsed time, below which other programs kept this machine busy


@dataclass(frozen=True)
class Estimate:
    """The cost of one model and method."""

    model: str
    method: str
    rounds: int  # at most; training stops when validation no longer improves
    bytes: int  # at most
    seconds_per_round: float | None  # None if it was not measured


@dataclass(frozen=True)
class Estimates:
    """The costs of several models and methods in `runs`, with the common `settings` and `threads`.

    `bytes_available` is the free memory. `busy` says that other programs kept the processor from the measurements.
    """

    settings: Mapping[str, Any]
    threads: int
    bytes_available: int | None
    busy: bool  # other programs used the processor during the measurements, which are less certain then
    runs: tuple[Estimate, ...]


def estimate(
    federation: Federation,
    entity: Shared,
    relation: Shared,
    configs: Sequence[Config],
    resident: tuple[int, int],
    threads: int | None,
    measure: bool,
    report: Callable[[str], None],
) -> Estimates:
    """The cost of each configuration; `resident` is `resident_bytes()` with nothing but the data loaded."""
    now, most = resident
    threads = threads or cores()
    timer = RoundTimer(federation, entity, threads) if measure else None
    if timer:
        report("training some batches of this data to measure time; the first use of a model compiles its code")
    runs: list[Estimate] = []
    for config in configs:
        if timer and (not runs or config.model != runs[-1].model):
            report(f"measuring {config.labels()['model']}")
        arrays = peak_bytes(config, federation, entity, relation, threads)
        seconds = timer.seconds(config) if timer else None
        size = max(most, now + CODE + arrays)
        runs.append(Estimate(config.model, config.method, config.rounds, size, seconds))
    settings = {name: getattr(configs[0], name) for name in ("dim", "batch", "negatives", "sampling")}
    available = _read_sizes("/proc/meminfo").get("MemAvailable")
    return Estimates(settings, threads, available, bool(timer and timer.busy), tuple(runs))


def peak_bytes(config: Config, federation: Federation, entity: Shared, relation: Shared, threads: int) -> int:
    """Bytes of arrays at the peak of a run: while clients train, or while a checkpoint is written."""
    model, strategy = config.build_model(), config.build_strategy(threads)
    graphs = federation.graphs.values()

    def table_bytes(entities: int, relations: int) -> int:
        return 4 * (entities * model.entity_width + relations * model.relation_width)

    best = [table_bytes(len(graph.entities), len(graph.relations)) for graph in graphs]
    pooled = config.method_type.trains == "pooled"
    tables = [table_bytes(len(entity.owners), len(relation.owners))] if pooled else best
    small = Tables(np.zeros((64, model.entity_width), np.float32), np.zeros((64, model.relation_width), np.float32))
    moments = sum(array.nbytes for array in config.build_optimizer().init(small).values()) / table_bytes(64, 64)
    keep = config.moments == "keep"
    states = sum(tables) * (1 + moments * keep)
    exchanged = mixed = 0.0
    if config.method_type.is_federated:
        widths = [table.width or model.entity_width for table in (*strategy.uploads.tables, *strategy.downloads.tables)]
        rows = sum(map(len, entity.travelling.values()))
        exchanged = 4 * sum(widths) * rows
        mixed = 4 * sum(widths[: len(strategy.uploads.tables)]) * rows  # the uploads before the best tables
    kept = states + sum(tables) + sum(best) + exchanged + mixed + PER_TRIPLE * sum(len(graph.train) for graph in graphs)
    active = sum(sorted(tables)[-threads:])  # clients that train at the same time
    knowledge = bool(strategy.absorb.pull or strategy.absorb.contrast)
    training = states + exchanged / 2 + active * (1 + knowledge + moments * (not keep))
    checkpoint = 2 * (states + sum(best) + mixed)  # its arrays, and the bytes of the file
    return round(kept + max(training, checkpoint))


class RoundTimer:
    """Measures the parts of a round on a sample of the federation. Methods that train alike are measured once."""

    def __init__(self, federation: Federation, entity: Shared, threads: int) -> None:
        """Of a federation whose entities are aligned."""
        self._graphs, self._entity, self._threads = federation.graphs, entity, threads
        self._engine, self._measured = default_engine(threads), dict[Any, float]()
        self._elapsed = self._worked = 0.0  # seconds, and seconds of processors

    @property
    def busy(self) -> bool:
        """Whether other programs used the processor so much that this one had to wait."""
        return self._worked < IDLE * self._elapsed

    def seconds(self, config: Config) -> float | None:
        """A round with its share of an evaluation; None if measurements have taken too long already."""
        if self._elapsed > LIMIT:
            return None
        absorb, pooled = config.build_strategy(self._threads).absorb, config.method_type.trains == "pooled"
        alike = config.model, config.epochs, bool(absorb.pull), bool(absorb.contrast), pooled
        seconds = config.fraction * self._once(("training", *alike), partial(self._training, config, pooled))
        seconds += self._once(("ranking", config.model), partial(self._ranking, config)) / config.eval_every
        if config.method_type.is_federated:
            server = self._once(("server", config.model, config.method), partial(self._server, config))
            seconds += server * (1 + (config.evaluate == "after_aggregation") / config.eval_every)
        return seconds

    def _once(self, key: Any, measure: Callable[[], float]) -> float:
        if key not in self._measured:
            self._measured[key] = measure()
        return self._measured[key]

    def _time(self, work: Callable[[], object]) -> float:
        """Elapsed seconds without waiting for other programs."""
        began, before = time.perf_counter(), time.process_time()
        work()
        elapsed, worked = time.perf_counter() - began, time.process_time() - before
        self._elapsed += elapsed
        self._worked += worked
        return min(elapsed, worked)

    def _training(self, config: Config, pooled: bool) -> float:
        """Seconds in which all clients train, in proportion to the work of the largest ones."""
        sizes = [(len(graph.train), len(graph.entities)) for graph in self._graphs.values()]
        if pooled:
            sizes = [(sum(triples for triples, _ in sizes), len(self._entity.owners))]
        points: list[tuple[int, float]] = []  # work and seconds
        rows, states = 0, None
        for batches in BATCHES:
            strategy, shared, clients = self._sample(config, batches * config.batch, pooled)
            largest = sorted(clients, key=lambda name: -len(clients[name].graph.entities))[: self._threads]
            transport = InProcess(clients, self._engine, states)
            states = transport.states
            width = config.build_model().entity_width
            _, downloads = aggregate(strategy, init(strategy, shared), shared, transport.uploads(), largest, width)
            train = partial(transport.exchange, 1, downloads)
            if not points:
                train()  # compiles
            sampled = [(len(clients[name].graph.train), len(clients[name].graph.entities)) for name in largest]
            points.append((_work(config, sampled), self._time(train)))
            rows = sum(entities for _, entities in sampled)
            if points[-1][1] > LONG_ENOUGH:
                break
        (less, first), (more, last) = points[0], points[-1]
        per_work = (last - first) / (more - less) if last > first and more > less else last / more
        per_round = max(0.0, last - per_work * more)  # for tables as a whole, such as copies
        return per_round * sum(entities for _, entities in sizes) / rows + per_work * _work(config, sizes)

    def _server(self, config: Config) -> float:
        """Seconds of the server's half of a round."""
        strategy, shared, clients = self._sample(config, config.batch)
        uploads, state = InProcess(clients, self._engine).uploads(), init(strategy, shared)
        width = config.build_model().entity_width
        work = partial(aggregate, strategy, state, shared, uploads, shared.clients, width)
        work()  # compiles
        rows, sampled = (sum(map(len, each.travelling.values())) for each in (self._entity, shared))
        return self._time(work) * rows / max(sampled, 1)

    def _ranking(self, config: Config) -> float:
        """Seconds in which the validation triples of all clients are ranked."""
        whole = sum(map(_scores, self._graphs.values()))
        if not whole:
            return 0.0
        clients = self._sample(config, config.batch)[-1]
        transport = InProcess(clients, self._engine)
        name = max(clients, key=lambda name: _scores(clients[name].graph))
        work = partial(transport.measure, {name: transport.states[name].tables}, "valid")
        work()  # compiles
        return self._time(work) * whole / _scores(clients[name].graph)

    def _sample(
        self, config: Config, triples: int, pooled: bool = False
    ) -> tuple[Strategy, Shared, dict[ClientId, Client]]:
        """All clients, cut to this number of training triples, and to fewer entities if their tables are large."""
        size = 4 * config.build_model().entity_width * sum(map(len, self._entity.ids.values()))
        share = min(1.0, SAMPLE_BYTES / size)
        graphs = {name: _shrink(graph, share, triples) for name, graph in self._graphs.items()}
        shared = Shared({name: self._entity.ids[name][: len(graph.entities)] for name, graph in graphs.items()})
        if pooled:
            graphs = {"pool": Federation(graphs).merged()}
            shared = Federation(graphs).shared()
        strategy = config.build_strategy(self._threads)
        return strategy, shared, build_clients(graphs, shared, config, strategy)


def _shrink(graph: KnowledgeGraph, share: float, triples: int) -> KnowledgeGraph:
    """Some triples, taken evenly from all of them, between the first entities."""
    entities = ceil(share * len(graph.entities))
    train, valid = (
        split[np.linspace(0, len(split) - 1, min(number, len(split))).astype(np.intp)] % (entities, 1 << 30, entities)
        for split, number in ((graph.train, triples), (graph.valid, SAMPLE_QUESTIONS))
    )
    parts = (part.astype(np.int32) for part in (train, valid, graph.test[:0]))
    return KnowledgeGraph(graph.entities[:entities], graph.relations, *parts)


def _work(config: Config, sizes: Sequence[tuple[int, int]]) -> int:
    """The rows of entity tables that an epoch visits, from the numbers of triples and entities."""
    return sum(triples * config.negatives + ceil(triples / config.batch) * entities for triples, entities in sizes)


def _scores(graph: KnowledgeGraph) -> int:
    """How many scores a ranking of the validation triples computes."""
    questions = distinct(graph.valid[:, 0].astype(np.int64) * len(graph.relations) + graph.valid[:, 1])
    return len(questions) * len(graph.entities)


def resident_bytes() -> tuple[int, int]:
    """Memory of this process, now and at most; 0 where the system does not tell."""
    sizes = _read_sizes("/proc/self/status")
    return sizes.get("VmRSS", 0), sizes.get("VmHWM", 0)


def _read_sizes(path: str) -> dict[str, int]:
    """Lines such as "VmRSS: 1234 kB" of a file in /proc, in bytes."""
    try:
        lines = [line.split() for line in Path(path).read_text().splitlines() if line.endswith(" kB")]
    except OSError:
        return {}
    return {name.rstrip(":"): int(number) << 10 for name, number, _ in lines}
