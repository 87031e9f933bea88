"""The formats of a report: a self-contained web page, Markdown, numbers as CSV, a folder of PNG figures."""

import base64
import csv
import html
import io
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from pfedeg.errors import InputError
from pfedeg.experiments.report.document import Picture, Row, Section, Table, TableCell
from pfedeg.experiments.report.published import METRICS
from pfedeg.experiments.report.results import Results
from pfedeg.files import create_folder, write_bytes
from pfedeg.plots import draw
from pfedeg.text import printable

FORMATS = ("html", "md", "csv", "png")
FIGURES = ("*.png",)  # files in a folder of figures
READABLE = 2 / 3  # smallest scale of a figure with readable text
SHORT = 15  # tables up to this many rows are not split between printed pages
STYLE = """
:root { color-scheme: light; --line: #ddd; --faint: #767676; }
* { box-sizing: border-box; }
html { font-size: 15px; }
body { font: 1rem/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #222; background: #fff;
  max-width: 110rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; }
p { max-width: 46rem; margin: .4rem 0; overflow-wrap: anywhere; } .faint, .note, figcaption { color: var(--faint); }
.note, figcaption { font-size: .87rem; }
nav { font-size: .9rem; margin: .8rem 0 0; max-width: 73rem; } nav a { margin-right: 1rem; } a { color: #0060a0; }
.scroll { overflow-x: auto; margin: .8rem 0 .3rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0 .4rem; }
th, td { padding: .25rem .65rem; border-bottom: 1px solid var(--line); text-align: right; }
th { border-bottom: 2px solid #888; font-weight: 600; vertical-align: bottom; } .word { text-align: left; }
.long { min-width: 14rem; } td:first-child:not(.long) { white-space: nowrap; }
.best { font-weight: 700; background: #e6f2e6; }
tbody tr:hover { background: #f7f7f7; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; }
figure { margin: .6rem 0; max-width: 100%; overflow-x: auto; }
figure img { display: block; max-width: 100%; height: auto; }
summary { cursor: pointer; font-size: 1.25rem; font-weight: 600; margin: 2rem 0 .4rem; }
@media screen and (max-width: 600px) {
  table { font-size: .82rem; } th, td { padding: .25rem .4rem; white-space: nowrap; }
  th:first-child, td:first-child { position: sticky; left: 0; background: #fff; }
  td:first-child:not(.long), .long { white-space: normal; } td:first-child { min-width: 7rem; }
}
@media print {
  html { font-size: 10px; } body { max-width: none; padding: 0; } nav { display: none; }
  p { max-width: none; } h2, summary, caption, section > p { break-after: avoid; }
  p, figure, tr, .short { break-inside: avoid; } tr:nth-child(-n+2) { break-after: avoid; }
  .scroll, figure { overflow: visible; } .pictures { display: block; } figure { display: inline-block; }
  figure img { zoom: .7; min-width: 0 !important; }
  th, td { padding: .15rem .35rem; }
  details > summary { list-style: none; }
}
"""
SCRIPT = "addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => d.open = true));"


def page(title: str, subtitle: str, sections: Sequence[Section], notify: Callable[[str], None]) -> str:
    """One HTML page that contains its style and figures."""
    links = "".join(f'<a href="#{_slug(section.title)}">{_text(section.title)}</a> ' for section in sections)
    body = "\n".join(_section(section, notify) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style></head><body>\n"
        f'<h1>{_text(title)}</h1>\n<p class="faint">{_text(subtitle)}</p>\n<nav>{links}</nav>\n'
        f"{body}\n<script>{SCRIPT}</script></body></html>\n"
    )


def _section(section: Section, notify: Callable[[str], None]) -> str:
    parts, pictures = list[str](), list[str]()
    for part in [*section.parts, None]:
        if isinstance(part, Picture):
            notify(f"drawing {part.title}")
            pictures.append(_figure(part))
            continue
        if pictures:
            parts.append(f'<div class="pictures">{"".join(pictures)}</div>')
            pictures = []
        if part is not None:
            parts.append(_table(part))
    text = f"<p>{_text(section.text)}</p>\n" if section.text else ""
    name, slug, inner = _text(section.title), _slug(section.title), text + "\n".join(parts)
    if section.collapsed:
        return f'<details id="{slug}"><summary>{name}</summary>\n{inner}</details>'
    return f'<section id="{slug}"><h2>{name}</h2>\n{inner}</section>'


