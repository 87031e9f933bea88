"""Readers of tables: TSV, CSV with any delimiter, Parquet."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice

from pfedeg.errors import InputError
from pfedeg.graphs.triples import ROLES
from pfedeg.importing.graph_builder import GraphBuilder
from pfedeg.importing.sources import Source

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
HEADINGS = (
    {"head", "subject", "subj", "s", "h", "source", "from", "start", "entity1"},
    {"relation", "predicate", "pred", "p", "r", "property", "edge", "type", "rel", "relationship"},
    {"tail", "object", "obj", "o", "t", "target", "to", "end", "entity2"},
)
SAMPLE = 100  # lines from which the delimiter is detected


def read_text(source: Source, builder: GraphBuilder) -> None:
    """Add one triple per row. TSV has no quoting; in CSV quoted names may contain anything, even line breaks."""
    builder.start_source(source)
    try:
        with io.TextIOWrapper(source.open(), "utf-8-sig", "surrogateescape", newline="") as text:
            _read_lines(source, text, builder)
    except OSError as error:
        raise InputError(f"{source.name}: cannot be read: {error}") from None


def _read_lines(source: Source, text: Iterable[str], builder: GraphBuilder) -> None:
    text, options = iter(text), builder.options
    first = list(islice(text, SAMPLE))
    quotes = source.format != "tsv"
    delimiter = options.delimiter or ("\t" if not quotes else _delimiter(source, first))
    if options.delimiter is None and delimiter not in (",", "\t"):
        builder.remark(f"{source.name}: delimiter detected: {DELIMITERS[delimiter]}")
    rows = _rows(chain(first, text), delimiter, quotes, builder)
    header = next(rows, None)
    if header is None:
        raise InputError(f"{source.name}: empty")
    width = len(header[1])
    places, is_header = _columns(source, header[1], options.columns, options.header)
    if options.header is None and not is_header:
        builder.first_rows.append((source.name, *(header[1][place] for place in places)))
    for number, row in rows if is_header else chain([header], rows):
        while len(row) > width and not row[-1]:
            row.pop()
        if len(row) != width:
            builder.reject(number, f"{len(row)} column(s); the first line has {width}")
            continue
        names = [row[place] for place in places]
        if "" in names:
            builder.reject(number, f"the {ROLES[names.index('')]} is empty")
        elif not all(name.isascii() or _is_text(name) for name in names):
            builder.reject(number, "not valid UTF-8")
        else:
            builder.row(*names)


def _rows(text: Iterator[str], delimiter: str, quotes: bool, builder: GraphBuilder) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with their first line. After an invalid row, parsing resumes at the next line."""
    number, held, again = 0, list[str](), list[str]()  # lines of the current row; lines to parse again

    def lines() -> Iterator[str]:
        while (line := again.pop() if again else next(text, None)) is not None:
            held.append(line)
            yield line

    while True:
        how = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
        reader = csv.reader(lines(), delimiter=delimiter, **how)
        try:
            for row in reader:
                first_line, number = number + 1, number + len(held)
                held.clear()
                if row and row != [""]:
                    yield first_line, row
            return
        except csv.Error as error:
            number += 1
            again.extend(reversed(held[1:]))  # the row may be many lines long because of an unclosed quote
            held.clear()
            builder.reject(number, str(error))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _delimiter(source: Source, lines: Sequence[str]) -> str:
    """The delimiter that splits most of the first lines into the same number of columns, at least three.

    Ties are decided by the fewest quotes left inside names, then by the first position in line 1.
    """
    best, found = "", (0, 0, 0)
    for char in DELIMITERS:
        rows = []
        with suppress(csv.Error):  # an invalid line, or a row that continues after the sample
            for row in csv.reader(lines, delimiter=char):
                rows.append(row)
        widths = [len(row) for row in rows if len(row) >= 3]
        alike = max((widths.count(width) for width in set(widths)), default=0)
        stray = sum('"' in name for row in rows for name in row)
        if alike and (alike, -stray, -lines[0].find(char)) > (found if best else (0, 0, 0)):
            best, found = char, (alike, -stray, -lines[0].find(char))
    if not best:
        names = ", ".join(DELIMITERS.values())
        shown = lines[0].strip()[:60] if lines else ""
        raise InputError(
            f"{source.name}, line 1: cannot split into three columns by {names}: {shown!r}; add --delimiter"
        )
    return best


def _columns(
    source: Source, first: Sequence[str], columns: Sequence[str] | None, header: bool | None
) -> tuple[list[int], bool]:
    """The positions of head, relation and tail, and whether the first row is a header."""
    plain = [name.strip().lower() for name in first]
    if columns is None:
        found = [[place for place, name in enumerate(plain) if name in names] for names in HEADINGS]
        if header is not False and all(len(each) == 1 for each in found):
            return [each[0] for each in found], True
        if len(first) != 3:
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
    missing = [name for name in columns if name.strip().lower() not in plain]
    if missing:
        raise InputError(f"{source.name}, line 1: no column {missing[0]!r} (found: {', '.join(first)[:80]})")
    return [plain.index(name.strip().lower()) for name in columns], True


def read_parquet(source: Source, builder: GraphBuilder) -> None:
    """Add one triple per row, from columns called head, relation, tail or similar, or from those given."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    builder.start_source(source)
    try:
        if source.path is None or source.compression:
            raise InputError(f"{source.name}: Parquet is read only from an uncompressed file on disk")
        file = pq.ParquetFile(source.path)
        names = file.schema_arrow.names
        options = builder.options
        places, _ = _columns(source, names, options.columns, True)
        if extra := [name for name in ("client", "split") if name in names and name not in (options.columns or ())]:
            which = f"column {extra[0]}" if len(extra) == 1 else "columns client and split"
            builder.remark(f"{source.name}: {which} ignored; `pfedeg train` reads this file without import")
        number, wanted = 0, [names[place] for place in places]
        for batch in file.iter_batches(1 << 16, columns=wanted):
            columns = [batch.column(name).cast(pa.string()).to_pylist() for name in wanted]
            for row in zip(*columns, strict=True):
                number += 1
                if not all(row):
                    role = ROLES[[bool(name) for name in row].index(False)]
                    builder.reject(number, f"the {role} is empty")
                else:
                    builder.row(*row)
            source.bytes_read = min(source.size, source.bytes_read + batch.nbytes // 4)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{source.name}: not a readable Parquet file ({reason})") from None
