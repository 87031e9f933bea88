"""Statements become a graph: names are numbered, duplicates dropped, literals treated as chosen, all of it counted."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.graphs.triples import Ids, normal, sort_names, sorted_unique
from pfedeg.importing.numeric_buckets import XSD, Kind, cut, number_of
from pfedeg.importing.sources import Source

LABELS = {  # how good they are as names for people
    "http://www.w3.org/2004/02/skos/core#prefLabel": 0,
    "http://www.w3.org/2000/01/rdf-schema#label": 1,
}
PREFIXES = {
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/2000/01/rdf-schema#": "rdfs",
    XSD: "xsd",
    "http://www.w3.org/2002/07/owl#": "owl",
    "http://www.w3.org/2004/02/skos/core#": "skos",
    "http://xmlns.com/foaf/0.1/": "foaf",
    "http://schema.org/": "schema",
}
MOSTLY = 4  # times as many numbers as other tails look as if all were meant to be numbers
STEP = 1 << 16  # triples that are numbered at a time
BLANK = "\ud800"  # begins the provisional name of a blank node; no text can hold it


@dataclass(frozen=True)
class Choices:
    """How sources are read."""

    literals: Literal["drop", "keep", "bucket"] = "drop"
    buckets: int = 10
    blank: Literal["keep", "drop"] = "keep"
    on_error: Literal["stop", "skip"] = "stop"
    language: str = "en"
    delimiter: str | None = None
    columns: Sequence[str] | None = None
    header: bool | None = None


@dataclass(frozen=True)
class Graph:
    """What was gathered: sorted names, distinct triples by ids, and names for people's eyes."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    triples: Ids
    labels: Mapping[str, str]  # of entities and relations that have one, or can be shortened
    duplicates: int
    isolated: int  # entities of which nothing is left


class Value(NamedTuple):
    """A number or date that stands where an entity could."""

    head: int
    number: float
    kind: Kind
    text: str | None  # as it was spelled in a table, where it may be a name after all


class Names(dict[str, int]):
    """Spelling → number, in the order in which names come; all spellings of a name have one number."""

    def __init__(self) -> None:
        """None yet."""
        super().__init__()
        self.names: list[str] = []
        self.respelled: list[str] = []

    def __missing__(self, name: str) -> int:
        """The number of a spelling that is new."""
        usual = name if name.isascii() else normal(name)
        number = self.setdefault(usual, len(self.names))
        if number == len(self.names):
            self.names.append(usual)
        if usual != name:
            self[name] = number
            self.respelled.append(name)
        return number


