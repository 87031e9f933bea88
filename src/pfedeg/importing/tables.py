"""Readers of tables: TSV, CSV with any delimiter, Parquet."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from pfedeg.errors import InputError
from pfedeg.graphs.triples import ROLES
from pfedeg.importing.graph_builder import SORTED, FirstRow, GraphBuilder
from pfedeg.importing.limits import exceeded, lines
from pfedeg.importing.sources import Source
from pfedeg.importing.table_columns import find_columns

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SAMPLE, SAMPLE_TEXT = 100, 1_000_000  # lines and characters from which the delimiter is detected
UNCLOSED = 1000  # quotes that are never closed: each makes many lines be parsed again


def read_text(source: Source, builder: GraphBuilder) -> None:
    """Add one triple per row. TSV has no quoting; in CSV quoted names may contain anything, even line breaks."""
    builder.start_source(source)
    try:
        with io.TextIOWrapper(source.open(), "utf-8-sig", "surrogateescape", newline="") as text:
            _read_lines(source, lines(text, source.name, source.limits.max_line), builder)
    except OSError as error:
        raise InputError(f"{source.name}: cannot be read: {error}") from None


def _read_lines(source: Source, text: Iterable[str], builder: GraphBuilder) -> None:
    text, options = iter(text), builder.options
    first = list[str]()
    for line in islice(text, SAMPLE):
        first.append(line)
        if sum(map(len, first)) > SAMPLE_TEXT:
            break
    quotes = source.format != "tsv"
    delimiter = options.delimiter or ("\t" if not quotes else _delimiter(source, first))
    if options.delimiter is None and delimiter not in (",", "\t"):
        builder.remark(f"{source.name}: delimiter detected: {DELIMITERS[delimiter]}")
    rows = _rows(chain(first, text), delimiter, quotes, builder)
    header = next(rows, None)
    if header is None:
        raise InputError(f"{source.name}: empty")
    width = len(header[1])
    columns = find_columns(source, header[1], options)
    for number, row in rows if columns.has_header else chain([header], rows):
        while len(row) > width and not row[-1]:
            row.pop()
        if len(row) != width:
            builder.reject(number, f"{len(row)} column(s); the first line has {width}")
            continue
        head, relation, tail = (builder.trim(row[place]) for place in columns.names)
        labels = [None if place is None else row[place] for place in columns.labels]
        if problem := _problem(head, relation, tail, *labels):
            builder.reject(number, problem)
        elif row is header[1] and not columns.decided:
            names, words = (head, relation, tail), columns.header_words(row)
            builder.first_rows.append(FirstRow(source.name, names, tuple(labels), words))
        else:
            builder.row(head, relation, tail)
            builder.label_row((head, relation, tail), labels)


def _problem(*cells: str | None) -> str:
    """What is wrong with the cells of a row, head, relation and tail first; empty if nothing is."""
    for role, cell in zip(ROLES, cells, strict=False):
        if not cell:
            return f"the {role} is empty"
    return "" if all(cell is None or cell.isascii() or _is_text(cell) for cell in cells) else "not valid UTF-8"


def _rows(text: Iterator[str], delimiter: str, quotes: bool, builder: GraphBuilder) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with their first line. After an invalid row, parsing resumes at the next line."""
    number, held, again = 0, list[str](), list[str]()  # lines of the current row; lines to parse again
    unclosed = 0

    def following() -> Iterator[str]:
        while (line := again.pop() if again else next(text, None)) is not None:
            held.append(line)
            yield line

    while True:
        how = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
        reader = csv.reader(following(), delimiter=delimiter, **how)
        try:
            for row in reader:
                first_line, number = number + 1, number + len(held)
                held.clear()
                if row and row != [""]:
                    yield first_line, row
            return
        except csv.Error as error:
            number += 1
            unclosed += len(held) > 1
            if unclosed > UNCLOSED:
                builder.reject(number, f"the last of {unclosed:,} quotes that are never closed", fatal=True)
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
        if not _is_text(shown):
            raise InputError(f"{source.name}, line 1: not valid UTF-8; is this file a table?")
        raise InputError(
            f"{source.name}, line 1: cannot split into three columns by {names}: {shown!r}; add --delimiter"
        )
    return best


def read_parquet(source: Source, builder: GraphBuilder) -> None:
    """Add one triple per row, from columns called head, relation, tail or similar, or from those given."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    builder.start_source(source)
    try:
        if source.path is None or source.compression:
            raise InputError(f"{source.name}: Parquet is read only from an uncompressed file on disk")
        names = pq.ParquetFile(source.path).schema_arrow.names
        options = builder.options
        columns = find_columns(source, names, replace(options, header=True))
        if extra := [name for name in ("client", "split") if name in names and name not in (options.columns or ())]:
            which = f"column {extra[0]}" if len(extra) == 1 else "columns client and split"
            hint = "`pfedeg train` reads this file without import, --federation keeps them"
            builder.remark(f"{source.name}: {which} ignored; {hint}")
        number, places = 0, (*columns.names, *(place for place in columns.labels if place is not None))
        wanted = list(dict.fromkeys(names[place] for place in places))
        file = pq.ParquetFile(source.path, read_dictionary=wanted)  # equal names are read once
        rows = file.metadata.num_rows
        source.limits.check_memory(f"{source.name}, {rows:,} rows", rows * SORTED)
        for batch in file.iter_batches(1 << 16, columns=wanted):
            source.limits.check_memory(source.name)
            cells = {name: _cells(source, batch.column(name)) for name in wanted}
            of_roles = zip(*(cells[names[place]] for place in columns.names), strict=True)
            of_labels = zip(
                *([None] * len(batch) if p is None else cells[names[p]] for p in columns.labels), strict=True
            )
            for row, labels in zip(of_roles, of_labels, strict=True):
                number += 1
                head, relation, tail = (builder.trim(cell or "") for cell in row)
                if problem := _problem(head, relation, tail):
                    builder.reject(number, problem)
                else:
                    builder.row(head, relation, tail)
                    builder.label_row((head, relation, tail), labels)
            source.bytes_read = min(source.size, source.bytes_read + batch.nbytes // 4)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{source.name}: not a readable Parquet file ({reason})") from None


def _cells(source: Source, column: Any) -> list[str | None]:
    """The texts of a column; equal ones are one object."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
    texts = whole.dictionary.cast(pa.large_string())
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > source.limits.max_line:
        raise exceeded(source.name, f"a cell longer than {source.limits.max_line:,} bytes", "max_line")
    names = texts.to_pylist()
    return [None if place is None else names[place] for place in whole.indices.to_pylist()]
