"""Writes the tutorial's input: untidy files of three organisations, as RDF, CSV and Parquet.

    python examples/messy_sources.py FOLDER

The facts are real (the embedded federation's, from GeoNames); their faults are made up. docs/tutorial.md continues.
"""

import re
import sys
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from pfedeg import Federation
from pfedeg.graphs.knowledge_graph import SPLITS

PLACES = "http://places.example/id/"
Facts = list[tuple[str, str, str]]


def main(folder: Path) -> None:
    """Write the three files."""
    folder.mkdir(parents=True, exist_ok=True)
    graphs = Federation.world().graphs
    facts = {name: [triple for split in SPLITS for triple in graph.named(split)] for name, graph in graphs.items()}
    (folder / "ministry.ttl").write_text(ministry(facts["government"], facts["commerce"]), encoding="utf-8")
    (folder / "survey.csv").write_text(survey(facts["atlas"]), encoding="utf-8")
    pq.write_table(transit(facts["transport"]), folder / "transit.parquet")


def ministry(government: Facts, commerce: Facts) -> str:
    """Turtle with labels, a remark and a duplicate fact."""
    lines = [
        f"@prefix place: <{PLACES}> .",
        "@prefix m: <http://ministry.example/terms#> .",
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
    ]
    wanted = [fact for fact in (*government, *commerce) if fact[1] in ("in_country", "national_language", "pays_in")]
    lines += [f"<{PLACES}{quote(h)}> m:{r} <{PLACES}{quote(t)}> ." for h, r, t in wanted]
    lines += [
        f'<{PLACES}{quote(name)}> rdfs:label "{name}"@en .'
        for name in sorted({n for h, _, t in wanted for n in (h, t)})
    ]
    lines += [f'<{PLACES}Kyoto> m:remark "to be checked" .', lines[3]]
    return "\n".join(lines) + "\n"


def survey(atlas: Facts) -> str:
    """CSV with semicolons, an unneeded column, latitudes and longitudes as numbers, and a truncated line."""
    rows = ["line;what;property;value"]
    for number, (head, relation, tail) in enumerate(atlas, 1):
        degrees = re.match(r"(\d+)° to (\d+)° ([NSEW])", tail)
        if degrees:
            value = (int(degrees[1]) + int(degrees[2])) / 2 * (1 if degrees[3] in "NE" else -1)
            rows.append(f"{number};{PLACES}{quote(head)};{relation};{value}")
        else:
            rows.append(f"{number};{PLACES}{quote(head)};{relation};{PLACES}{quote(tail)}")
    rows.insert(500, "500;http://places.example/id/Par")
    return "\n".join(rows) + "\n"


def transit(transport: Facts) -> pa.Table:
    """Parquet with columns called from, type and to."""
    heads, relations, tails = zip(*transport, strict=True)
    return pa.table(
        {
            "from": [PLACES + quote(name) for name in heads],
            "type": list(relations),
            "to": [PLACES + quote(name) for name in tails],
        }
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/messy_sources.py FOLDER")
    main(Path(sys.argv[1]))
