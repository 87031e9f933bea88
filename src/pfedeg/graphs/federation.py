"""A federation: the clients' graphs, how they are read and written, and how their entities align."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from pfedeg import randomness
from pfedeg.errors import InputError
from pfedeg.files import create_folder, safe_name
from pfedeg.graphs.alignment import ClientId, Shared, token
from pfedeg.graphs.knowledge_graph import (
    SPLITS,
    KnowledgeGraph,
    has_triples,
    normal,
    part_of,
    read_folder,
    sorted_unique,
    split_graph,
    write_labels,
)
from pfedeg.graphs.triples import (
    ROLES,
    Ids,
    Named,
    Triples,
    in_order,
    numbered,
    of_columns,
    read_columns,
    read_part,
    write_part,
)

IMPORTED = (".nt", ".nq", ".ttl", ".trig", ".rdf", ".owl", ".jsonld", ".csv", ".gz", ".zst", ".bz2")  # else see import


class Federation:
    """Client name → knowledge graph, ordered by name; `source` says where the graphs come from, for reports."""

    def __init__(self, graphs: Mapping[ClientId, KnowledgeGraph], source: str = "") -> None:
        """Check that every client can train."""
        if not graphs:
            raise InputError("a federation needs at least one client")
        for client, graph in graphs.items():
            if not len(graph.train):
                raise InputError(f"client {client!r} has no training triples; give it some, or leave it out")
        self.graphs = {normal(client): graphs[client] for client in sorted(graphs, key=normal)}
        if len(self.graphs) < len(graphs):
            raise InputError("two clients have the same name (they differ in Unicode form only)")
        self.source = source

    @classmethod
    def read(cls, path: str | Path, seed: int = 0) -> "Federation":
        """From a folder with a subfolder per client, or a Parquet file; unsplit clients are split by seed.

        "world", where there is no such path, is the federation that comes with the package.
        """
        path = Path(path)
        if str(path) == "world" and not path.exists():
            return cls.world()
        source = os.fsencode(path).decode(errors="replace")
        if path.is_dir():
            return cls(_read_folders(path, seed), source)
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        if path.suffix.lower() in IMPORTED:
            raise InputError(f"{path}: is not a federation; make a client of it by: pfedeg import {path} --out FOLDER")
        return cls(_read_parquet(path, seed), source)

    @classmethod
    def world(cls) -> "Federation":
        """The small federation that comes with the package: facts of the world from GeoNames."""
        return cls(_read_folders(Path(__file__).parent / "world", 0), "world")

    def write(self, folder: Path) -> None:
        """As a folder per client; all of it appears at once or not at all."""
        create_folder(folder, self._write_clients)

    def _write_clients(self, folder: Path) -> None:
        for client, graph in self.graphs.items():
            target = folder / safe_name(client)
            target.mkdir()
            for split in SPLITS:
                if len(graph.triples(split)):
                    write_part(target, split, Triples(graph.entities, graph.relations, graph.triples(split)))
            write_labels(target, graph.own_labels)

    def shared(self, kind: Literal["entity", "relation"] = "entity", secret: bytes = b"") -> Shared:
        """Aligned ids: positions in the sorted list of all clients' tokens."""
        names = {c: g.entities if kind == "entity" else g.relations for c, g in self.graphs.items()}
        tokens = {name: token(name, secret) for name in set().union(*names.values())}
        position = {token: i for i, token in enumerate(sorted(set(tokens.values())))}
        aligned = {name: position[token] for name, token in tokens.items()}
        return Shared({c: np.array([aligned[name] for name in part], np.int32) for c, part in names.items()})

    def merged(self) -> KnowledgeGraph:
        """One graph with the union of all training triples (and every entity), for Collective."""
        entities = tuple(sorted({name for graph in self.graphs.values() for name in graph.entities}))
        relations = tuple(sorted({name for graph in self.graphs.values() for name in graph.relations}))
        parts = []
        for graph in self.graphs.values():
            entity, relation = places(graph.entities, entities), places(graph.relations, relations)
            h, r, t = graph.train.T
            parts.append(np.stack([entity[h], relation[r], entity[t]], 1))
        train = sorted_unique(np.concatenate(parts), len(entities), len(relations))
        return KnowledgeGraph(entities, relations, train, train[:0], train[:0])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all names and triples: equal data have equal fingerprints, wherever they come from."""
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
    """Deal the relations evenly at random to `clients` clients and split each one's triples anew."""
    whole = Triples.of(triples)
    relations, place = in_order(whole.relations, whole.ids[:, 1], normal)
    if not 1 <= clients <= len(relations):
        raise InputError(
            f"--clients {clients}: the graph has {len(relations)} relations, so 1 to {len(relations)} clients"
        )
    order = randomness.permutation(randomness.key("partition", seed), len(relations))
    owner = np.empty(len(relations), np.int64)
    owner[order] = np.arange(len(relations)) % clients
    dealt = owner[place[whole.ids[:, 1]]]
    parts = [whole.at(dealt == client) for client in range(clients)]
    width = len(str(clients - 1))
    names = [f"client-{i:0{width}}" for i in range(clients)]
    dealt_to = {name: split_graph(part, seed, origin=name) for name, part in zip(names, parts, strict=True)}
    return Federation({name: replace(graph, labels=labels or {}) for name, graph in dealt_to.items()})


