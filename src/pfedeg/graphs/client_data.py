"""The data of one client as its files hold them: triples, split or not, and labels, before names are numbered."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.graphs.naming import Naming, Renaming, is_iri, is_shortened
from pfedeg.graphs.splitting import split_graph
from pfedeg.graphs.triple_files import find_triples, read_labels, read_parquet_labels, read_triples
from pfedeg.graphs.triples import Triples, normal, sort_names, sorted_unique

WHOLE = "triples"


@dataclass(frozen=True, eq=False)
class ClientData:
    """The triples of a client: WHOLE, which a seed will split, or train, valid and test."""

    parts: Mapping[str, Triples]
    labels: Mapping[str, str] = field(default_factory=dict)
    origin: str = "graph"

    @classmethod
    def read(cls, folder: Path) -> "ClientData":
        """From train.tsv (and valid.tsv, test.tsv), or from triples.tsv; or .parquet."""
        whole, train = find_triples(folder, WHOLE), find_triples(folder, "train")
        if whole:
            for split in SPLITS:
                if part := find_triples(folder, split):
                    raise InputError(f"{folder}: contains both {whole.name} and {part.name}; keep one of them")
        elif not train:
            raise InputError(f"{folder}: contains neither train.tsv nor triples.tsv")
        names = (WHOLE,) if whole else SPLITS
        files = {name: path for name in names if (path := find_triples(folder, name))}
        parts = {name: read_triples(path) for name, path in files.items()}
        labels: dict[str, str] = {}
        for path in files.values():
            if path.suffix == ".parquet":
                labels |= read_parquet_labels(path)
        return cls(parts, labels | read_labels(folder), os.fspath(folder))

    def graph(self, seed: int) -> KnowledgeGraph:
        """The client's graph, split by the seed if the files do not split it."""
        if WHOLE in self.parts:
            found = split_graph(self.parts[WHOLE], seed, origin=self.origin)
        else:
            found = KnowledgeGraph.from_names(origin=self.origin, **self.parts)
        return replace(found, labels=self.labels)

    def renamed(self, naming: Naming) -> tuple["ClientData", Renaming, Renaming]:
        """The data with other names, and what became of the names of entities and of relations."""
        entities = naming.rename(self._names("entities", [0, 2]), self.labels)
        relations = naming.rename(self._names("relations", [1]), self.labels)
        parts = {name: _renamed(part, entities, relations) for name, part in self.parts.items()}
        labels = dict[str, str]()
        for renaming in (entities, relations):
            for old in renaming.names:
                label, new = self.labels.get(old), renaming(old)
                if label and label != new and (is_iri(new) or not is_shortened(old, label)):
                    labels.setdefault(new, label)
        return replace(self, parts=parts, labels=labels), entities, relations

    def _names(self, kind: Literal["entities", "relations"], columns: Sequence[int]) -> list[str]:
        """The names in these columns of all parts, sorted."""
        found = set[str]()
        for part in self.parts.values():
            names = getattr(part, kind)
            found.update(normal(names[number]) for number in np.unique(part.ids[:, columns]).tolist())
        return sorted(found)


def _renamed(triples: Triples, entities: Renaming, relations: Renaming) -> Triples:
    """The distinct triples with new names."""
    names, entity = sort_names(triples.entities, triples.ids[:, [0, 2]], lambda name: entities(normal(name)))
    kinds, relation = sort_names(triples.relations, triples.ids[:, 1], lambda name: relations(normal(name)))
    h, r, t = triples.ids.T
    ids = np.stack([entity[h], relation[r], entity[t]], 1)
    return Triples(names, kinds, sorted_unique(ids, len(names), len(kinds)))
