"""A gathered graph as a client that trains: a folder with triples.parquet, or one Parquet file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pfedeg.federation import check_free, create_folder
from pfedeg.importing.gather import Gathered, Graph
from pfedeg.store import write_bytes, write_json

MOST_SHOWN = 5


def write(out: Path, graph: Graph, told: Mapping[str, Any]) -> None:
    """OUT.parquet has the triples alone; a folder also has names for people's eyes and what is told of the import."""
    if out.suffix == ".parquet":
        check_free(out)
        write_bytes(out, _parquet(triples_table(graph)))
        return

    def fill(folder: Path) -> None:
        write_bytes(folder / "triples.parquet", _parquet(triples_table(graph)))
        if graph.labels:
            names = sorted(graph.labels)
            write_bytes(
                folder / "labels.parquet",
                _parquet(pa.table({"name": names, "label": [graph.labels[name] for name in names]})),
            )
        write_json(folder / "import.json", told)

    create_folder(out, fill)


def triples_table(graph: Graph) -> pa.Table:
    """Triples with names, each of which is stored once."""
    entities, relations = pa.array(graph.entities, pa.string()), pa.array(graph.relations, pa.string())
    columns = {}
    for place, (name, among) in enumerate((("head", entities), ("relation", relations), ("tail", entities))):
        codes = pa.array(np.ascontiguousarray(graph.triples[:, place]), pa.int32())
        columns[name] = pa.DictionaryArray.from_arrays(codes, among)
    return pa.table(columns)


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def summary(gathered: Gathered, graph: Graph, sources: int) -> dict[str, Any]:
    """What became of the statements, with names as people read them."""

    def most(column: Any, names: tuple[str, ...]) -> dict[str, int]:
        counts = np.bincount(column, minlength=len(names))
        top = np.argsort(-counts, kind="stable")[:MOST_SHOWN].tolist()
        return {graph.labels.get(names[each], names[each]): int(counts[each]) for each in top}

    respelled = gathered.entities.respelled + gathered.relations.respelled
    return {
        "sources": sources,
        "statements": gathered.statements,
        "triples": len(graph.triples),
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "labels": len(graph.labels),
        "duplicates": graph.duplicates,
        "dropped": dict(gathered.dropped),
        "examples": gathered.examples,
        "isolated_entities": graph.isolated,
        "spellings_made_one": len(respelled),
        "spelling_example": respelled[0] if respelled else None,
        "frequent_relations": most(graph.triples[:, 1], graph.relations),
        "frequent_entities": most(graph.triples[:, [0, 2]].ravel(), graph.entities),
    }
