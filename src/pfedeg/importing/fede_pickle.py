"""FedE's published federations: pickle files, read without running any code in them."""

import pickle
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.importing.sources import Source

ARRAYS = {("_reconstruct", "numpy.core.multiarray"), ("_reconstruct", "numpy._core.multiarray")}
BUFFERS = {("_frombuffer", "numpy.core.numeric"), ("_frombuffer", "numpy._core.numeric")}
BROKEN = (EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError, MemoryError, OverflowError)
ENTITIES, RELATIONS = "entity2id.txt", "relation2id.txt"


class _Unpickler(pickle.Unpickler):
    """Admits arrays, lists, dicts and strings, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (name, module) in ARRAYS:
            return _array
        if (name, module) in BUFFERS:
            return _from_buffer
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if (module, name) == ("numpy", "ndarray"):
            return _ArrayType
        if (module, name) == ("_codecs", "encode"):
            return _encode
        if (module, name) in (("__builtin__", "bytes"), ("builtins", "bytes")):
            return _no_bytes
        raise pickle.UnpicklingError(f"it contains {module}.{name}")


class _ArrayType:
    """Stands for numpy.ndarray, which a pickle may name but not call."""

    def __new__(cls, *args: Any) -> "_ArrayType":
        raise pickle.UnpicklingError("it contains more than plain arrays")


def _array(kind: Any, shape: Any, dtype: Any) -> Any:
    """An empty array, which the pickle then fills. Other shapes could allocate any amount of memory."""
    if kind is not _ArrayType or shape != (0,):
        raise pickle.UnpicklingError("it contains more than plain arrays")
    return np.ndarray(shape, dtype)


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> Any:
    """An array from bytes in the file."""
    if not isinstance(content, bytes | bytearray) or not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise pickle.UnpicklingError("it contains more than plain arrays")
    return np.frombuffer(content, dtype).reshape(shape, order=order)


def _encode(text: str, coding: str = "latin1") -> bytes:
    """Bytes, as old pickles represent them."""
    if coding != "latin1":
        raise pickle.UnpicklingError(f"it contains text in {coding}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Empty bytes, as old pickles represent them."""
    return b""


def read(source: Source) -> Federation:
    """A list with a dict per client: {"train"|"valid"|"test": {"edge_index_ori": (2, n), "edge_type_ori": (n,)}}.

    Ids ending in _ori mean the same at all clients. Their names come from entity2id.txt and relation2id.txt beside the
    file, if present.
    """
    try:
        with source.open() as file:
            content = _Unpickler(file).load()
    except (pickle.UnpicklingError, *BROKEN) as error:
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
