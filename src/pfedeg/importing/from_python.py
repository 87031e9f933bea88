"""Import from Python: `pfedeg.import_client`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.graphs.name_pairs import read_pairs
from pfedeg.graphs.naming import Naming
from pfedeg.graphs.splitting import split_graph
from pfedeg.graphs.triples import Triples
from pfedeg.importing.dispatch import read
from pfedeg.importing.graph_builder import GraphBuilder, ImportOptions
from pfedeg.importing.output import check, summary, write
from pfedeg.importing.sources import FEDERATIONS, FORMATS, find_sources
from pfedeg.importing.table_columns import refuse_to_guess, settle_first_rows
from pfedeg.text import suggest
from pfedeg.training.progress import ProgressLine

MIN_BUCKETS, MAX_BUCKETS = 2, 1000


@dataclass(frozen=True)
class Imported:
    """An imported client: `triples` with names, display `labels`, and a `summary` of what was kept and dropped."""

    triples: Triples
    labels: Mapping[str, str]
    summary: Mapping[str, Any]

    def graph(self, seed: int = 0) -> KnowledgeGraph:
        """The client's graph, split at random by the `seed` as when its folder is read."""
        return replace(split_graph(self.triples, seed), labels=self.labels)


def import_client(
    sources: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    format: str | None = None,
    names: str = "full",
    map: str | Path | None = None,
    prefixes: Sequence[str] = (),
    labels: str | Path | None = None,
    force: bool = False,
    progress: bool = False,
    **options: Any,
) -> Imported:
    """Read RDF, CSV, TSV or Parquet files as one client: `import_client("hospital.ttl", "federation/north")`.

    `sources` is a file, a folder, or several of them. With `out`, the client is written to this new folder, or to this
    .parquet file; `force` replaces an earlier import. `progress` shows on stderr how far the reading is. All other
    arguments are those of `pfedeg import`, with the same defaults: `format`, `names`, `map`, `prefixes` and `labels`,
    and as `options` `literals`, `buckets`, `blank`, `on_error`, `language`, `delimiter`, `columns` and `label_columns`
    (lists of three), `header`, and the limits `max_line`, `max_name`, `max_depth`, `max_expansion` and `max_memory`.
    """
    _check(options)
    naming = Naming.of(names, prefixes, map)
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}{suggest(format, FORMATS)}")
    if out is not None:
        check(Path(out), force)
    paths = [sources] if isinstance(sources, str | Path) else list(sources)
    if not paths:
        raise InputError("sources: there is nothing to import")
    found = find_sources([str(path) for path in paths], format)
    if wrong := [source for source in found if source.format in FEDERATIONS]:
        hint = f"import it by `pfedeg import … --format {wrong[0].format}`"
        raise InputError(f"{wrong[0].name}: a whole federation, not a client; {hint}")
    line = ProgressLine(f"importing {found[0].name}" if len(found) == 1 else f"importing {len(found)} files")

    def show(statements: int) -> None:
        if progress:
            line.show(f"{statements:,} statements")

    builder = GraphBuilder(ImportOptions(naming=naming, **options), show)
    builder.labels.add_file(read_pairs(Path(labels), ("name", "label")) if labels else [])
    try:
        for source in found:
            read(source, builder)
        settle_first_rows(builder, refuse_to_guess)
        graph = builder.finish()
    finally:
        line.clear()
    report = summary(builder, graph, len(found))
    if not len(graph.triples):
        dropped = ", ".join(f"{kind}: {many:,}" for kind, many in builder.dropped.items())
        raise InputError(f"{found[0].name}: no triples to import{f' (dropped: {dropped})' if dropped else ''}")
    if out is not None:
        write(Path(out), graph, report, force)
    return Imported(Triples(graph.entities, graph.relations, graph.triples), graph.labels, report)


def _check(options: Mapping[str, Any]) -> None:
    """Refuse what the command line refuses."""
    kinds = {name: kind for name, kind in get_type_hints(ImportOptions).items() if name != "naming"}
    for name, value in options.items():
        if name not in kinds:
            raise InputError(f"unknown option {name!r}{suggest(name, kinds)}")
        allowed = get_args(kinds[name]) if get_origin(kinds[name]) is Literal else ()
        if allowed and value not in allowed:
            raise InputError(f"{name}: unknown value {value!r}{suggest(str(value), allowed)}")
    buckets = options.get("buckets", MIN_BUCKETS)
    if not isinstance(buckets, int) or not MIN_BUCKETS <= buckets <= MAX_BUCKETS:
        raise InputError(f"buckets: {buckets!r} is out of range; it must be {MIN_BUCKETS} to {MAX_BUCKETS}")
    for name in ("columns", "label_columns"):
        columns = options.get(name)
        is_list = isinstance(columns, list | tuple) and len(columns) == 3 and all(isinstance(e, str) for e in columns)
        if columns is not None and not is_list:
            raise InputError(f"{name}: expected head, relation and tail, as in ['1', '2', '3'], not {columns!r:.80}")
