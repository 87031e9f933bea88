"""One client's knowledge graph: triples with dense local ids, read from files and split."""

import os
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pfedeg import randomness
from pfedeg.errors import DataWarning, InputError
from pfedeg.graphs.triples import Ids, Named, Triples, in_order, read_columns, read_part

Split = Literal["train", "valid", "test"]
Side = Literal["tail", "head"]
SPLITS: tuple[Split, ...] = get_args(Split)


class Known(NamedTuple):
    """The sorted true answers of every question (h, r, ?) or (?, r, t), as compressed rows."""

    keys: NDArray[np.int64]  # sorted, given entity · relations + relation
    start: NDArray[np.int64]  # answers[start[i]:start[i + 1]] belong to keys[i]
    answers: Ids


@dataclass(frozen=True)
class KnowledgeGraph:
    """Entities and relations are sorted by name, triples (n, 3) int32 by h, r, t: the content alone decides the ids."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    train: Ids
    valid: Ids
    test: Ids
    labels: Mapping[str, str] = field(
        default_factory=dict, kw_only=True
    )  # names for people's eyes, of those that have one

    @classmethod
    def from_names(
        cls, train: Named, valid: Named = (), test: Named = (), *, origin: str = "graph"
    ) -> "KnowledgeGraph":
        """Number the names (normalised to Unicode NFC) and drop duplicate triples, with a warning."""
        parts = [Triples.of(part) for part in (train, valid, test)]
        whole = Triples.joined(parts)
        entities, entity = in_order(whole.entities, whole.ids[:, [0, 2]], normal)
        relations, relation = in_order(whole.relations, whole.ids[:, 1], normal)
        h, r, t = whole.ids.T
        ids = np.stack([entity[h], relation[r], entity[t]], 1)
        ends = np.cumsum([len(part) for part in parts])
        splits = [sorted_unique(part, len(entities), len(relations)) for part in np.split(ids, ends[:-1])]
        duplicates = len(ids) - sum(map(len, splits))
        if duplicates:
            warnings.warn(f"{origin}: dropped {duplicates} duplicate triple(s)", DataWarning, stacklevel=2)
        return cls(entities, relations, *splits)

    def triples(self, split: Split) -> Ids:
        """The triples of one split."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[split]

    def named(self, split: Split) -> list[tuple[str, str, str]]:
        """The triples of one split, with names."""
        return [(self.entities[h], self.relations[r], self.entities[t]) for h, r, t in self.triples(split).tolist()]

    def known(self, side: Side = "tail", splits: Iterable[Split] = SPLITS) -> Known:
        """True tails of every (h, r), or heads of every (r, t), over the given splits."""
        triples = np.concatenate([self.triples(split) for split in splits])
        given, answer = (0, 2) if side == "tail" else (2, 0)
        key = triples[:, given].astype(np.int64) * len(self.relations) + triples[:, 1]
        owner, answers = np.divmod(distinct(key * len(self.entities) + triples[:, answer]), len(self.entities))
        keys, first = np.unique(owner, return_index=True)
        return Known(keys, np.append(first, len(owner)).astype(np.int64), answers.astype(np.int32))

    @cached_property
    def own_labels(self) -> Mapping[str, str]:
        """The labels of names that are in the graph."""
        names = dict.fromkeys((*self.entities, *self.relations))
        return {name: self.labels[name] for name in names if name in self.labels}

    def shown(self, name: str) -> str:
        """A name as people know it."""
        return self.labels.get(name, name)

    @cached_property
    def entity_ids(self) -> Mapping[str, int]:
        """Name → local id of every entity."""
        return {name: i for i, name in enumerate(self.entities)}

    @cached_property
    def relation_ids(self) -> Mapping[str, int]:
        """Name → local id of every relation."""
        return {name: i for i, name in enumerate(self.relations)}


