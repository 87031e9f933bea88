"""Output of an import: a client's folder with triples.parquet, or one Parquet file; and the summary."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.files import check_output, create_folder, write_json, writing
from pfedeg.graphs.naming import report_naming
from pfedeg.graphs.triple_files import write_labels, write_parquet
from pfedeg.graphs.triples import Triples
from pfedeg.importing.graph_builder import GraphBuilder, ImportedGraph

MOST_FREQUENT = 5  # names in the summary
FILES = ("triples.parquet", "labels.parquet", "import.json")  # in the folder of an imported client


def check(out: Path, force: bool) -> None:
    """Check before long work that the import can be written."""
    check_output(out, force, () if out.suffix.lower() == ".parquet" else FILES)


def write(out: Path, graph: ImportedGraph, report: Mapping[str, Any], force: bool = False) -> None:
    """Write the triples to OUT.parquet, or to a folder that also contains labels and the summary."""
    triples = Triples(graph.entities, graph.relations, graph.triples)
    check(out, force)
    if out.suffix.lower() == ".parquet":
        out.parent.mkdir(parents=True, exist_ok=True)
        with writing(out) as path:
            write_parquet(path, triples)
        return

    def fill(folder: Path) -> None:
        write_parquet(folder / "triples.parquet", triples)
        write_labels(folder, graph.labels)
        write_json(folder / "import.json", report)

    create_folder(out, fill, FILES if force else ())


def summary(builder: GraphBuilder, graph: ImportedGraph, sources: int) -> dict[str, Any]:
    """Counts of all that was read, kept and left out."""

    def frequent(column: Any, names: tuple[str, ...]) -> dict[str, int]:
        counts = np.bincount(column, minlength=len(names))
        top = np.argsort(-counts, kind="stable")[:MOST_FREQUENT].tolist()
        return {names[each]: int(counts[each]) for each in top}

    options = builder.options
    present = {form for part in graph.renamed for name in part.names for form in (name, options.naming.expand(name))}
    lost = sorted(builder.labels.in_file - present)
    other = next(iter(builder.labels.other.items()), None)
    changed = builder.entities.not_normal + builder.relations.not_normal
    return {
        "sources": sources,
        "statements": builder.statements,
        "triples": len(graph.triples),
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "labels": len(graph.labels),
        "duplicates": graph.duplicates,
        "dropped": dict(builder.dropped),
        "examples": builder.examples,
        "remarks": builder.remarks,
        "cells_trimmed": builder.trimmed.total(),
        "trimmed_example": next(iter(builder.trimmed), None),
        "bucketed": builder.bucketed,
        "renamed": report_naming(options.naming, *graph.renamed),
        "labels_without_name": {"names": len(lost), "example": lost[0] if lost else None},
        "other_labels": {"names": len(builder.labels.other), "example": other},
        "isolated_entities": graph.isolated,
        "names_normalized": len(changed),
        "normalized_example": changed[0] if changed else None,
        "frequent_relations": frequent(graph.triples[:, 1], graph.relations),
        "frequent_entities": frequent(graph.triples[:, [0, 2]].ravel(), graph.entities),
    }
