"""The command `import`."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pfedeg.cli.options import CONTEXT, console, force_option, json_option
from pfedeg.errors import InputError
from pfedeg.text import plural, printable

NAME_LENGTH = 80  # longest printed name


@click.command("import", context_settings=CONTEXT)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="the new folder of the client, or NAME.parquet"
)
@click.option(
    "--format",
    metavar="NAME",
    help="nt, nq, ttl, trig, rdf, jsonld, tsv, csv, parquet or fede  [default: from the extension, else detected]",
)
@click.option(
    "--literals",
    type=click.Choice(["drop", "keep", "bucket"]),
    default="drop",
    help="drop literals, keep each as an entity, or put numbers and dates into buckets",
)
@click.option("--buckets", type=click.IntRange(2, 1000), default=10, metavar="N", help="number of buckets per relation")
@click.option(
    "--blank",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    help="keep or drop statements with blank nodes",
)
@click.option("--language", default="en", metavar="CODE", help="preferred language of labels")
@click.option("--columns", metavar="H,R,T", help="columns of a table, by number (from 1) or by name")
@click.option("--delimiter", metavar="CHAR", help="delimiter of a CSV file  [default: detected]")
@click.option("--header/--no-header", default=None, help="whether a table begins with a header  [default: detected]")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    help="stop at an invalid line, or skip and count it",
)
@force_option
@json_option
def import_(sources: tuple[str, ...], out: Path, format: str | None, force: bool, as_json: bool, **chosen: Any) -> None:
    """Import RDF, CSV, TSV or Parquet as a client.

    SOURCE is a file, a folder (all files in it with a known extension) or "-" for standard input. Files may be
    compressed (gz, bz2, zst). The new folder contains triples.parquet, which `pfedeg train` reads, and labels.parquet
    with display labels. A federation is a folder with one such folder per client.

    \b
    Examples:
      pfedeg import hospital.ttl.gz --out federation/north
      pfedeg import export.csv --columns patient,relation,value --literals bucket --out federation/south
      zcat dump.nt.gz | pfedeg import - --format nt --on-error skip --out federation/west
      pfedeg import FB15K237-Fed3.pkl --format fede --out fb15k-237-fed3
    """
    from pfedeg.cli.tables import progress_bar, time_left
    from pfedeg.importing.dispatch import read
    from pfedeg.importing.graph_builder import GraphBuilder, ImportOptions
    from pfedeg.importing.output import check, summary, write
    from pfedeg.importing.sources import FORMATS, find_sources
    from pfedeg.text import suggest

    if format is not None and format not in FORMATS:
        raise InputError(f"--format: unknown format {format!r}{suggest(format, FORMATS)}")
    found = find_sources(sources, format)
    if any(source.format == "fede" for source in found):
        _import_federation(found, out, force, as_json)
        return
    check(out, force)
    columns = chosen.pop("columns")
    if columns is not None and len(columns.split(",")) != 3:
        raise InputError(f"--columns {columns}: expected three columns for head, relation and tail, as in 1,2,3")
    delimiter = {"\\t": "\t", "tab": "\t", "space": " "}.get(chosen["delimiter"], chosen["delimiter"])
    if delimiter is not None and len(delimiter) != 1:
        raise InputError(f"--delimiter {delimiter!r}: expected a single character, or tab")
    options = ImportOptions(**{**chosen, "delimiter": delimiter, "columns": columns.split(",") if columns else None})
    began = time.monotonic()
    total = None if any(not source.size for source in found) else sum(source.size for source in found)
    label = f"importing {found[0].name}" if len(found) == 1 else f"importing {len(found)} files"
    with progress_bar(console(stderr=True), label, total) as show:

        def progress(statements: int) -> None:
            done = sum(source.bytes_read for source in found)
            share = f" ({done / total:.0%})" if total else ""
            show(done, f"{statements:,} statements{share}{time_left(began, done, total)}", False)

        builder = GraphBuilder(options, progress)
        for source in found:
            read(source, builder)
        show(total or 0, f"{builder.statements:,} statements read; sorting names", False)
        graph = builder.finish()
    report = summary(builder, graph, len(found))
    if not report["triples"]:
        reasons = ", ".join(f"{kind}: {many:,}" for kind, many in builder.dropped.items())
        hint = (
            "; to keep literals, add --literals keep or bucket"
            if {"texts", "numbers and dates"} & {*builder.dropped}
            else ""
        )
        raise InputError(
            f"{', '.join(sources)}: no triples to import{f' (dropped: {reasons})' if reasons else ''}{hint}"
        )
    write(out, graph, report, force)
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        _show(out, report, graph.labels)


def _import_federation(found: list[Any], out: Path, force: bool, as_json: bool) -> None:
    from pfedeg.files import check_output
    from pfedeg.graphs.federation_files import FILES
    from pfedeg.graphs.knowledge_graph import SPLITS
    from pfedeg.importing.fede_pickle import read

    if len(found) > 1:
        raise InputError("a file in FedE's format contains a federation; import one file at a time")
    check_output(out, force, FILES)
    federation = read(found[0])
    federation.write(out, force)
    if as_json:
        sizes = {
            name: {split: len(graph.triples(split)) for split in SPLITS} for name, graph in federation.graphs.items()
        }
        click.echo(json.dumps({"clients": sizes}, ensure_ascii=False))
        return
    click.echo(f"wrote {plural(len(federation.graphs), 'client')} to {out}")


def _show(out: Path, report: dict[str, Any], labels: Mapping[str, str]) -> None:
    lines = [
        f"{out}: {plural(report['triples'], 'triple')}, {plural(report['entities'], 'entity')}, "
        f"{plural(report['relations'], 'relation')}, from {plural(report['statements'], 'statement')}"
    ]
    lines += [f"  {remark}" for remark in report["remarks"]]
    if report["labels"]:
        lost = " (not written; use a folder as --out to keep them)" if out.is_file() else ""
        lines.append(f"  display labels: {report['labels']:,}{lost}")
    if report["duplicates"]:
        lines.append(f"  duplicates dropped: {report['duplicates']:,}")
    for kind, many in report["dropped"].items():
        example = f", e.g. {report['examples'][kind]}" if kind in report["examples"] else ""
        hint = "; --literals bucket keeps them" if kind == "numbers and dates" else ""
        lines.append(f"  {kind} dropped: {many:,}{example}{hint}")
    if report["isolated_entities"]:
        lines.append(f"  entities without remaining triples: {report['isolated_entities']:,}")
    if report["names_normalized"]:
        many, example = report["names_normalized"], report["normalized_example"]
        lines.append(f"  names changed to Unicode normal form C: {many:,}, e.g. {example!a}")
    if report["relations"] == 1:
        lines.append("  only one relation: little can be learned from it")
    for what in ("relations", "entities"):
        frequent = report[f"frequent_{what}"]
        shown = [labels.get(name, name) for name in frequent]
        ambiguous = {label for label in shown if shown.count(label) > 1}
        titles = [
            f"{label}, {name}" if label in ambiguous else label for label, name in zip(shown, frequent, strict=True)
        ]
        most = ", ".join(f"{_brief(name)} ({many:,})" for name, many in zip(titles, frequent.values(), strict=True))
        lines.append(f"  most frequent {what}: {most}")
    for line in lines:
        click.echo(printable(line))


def _brief(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
