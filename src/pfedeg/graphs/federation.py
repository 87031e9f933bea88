"""A federation: the clients' graphs by name, and their alignment."""

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

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
    """The knowledge graph of every client in `graphs`, sorted by name. `source` is the name of the data in reports."""

    def __init__(self, graphs: Mapping[ClientId, KnowledgeGraph], source: str = "") -> None:
        """Check that every client has training triples."""
        if not isinstance(graphs, Mapping):
            raise InputError(f"expected the clients' graphs by name, not {graphs!r:.80}{_reading(graphs)}")
        if not graphs:
            raise InputError("a federation needs at least one client")
        for client, graph in graphs.items():
            if not isinstance(client, str):
                raise InputError(f"client {client!r}: its name is not a text")
            if not isinstance(graph, KnowledgeGraph):
                hint = "`pfedeg.KnowledgeGraph.from_names(triples)` makes one from (head, relation, tail) triples"
                raise InputError(f"client {client!r}: expected a KnowledgeGraph, not {graph!r:.80}; {hint}")
            if not len(graph.train):
                raise InputError(f"client {client!r} has no training triples; add some or remove the client")
        self.graphs = {normal(client): graphs[client] for client in sorted(graphs, key=normal)}
        if len(self.graphs) < len(graphs):
            raise InputError("two clients have the same name; only their Unicode forms differ")
        self.source = source

    @classmethod
    def read(cls, path: str | Path, seed: int = 0, naming: Naming | None = None) -> "Federation":
        """Read a folder with a subfolder per client, or a Parquet file, at `path`; unsplit clients are split by `seed`.

        With `naming`, names are rewritten as `pfedeg import` does, before the graph is split.
        "world" is the embedded federation, unless a file or folder of that name exists.
        """
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"expected the path of a folder or Parquet file, not {path!r:.80}")
        path = Path(path)
        if str(path) == "world" and not path.exists():
            return cls(read_clients(WORLD, 0, naming), "world")
        return cls(read_clients(path, seed, naming), os.fsencode(path).decode(errors="replace"))

    @classmethod
    def world(cls) -> "Federation":
        """The small federation in this package: facts about the world from GeoNames."""
        return cls(read_clients(WORLD, 0), "world")

    def write(self, folder: Path, force: bool = False) -> None:
        """Write a folder with a subfolder per client, atomically; `force` replaces such a folder."""
        write_clients(self.graphs, folder, force)

    def shared(self, kind: Literal["entity", "relation"] = "entity", secret: bytes = b"") -> Shared:
        """The alignment of the clients' entities or relations (`kind`) by name; `secret` is that of a network run."""
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


def require_federation(value: Any) -> Federation:
    """The federation; InputError with the likely fix if it is something else, such as a path."""
    if isinstance(value, Federation):
        return value
    hint = _reading(value)
    if isinstance(value, Mapping):
        hint = "; `pfedeg.Federation(graphs)` makes one from the clients' graphs by name"
    elif callable(value):
        hint = "; did you forget the parentheses?"
    found = "a mapping" if isinstance(value, Mapping) else f"{value!r:.80}"
    raise InputError(f"expected a Federation, not {found}{hint or '; `pfedeg.Federation.read(path)` reads one'}")


def _reading(value: Any) -> str:
    """How to make a federation from something that was given in its place."""
    if not isinstance(value, str | os.PathLike):
        return ""
    if os.fspath(value) == "world" and not Path("world").exists():
        return "; did you mean `pfedeg.Federation.world()`?"
    return f"; did you mean `pfedeg.Federation.read({os.fspath(value)!r})`?"


def partition(triples: Named, clients: int, seed: int, labels: Mapping[str, str] | None = None) -> Federation:
    """A federation from one graph: its relations distributed evenly at random, each client split anew."""
    return Federation(partition_relations(triples, clients, seed, labels))


def positions(names: tuple[str, ...], among: tuple[str, ...]) -> Ids:
    """The position of each name in `among`."""
    position = {name: i for i, name in enumerate(among)}
    return np.array([position[name] for name in names], np.int32)
