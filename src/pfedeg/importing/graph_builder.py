"""Builds a graph from imported statements: numbers names, drops duplicates, converts literals, and counts it all."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from pfedeg.errors import InputError
from pfedeg.graphs.naming import Naming, Renaming
from pfedeg.graphs.triples import Ids, normal, sort_names, sorted_unique
from pfedeg.importing.label_choice import LABELS, LabelChoice
from pfedeg.importing.limits import Limits, check_limits, exceeded
from pfedeg.importing.numeric_buckets import XSD, Kind, bucket_names, number_of
from pfedeg.importing.sources import Source

PREFIXES = {
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/2000/01/rdf-schema#": "rdfs",
    XSD: "xsd",
    "http://www.w3.org/2002/07/owl#": "owl",
    "http://www.w3.org/2004/02/skos/core#": "skos",
    "http://xmlns.com/foaf/0.1/": "foaf",
    "http://schema.org/": "schema",
}
MOSTLY = 4  # a relation with 4 times as many numbers as other tails is probably numeric
SORTED = 48  # bytes per triple that `finish` needs
CHUNK = 1 << 16  # triples that are numbered at a time
BLANK = "\ud800"  # starts the provisional name of a blank node; valid text cannot contain it


@dataclass(frozen=True)
class ImportOptions(Limits):
    """The options of an import."""

    literals: Literal["drop", "keep", "bucket"] = "drop"
    buckets: int = 10
    blank: Literal["keep", "drop"] = "keep"
    on_error: Literal["stop", "skip"] = "stop"
    language: str = "en"
    delimiter: str | None = None
    columns: Sequence[str] | None = None
    label_columns: Sequence[str] | None = None
    header: bool | None = None
    naming: Naming = field(default_factory=Naming)

    def __post_init__(self) -> None:
        """Check the limits."""
        check_limits(self)


@dataclass(frozen=True, eq=False)
class ImportedGraph:
    """The result: sorted names, distinct triples by ids, and display labels."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    triples: Ids
    labels: Mapping[str, str]  # of entities and relations that have one, or can be shortened
    duplicates: int
    isolated: int  # entities without any remaining triple
    renamed: tuple[Renaming, Renaming]  # the names of entities and of relations


class Value(NamedTuple):
    """A number or date in place of a tail entity."""

    head: int
    number: float
    kind: Kind
    text: str | None  # as written in a table, where it may turn out to be a name


class FirstRow(NamedTuple):
    """The first row of a table, which may be a header."""

    source: str
    names: tuple[str, str, str]
    labels: tuple[str | None, ...]
    words: int  # how many of its names are usual headings


class Names(dict[str, int]):
    """Name → number, in order of first use. All Unicode forms of a name have the same number."""

    def __init__(self, longest: int) -> None:
        """Start empty; a name of more than `longest` characters is refused."""
        super().__init__()
        self._longest = longest
        self.names: list[str] = []
        self.not_normal: list[str] = []

    def __missing__(self, name: str) -> int:
        """The number of a form seen for the first time."""
        if len(name) > self._longest:
            raise exceeded(f"{name[:60]!r}…", f"a name of more than {self._longest:,} characters", "max_name")
        normalized = name if name.isascii() else normal(name)
        number = self.setdefault(normalized, len(self.names))
        if number == len(self.names):
            self.names.append(normalized)
        if normalized != name:
            self[name] = number
            self.not_normal.append(name)
        return number


