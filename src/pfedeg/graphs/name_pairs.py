"""Reads files with two columns of names: old and new names, or names and labels."""

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.graphs.triples import normal

HEADINGS = ({"old", "name", "from", "iri", "entity", "id"}, {"new", "label", "to", "name", "title"})


def read_pairs(path: Path, columns: tuple[str, str]) -> list[tuple[int, str, str]]:
    """Line, first and second name of every line of a TSV, CSV or Parquet file; trimmed and in normal form C.

    A first line of common headings, such as `columns`, is skipped.
    """
    rows = list(_parquet(path, columns) if path.suffix.lower() == ".parquet" else _text(path, columns))
    first = [part.strip().lower() for part in rows[0][1]] if rows else []
    if len(first) == 2 and all(part in known for part, known in zip(first, HEADINGS, strict=True)):
        rows = rows[1:]
    pairs = []
    for line, row in rows:
        if len(row) != 2:
            expected = f"expected {columns[0]} and {columns[1]}, separated by {_separator(path)}"
            raise InputError(f"{path}, line {line}: {len(row)} column(s); {expected}")
        one, other = (normal((part or "").strip()) for part in row)
        if not one or not other:
            raise InputError(f"{path}, line {line}: the {'second' if one else 'first'} column is empty")
        pairs.append((line, one, other))
    if not pairs:
        raise InputError(f"{path}: empty; expected lines with {columns[0]} and {columns[1]}")
    return pairs


def _separator(path: Path) -> str:
    return "a comma" if path.suffix.lower() == ".csv" else "a tab"


def _text(path: Path, columns: tuple[str, str]) -> Iterator[tuple[int, list[str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not valid UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if path.suffix.lower() != ".csv":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield number, line.removesuffix("\r").split("\t")
        return
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None


def _parquet(path: Path, columns: tuple[str, str]) -> Iterator[tuple[int, list[str]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from None
    names = table.column_names
    wanted = list(columns) if set(columns) <= set(names) else names
    if len(wanted) != 2:
        raise InputError(f"{path}: expected columns {columns[0]} and {columns[1]} (found: {', '.join(names)[:80]})")
    one, other = (table.column(name).cast(pa.string()).to_pylist() for name in wanted)
    for number, row in enumerate(zip(one, other, strict=True), 1):
        yield number, [cell or "" for cell in row]
