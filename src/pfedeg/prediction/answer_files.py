"""Writes answers as Parquet, CSV or JSON lines, atomically and in bounded memory."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pfedeg.errors import InputError
from pfedeg.files import writing

Row = dict[str, Any]
Write = Callable[[Sequence[Row]], None]


@contextmanager
def printer() -> Iterator[Write]:
    """Write one JSON line per answer to standard output."""

    def write(rows: Sequence[Row]) -> None:
        sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    yield write


@contextmanager
def writer(out: Path, columns: Sequence[str]) -> Iterator[Write]:
    """Write rows to a file, which appears when it is complete."""
    if out.suffix not in (".parquet", ".csv", ".jsonl"):
        raise InputError(f"--out {out}: expected a file name ending in .parquet, .csv or .jsonl")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: no such folder: {out.parent}")
    with writing(out) as path:
        if out.suffix == ".parquet":
            yield from _parquet(path, columns)
        else:
            with open(path, "w", encoding="utf-8", newline="") as file:
                if out.suffix == ".csv":
                    table = csv.DictWriter(file, columns, lineterminator="\n")
                    table.writeheader()
                    yield lambda rows: table.writerows(map(_as_text, rows))
                else:
                    yield lambda rows: file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _as_text(row: Row) -> Row:
    """The row with lists as JSON text."""
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value for name, value in row.items()
    }


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Write]:
    """Write rows to a Parquet file in groups of about ten thousand."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"rank": pa.int32(), "score": pa.float32(), "probability": pa.float32(), "cases": pa.int32()}
    number, text = pa.float32(), pa.string()
    fact = {"head": text, "relation": text, "tail": text, "similarity": number}
    change = {"without": text, "rank": pa.int32(), "score": number, "rank_change": pa.int32(), "score_change": number}
    change |= {"head_share": number, "tail_share": number}
    kinds |= {"nearest_facts": pa.list_(pa.struct(list(fact.items())))}
    kinds |= {"influence": pa.list_(pa.struct(list(change.items())))}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    buffered: list[Row] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as table:

        def write(rows: Sequence[Row], all: bool = False) -> None:
            buffered.extend(rows)
            if len(buffered) > 10_000 or (all and buffered):
                table.write_table(pa.Table.from_pylist(buffered, schema))
                buffered.clear()

        yield write
        write([], all=True)
