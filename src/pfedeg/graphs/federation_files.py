"""Federations on disk: a folder with a subfolder per client, or one Parquet file."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from pfedeg.errors import InputError
from pfedeg.files import create_folder, safe_name
from pfedeg.graphs.alignment import ClientId
from pfedeg.graphs.client_data import WHOLE, ClientData
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.graphs.naming import Naming
from pfedeg.graphs.triple_files import (
    find_triples,
    is_client_folder,
    number_names,
    read_columns,
    read_parquet_labels,
    read_triples,
    triples_of_columns,
    write_labels,
    write_triples,
)
from pfedeg.graphs.triples import ROLES, Triples, normal

PARTS = (*SPLITS, WHOLE)
FILES = (*(f"{part}{suffix}" for part in PARTS for suffix in (".tsv", ".parquet")), "labels.parquet")  # written here
NEEDS_IMPORT = (".nt", ".nq", ".ttl", ".trig", ".rdf", ".owl", ".jsonld", ".csv", ".gz", ".zst", ".bz2")


def read_clients(path: Path, seed: int, naming: Naming | None = None) -> dict[ClientId, KnowledgeGraph]:
    """The clients of a folder or Parquet file, renamed if asked; triples without splits are split by the seed."""
    clients = iterate_data(path)
    if naming is None:
        return {client: data.graph(seed) for client, data in clients}
    return {client: data.renamed(naming)[0].graph(seed) for client, data in clients}


def iterate_data(path: Path) -> Iterator[tuple[ClientId, ClientData]]:
    """The clients of a folder or Parquet file, as stored."""
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.suffix.lower() in NEEDS_IMPORT:
        raise InputError(f"{path}: not a federation; import it as a client: pfedeg import {path} --out FOLDER")
    return iter(_read_parquet(path).items())


def is_federation(path: Path) -> bool:
    """Whether a path is a client's folder, or a folder of such folders, rather than files to import."""
    if not path.is_dir():
        return False
    folders = [entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith((".", "__"))]
    return is_client_folder(path) or any(map(is_client_folder, folders))


def write_data(clients: Mapping[ClientId, ClientData], folder: Path, force: bool = False) -> None:
    """Write a folder with a subfolder per client, atomically; what was not split stays so."""

    def fill(temporary: Path) -> None:
        for client, data in clients.items():
            write_client_data(data, temporary / safe_name(client))

    create_folder(folder, fill, FILES if force else ())


def write_client_data(data: ClientData, target: Path) -> None:
    """Write one client into a folder, which is made unless it exists."""
    target.mkdir(exist_ok=True)
    for name, triples in data.parts.items():
        if len(triples):
            write_triples(target, name, triples)
    write_labels(target, data.labels)


def write_clients(graphs: Mapping[ClientId, KnowledgeGraph], folder: Path, force: bool = False) -> None:
    """Write a folder with a subfolder per client, atomically; `force` replaces such a folder."""

    def fill(temporary: Path) -> None:
        for client, graph in graphs.items():
            target = temporary / safe_name(client)
            target.mkdir()
            for split in SPLITS:
                if len(graph.triples(split)):
                    write_triples(target, split, Triples(graph.entities, graph.relations, graph.triples(split)))
            write_labels(target, graph.own_labels)

    create_folder(folder, fill, FILES if force else ())


def read_client(folder: Path, seed: int) -> KnowledgeGraph:
    """A client from train.tsv (and valid.tsv, test.tsv), or from triples.tsv, split by the seed; or .parquet."""
    return ClientData.read(folder).graph(seed)


def read_pooled(path: str | Path) -> Triples:
    """All triples of one graph, splits pooled: a TSV file, a folder of TSV or Parquet files, or a Parquet file."""
    path = Path(path)
    if path.is_dir():
        files = [file for name in (*SPLITS, "triples") if (file := find_triples(path, name))]
        if not files:
            nested = any(is_client_folder(folder) for folder in path.iterdir() if folder.is_dir())
            hint = " (its subfolders do: is it already a federation?)" if nested else ""
            raise InputError(f"{path}: contains neither train.tsv nor triples.tsv{hint}")
        return Triples.joined([read_triples(file) for file in files])
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    return read_triples(path)


def _read_folder(path: Path) -> Iterator[tuple[ClientId, ClientData]]:
    if is_client_folder(path):
        yield _client_name(path.resolve()), ClientData.read(path)
        return
    names = set[ClientId]()
    for entry in sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "__"))):
        if entry.is_dir():
            found = {_client_name(entry): ClientData.read(entry)}
        elif entry.suffix.lower() == ".parquet":
            found = _read_parquet(entry)
        else:
            continue
        for client, data in found.items():
            if client in names:
                raise InputError(f"{path}: two clients are called {client!r}; rename {entry.name}")
            names.add(client)
            yield client, data
    if not names:
        expected = "a client is a subfolder with train.tsv or triples.tsv (or .parquet), or a Parquet file"
        raise InputError(f"{path}: no clients found; {expected}")


def _client_name(folder: Path) -> ClientId:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{os.fsencode(folder)!r}: the folder's name is not valid UTF-8; rename it") from None
    return normal(folder.name)


def _read_parquet(path: Path) -> dict[ClientId, ClientData]:
    columns = read_columns(path, ROLES, ("client", "split"))
    triples = triples_of_columns(columns)
    clients, owner = [path.stem], np.zeros(len(triples), np.int32)
    if "client" in columns:
        clients, (owner,) = number_names(columns["client"])
    splits, split_of_row = list[str](), owner
    if "split" in columns:
        splits, (split_of_row,) = number_names(columns["split"])
    names: dict[ClientId, str] = {}
    for name in clients:
        if names.setdefault(normal(name), name) != name:
            raise InputError(f"{path}: two clients are called {normal(name)!r}; only their Unicode forms differ")
    if unknown := set(splits).difference(SPLITS):
        row = int(np.argmax(split_of_row == splits.index(name := min(unknown))))
        where = f"{path}, client {clients[owner[row]]!r}, row {row + 1}"
        raise InputError(f"{where}: unknown split {name!r}; expected train, valid or test")
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=len(clients)))
    found, labels = {}, read_parquet_labels(path)
    for client, rows in zip(names, np.split(order, ends[:-1]), strict=True):
        origin, own = f"{path}, client {client!r}", triples.select(rows)
        if splits:
            number = {split: splits.index(split) if split in splits else -1 for split in SPLITS}
            parts: dict[str, Triples] = {split: own.select(split_of_row[rows] == number[split]) for split in SPLITS}
        else:
            parts = {WHOLE: own}
        found[client] = ClientData(parts, labels, origin)
    return found