class Gathered:
    """A graph in the making, and what became of every statement."""

    def __init__(self, choices: Choices, tell: Callable[[Source, int], None] = lambda source, many: None) -> None:
        """Empty. `tell` hears of progress: the source that is read, and how many statements there were in all."""
        self.choices, self._tell = choices, tell
        self.prefixes = dict(PREFIXES)  # IRI → prefix
        self.statements = 0
        self.dropped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}  # of what was dropped
        self.remarks: list[str] = []  # on how sources were read
        self.first_rows: list[tuple[str, ...]] = []  # source, head, relation, tail of what could have been a heading
        self.entities, self.relations = Names(), Names()
        self.pending = list[str](), list[str](), list[str]()  # heads, relations, tails: see `settle`
        self._triples = array("i"), array("i"), array("i")
        self._values: dict[int, list[Value]] = {}  # by relation
        self._labels: dict[int, tuple[tuple[int, int], str]] = {}  # entity → how good (less is better), label
        self._blanks: dict[str, int] = {}
        self._sources: list[Source] = []

    def begin(self, source: Source) -> None:
        """What follows is from this source."""
        self._sources.append(source)
        self._blanks = {}

    def triple(self, head: str, relation: str, tail: str) -> None:
        """A statement about two entities."""
        heads, relations, tails = self.pending
        heads.append(head)
        relations.append(relation)
        tails.append(tail)
        if len(heads) == STEP:
            self.settle()

    def settle(self) -> None:
        """Number the names of pending triples, many at a time: at the latest when there are STEP of them."""
        for names, among, ids in zip(
            self.pending, (self.entities, self.relations, self.entities), self._triples, strict=True
        ):
            ids.extend(map(among.__getitem__, names))
        self.statements += len(self.pending[0])
        self._tell(self._sources[-1], self.statements)
        for names in self.pending:
            names.clear()

    def plain(self, head: str, relation: str, tail: str) -> None:
        """A row of a table: its tail may be a number, if numbers are put into buckets."""
        found = number_of(tail) if self.choices.literals == "bucket" else None
        if found is None:
            self.triple(head, relation, tail)
        else:
            self._value(head, relation, *found, tail)

    def literal(self, head: str, relation: str, value: str, datatype: str, language: str | None) -> None:
        """A statement about an entity and a value."""
        if relation in LABELS:
            self._label(head, LABELS[relation], value, language)
        elif self.choices.literals == "keep":
            self.triple(head, relation, quoted(value, datatype, language))
        elif self.choices.literals == "bucket" and (found := number_of(value, datatype)):
            self._value(head, relation, *found, None)
        else:
            self.entities[head]  # heard of, though nothing may be left of it
            kind = "texts" if number_of(value, datatype) is None else "numbers and dates"
            self.drop(kind, f"{relation} {value[:40]!r}")

    def blank(self, label: str) -> str:
        """A blank node of this source: numbered, since labels mean nothing; `finish` gives it its name."""
        number = self._blanks.setdefault(label, len(self._blanks))
        return f"{BLANK}{len(self._sources) - 1}{BLANK}{number}"

    def remark(self, text: str) -> None:
        """Say how a source was read."""
        self.remarks.append(text)

    def drop(self, kind: str, example: str = "") -> None:
        """Leave out a statement."""
        self.statements += 1
        self.dropped[kind] += 1
        if example:
            self.examples.setdefault(kind, example)

    def broken(self, line: int | None, reason: str, lasting: bool = False) -> None:
        """A statement that cannot be read: stop, or count it, unless nothing after it can be read either."""
        where = f"{self._sources[-1].name}{'' if line is None else f', line {line}'}: {reason}"
        if lasting:
            raise InputError(f"{where}; nothing can be read after that")
        if self.choices.on_error == "stop":
            raise InputError(f"{where}; mend it, or leave out what is broken by --on-error skip")
        self.drop("broken lines", where)

    def short(self, name: str) -> str:
        """A name for people's eyes: an IRI with its prefix, if there is one."""
        at = max(name.rfind("#"), name.rfind("/")) + 1
        prefix = self.prefixes.get(name[:at])
        return f"{prefix}:{name[at:]}" if prefix is not None and at < len(name) else name

    def finish(self) -> Graph:
        """The graph of all that was gathered."""
        self.settle()
        triples = np.stack([np.frombuffer(part, np.int32) for part in self._triples], 1)
        heard = len(self.entities.names)
        triples = np.concatenate([triples, self._bucketed(triples)])
        blanks = self._blank_names()
        entities, place = sort_names(self.entities.names, triples[:, [0, 2]], lambda name: blanks.get(name, name))
        relations, kind = sort_names(self.relations.names, triples[:, 1], str)
        ids = np.stack([place[triples[:, 0]], kind[triples[:, 1]], place[triples[:, 2]]], 1)
        distinct = sorted_unique(ids, len(entities), len(relations))
        isolated = sum(self.entities.names[e] not in self.relations for e in np.flatnonzero(place[:heard] < 0).tolist())
        return Graph(
            entities, relations, distinct, self._shown(entities, relations, place), len(ids) - len(distinct), isolated
        )

    def _value(self, head: str, relation: str, number: float, kind: Kind, text: str | None) -> None:
        self.statements += 1
        values = self._values.setdefault(self.relations[relation], [])
        values.append(Value(self.entities[head], number, kind, text))

    def _label(self, head: str, grade: int, value: str, language: str | None) -> None:
        self.statements += 1
        entity, wanted, tag = self.entities[head], self.choices.language.lower(), (language or "").lower()
        if not value.strip():
            return
        near = tag.split("-")[0] == wanted.split("-")[0]
        tongue = 0 if tag == wanted else 1 if near else 2 if not tag else 3
        if entity not in self._labels or (tongue, grade) < self._labels[entity][0]:
            self._labels[entity] = (tongue, grade), value

    def _bucketed(self, triples: Ids) -> Ids:
        """Triples for the values: in buckets, or as they are spelled if the relation has other tails as well."""
        others = np.bincount(triples[:, 1], minlength=len(self.relations.names))
        locals_ = Counter(_local(self.relations.names[relation]) for relation in self._values)
        rows = []
        for relation, values in self._values.items():
            name = self.relations.names[relation]
            name = _local(name) if locals_[_local(name)] == 1 else self.short(name)
            kinds: dict[Kind, list[Value]] = {}
            if 0 < others[relation] < len(values) / MOSTLY and values[0].text is not None:
                text = f"{len(values):,} values are numbers or dates, {others[relation]:,} are not, so all are names"
                self.remark(f"{name}: {text}; mend those, to have buckets")
            for value in values:
                if value.text is not None and others[relation]:
                    rows.append((value.head, relation, self.entities[value.text]))
                else:
                    kinds.setdefault(value.kind, []).append(value)
            for kind, same in kinds.items():
                buckets = cut([value.number for value in same], kind, self.choices.buckets, name)
                rows += [
                    (value.head, relation, self.entities[bucket]) for value, bucket in zip(same, buckets, strict=True)
                ]
        return np.array(rows, np.int32).reshape(-1, 3)

    def _blank_names(self) -> dict[str, str]:
        """What blank nodes are called: by the content of their source, so that they never align with another's."""
        digests = [source.digest.hexdigest()[:8] for source in self._sources]
        parts = {name: name.split(BLANK) for name in self.entities.names if name[0] == BLANK}
        return {name: f"_:{digests[int(source)]}-{number}" for name, (_, source, number) in parts.items()}

    def _shown(self, entities: Sequence[str], relations: Sequence[str], place: NDArray[np.int32]) -> dict[str, str]:
        shown = {name: short for name in (*entities, *relations) if (short := self.short(name)) != name}
        labelled = {entities[place[e]]: label for e, (_, label) in self._labels.items() if place[e] >= 0}
        others = {self.entities.names[e]: label for e, (_, label) in self._labels.items()}
        return shown | {name: others[name] for name in relations if name in others} | labelled


def quoted(value: str, datatype: str, language: str | None) -> str:
    """A literal as an entity's name, as N-Triples would write it but for line breaks."""
    text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text + (f"@{language}" if language else "" if datatype == f"{XSD}string" else f"^^<{datatype}>")


def _local(name: str) -> str:
    return name[max(name.rfind("#"), name.rfind("/")) + 1 :] or name
