"""Statements from tables: TSV, CSV with any delimiter, Parquet."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from pfedeg.errors import InputError
from pfedeg.importing.gather import Gathered
from pfedeg.importing.sources import Source

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
ROLES = ("head", "relation", "tail")
HEADINGS = (
    {"head", "subject", "subj", "s", "h", "source", "from", "start", "entity1"},
    {"relation", "predicate", "pred", "p", "r", "property", "edge", "type", "rel", "relationship"},
    {"tail", "object", "obj", "o", "t", "target", "to", "end", "entity2"},
)
SAMPLE = 100  # lines by which the delimiter is told


def read_text(source: Source, into: Gathered) -> None:
    """A line per triple. TSV knows no quotes; in CSV a quoted name may hold anything, line breaks too."""
    into.begin(source)
    try:
        with io.TextIOWrapper(source.open(), "utf-8-sig", "surrogateescape", newline="") as text:
            _read_lines(source, text, into)
    except OSError as error:
        raise InputError(f"{source.name}: cannot be read: {error}") from None


def _read_lines(source: Source, text: Iterable[str], into: Gathered) -> None:
    text, choices = iter(text), into.choices
    first = list(islice(text, SAMPLE))
    delimiter = choices.delimiter or ("\t" if source.format == "tsv" else _delimiter(source, first))
    lines = chain(first, text)
    if source.format == "tsv":
        rows = _rows(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE), into)
    else:
        rows = _rows(csv.reader(lines, delimiter=delimiter, strict=True), into)
    heading = next(rows, None)
    if heading is None:
        raise InputError(f"{source.name}: empty")
    places, is_heading = _places(source, heading[1], choices.columns, choices.header)
    width = max(places) + 1
    for number, row in rows if is_heading else chain([heading], rows):
        if len(row) < width:
            into.broken(number, f"{len(row)} column(s) where {width} are needed")
            continue
        names = [row[place] for place in places]
        if "" in names:
            into.broken(number, f"the {ROLES[names.index('')]} is empty")
        elif not all(name.isascii() or _is_text(name) for name in names):
            into.broken(number, "not valid UTF-8")
        else:
            into.plain(*names)


def _rows(reader: Any, into: Gathered) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the line on which they end."""
    while True:
        try:
            for row in reader:
                if row and row != [""]:
                    yield reader.line_num, row
            return
        except csv.Error as error:
            into.broken(reader.line_num, str(error))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _delimiter(source: Source, lines: Sequence[str]) -> str:
    """The sign that cuts the first lines into three or more columns, most of them alike."""
    best, found = "", 0
    for sign in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=sign) if row]
        except csv.Error:
            continue
        usual = max(set(widths), key=widths.count, default=0)
        alike = widths.count(usual) if usual >= 3 else 0
        if alike > found:
            best, found = sign, alike
    if not best:
        names = ", ".join(DELIMITERS.values())
        shown = lines[0].strip()[:60] if lines else ""
        raise InputError(
            f"{source.name}, line 1: no three columns by {names}: {shown!r}; say what separates them by --delimiter"
        )
    return best


def _places(
    source: Source, first: Sequence[str], columns: Sequence[str] | None, header: bool | None
) -> tuple[list[int], bool]:
    """Where head, relation and tail stand, and whether the first row is a heading."""
    plain = [name.strip().lower() for name in first]
    if columns is None:
        found = [[place for place, name in enumerate(plain) if name in names] for names in HEADINGS]
        if header is not False and all(len(each) == 1 for each in found):
            return [each[0] for each in found], True
        if len(first) != 3:
            raise InputError(
                f"{source.name}, line 1: {len(first)} columns ({', '.join(first)[:80]}); "
                "say which are head, relation and tail by --columns, as 1,2,3 or by their names"
            )
        return [0, 1, 2], bool(header)
    if all(name.isdigit() for name in columns):
        places = [int(name) - 1 for name in columns]
        if min(places) < 0 or max(places) >= len(first):
            raise InputError(f"{source.name}, line 1: --columns {','.join(columns)}: there are {len(first)} columns")
        return places, bool(header)
    missing = [name for name in columns if name.strip().lower() not in plain]
    if missing:
        raise InputError(f"{source.name}, line 1: no column {missing[0]!r} (found: {', '.join(first)[:80]})")
    return [plain.index(name.strip().lower()) for name in columns], True


def read_parquet(source: Source, into: Gathered) -> None:
    """A row per triple, in columns called head, relation, tail or the like, or as chosen."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    into.begin(source)
    try:
        if source.path is None or source.packed:
            raise InputError(f"{source.name}: a Parquet file is read from the disk, and not packed once more")
        file = pq.ParquetFile(source.path)
        names = file.schema_arrow.names
        places, _ = _places(source, names, into.choices.columns, True)
        number, wanted = 0, [names[place] for place in places]
        for batch in file.iter_batches(1 << 16, columns=wanted):
            columns = [batch.column(name).cast(pa.string()).to_pylist() for name in wanted]
            for row in zip(*columns, strict=True):
                number += 1
                if not all(row):
                    role = ROLES[[bool(name) for name in row].index(False)]
                    into.broken(number, f"the {role} is empty")
                else:
                    into.plain(*row)
            source.seen = min(source.size, source.seen + batch.nbytes // 4)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{source.name}: not a readable Parquet file ({reason})") from None
