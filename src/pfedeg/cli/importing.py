"""The command `import`."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedeg.cli.naming import naming_options
from pfedeg.cli.options import CONTEXT, console, force_option, json_option
from pfedeg.errors import InputError
from pfedeg.text import plural, printable

if TYPE_CHECKING:
    from pfedeg.graphs.naming import Naming
    from pfedeg.importing.graph_builder import FirstRow

PARTS = "head, relation and tail"
TABLE_OPTIONS = ("columns", "label-columns")
FOR_FILES: tuple[str, ...] = (
    "format",
    "literals",
    "buckets",
    "blank",
    "language",
    "columns",
    "delimiter",
    "header",
    "on_error",
)
FOR_FILES += ("label_columns", "labels")
LIMITS = (
    ("max-line", "BYTES", "16000000", "longer lines"),
    ("max-name", "N", "65536", "names with more characters"),
    ("max-depth", "N", "256", "JSON-LD, RDF/XML and triple terms that are nested deeper"),
    ("max-expansion", "N", "1000", "files that decompress to more than N times their size, and longer XML entities"),
    ("max-memory", "GB", "3/4 of the machine", "files whose import needs more memory"),
)
FOR_FILES += tuple(name.replace("-", "_") for name, *_ in LIMITS)


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The limits of an import, which protect from files that are made to harm."""
    for name, metavar, default, text in reversed(LIMITS):
        help = f"refuse {text}  [default: {default}]"
        function = click.option(f"--{name}", type=int, metavar=metavar, default=None, help=help)(function)
    return function


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
@click.option(
    "--labels", type=click.Path(path_type=Path), metavar="FILE", help="a file with a name and a label per line"
)
@click.option(
    "--label-columns",
    metavar="H,R,T",
    help="columns of labels; some may be empty, as in 4,,5  [default: head_label, …]",
)
@click.option("--delimiter", metavar="CHAR", help="delimiter of a CSV file  [default: detected]")
@click.option(
    "--header/--no-header", default=None, help="whether the first row of a table is a header  [default: detected]"
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    help="stop at an invalid line, or skip and count it",
)
@naming_options
@limit_options
@click.option(
    "--federation", is_flag=True, help="SOURCE is a Parquet file or folder that `pfedeg train` reads as clients"
)
@force_option
@json_option
def import_(
    sources: tuple[str, ...],
    out: Path,
    format: str | None,
    names: str,
    map_: Path | None,
    prefixes: tuple[str, ...],
    labels: Path | None,
    federation: bool,
    force: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Import RDF, CSV, TSV or Parquet as a client.

    SOURCE is a file, a folder (all files in it with a known extension) or "-" for standard input. Files may be
    compressed (gz, bz2, zst). The new folder contains triples.parquet, which `pfedeg train` reads, and labels.parquet
    with display labels. A federation is a folder with one such folder per client.

    SOURCE may also be a federation, or a client's folder: --names, --map and --prefix then give it other names.

    \b
    Examples:
      pfedeg import hospital.ttl.gz --out federation/north
      pfedeg import export.csv --columns patient,relation,value --literals bucket --out federation/south
      zcat dump.nt.gz | pfedeg import - --format nt --on-error skip --out federation/west
      pfedeg import federation --names label --out federation-by-label
      pfedeg import FB15K237-Fed3.pkl --format fede --out fb15k-237-fed3
    """
    from pfedeg.cli.import_summary import show_summary
    from pfedeg.cli.tables import progress_bar, time_left
    from pfedeg.graphs.federation_files import is_federation
    from pfedeg.graphs.name_pairs import read_pairs
    from pfedeg.graphs.naming import Naming
    from pfedeg.importing.dispatch import read
    from pfedeg.importing.graph_builder import GraphBuilder, ImportOptions
    from pfedeg.importing.limits import RANGES, Limits, check_limits
    from pfedeg.importing.output import check, summary, write
    from pfedeg.importing.sources import FORMATS, find_sources
    from pfedeg.importing.table_columns import settle_first_rows
    from pfedeg.text import suggest

    if format is not None and format not in FORMATS:
        raise InputError(f"--format: unknown format {format!r}{suggest(format, FORMATS)}")
    naming = Naming.of(names, prefixes, map_)
    if federation or any(is_federation(Path(source)) for source in sources if source != "-"):
        _rename_clients(sources, out, naming, force, as_json)
        return
    found = find_sources(sources, format)
    given = {name: chosen.pop(name) for name in RANGES}
    limits = {name: value for name, value in given.items() if value is not None}
    if any(source.format == "fede" for source in found):
        if not naming.is_plain:
            hint = f"import the file without them, then: pfedeg import {out} --names …"
            raise InputError(f"--names, --map and --prefix: not for FedE's files; {hint}")
        found[0].limits = Limits(**limits)
        check_limits(found[0].limits)
        _import_federation(found, out, force, as_json)
        return
    check(out, force)
    columns, label_columns = (_split(f"--{name}", chosen.pop(name.replace("-", "_"))) for name in TABLE_OPTIONS)
    if columns is not None and not all(columns):
        raise InputError(f"--columns {','.join(columns)}: expected three columns for {PARTS}, as in 1,2,3")
    delimiter = {"\\t": "\t", "tab": "\t", "space": " "}.get(chosen["delimiter"], chosen["delimiter"])
    if delimiter is not None and len(delimiter) != 1:
        raise InputError(f"--delimiter {delimiter!r}: expected a single character, or tab")
    chosen |= limits
    chosen |= {"delimiter": delimiter, "columns": columns, "label_columns": label_columns, "naming": naming}
    options, given_labels = ImportOptions(**chosen), read_pairs(labels, ("name", "label")) if labels else []
    began = time.monotonic()
    total = None if any(not source.size for source in found) else sum(source.size for source in found)
    label = f"importing {found[0].name}" if len(found) == 1 else f"importing {len(found)} files"
    with progress_bar(console(stderr=True), label, total) as show:

        def progress(statements: int) -> None:
            done = sum(source.bytes_read for source in found)
            share = f" ({done / total:.0%})" if total else ""
            show(done, f"{statements:,} statements{share}{time_left(began, done, total)}", False)

        builder = GraphBuilder(options, progress)
        builder.labels.add_file(given_labels)
        for source in found:
            read(source, builder)
    settle_first_rows(builder, _is_header)  # may ask
    with progress_bar(console(stderr=True), label, total) as show:
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
        show_summary(out, report, graph.labels, names)


def _split(option: str, text: str | None) -> list[str] | None:
    """The three columns of --columns or --label-columns."""
    parts = None if text is None else [part.strip() for part in text.split(",")]
    if parts is not None and (len(parts) != 3 or not any(parts)):
        raise InputError(f"{option} {text}: expected three columns for {PARTS}, as in 1,2,3")
    return parts


def _is_header(row: "FirstRow") -> bool:
    """Ask on a terminal whether a first row is a header; elsewhere refuse to guess."""
    from pfedeg.importing.table_columns import refuse_to_guess

    if sys.stdin.isatty() and sys.stderr.isatty():
        names = ", ".join(map(printable, row.names))
        return click.confirm(f"{row.source}, line 1 is ({names}). Is it a header?", default=True, err=True)
    return refuse_to_guess(row)


def _rename_clients(sources: tuple[str, ...], out: Path, naming: "Naming", force: bool, as_json: bool) -> None:
    """Give the names of existing clients other forms; splits stay as they are."""
    from pfedeg.cli.import_summary import show_clients
    from pfedeg.files import check_output, create_folder
    from pfedeg.graphs.client_data import ClientData
    from pfedeg.graphs.federation_files import FILES, iterate_data, write_client_data, write_data
    from pfedeg.graphs.naming import report_naming
    from pfedeg.graphs.triple_files import is_client_folder

    context, path = click.get_current_context(), Path(sources[0])
    default = click.core.ParameterSource.DEFAULT
    useless = [name for name in FOR_FILES if context.get_parameter_source(name) != default]
    if len(sources) > 1:
        raise InputError(f"{path}: is a federation or a client; import it alone")
    if useless:
        option = "--" + useless[0].replace("_", "-")
        what = "is a federation or a client already; to import anew, name its files instead"
        raise InputError(f"{option}: has no effect on {path}, which {what}")
    check_output(out, force, FILES)
    found, reports, mapped = dict[str, ClientData](), dict[str, dict[str, Any]](), set[str]()
    for client, data in iterate_data(path):
        new, entities, relations = data.renamed(naming)
        found[client], mapped = new, mapped | entities.mapped | relations.mapped
        before, after = (sum(map(len, each.parts.values())) for each in (data, new))
        reports[client] = {
            "triples": after,
            "entities": len(entities.names) - sum(len(names) - 1 for names in entities.merged.values()),
            "duplicates": before - after,
            "renamed": report_naming(naming, entities, relations),
        }
        reports[client]["renamed"].pop("unknown_in_map", None)  # other clients may have them
    unknown = [name for name in naming.new_names if name not in mapped]
    if path.is_dir() and is_client_folder(path):
        (data,) = found.values()
        create_folder(out, lambda folder: write_client_data(data, folder), FILES if force else ())
    else:
        write_data(found, out, force)
    if as_json:
        click.echo(json.dumps({"clients": reports, "unknown_in_map": unknown}, ensure_ascii=False))
    else:
        show_clients(out, reports, unknown, naming.form)


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
