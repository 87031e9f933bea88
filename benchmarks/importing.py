"""Bringing in a large N-Triples file: ours, pyoxigraph's parser alone on the same file, rdflib on a tenth of it.

    python benchmarks/importing.py --statements 10000000

The file is synthetic: entities by a power law, fifty relations, one statement in twenty with a number or a label.
Each runs in a separate process, so that peak memory is measured separately. rdflib is installed by hand.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RUN = """
import json, resource, sys, time
began = time.perf_counter()
{body}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({{"seconds": time.perf_counter() - began, "peak_gb": peak, "statements": many}}))
"""
OURS = """
from pfedeg.importing.graph_builder import Choices, Gathered
from pfedeg.importing.dispatch import read
from pfedeg.importing.sources import find
from pfedeg.importing.output import summary, write
from pathlib import Path
gathered = Gathered(Choices())
read(find([sys.argv[1]])[0], gathered)
graph = gathered.finish()
write(Path(sys.argv[2]), graph, summary(gathered, graph, 1))
many = gathered.statements
"""
PARSER = """
from pyoxigraph import RdfFormat, parse
many = sum(1 for _ in parse(path=sys.argv[1], format=RdfFormat.N_TRIPLES))
"""
RDFLIB = """
import rdflib
many = len(rdflib.Graph().parse(sys.argv[1], format="nt"))
"""


def generate(path: Path, statements: int) -> None:
    """A synthetic file, some hundred thousand lines at a time."""
    random, step, entities = np.random.default_rng(0), 200_000, max(10, statements // 10)
    with open(path, "w", encoding="utf-8") as file:
        for first in range(0, statements, step):
            many = min(step, statements - first)
            heads = (entities * random.random(many) ** 3).astype(np.int64)
            tails = (entities * random.random(many) ** 2).astype(np.int64)
            relations = random.integers(0, 50, many)
            kinds = random.integers(0, 40, many)
            for head, relation, tail, kind in zip(heads, relations, tails, kinds, strict=True):
                subject = f"<http://example.org/resource/entity-{head}>"
                if kind == 0:
                    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
                    file.write(f'{subject} {label} "Entity number {head}"@en .\n')
                elif kind == 1:
                    number = f'"{tail}"^^<http://www.w3.org/2001/XMLSchema#integer>'
                    file.write(f"{subject} <http://example.org/ontology/size> {number} .\n")
                else:
                    name = f"<http://example.org/ontology/relation-{relation}>"
                    file.write(f"{subject} {name} <http://example.org/resource/entity-{tail}> .\n")


def run(body: str, *words: str) -> dict[str, float]:
    """Time and memory of a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(body=body), *words], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found | {"rate": found["statements"] / found["seconds"]}


def main() -> None:
    """Print rates, ratios and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder / "all.nt", options.statements)
        generate(folder / "tenth.nt", options.statements // 10)
        found = {
            "pfedeg import": run(OURS, str(folder / "all.nt"), str(folder / "out")),
            "pyoxigraph, parsing alone": run(PARSER, str(folder / "all.nt")),
        }
        try:
            found["rdflib, a tenth"] = run(RDFLIB, str(folder / "tenth.nt"))
        except subprocess.CalledProcessError:
            print("rdflib is not installed (pip install rdflib): left out", file=sys.stderr)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    ours = found["pfedeg import"]["rate"]
    for label, each in found.items():
        rate, peak = each["rate"], each["peak_gb"]
        print(f"{label:26} {rate:>10,.0f} statements/s, peak {peak:.2f} GB, pfedeg import {ours / rate:.2f} × as fast")


if __name__ == "__main__":
    main()
