"""A federation: the clients' graphs by name, and their alignment."""

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId, Shared, align, pack_tokens, token
from pfedeg.graphs.federation_files import read_clients, write_clients
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.graphs.naming import Naming
from pfedeg.graphs.splitting import partition_relations
from pfedeg.graphs.triples import Ids, Named, normal, sorted_unique

WORLD = Path(__file__).parent / "world"


class Federation:
    """The knowledge graph of every client, sorted by client name. `source` is the path in reports."""

    def __init__(self, graphs: Mapping[ClientId, KnowledgeGraph], source: str = "") -> None:
        """Check that every client has training triples."""
        if not graphs:
            raise InputError("a federation needs at least one client")
        for client, graph in graphs.items():
            if not len(graph.train):
                raise InputError(f"client {client!r} has no training triples; add some or remove the client")
        self.graphs = {normal(client): graphs[client] for client in sorted(graphs, key=normal)}
        if len(self.graphs) < len(graphs):
            raise InputError("two clients have the same name; only their Unicode forms differ")
        self.source = source

    @classmethod
    def read(cls, path: str | Path, seed: int = 0, naming: Naming | None = None) -> "Federation":
        """Read a folder with a subfolder per client, or a Parquet file; unsplit clients are split by the seed.

        With `naming`, names are rewritten as `pfedeg import` does, before the graph is split.
        "world" is the embedded federation, unless a file or folder of that name exists.
        """
        path = Path(path)
        if str(path) == "world" and not path.exists():
            return cls(read_clients(WORLD, 0, naming), "world")
        return cls(read_clients(path, seed, naming), os.fsencode(path).decode(errors="replace"))

    @classmethod
    def world(cls) -> "Federation":
        """The small federation in this package: facts about the world from GeoNames."""
        return cls(read_clients(WORLD, 0), "world")

    def write(self, folder: Path) -> None:
        """Write a folder with a subfolder per client, atomically."""
        write_clients(self.graphs, folder)

    def shared(self, kind: Literal["entity", "relation"] = "entity", secret: bytes = b"") -> Shared:
        """The alignment of the clients' entities or relations by name."""
        names = {c: g.entities if kind == "entity" else g.relations for c, g in self.graphs.items()}
        tokens = {name: token(name, secret) for name in set().union(*names.values())}
        return align({client: pack_tokens([tokens[name] for name in part]) for client, part in names.items()})

    def merged(self) -> KnowledgeGraph:
        """One graph with the union of all training triples and entities, as Collective trains it."""
        entities = tuple(sorted({name for graph in self.graphs.values() for name in graph.entities}))
        relations = tuple(sorted({name for graph in self.graphs.values() for name in graph.relations}))
        parts = []
        for graph in self.graphs.values():
            entity, relation = positions(graph.entities, entities), positions(graph.relations, relations)
            h, r, t = graph.train.T
            parts.append(np.stack([entity[h], relation[r], entity[t]], 1))
        train = sorted_unique(np.concatenate(parts), len(entities), len(relations))
        return KnowledgeGraph(entities, relations, train, train[:0], train[:0])

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The display label of every name that has one at some client; the first client's if they differ."""
        found: dict[str, str] = {}
        for graph in reversed(self.graphs.values()):
            found |= graph.own_labels
        return found

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all names and triples, the same for equal data from any source."""
        digest = hashlib.sha256()
        for client, graph in self.graphs.items():
            for text in (client, *graph.entities, *graph.relations):
                raw = text.encode()
                digest.update(len(raw).to_bytes(8, "little") + raw)
            for split in SPLITS:
                triples = graph.triples(split)
                digest.update(len(triples).to_bytes(8, "little") + triples.astype("<i4").tobytes())
        return digest.hexdigest()


def partition(triples: Named, clients: int, seed: int, labels: Mapping[str, str] | None = None) -> Federation:
    """A federation from one graph: its relations distributed evenly at random, each client split anew."""
    return Federation(partition_relations(triples, clients, seed, labels))


def positions(names: tuple[str, ...], among: tuple[str, ...]) -> Ids:
    """The position of each name in `among`."""
    position = {name: i for i, name in enumerate(among)}
    return np.array([position[name] for name in names], np.int32)
