"""How much memory a run takes at most: what is kept of tables, moments, uploads and checkpoints, and when."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfedeg.models.base import Tables
from pfedeg.engine.compiled.workspace import make_scratch, make_settings
from pfedeg.engine.lowlevel.vectors import WIDE
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.training.config import Config
from pfedeg.training.schedule import side_by_side

FLOAT = 4  # bytes
CODE = 55 << 20  # bytes of machine code and its library once engine are in use
SLACK = 1.15  # arrays and what lies unused between them; 0.96 to 1.18 in five runs that were looked at
START = 6  # tables, which are three of 64-bit numbers, while one is drawn
QUESTIONS = 4  # tables of a row per question, while queries are composed
SORTING = 60  # bytes per triple while the known answers are sorted
GROUPS = 16  # bytes per training triple that stay: its group and the known tails
SHUFFLING = 32  # bytes per training triple while an epoch's order is drawn


@dataclass(frozen=True)
class Outline:
    """As much of a client as its cost depends on."""

    entities: int
    relations: int
    train: int
    held: int  # valid and test triples, of the larger split
    travelling: int  # entities that others have too


def outlines(federation: Federation, entity: Shared) -> dict[ClientId, Outline]:
    """Of every client."""
    return {
        client: Outline(
            entities=len(graph.entities),
            relations=len(graph.relations),
            train=len(graph.train),
            held=max(len(graph.valid), len(graph.test)),
            travelling=len(entity.travelling[client]),
        )
        for client, graph in federation.graphs.items()
    }


def pool(clients: Mapping[ClientId, Outline], entity: Shared, relation: Shared) -> Outline:
    """All clients' triples as one graph, for Collective; triples of several clients count for each of them."""
    train = sum(each.train for each in clients.values())
    return Outline(len(entity.owners), len(relation.owners), train, 0, 0)


def peak(config: Config, clients: Mapping[ClientId, Outline], pooled: Outline, threads: int) -> int:
    """Most bytes that arrays of a run take at a time, beside the program and the data."""
    run = _Run(config, threads)
    members = list(clients.values())
    trainers = [pooled] if config.method == "collective" else members
    tables = sum(map(run.tables, trainers))
    rows = sum(map(run.rows, trainers))
    states = 3 * tables if run.keeps else tables
    best = sum(map(run.tables, members))
    groups = GROUPS * sum(each.train for each in members + ([pooled] if config.method == "collective" else []))
    final = rows if config.evaluate == "after_aggregation" else 0
    rest = groups + states + tables + best + 2 * rows + final  # tables: those that were evaluated last
    most = max(
        groups + tables + START * max(map(run.tables, trainers)),
        rest + states + rows + run.training(trainers),  # until all clients are done, the states before are kept
        rest + states + max(map(run.ranking, members)),
        rest + 2 * (states + best),  # a checkpoint is put together, and then becomes a file's bytes
    )
    return round(SLACK * most)


class _Run:
    """The sizes of things in a run."""

    def __init__(self, config: Config, threads: int) -> None:
        self._threads = threads
        self._model, self._local, strategy = config.build_model(), config.build_local(), config.build_strategy()
        self._absorb, self._shares = strategy.absorb, strategy.shares is not None
        self.keeps = config.moments == "keep"

    def tables(self, client: Outline) -> int:
        """An entity and a relation table."""
        return FLOAT * (client.entities * self._model.entity_width + client.relations * self._model.relation_width)

    def rows(self, client: Outline) -> int:
        """An upload, or a download."""
        return FLOAT * client.travelling * self._model.entity_width if self._shares else 0

    def ranking(self, client: Outline) -> int:
        """Of one client at a time."""
        return QUESTIONS * FLOAT * client.held * self._model.entity_width + SORTING * client.train

    def training(self, clients: list[Outline]) -> int:
        """What training takes beside tables that stay: of some clients at the same time, or of the largest."""
        local = self._local
        work = [each.train * local.negatives + -(-each.train // local.batch) * each.entities for each in clients]
        together = [clients[place] for place in side_by_side(work, self._threads)]
        at_once = sorted(together, key=self.tables, reverse=True)[: self._threads]
        alone = max(clients, key=self.tables)
        return max(sum(self._step(each, 1) for each in at_once), self._step(alone, self._threads))

    def _step(self, client: Outline, threads: int) -> int:
        local, absorb, model = self._local, self._absorb, self._model
        table = self.tables(client)
        knowledge = table if absorb.pull or absorb.contrast else 0
        moments = 0 if self.keeps else 2 * table
        widened = (table + 2 * table + knowledge) * (model.dim % WIDE > 0)
        stand_in = Tables(
            np.broadcast_to(np.float32(0), (client.entities, model.entity_width)),
            np.broadcast_to(np.float32(0), (client.relations, model.relation_width)),
        )
        chunk = local.chunk if local.sampling == "shared" else None
        settings = make_settings(local, absorb, client.entities)
        scratch = make_scratch(settings, chunk, stand_in, min(local.batch, client.train), threads)
        orders = (SHUFFLING + FLOAT * local.epochs) * client.train
        return knowledge + moments + widened + orders + scratch.nbytes


def used() -> tuple[int, int]:
    """Bytes that this process takes now, and that it has taken at most; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        found = {
            line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.startswith(("VmRSS", "VmHWM"))
        }
        return found["VmRSS"], found["VmHWM"]
    except (OSError, KeyError):
        return 0, 0


def available() -> int | None:
    """Bytes that a run could take on this machine, if the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
