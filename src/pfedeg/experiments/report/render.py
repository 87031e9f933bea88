"""The formats of a report other than the web page: Markdown, numbers as CSV, a folder of PNG figures."""

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.experiments.report.document import Picture, Section, TableCell, as_table
from pfedeg.experiments.report.page import slug
from pfedeg.files import create_folder, write_bytes
from pfedeg.plots import draw
from pfedeg.text import printable

FORMATS = ("html", "md", "csv", "tex", "png")
FIGURES = ("*.png",)  # files in a folder of figures


def markdown(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """Text and tables as Markdown."""

    def plain(text: str) -> str:
        return re.sub(r"([\\|*_`<\[\]])", r"\\\1", printable(text))

    def paragraph(text: str) -> str:
        return textwrap.fill(plain(text), 120, break_long_words=False, break_on_hyphens=False)

    def cell(value: TableCell | str) -> str:
        item = value if isinstance(value, TableCell) else TableCell(value)
        return f"**{plain(item.text)}**" if item.emphasis == "best" else plain(item.text)

    lines = [f"# {plain(title)}", "", plain(subtitle)]
    for section in sections:
        tables = [table for table in map(as_table, section.parts) if table]
        if not tables:
            continue
        lines += [
            "",
            f"## {plain(section.title)}",
            *(each for line in section.text.splitlines() for each in ("", paragraph(line))),
        ]
        for table in tables:
            lines += ["", f"### {plain(table.title)}"] if table.title else []
            lines += ["", "| " + " | ".join(plain(name) for name in table.columns) + " |"]
            lines.append(
                "|" + "|".join("---" if at < table.text_columns else "---:" for at in range(len(table.columns))) + "|"
            )
            lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in table.rows]
            lines += ["", paragraph(table.note)] if table.note else []
    return "\n".join(lines) + "\n"


def pictures(out: Path, sections: Sequence[Section], notify: Callable[[str], None], force: bool = False) -> int:
    """Write every figure as a PNG file to a new folder; `force` replaces one with only PNG files."""
    drawn = [(section, part) for section in sections for part in section.parts if isinstance(part, Picture)]
    if not drawn:
        raise InputError(f"{out}: no figures can be drawn from these runs")

    def fill(folder: Path) -> None:
        for section, part in drawn:
            notify(f"drawing {section.title}: {part.title}")
            write_bytes(folder / f"{slug(part.name)}.png", draw(part.draw, "png")[0])

    create_folder(out, fill, FIGURES if force else ())
    return len(drawn)
