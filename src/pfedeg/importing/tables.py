"""Statements from tables: TSV, CSV with any delimiter, Parquet."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice

from pfedeg.errors import InputError
from pfedeg.graphs.triples import ROLES
from pfedeg.importing.graph_builder import Gathered
from pfedeg.importing.sources import Source

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
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
    quotes = source.format != "tsv"
    delimiter = choices.delimiter or ("\t" if not quotes else _delimiter(source, first))
    if choices.delimiter is None and delimiter not in (",", "\t"):
        into.remark(f"{source.name}: columns are separated by {DELIMITERS[delimiter]}s")
    rows = _rows(chain(first, text), delimiter, quotes, into)
    heading = next(rows, None)
    if heading is None:
        raise InputError(f"{source.name}: empty")
    width = len(heading[1])
    places, is_heading = _places(source, heading[1], choices.columns, choices.header)
    if choices.header is None and not is_heading:
        into.first_rows.append((source.name, *(heading[1][place] for place in places)))
    for number, row in rows if is_heading else chain([heading], rows):
        while len(row) > width and not row[-1]:
            row.pop()
        if len(row) != width:
            into.broken(number, f"{len(row)} column(s) where the first line has {width}")
            continue
        names = [row[place] for place in places]
        if "" in names:
            into.broken(number, f"the {ROLES[names.index('')]} is empty")
        elif not all(name.isascii() or _is_text(name) for name in names):
            into.broken(number, "not valid UTF-8")
        else:
            into.plain(*names)


def _rows(text: Iterator[str], delimiter: str, quotes: bool, into: Gathered) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the line on which they begin. After a broken one it goes on with the next line."""
    number, held, again = 0, list[str](), list[str]()  # lines read for this row; lines to be read once more

    def lines() -> Iterator[str]:
        while (line := again.pop() if again else next(text, None)) is not None:
            held.append(line)
            yield line

    while True:
        how = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
        reader = csv.reader(lines(), delimiter=delimiter, **how)
        try:
            for row in reader:
                begins, number = number + 1, number + len(held)
                held.clear()
                if row and row != [""]:
                    yield begins, row
            return
        except csv.Error as error:
            number += 1
            again.extend(reversed(held[1:]))  # perhaps a quote that was never closed
            held.clear()
            into.broken(number, str(error))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _delimiter(source: Source, lines: Sequence[str]) -> str:
    """The sign that cuts most of the first lines alike into three or more columns.

    Of several, one that leaves no quotes inside of names, then the one that comes first.
    """
    best, found = "", (0, 0, 0)
    for sign in DELIMITERS:
        rows = []
        with suppress(csv.Error):  # a line that is broken, or cut off where the sample ends
            for row in csv.reader(lines, delimiter=sign):
                rows.append(row)
        widths = [len(row) for row in rows if len(row) >= 3]
        alike = max((widths.count(width) for width in set(widths)), default=0)
        stray = sum('"' in name for row in rows for name in row)
        if alike and (alike, -stray, -lines[0].find(sign)) > (found if best else (0, 0, 0)):
            best, found = sign, (alike, -stray, -lines[0].find(sign))
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
    if len(set(columns)) < 3:
        raise InputError(f"--columns {','.join(columns)}: one column cannot be two of head, relation and tail")
    if all(name.isdecimal() for name in columns):
        places = [int(name) - 1 for name in columns]
        if min(places) < 0 or max(places) >= len(first):
            raise InputError(f"{source.name}, line 1: --columns {','.join(columns)}: there are {len(first)} columns")
        known = all(plain[place] in names for place, names in zip(places, HEADINGS, strict=True))
        return places, known if header is None else header
    if header is False:
        raise InputError(f"--columns {','.join(columns)}: are names, which a table has only with --header")
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
        choices = into.choices
        places, _ = _places(source, names, choices.columns, True)
        if beside := [name for name in ("client", "split") if name in names and name not in (choices.columns or ())]:
            what = f"the column {beside[0]} is" if len(beside) == 1 else "the columns client and split are"
            into.remark(f"{source.name}: {what} not looked at; `pfedeg train` reads such a file as it is")
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
