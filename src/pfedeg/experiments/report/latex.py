"""A report as LaTeX tables, for a paper: one per table of the report, without figures and prose."""

import re
from collections.abc import Sequence

from pfedeg.experiments.report.document import Section, Table, TableCell, as_table
from pfedeg.latex import PREAMBLE, bold, booktabs, escape


def latex(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """All tables, each with a caption and a label, in the order of the report."""
    parts = [f"% {escape(title)}: {escape(subtitle)}\n{PREAMBLE}"]
    used: set[str] = set()
    for section in sections:
        for table in filter(None, map(as_table, section.parts)):
            caption = ": ".join(filter(None, (section.title, table.title)))
            parts.append(f"% {escape(caption)}\n{_table(table, caption, _label(caption, used))}")
    return "\n".join(parts)


def _table(table: Table, caption: str, label: str) -> str:
    rows = [[_cell(value) for value in row] for row in table.rows]
    return booktabs([escape(name) for name in table.columns], rows, table.text_columns, caption, label, table.note)


def _cell(value: TableCell | str) -> str:
    item = value if isinstance(value, TableCell) else TableCell(value)
    return bold(escape(item.text)) if item.emphasis == "best" else escape(item.text)


def _label(caption: str, used: set[str]) -> str:
    """A label that no other table has."""
    base = label = "tab:" + re.sub(r"[^a-z0-9]+", "-", caption.lower()).strip("-")
    while label in used:
        label = f"{base}-{len(used)}"
    used.add(label)
    return label
