"""A gathered graph as a client that trains: a folder with triples.parquet, or one Parquet file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.files import check_free, create_folder, write_json, writing
from pfedeg.graphs.triple_files import write_labels, write_parquet
from pfedeg.graphs.triples import Triples, normal
from pfedeg.importing.graph_builder import Gathered, Graph

MOST_SHOWN = 5


def write(out: Path, graph: Graph, told: Mapping[str, Any]) -> None:
    """OUT.parquet has the triples alone; a folder also has names for people's eyes and what is told of the import."""
    triples = Triples(graph.entities, graph.relations, graph.triples)
    if out.suffix.lower() == ".parquet":
        check_free(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        with writing(out) as path:
            write_parquet(path, triples)
        return

    def fill(folder: Path) -> None:
        write_parquet(folder / "triples.parquet", triples)
        write_labels(folder, graph.labels)
        write_json(folder / "import.json", told)

    create_folder(out, fill)


def summary(gathered: Gathered, graph: Graph, sources: int) -> dict[str, Any]:
    """What became of the statements."""

    def most(column: Any, names: tuple[str, ...]) -> dict[str, int]:
        counts = np.bincount(column, minlength=len(names))
        top = np.argsort(-counts, kind="stable")[:MOST_SHOWN].tolist()
        return {names[each]: int(counts[each]) for each in top}

    remarks, uses = list(gathered.remarks), np.bincount(graph.triples[:, 1], minlength=len(graph.relations))
    for source, *row in gathered.first_rows:
        relation = normal(row[1])
        if relation in graph.relations and len(uses) > 1 and uses[graph.relations.index(relation)] == 1:
            remarks.append(f"{source}: line 1 is the triple ({', '.join(row)}); if it is a heading, add --header")
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
        "remarks": remarks,
        "isolated_entities": graph.isolated,
        "spellings_made_one": len(respelled),
        "spelling_example": respelled[0] if respelled else None,
        "frequent_relations": most(graph.triples[:, 1], graph.relations),
        "frequent_entities": most(graph.triples[:, [0, 2]].ravel(), graph.entities),
    }
