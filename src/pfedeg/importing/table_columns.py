"""The columns of a table: which hold head, relation, tail and their labels, and whether the first row is a header."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pfedeg.errors import InputError
from pfedeg.graphs.naming import is_iri
from pfedeg.graphs.triples import ROLES, normal
from pfedeg.importing.graph_builder import FirstRow, GraphBuilder, ImportOptions
from pfedeg.importing.sources import Source
from pfedeg.text import printable

MANY = 10  # rows without any name of the first row, which make that look like a header
HEADINGS = (
    {"head", "subject", "subj", "s", "h", "source", "from", "start", "entity1", "src", "head_id", "subject_id"},
    {
        *("relation", "predicate", "pred", "p", "r", "property", "edge", "type", "rel", "relationship"),
        *("attribute", "relation_type", "relation_id", "predicate_id"),
    },
    {
        *("tail", "object", "obj", "o", "t", "target", "to", "end", "entity2"),
        *("value", "dst", "destination", "tail_id", "object_id"),
    },
)


@dataclass(frozen=True)
class TableColumns:
    """Positions in a row."""

    names: tuple[int, int, int]
    labels: tuple[int | None, int | None, int | None]
    has_header: bool
    decided: bool  # whether the options or known headings say if the first row is a header

    def header_words(self, first: Sequence[str]) -> int:
        """How many of the three names in the first row are usual headings."""
        return sum(
            _plain(first[place]) in words or _plain(first[place]).removesuffix("_id") in words
            for place, words in zip(self.names, HEADINGS, strict=True)
        )


def find_columns(source: Source, first: Sequence[str], options: ImportOptions) -> TableColumns:
    """The columns of a table whose first row is given."""
    names, has_header = _names(source, first, options.columns, options.header)
    if options.label_columns:
        if options.header is False and not all(name.isdecimal() for name in options.label_columns if name):
            text = ",".join(options.label_columns)
            raise InputError(f"--label-columns {text}: column names need a header; remove --no-header")
        labels = [_chosen(source, first, name, has_header) if name else None for name in options.label_columns]
        has_header = has_header or not all(name.isdecimal() for name in options.label_columns if name)
    else:
        labels = _labels(first, names) if has_header else [None, None, None]
    return TableColumns(
        (names[0], names[1], names[2]),
        (labels[0], labels[1], labels[2]),
        has_header,
        has_header or options.header is not None,
    )


def refuse_to_guess(row: FirstRow) -> bool:
    """For `settle_first_rows` where nobody can be asked."""
    names = ", ".join(map(printable, row.names))
    text = f"{row.source}, line 1: ({names}) may be a header; add --header if it is one"
    raise InputError(f"{text}, or --no-header if it is a triple")


def settle_first_rows(builder: GraphBuilder, is_header: Callable[[FirstRow], bool]) -> None:
    """Add the first rows of all tables, except headers; `is_header` decides about those that may be headers."""
    builder.flush()
    doubtful = [row for row in builder.first_rows if _may_be_header(builder, row)]
    headers = [row for row in doubtful if is_header(row)]
    for row in builder.first_rows:
        if row not in headers:
            builder.row(*row.names)
            builder.label_row(row.names, row.labels)
    builder.first_rows = []


def _may_be_header(builder: GraphBuilder, row: FirstRow) -> bool:
    """Whether the relation occurs nowhere else, and a name is a usual heading or no name occurs in many other rows."""
    head, relation, tail = map(normal, row.names)
    if relation in builder.relations or is_iri(relation) or not builder.statements:
        return False
    return row.words > 0 or (builder.statements >= MANY and not {head, tail} & builder.entities.keys())


def _plain(heading: str) -> str:
    return heading.strip().lower().replace(" ", "_").replace("-", "_")


def _names(
    source: Source, first: Sequence[str], columns: Sequence[str] | None, header: bool | None
) -> tuple[list[int], bool]:
    """The positions of head, relation and tail, and whether the first row is a header."""
    plain = [_plain(name) for name in first]
    if columns is None:
        found = [[place for place, name in enumerate(plain) if name in names] for names in HEADINGS]
        if header is not False and all(len(each) == 1 for each in found):
            return [each[0] for each in found], True
        if len(first) != 3:
            if "\N{REPLACEMENT CHARACTER}" in ",".join(first).encode(errors="surrogateescape").decode(errors="replace"):
                raise InputError(f"{source.name}, line 1: not valid UTF-8; is this file a table?")
            raise InputError(
                f"{source.name}, line 1: {len(first)} columns ({', '.join(first)[:80]}); "
                "add --columns for head, relation and tail, as in 1,2,3 or by name"
            )
        return [0, 1, 2], bool(header)
    if len(set(columns)) < 3:
        raise InputError(f"--columns {','.join(columns)}: head, relation and tail need three different columns")
    if all(name.isdecimal() for name in columns):
        places = [int(name) - 1 for name in columns]
        if min(places) < 0 or max(places) >= len(first):
            raise InputError(
                f"{source.name}, line 1: --columns {','.join(columns)}: the table has {len(first)} columns"
            )
        known = all(plain[place] in names for place, names in zip(places, HEADINGS, strict=True))
        return places, known if header is None else header
    if header is False:
        raise InputError(f"--columns {','.join(columns)}: column names need a header; remove --no-header")
    return [_chosen(source, first, name, True) for name in columns], True


def _chosen(source: Source, first: Sequence[str], name: str, has_header: bool) -> int:
    """The position of a column that the user names or numbers (from 1)."""
    plain = [_plain(heading) for heading in first]
    if _plain(name) in plain:
        return plain.index(_plain(name))
    if name.isdecimal() and 0 < int(name) <= len(first):
        return int(name) - 1
    raise InputError(f"{source.name}, line 1: no column {name!r} (found: {', '.join(first)[:80]})")


def _labels(first: Sequence[str], names: Sequence[int]) -> list[int | None]:
    """The columns whose headings are those of head, relation and tail with "label" behind, as in subject_label."""
    plain = [_plain(name) for name in first]
    found: list[int | None] = []
    for place, role, words in zip(names, ROLES, HEADINGS, strict=True):
        wanted = [f"{word}_label" for word in (plain[place], plain[place].removesuffix("_id"), role, *sorted(words))]
        found.append(next((plain.index(each) for each in wanted if each in plain), None))
    return found