class GraphBuilder:
    """Collects statements, and counts what was kept and what was left out."""

    def __init__(self, options: ImportOptions, progress: Callable[[int], None] = lambda statements: None) -> None:
        """Start empty. `progress` is called now and then with the number of statements so far."""
        self.options, self._progress = options, progress
        declared = {iri: prefix for prefix, iri in options.naming.prefixes.items()}
        self.prefixes = PREFIXES | declared  # IRI → prefix
        self.statements = 0
        self.dropped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}  # one for each kind of dropped statement
        self.remarks: list[str] = []  # for the user
        self.first_rows: list[FirstRow] = []  # not yet added; see `settle_first_rows`
        self.trimmed: Counter[str] = Counter()  # cells with surrounding spaces
        self.bucketed: dict[str, dict[str, int]] = {}  # relation → its values and buckets
        self.labels = LabelChoice(options.language)
        self.entities, self.relations = Names(options.max_name), Names(options.max_name)
        self.pending = list[str](), list[str](), list[str]()  # heads, relations, tails that `flush` will number
        self._triples = array("i"), array("i"), array("i")
        self._values: dict[int, list[Value]] = {}  # by relation
        self._blanks: dict[str, int] = {}
        self._sources: list[Source] = []

    def start_source(self, source: Source) -> None:
        """The following statements come from this source."""
        source.limits = self.options
        self._sources.append(source)
        self._blanks = {}

    def triple(self, head: str, relation: str, tail: str) -> None:
        """Add a statement about two entities."""
        heads, relations, tails = self.pending
        heads.append(head)
        relations.append(relation)
        tails.append(tail)
        if len(heads) == CHUNK:
            self.flush()

    def flush(self) -> None:
        """Number the names of the pending triples, at most CHUNK of them."""
        for names, among, ids in zip(
            self.pending, (self.entities, self.relations, self.entities), self._triples, strict=True
        ):
            ids.extend(map(among.__getitem__, names))
        self.statements += len(self.pending[0])
        self.options.check_memory(self._sources[-1].name if self._sources else "", len(self._triples[0]) * SORTED)
        self._progress(self.statements)
        for names in self.pending:
            names.clear()

    def trim(self, cell: str) -> str:
        """A cell of a table without surrounding spaces."""
        plain = cell.strip()
        if plain is not cell and plain != cell:
            self.trimmed[cell] += 1
        return plain

    def row(self, head: str, relation: str, tail: str) -> None:
        """Add a row of a table. Its tail may be a number, if numbers are put into buckets."""
        found = number_of(tail) if self.options.literals == "bucket" else None
        if found is None:
            self.triple(head, relation, tail)
        else:
            self._value(head, relation, *found, tail)

    def label_row(self, names: Sequence[str], labels: Sequence[str | None]) -> None:
        """Add the labels of the names in a row of a table."""
        for name, label in zip(names, labels, strict=True):
            if label:
                self.labels.add_cell(name, label)

    def literal(self, head: str, relation: str, value: str, datatype: str, language: str | None) -> None:
        """Add a statement about an entity and a literal."""
        if relation in LABELS:
            self.statements += 1
            self.labels.add_literal(self.entities.names[self.entities[head]], relation, value, language)
        elif self.options.literals == "keep":
            self.triple(head, relation, quoted(value, datatype, language))
        elif self.options.literals == "bucket" and (found := number_of(value, datatype)):
            self._value(head, relation, *found, None)
        else:
            self.entities[head]  # counted even if no triple of it remains
            kind = "texts" if number_of(value, datatype) is None else "numbers and dates"
            self.drop(kind, f"{relation} {value[:40]!r}")

    def blank(self, label: str) -> str:
        """The provisional name of a blank node of this source; `finish` replaces it."""
        number = self._blanks.setdefault(label, len(self._blanks))
        return f"{BLANK}{len(self._sources) - 1}{BLANK}{number}"

    def remark(self, text: str) -> None:
        """Add a remark for the user."""
        self.remarks.append(text)

    def drop(self, kind: str, example: str = "") -> None:
        """Count a statement that is left out."""
        self.statements += 1
        self.dropped[kind] += 1
        if example:
            self.examples.setdefault(kind, example)

    def reject(self, line: int | None, reason: str, fatal: bool = False) -> None:
        """Stop at an invalid statement, or count it; `fatal` if what follows cannot be read reliably either."""
        where = f"{self._sources[-1].name}{'' if line is None else f', line {line}'}: {reason}"
        if fatal:
            raise InputError(f"{where}; the rest of the file cannot be read reliably")
        if self.options.on_error == "stop":
            raise InputError(f"{where}; correct it, or skip invalid lines by --on-error skip")
        self.drop("invalid lines", where)

    def short(self, name: str) -> str:
        """An IRI shortened by its prefix, if it has one."""
        at = max(name.rfind("#"), name.rfind("/")) + 1
        prefix = self.prefixes.get(name[:at])
        return f"{prefix}:{name[at:]}" if prefix is not None and at < len(name) else name

    def finish(self) -> ImportedGraph:
        """The graph of all statements."""
        self.flush()
        triples = np.stack([np.frombuffer(part, np.int32) for part in self._triples], 1)
        of_statements = len(self.entities.names)
        triples = np.concatenate([triples, self._bucketed(triples)])
        blanks, labels = self._blank_names(), self.labels.chosen()
        labels |= {blanks[name]: label for name, label in labels.items() if name in blanks}
        used = np.unique(triples[:, [0, 2]]).tolist(), np.unique(triples[:, 1]).tolist()
        entity_names = self._rename([blanks.get(name := self.entities.names[e], name) for e in used[0]], labels)
        relation_names = self._rename([self.relations.names[r] for r in used[1]], labels)
        entities, place = sort_names(
            self.entities.names, triples[:, [0, 2]], lambda name: entity_names(blanks.get(name, name))
        )
        relations, kind = sort_names(self.relations.names, triples[:, 1], relation_names)
        ids = np.stack([place[triples[:, 0]], kind[triples[:, 1]], place[triples[:, 2]]], 1)
        distinct = sorted_unique(ids, len(entities), len(relations))
        isolated = sum(
            self.entities.names[e] not in self.relations for e in np.flatnonzero(place[:of_statements] < 0).tolist()
        )
        shown = self._shown(labels, (relation_names, entity_names))
        renamed = entity_names, relation_names
        return ImportedGraph(entities, relations, distinct, shown, len(ids) - len(distinct), isolated, renamed)

    def _rename(self, names: Sequence[str], labels: Mapping[str, str]) -> Renaming:
        naming = self.options.naming
        return Renaming(names, {}) if naming.is_plain else naming.rename(names, labels)

    def _value(self, head: str, relation: str, number: float, kind: Kind, text: str | None) -> None:
        self.statements += 1
        values = self._values.setdefault(self.relations[relation], [])
        values.append(Value(self.entities[head], number, kind, text))

    def _bucketed(self, triples: Ids) -> Ids:
        """Triples for the values: of buckets, or of the original names if the relation has other tails as well."""
        others = np.bincount(triples[:, 1], minlength=len(self.relations.names))
        locals_ = Counter(_local(self.relations.names[relation]) for relation in self._values)
        rows = []
        for relation, values in self._values.items():
            name = self.relations.names[relation]
            name = _local(name) if locals_[_local(name)] == 1 else self.short(name)
            kinds: dict[Kind, list[Value]] = {}
            if 0 < others[relation] < len(values) / MOSTLY and values[0].text is not None:
                counts = f"{len(values):,} values are numbers or dates, {others[relation]:,} are not"
                self.remark(f"{name}: {counts}, so all are kept as names; correct those to get buckets")
            for value in values:
                if value.text is not None and others[relation]:
                    rows.append((value.head, relation, self.entities[value.text]))
                else:
                    kinds.setdefault(value.kind, []).append(value)
            for kind, same in kinds.items():
                buckets = bucket_names([value.number for value in same], kind, self.options.buckets, name)
                count = self.bucketed.setdefault(name, {"values": 0, "buckets": 0})
                count["values"] += len(buckets)
                count["buckets"] += len(set(buckets))
                rows += [
                    (value.head, relation, self.entities[bucket]) for value, bucket in zip(same, buckets, strict=True)
                ]
        return np.array(rows, np.int32).reshape(-1, 3)

    def _blank_names(self) -> dict[str, str]:
        """Names of blank nodes, from a hash of their source, so that they never align with those of other sources."""
        digests = [source.digest.hexdigest()[:8] for source in self._sources]
        parts = {name: name.split(BLANK) for name in self.entities.names if name[0] == BLANK}
        return {name: f"_:{digests[int(source)]}-{number}" for name, (_, source, number) in parts.items()}

    def _shown(self, labels: Mapping[str, str], renamed: Sequence[Renaming]) -> dict[str, str]:
        """The display labels of new names: their labels, else IRIs shortened by prefixes."""
        shown = dict[str, str]()
        for renaming in renamed:
            for old in renaming.names:
                new = renaming(old)
                label = labels.get(old) or labels.get(self.options.naming.expand(old)) or self.short(new)
                if label != new:
                    shown[new] = label
        return shown


def quoted(value: str, datatype: str, language: str | None) -> str:
    """A literal as an entity name, in the syntax of N-Triples except that line breaks stay."""
    text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text + (f"@{language}" if language else "" if datatype == f"{XSD}string" else f"^^<{datatype}>")


def _local(name: str) -> str:
    return name[max(name.rfind("#"), name.rfind("/")) + 1 :] or name
