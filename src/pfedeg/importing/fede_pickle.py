"""FedE's published federations: pickle files, read without running any code in them."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.importing.plain_pickle import PickleError, read_pickle
from pfedeg.importing.sources import Source

ENTITIES, RELATIONS = "entity2id.txt", "relation2id.txt"


def read(source: Source) -> Federation:
    """A list with a dict per client: {"train"|"valid"|"test": {"edge_index_ori": (2, n), "edge_type_ori": (n,)}}.

    Ids ending in _ori mean the same at all clients. Their names come from entity2id.txt and relation2id.txt beside the
    file, if present.
    """
    try:
        with source.open() as file:
            content = read_pickle(file.read())
    except (OSError, PickleError) as error:
        hint = "a pickle file may contain only arrays, lists, dicts and strings"
        raise InputError(f"{source.name}: not one of FedE's files ({error}); {hint}") from None
    if not isinstance(content, list) or not content:
        raise InputError(f"{source.name}: not one of FedE's files (expected a list with a dict per client)")
    beside = source.path.parent if source.path else Path()
    entities, relations = (_names(beside / name) for name in (ENTITIES, RELATIONS))
    width = len(str(len(content) - 1))
    graphs = {}
    for place, client in enumerate(content):
        name = f"client-{place:0{width}}"
        source.limits.check_memory(source.name)
        parts = {split: _triples(f"{source.name}, client {place}, {split}", client, split) for split in SPLITS}
        named = {
            split: [(_name(entities, h, "e"), _name(relations, r, "r"), _name(entities, t, "e")) for h, r, t in triples]
            for split, triples in parts.items()
        }
        graphs[name] = KnowledgeGraph.from_names(**named, origin=f"{source.name}, client {place}")
    return Federation(graphs)


def _triples(where: str, client: Any, split: str) -> list[tuple[int, int, int]]:
    part = client.get(split) if isinstance(client, dict) else None
    if not isinstance(part, dict):
        raise InputError(f"{where}: missing; expected a dict with edge_index_ori and edge_type_ori")
    arrays: list[Any] = [getattr(part.get(name), "values", None) for name in ("edge_index_ori", "edge_type_ori")]
    for array in arrays:
        if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"{where}: edge_index_ori and edge_type_ori must be integer arrays")
    edges, kinds = arrays
    if edges.ndim != 2 or len(edges) != 2 or kinds.shape != (edges.shape[1],):
        raise InputError(
            f"{where}: edge_index_ori has shape {edges.shape} and edge_type_ori {kinds.shape}; expected (2, n) and (n,)"
        )
    if edges.size and min(edges.min(), kinds.min()) < 0:
        raise InputError(f"{where}: an id is negative")
    return list(zip(edges[0].tolist(), kinds.tolist(), edges[1].tolist(), strict=True))


def _names(path: Path) -> Mapping[int, str]:
    """Names in OpenKE's format: the number of lines, then NAME<TAB>ID."""
    if not path.exists():
        return {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    names: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        name, tab, text = line.rpartition("\t")
        if number == 1 and not tab:
            continue
        if not tab or not name or not text.strip().isdecimal():
            raise InputError(f"{path}, line {number}: expected NAME<TAB>ID")
        if names.setdefault(int(text), name) != name:
            raise InputError(f"{path}, line {number}: id {int(text)} already has the name {names[int(text)]!r}")
    if len(set(names.values())) < len(names):
        twice = next(name for name, many in Counter(names.values()).items() if many > 1)
        raise InputError(f"{path}: two ids have the name {twice!r}")
    return names


def _name(names: Mapping[int, str], number: int, kind: str) -> str:
    return names.get(number) or f"{kind}{number}"