def read_pooled(path: str | Path) -> Triples:
    """All triples of one graph, its splits pooled: a TSV file, a folder of TSV or Parquet files, or a Parquet file."""
    path = Path(path)
    if path.is_dir():
        files = [file for name in (*SPLITS, "triples") if (file := part_of(path, name))]
        if not files:
            already = any(has_triples(folder) for folder in path.iterdir() if folder.is_dir())
            hint = " (its subfolders do: is it a federation already?)" if already else ""
            raise InputError(f"{path}: holds neither train.tsv nor triples.tsv{hint}")
        return Triples.joined([read_part(file) for file in files])
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    return read_part(path)


def places(names: tuple[str, ...], among: tuple[str, ...]) -> Ids:
    """Where each name stands in `among`."""
    position = {name: i for i, name in enumerate(among)}
    return np.array([position[name] for name in names], np.int32)


def _read_folders(path: Path, seed: int) -> dict[ClientId, KnowledgeGraph]:
    if has_triples(path):
        return {_client_name(path.resolve()): read_folder(path, seed)}
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "__")))
    graphs: dict[ClientId, KnowledgeGraph] = {}
    for entry in entries:
        if entry.is_dir():
            found = {_client_name(entry): read_folder(entry, seed)}
        elif entry.suffix.lower() == ".parquet":
            found = _read_parquet(entry, seed)
        else:
            continue
        for client, graph in found.items():
            if client in graphs:
                raise InputError(f"{path}: two clients are called {client!r}; rename {entry.name}")
            graphs[client] = graph
    if not graphs:
        wanted = "a subfolder with train.tsv or triples.tsv (or .parquet), or a Parquet file"
        raise InputError(f"{path}: no clients; it should hold {wanted}, for each")
    return graphs


def _client_name(folder: Path) -> ClientId:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{os.fsencode(folder)!r}: the folder's name is not valid UTF-8; rename it") from None
    return normal(folder.name)


def _read_parquet(path: Path, seed: int) -> dict[ClientId, KnowledgeGraph]:
    columns = read_columns(path, ROLES, ("client", "split"))
    triples = of_columns(columns)
    clients, owner = [path.stem], np.zeros(len(triples), np.int32)
    if "client" in columns:
        clients, (owner,) = numbered(columns["client"])
    splits, kind = list[str](), owner
    if "split" in columns:
        splits, (kind,) = numbered(columns["split"])
    names: dict[ClientId, str] = {}
    for name in clients:
        if names.setdefault(normal(name), name) != name:
            raise InputError(f"{path}: two clients are called {normal(name)!r} (they differ in Unicode form only)")
    if unknown := set(splits).difference(SPLITS):
        row = int(np.argmax(kind == splits.index(name := min(unknown))))
        where = f"{path}, client {clients[owner[row]]!r}, row {row + 1}"
        raise InputError(f"{where}: unknown split {name!r}; splits are train, valid and test")
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=len(clients)))
    graphs = {}
    for client, rows in zip(names, np.split(order, ends[:-1]), strict=True):
        origin, own = f"{path}, client {client!r}", triples.at(rows)
        if splits:
            number = {split: splits.index(split) if split in splits else -1 for split in SPLITS}
            parts = {split: own.at(kind[rows] == number[split]) for split in SPLITS}
            graphs[client] = KnowledgeGraph.from_names(**parts, origin=origin)
        else:
            graphs[client] = split_graph(own, seed, origin=origin)
    return graphs
