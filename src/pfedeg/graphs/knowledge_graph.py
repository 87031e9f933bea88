"""One client's knowledge graph: names, and triples of local ids in train, valid and test splits."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import DataWarning
from pfedeg.graphs.naming import decoded
from pfedeg.graphs.triples import Ids, Named, Triples, distinct, normal, sort_names, sorted_unique

Split = Literal["train", "valid", "test"]
Side = Literal["tail", "head"]
SPLITS: tuple[Split, ...] = get_args(Split)


class Known(NamedTuple):
    """The sorted true answers of every question (h, r, ?) or (?, r, t), as compressed rows."""

    keys: NDArray[np.int64]  # sorted, given entity · relations + relation
    start: NDArray[np.int64]  # answers[start[i]:start[i + 1]] belong to keys[i]
    answers: Ids


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """The triples of a client in `train`, `valid` and `test`, each (n, 3) int32 sorted by h, r, t.

    Ids are positions in the sorted names of `entities` and `relations`: equal content, equal ids. `labels` are display
    labels of some names. `from_names` makes a graph.
    """

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    train: Ids
    valid: Ids
    test: Ids
    labels: Mapping[str, str] = field(default_factory=dict, kw_only=True)  # display labels of some names

    @classmethod
    def from_names(
        cls, train: Named, valid: Named = (), test: Named = (), *, origin: str = "graph"
    ) -> "KnowledgeGraph":
        """A graph of (head, relation, tail) names in `train`, `valid` and `test`.

        Duplicates within a split are dropped with a warning that names the `origin`.
        """
        parts = [Triples.of(part) for part in (train, valid, test)]
        whole = Triples.joined(parts)
        entities, entity = sort_names(whole.entities, whole.ids[:, [0, 2]], normal)
        relations, relation = sort_names(whole.relations, whole.ids[:, 1], normal)
        h, r, t = whole.ids.T
        ids = np.stack([entity[h], relation[r], entity[t]], 1)
        ends = np.cumsum([len(part) for part in parts])
        splits = [sorted_unique(part, len(entities), len(relations)) for part in np.split(ids, ends[:-1])]
        duplicates = len(ids) - sum(map(len, splits))
        if duplicates:
            warnings.warn(f"{origin}: dropped {duplicates} duplicate triple(s)", DataWarning, stacklevel=2)
        return cls(entities, relations, *splits)

    def __eq__(self, other: object) -> bool:
        """Whether names, triples and labels are equal."""
        if not isinstance(other, KnowledgeGraph):
            return NotImplemented
        names = (self.entities, self.relations, self.own_labels) == (other.entities, other.relations, other.own_labels)
        return names and all(np.array_equal(self.triples(split), other.triples(split)) for split in SPLITS)

    __hash__ = None  # type: ignore[assignment]  # arrays may change

    def triples(self, split: Split) -> Ids:
        """The triples of one split."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[split]

    def named(self, split: Split) -> list[tuple[str, str, str]]:
        """The triples of one split, with names."""
        return [(self.entities[h], self.relations[r], self.entities[t]) for h, r, t in self.triples(split).tolist()]

    def known(self, side: Side = "tail", splits: Iterable[Split] = SPLITS) -> Known:
        """The true tails of every (h, r), or for `side` "head" the heads of every (r, t), in the given `splits`."""
        triples = np.concatenate([self.triples(split) for split in splits])
        given, answer = (0, 2) if side == "tail" else (2, 0)
        key = triples[:, given].astype(np.int64) * len(self.relations) + triples[:, 1]
        owner, answers = np.divmod(distinct(key * len(self.entities) + triples[:, answer]), len(self.entities))
        keys, first = np.unique(owner, return_index=True)
        return Known(keys, np.append(first, len(owner)).astype(np.int64), answers.astype(np.int32))

    @cached_property
    def own_labels(self) -> Mapping[str, str]:
        """The labels of names in this graph."""
        names = dict.fromkeys((*self.entities, *self.relations))
        return {name: self.labels[name] for name in names if name in self.labels}

    def display_name(self, name: str) -> str:
        """The display label of a name; the name itself if it has none."""
        return self.labels.get(name, name)

    @cached_property
    def names_by_label(self) -> Mapping[str, list[str]]:
        """The names with each display label."""
        found: dict[str, list[str]] = {}
        for name, label in self.own_labels.items():
            found.setdefault(normal(label.strip()), []).append(name)
        return found

    @cached_property
    def names_by_decoded_iri(self) -> Mapping[str, list[str]]:
        """The names whose percent-encoded characters are decoded, by the result."""
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys((*self.entities, *self.relations)):
            if (text := decoded(name)) != name:
                found.setdefault(text, []).append(name)
        return found

    @cached_property
    def entity_ids(self) -> Mapping[str, int]:
        """The local id of every entity, by name."""
        return {name: i for i, name in enumerate(self.entities)}

    @cached_property
    def relation_ids(self) -> Mapping[str, int]:
        """The local id of every relation, by name."""
        return {name: i for i, name in enumerate(self.relations)}