def _table(table: Table) -> str:
    def cell(tag: str, place: int, value: TableCell | str) -> str:
        item = value if isinstance(value, TableCell) else TableCell(value)
        kinds = [item.emphasis, "word" if place < table.text_columns else "", "long" if len(item.text) > 40 else ""]
        names = " ".join(filter(None, kinds))
        marks = f' class="{names}"' if names else ""
        marks += f' title="{_text(item.tooltip)}"' if item.tooltip else ""
        return f"<{tag}{marks}>{_text(item.text)}</{tag}>"

    def row(tag: str, values: Row) -> str:
        return "<tr>" + "".join(cell(tag, place, value) for place, value in enumerate(values)) + "</tr>"

    caption = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    rows = "\n".join(row("td", values) for values in table.rows)
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    head = row("th", table.columns)
    kind = "scroll short" if len(table.rows) <= SHORT else "scroll"
    return f'<div class="{kind}"><table>{caption}<thead>{head}</thead>\n<tbody>{rows}</tbody></table></div>{note}'


def _figure(picture: Picture) -> str:
    drawing, width = draw(picture.draw, "svg")
    source, title = base64.b64encode(drawing).decode(), _text(picture.title)
    least = f"min-width: {round(READABLE * width)}px"
    image = f'<img alt="{title}" width="{width}" style="{least}" src="data:image/svg+xml;base64,{source}">'
    return f"<figure>{image}<figcaption>{title}</figcaption></figure>"


def _text(text: str) -> str:
    return html.escape(printable(text))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


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
        tables = [part for part in section.parts if isinstance(part, Table)]
        if not tables:
            continue
        lines += ["", f"## {plain(section.title)}", *(["", paragraph(section.text)] if section.text else [])]
        for table in tables:
            lines += ["", f"### {plain(table.title)}"] if table.title else []
            lines += ["", "| " + " | ".join(plain(name) for name in table.columns) + " |"]
            lines.append(
                "|" + "|".join("---" if at < table.text_columns else "---:" for at in range(len(table.columns))) + "|"
            )
            lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in table.rows]
            lines += ["", paragraph(table.note)] if table.note else []
    return "\n".join(lines) + "\n"


def numbers(results: Results) -> str:
    """A CSV line for every run and client, and for the weighted average of a run, with published numbers."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    measured = [f"{split}_{name}" for split in ("valid", "test") for name in METRICS]
    head = ["data", "model", "scale", "method", "variant", "seed", "client"]
    head += ["rounds", "best_round", "seconds", "test_triples"]
    writer.writerow([*head, *measured, *(f"paper_{name}" for name in METRICS)])
    for entry in results.entries:
        setup = entry.setup
        published = {} if setup.scale else results.published_for(entry)
        for run, result in zip(entry.runs, entry.results, strict=True):
            what = [setup.data, setup.model.identifier, setup.scale, entry.method.identifier, entry.variant, run.seed]
            duration = [result["rounds"], result["best_round"], result["seconds"]]
            clients = result["test"]["clients"]
            for client in ("", *run.clients):
                splits = [
                    result[split]["clients"][client] if client else result[split]["weighted"]
                    for split in ("valid", "test")
                ]
                triples = clients[client]["triples"] if client else sum(each["triples"] for each in clients.values())
                paper = ["" if client else published.get(name, "") for name in METRICS]
                writer.writerow(
                    [*what, client, *duration, triples, *(part[name] for part in splits for name in METRICS), *paper]
                )
    return file.getvalue()


def pictures(out: Path, sections: Sequence[Section], notify: Callable[[str], None], force: bool = False) -> int:
    """Write every figure as a PNG file to a new folder; `force` replaces one with only PNG files."""
    drawn = [part for section in sections for part in section.parts if isinstance(part, Picture)]
    if not drawn:
        raise InputError(f"{out}: no figures can be drawn from these runs")

    def fill(folder: Path) -> None:
        for part in drawn:
            notify(f"drawing {part.title}")
            write_bytes(folder / f"{_slug(part.name)}.png", draw(part.draw, "png")[0])

    create_folder(out, fill, FIGURES if force else ())
    return len(drawn)
