"""Rows with names to a file that appears when all are there: Parquet, CSV or JSON lines, in bounded memory."""

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
    """A line of JSON for each answer, on standard output."""
    yield lambda rows: sys.stdout.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


@contextmanager
def writer(out: Path, columns: Sequence[str]) -> Iterator[Write]:
    """Rows to a file, which appears when all are there."""
    if out.suffix not in (".parquet", ".csv", ".jsonl"):
        raise InputError(f"--out {out}: expected a name that ends with .parquet, .csv or .jsonl")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} is not there")
    with writing(out) as path:
        if out.suffix == ".parquet":
            yield from _parquet(path, columns)
        else:
            with open(path, "w", encoding="utf-8", newline="") as file:
                if out.suffix == ".csv":
                    table = csv.DictWriter(file, columns, lineterminator="\n")
                    table.writeheader()
                    yield table.writerows
                else:
                    yield lambda rows: file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Write]:
    """Rows to a Parquet file, some ten thousand at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"rank": pa.int32(), "score": pa.float32(), "probability": pa.float32()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    held: list[Row] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as table:

        def write(rows: Sequence[Row], all: bool = False) -> None:
            held.extend(rows)
            if len(held) > 10_000 or (all and held):
                table.write_table(pa.Table.from_pylist(held, schema))
                held.clear()

        yield write
        write([], all=True)
