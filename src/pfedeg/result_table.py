"""Results as a table: rows of numbers and texts that become Arrow, pandas, CSV or LaTeX."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pfedeg.errors import InputError
from pfedeg.extras import require
from pfedeg.latex import booktabs, escape
from pfedeg.text import suggest

Cell = int | float | str | None


@dataclass(frozen=True)
class ResultTable:
    """Results in `rows` under `columns`. Iterating yields a dict per row; None means that there is no value."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> "ResultTable":
        """A table of `rows` with the values of `columns`."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def column(self, name: str) -> list[Cell]:
        """The values of the column called `name`."""
        if name not in self.columns:
            raise InputError(f"unknown column {name!r}{suggest(name, self.columns)}")
        return [row[self.columns.index(name)] for row in self.rows]

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        import pyarrow as pa

        columns = (self._arrow(name) for name in self.columns)
        return pa.Table.from_arrays(list(columns), names=list(self.columns))

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Needs the extra pandas."""
        require("pandas", "to_pandas", "to_arrow works without it")
        import pandas as pd

        return pd.DataFrame([dict(row) for row in self], columns=list(self.columns))

    def to_csv(self) -> str:
        """Comma-separated text with a header."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return file.getvalue()

    def to_latex(self, caption: str = "", label: str = "", digits: int = 4) -> str:
        """A LaTeX table with a `caption` and a `label`, real numbers with so many `digits`. Needs booktabs."""
        texts = [name for name in self.columns if any(isinstance(value, str) for value in self.column(name))]
        order = [self.columns.index(name) for name in (*texts, *(n for n in self.columns if n not in texts))]

        def shown(value: Cell) -> str:
            return "--" if value is None else f"{value:.{digits}f}" if isinstance(value, float) else escape(str(value))

        rows = [[shown(row[place]) for place in order] for row in self.rows]
        head = [escape(self.columns[place]) for place in order]
        return booktabs(head, rows, len(texts), caption, label)

    def _arrow(self, name: str) -> Any:
        import pyarrow as pa

        values = self.column(name)
        kinds = {type(value) for value in values if value is not None}
        if str in kinds:
            return pa.array([None if value is None else str(value) for value in values], pa.string())
        return pa.array(values, pa.float64() if float in kinds or not kinds else pa.int64())
