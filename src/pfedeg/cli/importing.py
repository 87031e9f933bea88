"""The command that brings in graphs of users' own."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pfedeg.cli.options import CONTEXT, console, json_option
from pfedeg.errors import InputError
from pfedeg.text import plural, printable

MOST_SIGNS = 80  # of a name that is printed


@click.command("import", context_settings=CONTEXT)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="a new folder for the client, or NAME.parquet"
)
@click.option(
    "--format", metavar="NAME", help="nt, nq, ttl, trig, rdf, jsonld, tsv, csv, parquet or fede  [by the name]"
)
@click.option(
    "--literals",
    type=click.Choice(["drop", "keep", "bucket"]),
    default="drop",
    help="what to do with values: leave them out, make each an entity, or numbers and dates buckets  [drop]",
)
@click.option("--buckets", type=click.IntRange(2, 1000), default=10, metavar="N", help="buckets per relation  [10]")
@click.option(
    "--blank", type=click.Choice(["keep", "drop"]), default="keep", help="statements with blank nodes  [keep]"
)
@click.option("--language", default="en", metavar="CODE", help="of labels, where there are several  [en]")
@click.option("--columns", metavar="H,R,T", help="which columns of a table, by number from 1 or by name")
@click.option("--delimiter", metavar="SIGN", help="between the columns of a CSV file  [by its looks]")
@click.option("--header/--no-header", default=None, help="whether a table begins with the names of its columns")
@click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", help="at a broken line  [stop]")
@json_option
def import_(sources: tuple[str, ...], out: Path, format: str | None, as_json: bool, **chosen: Any) -> None:
    """Make a client from graphs in RDF, CSV, TSV or Parquet, packed (gz, bz2, zst) or not; "-" is standard input.

    A SOURCE may be a folder: all files in it that can be read. The new folder has triples.parquet, which `pfedeg train`
    reads, and labels.parquet, names for people's eyes. A federation is a folder with a client's folder for each.

    \b
    Examples:
      pfedeg import hospital.ttl.gz --out federation/north
      pfedeg import export.csv --columns patient,relation,value --literals bucket --out federation/south
      zcat dump.nt.gz | pfedeg import - --format nt --on-error skip --out federation/west
      pfedeg import FB15K237-Fed3.pkl --format fede --out fb15k-237-fed3
    """
    from pfedeg.cli.tables import ahead, meter
    from pfedeg.files import check_free
    from pfedeg.importing.dispatch import read
    from pfedeg.importing.graph_builder import Choices, Gathered
    from pfedeg.importing.output import summary, write
    from pfedeg.importing.sources import FORMATS, Source, find
    from pfedeg.text import suggest

    if format is not None and format not in FORMATS:
        raise InputError(f"--format {format}: unknown{suggest(format, FORMATS)}; one of {', '.join(FORMATS)}")
    check_free(out)
    found = find(sources, format)
    if any(source.format == "fede" for source in found):
        _bring_federation(found, out, as_json)
        return
    columns = chosen.pop("columns")
    if columns is not None and len(columns.split(",")) != 3:
        raise InputError(f"--columns {columns}: expected three, for head, relation and tail, as in 1,2,3")
    delimiter = {"\\t": "\t", "tab": "\t", "space": " "}.get(chosen["delimiter"], chosen["delimiter"])
    if delimiter is not None and len(delimiter) != 1:
        raise InputError(f"--delimiter {delimiter!r}: expected one sign, or tab")
    choices = Choices(**{**chosen, "delimiter": delimiter, "columns": columns.split(",") if columns else None})
    began = time.monotonic()
    total = None if any(not source.size for source in found) else sum(source.size for source in found)
    label = f"importing {found[0].name}" if len(found) == 1 else f"importing {len(found)} files"
    with meter(console(stderr=True), label, total) as show:

        def tell(source: Source, statements: int) -> None:
            done = sum(each.seen for each in found)
            share = f" ({done / total:.0%})" if total else ""
            show(done, f"{statements:,} statements{share}{ahead(began, done, total)}", False)

        gathered = Gathered(choices, tell)
        for source in found:
            read(source, gathered)
        show(total or 0, f"{gathered.statements:,} statements read; names are put in order", False)
        graph = gathered.finish()
    told = summary(gathered, graph, len(found))
    if not told["triples"]:
        reasons = ", ".join(f"{many:,} {kind}" for kind, many in gathered.dropped.items())
        hint = (
            "; --literals keep or bucket makes entities of values"
            if {"texts", "numbers and dates"} & {*gathered.dropped}
            else ""
        )
        raise InputError(
            f"{', '.join(sources)}: no triples are left{f' (left out: {reasons})' if reasons else ''}{hint}"
        )
    write(out, graph, told)
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
    else:
        _show(out, told, graph.labels)


def _bring_federation(found: list[Any], out: Path, as_json: bool) -> None:
    from pfedeg.graphs.knowledge_graph import SPLITS
    from pfedeg.importing.fede_pickle import read

    if len(found) > 1:
        raise InputError("FedE's files are whole federations; import them one by one")
    federation = read(found[0])
    federation.write(out)
    if as_json:
        sizes = {
            name: {split: len(graph.triples(split)) for split in SPLITS} for name, graph in federation.graphs.items()
        }
        click.echo(json.dumps({"clients": sizes}, ensure_ascii=False))
        return
    click.echo(f"wrote {plural(len(federation.graphs), 'client')} to {out}")


def _show(out: Path, told: dict[str, Any], labels: Mapping[str, str]) -> None:
    lines = [
        f"{out}: {plural(told['triples'], 'triple')}, {plural(told['entities'], 'entity')}, "
        f"{plural(told['relations'], 'relation')}, from {plural(told['statements'], 'statement')}"
    ]
    lines += [f"  {remark}" for remark in told["remarks"]]
    if told["labels"]:
        lost = " (left out: only a folder can hold them)" if out.is_file() else ""
        lines.append(f"  names for people's eyes: {told['labels']:,}{lost}")
    if told["duplicates"]:
        lines.append(f"  duplicates left out: {told['duplicates']:,}")
    for kind, many in told["dropped"].items():
        example = f", such as {told['examples'][kind]}" if kind in told["examples"] else ""
        hint = "; --literals bucket makes entities of them" if kind == "numbers and dates" else ""
        lines.append(f"  {kind} left out: {many:,}{example}{hint}")
    if told["isolated_entities"]:
        lines.append(f"  entities of which nothing was left: {told['isolated_entities']:,}")
    if told["spellings_made_one"]:
        many, example = told["spellings_made_one"], told["spelling_example"]
        lines.append(f"  names brought into Unicode normal form C: {many:,}, such as {example!a}")
    if told["relations"] == 1:
        lines.append("  there is only one relation: little can be learned from that alone")
    for what in ("relations", "entities"):
        frequent = told[f"frequent_{what}"]
        shown = [labels.get(name, name) for name in frequent]
        twice = {label for label in shown if shown.count(label) > 1}
        called = [f"{label}, {name}" if label in twice else label for label, name in zip(shown, frequent, strict=True)]
        most = ", ".join(f"{_brief(name)} ({many:,})" for name, many in zip(called, frequent.values(), strict=True))
        lines.append(f"  most frequent {what}: {most}")
    for line in lines:
        click.echo(printable(line))


def _brief(name: str) -> str:
    return name if len(name) <= MOST_SIGNS else f"{name[: MOST_SIGNS - 1]}…"
