"""The content of a report, independent of its format: sections with text, tables and figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TableCell:
    """The text of a table cell, its emphasis (best, faint), and a tooltip."""

    text: str
    emphasis: str = ""
    tooltip: str = ""


Row = Sequence[TableCell | str]


@dataclass
class Table:
    """Rows under columns; the first `text_columns` columns hold text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    text_columns: int = 1
    note: str = ""


@dataclass
class Picture:
    """A figure, drawn when needed; `name` becomes its file name, `table` stands for it in text."""

    name: str
    title: str
    draw: Callable[[], "Figure"]
    table: Table | None = None


Part = Table | Picture


def as_table(part: Part) -> Table | None:
    """A table, or the one that stands for a figure."""
    return part if isinstance(part, Table) else part.table


@dataclass
class Section:
    """A section of the report, with a paragraph for each line of text; collapsed sections open on click."""

    title: str
    text: str = ""
    parts: list[Part] = field(default_factory=list)
    collapsed: bool = False
