"""A report as one web page that contains its style and figures."""

import base64
import html
import re
from collections.abc import Callable, Sequence

from pfedeg.experiments.report.document import Part, Picture, Row, Section, Table, TableCell
from pfedeg.experiments.report.page_style import SCRIPT, STYLE
from pfedeg.plots import draw
from pfedeg.text import printable

READABLE = 2 / 3  # smallest scale of a figure with readable text
SHORT = 15  # tables up to this many rows are not split between printed pages
LONG = 40  # letters from which a cell may be wrapped


def page(title: str, subtitle: str, sections: Sequence[Section], notify: Callable[[str], None]) -> str:
    """The page."""
    links = "".join(f'<a href="#{slug(section.title)}">{_text(section.title)}</a> ' for section in sections)
    body = "\n".join(_section(section, notify) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style></head><body>\n"
        f'<h1>{_text(title)}</h1>\n<p class="faint">{_text(subtitle)}</p>\n<nav>{links}</nav>\n'
        f"{body}\n<script>{SCRIPT}</script></body></html>\n"
    )


def slug(text: str) -> str:
    """The text as a link or file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _section(section: Section, notify: Callable[[str], None]) -> str:
    """Tables and figures stand side by side where there is room."""
    text = "".join(f"<p>{_text(line)}</p>\n" for line in section.text.splitlines())
    parts = "\n".join(_part(part, section, notify) for part in section.parts)
    name, inner = _text(section.title), f'{text}<div class="parts">{parts}</div>'
    if section.collapsed:
        return f'<details id="{slug(section.title)}"><summary>{name}</summary>\n{inner}</details>'
    return f'<section id="{slug(section.title)}"><h2>{name}</h2>\n{inner}</section>'


def _part(part: Part, section: Section, notify: Callable[[str], None]) -> str:
    if isinstance(part, Table):
        return _table(part)
    notify(f"drawing {section.title}: {part.title}")
    return _figure(part)


def _table(table: Table) -> str:
    def cell(tag: str, place: int, value: TableCell | str) -> str:
        item = value if isinstance(value, TableCell) else TableCell(value)
        kinds = [item.emphasis, "word" if place < table.text_columns else "", "long" if len(item.text) > LONG else ""]
        names = " ".join(filter(None, kinds))
        marks = f' class="{names}"' if names else ""
        marks += f' title="{_text(item.tooltip)}"' if item.tooltip else ""
        text = _text(item.text).replace("± ", "±&nbsp;")  # a narrow column has the mean in one line, ± in the next
        return f"<{tag}{marks}>{text}</{tag}>"

    def row(tag: str, values: Row) -> str:
        return "<tr>" + "".join(cell(tag, place, value) for place, value in enumerate(values)) + "</tr>"

    heading = f"<h3>{_text(table.title)}</h3>" if table.title else ""
    rows = "\n".join(row("td", values) for values in table.rows)
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    kind = "part short" if len(table.rows) <= SHORT else "part"
    inner = f"<table><thead>{row('th', table.columns)}</thead>\n<tbody>{rows}</tbody></table>"
    return f'<div class="{kind}">{heading}<div class="scroll">{inner}</div>{note}</div>'


def _figure(picture: Picture) -> str:
    drawing, width = draw(picture.draw, "svg")
    source, title = base64.b64encode(drawing).decode(), _text(picture.title)
    least = f"min-width: {round(READABLE * width)}px"
    image = f'<img alt="{title}" width="{width}" style="{least}" src="data:image/svg+xml;base64,{source}">'
    return f'<figure class="part"><figcaption>{title}</figcaption><div class="scroll">{image}</div></figure>'


def _text(text: str) -> str:
    return html.escape(printable(text))
