"""FedE's published federations: pickle files, of which nothing but arrays, lists, dicts and strings is admitted."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.errors import InputError
from pfedeg.federation import Federation
from pfedeg.graph import SPLITS, KnowledgeGraph
from pfedeg.importing.sources import Source

ARRAYS = {("_reconstruct", "numpy.core.multiarray"), ("_reconstruct", "numpy._core.multiarray")}
ENTITIES, RELATIONS = "entity2id.txt", "relation2id.txt"


class _Unpickler(pickle.Unpickler):
    """Knows arrays and nothing else that could do something."""

    def find_class(self, module: str, name: str) -> Any:
        if (name, module) in ARRAYS:
            return _array
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return _encode
        if (module, name) in (("__builtin__", "bytes"), ("builtins", "bytes")):
            return _no_bytes
        raise pickle.UnpicklingError(f"it holds {module}.{name}")


def _array(kind: Any, shape: Any, dtype: Any) -> Any:
    """An empty array, which is then filled; a pickle may not ask for more."""
    if kind is not np.ndarray or shape != (0,):
        raise pickle.UnpicklingError("it holds something else than plain arrays")
    return np.ndarray(shape, dtype)


def _encode(text: str, coding: str = "latin1") -> bytes:
    """Bytes, as old pickles spell them."""
    if coding != "latin1":
        raise pickle.UnpicklingError(f"it holds text in {coding}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Bytes without any in them, as old pickles spell them."""
    return b""


def read(source: Source) -> Federation:
    """A list with a dict per client: {"train"|"valid"|"test": {"edge_index_ori": (2, n), "edge_type_ori": (n,)}}.

    The ids ending in _ori are shared between clients; names for them are taken from entity2id.txt and relation2id.txt
    beside the file, if they are there.
    """
    try:
        with source.open() as file:
            content = _Unpickler(file).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        hint = "only arrays, lists, dicts and strings are read from a pickle file"
        raise InputError(f"{source.name}: not one of FedE's files ({error}); {hint}") from None
    if not isinstance(content, list) or not content:
        raise InputError(f"{source.name}: not one of FedE's files (expected a list with a dict per client)")
    beside = source.path.parent if source.path else Path()
    entities, relations = (_names(beside / name) for name in (ENTITIES, RELATIONS))
    width = len(str(len(content) - 1))
    graphs = {}
    for place, client in enumerate(content):
        name = f"client-{place:0{width}}"
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
    arrays: list[Any] = [part.get(name) for name in ("edge_index_ori", "edge_type_ori")]
    for array in arrays:
        if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"{where}: edge_index_ori and edge_type_ori are not both arrays of whole numbers")
    edges, kinds = arrays
    if edges.ndim != 2 or len(edges) != 2 or kinds.shape != (edges.shape[1],):
        raise InputError(
            f"{where}: {edges.shape} edge_index_ori and {kinds.shape} edge_type_ori do not fit (2, n), (n,)"
        )
    if edges.size and min(edges.min(), kinds.min()) < 0:
        raise InputError(f"{where}: an id is negative")
    return list(zip(edges[0].tolist(), kinds.tolist(), edges[1].tolist(), strict=True))


def _names(path: Path) -> Mapping[int, str]:
    """OpenKE's lists of names: the number of lines, then NAME<TAB>ID."""
    if not path.exists():
        return {}
    names: dict[int, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        name, tab, text = line.rpartition("\t")
        if number == 1 and not tab:
            continue
        if not tab or not text.strip().isdigit():
            raise InputError(f"{path}, line {number}: expected NAME<TAB>ID")
        names[int(text)] = name
    return names


def _name(names: Mapping[int, str], number: int, kind: str) -> str:
    return names.get(number) or f"{kind}{number}"