def normal(name: str) -> str:
    """The form in which a name counts: Unicode NFC."""
    return unicodedata.normalize("NFC", name)


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different numbers in order, by sorting: `np.unique` may hash, which takes many times as long."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def sorted_unique(ids: Ids, entities: int, relations: int) -> Ids:
    """The distinct triples in the order of h, r, t; read-only."""
    packed = distinct((ids[:, 0].astype(np.int64) * relations + ids[:, 1]) * entities + ids[:, 2])
    rest, tails = np.divmod(packed, max(entities, 1))
    triples = np.stack([*np.divmod(rest, max(relations, 1)), tails], 1).astype(np.int32)
    triples.flags.writeable = False
    return triples


def part_of(folder: Path, name: str) -> Path | None:
    """The file of a folder that holds its train, valid, test or all of its triples: NAME.tsv or NAME.parquet."""
    found = [path for path in (folder / f"{name}.tsv", folder / f"{name}.parquet") if path.exists()]
    if len(found) > 1:
        raise InputError(f"{folder}: holds both {name}.tsv and {name}.parquet; keep one of them")
    return found[0] if found else None


def has_triples(folder: Path) -> bool:
    """Whether a folder is a client's."""
    return any(part_of(folder, name) for name in ("triples", "train"))


def read_folder(folder: Path, seed: int) -> KnowledgeGraph:
    """A graph from train.tsv (and valid.tsv, test.tsv), or from triples.tsv, which is split by seed; or .parquet."""
    whole, train = part_of(folder, "triples"), part_of(folder, "train")
    origin = os.fspath(folder)
    if whole:
        for split in SPLITS:
            if part := part_of(folder, split):
                raise InputError(f"{folder}: holds both {whole.name} and {part.name}; keep one of them")
        return replace(split_graph(read_part(whole), seed, origin=origin), labels=read_labels(folder))
    if not train:
        raise InputError(f"{folder}: holds neither train.tsv nor triples.tsv")
    parts = {split: read_part(path) for split in SPLITS if (path := part_of(folder, split))}
    return replace(KnowledgeGraph.from_names(origin=origin, **parts), labels=read_labels(folder))


def read_labels(folder: Path) -> dict[str, str]:
    """Names for people's eyes, if the folder has some."""
    path = folder / "labels.parquet"
    if not path.exists():
        return {}
    columns = read_columns(path, ("name", "label"))
    names, labels = columns["name"].to_pylist(), columns["label"].to_pylist()
    return {normal(name): label for name, label in zip(names, labels, strict=True)}


def write_labels(folder: Path, labels: Mapping[str, str]) -> None:
    """The counterpart of `read_labels`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if labels:
        names = sorted(labels)
        table = pa.table({"name": names, "label": [labels[name] for name in names]})
        pq.write_table(table, folder / "labels.parquet", compression="zstd")


def split_graph(triples: Named, seed: int, *, origin: str = "graph") -> KnowledgeGraph:
    """Split 0.8 / 0.1 / 0.1 at random, keeping every entity and relation in train.

    As FedE's protocol: walk through the shuffled triples and hold one out if its head, its tail and its relation
    all still occur elsewhere in train, until a fifth is held out; half of that is valid, half test.
    """
    graph = KnowledgeGraph.from_names(triples, origin=origin)
    ids = graph.train
    entities = np.bincount(ids[:, [0, 2]].ravel(), minlength=len(graph.entities)).tolist()
    relations = np.bincount(ids[:, 1], minlength=len(graph.relations)).tolist()
    goal = int(0.2 * len(ids))
    held: list[int] = []
    for index in randomness.permutation(randomness.key("split", seed), len(ids)).tolist():
        if len(held) == goal:
            break
        h, r, t = ids[index].tolist()
        entities[h] -= 1
        entities[t] -= 1
        if min(entities[h], entities[t]) > 0 and relations[r] > 1:
            relations[r] -= 1
            held.append(index)
        else:
            entities[h] += 1
            entities[t] += 1
    out = np.array(held, np.int64)
    valid, test = np.sort(out[len(out) // 2 :]), np.sort(out[: len(out) // 2])
    train = np.delete(ids, out, axis=0)
    parts = [train, ids[valid], ids[test]]
    for part in parts:
        part.flags.writeable = False
    return KnowledgeGraph(graph.entities, graph.relations, *parts)
