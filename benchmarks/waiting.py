"""Should rows that a batch does not touch wait? Milliseconds of a batch without the pull, when they do and do not.

python benchmarks/waiting.py --data FOLDER

Where `scratch.MOST` should lie: rows wait where a batch touches a smaller part of them.
"""

import argparse
import os
from pathlib import Path

from ours import BATCH, NAMES, NEGATIVES, Ours, Sampling, count, read_graph, thread_count
from pfedeg.engine.interface import Local, scratch

CASES: tuple[tuple[Sampling, int, int], ...] = (  # negatives, and positives that share them
    ("own", NEGATIVES, 1),
    ("own", 32, 1),
    ("own", 16, 1),
    ("own", 8, 1),
    ("shared", NEGATIVES, 16),
    ("shared", NEGATIVES, 32),
    ("shared", NEGATIVES, 64),
)
WAYS = {"wait": 2.0, "move": 0.0}  # more than all rows, and none


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with fb15k-237-fed3.parquet; without it a synthetic graph")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", type=thread_count, default=os.cpu_count())
    parser.add_argument("--turns", type=count, default=6, help="how often to measure each way; the best counts")
    options = parser.parse_args()
    graph = read_graph(options.data)
    batches, most = -(-len(graph.train) // BATCH), scratch.MOST
    for name in options.models:
        ours = Ours(graph, name, options.threads)
        for sampling, negatives, chunk in CASES:
            best = dict.fromkeys(WAYS, float("inf"))
            for _ in range(options.turns):
                for way, limit in WAYS.items():
                    scratch.MOST = limit
                    seconds = ours.train_seconds(sampling, 0.0, 1, negatives=negatives, chunk=chunk)
                    best[way] = min(best[way], seconds)
            local = Local(batch=BATCH, negatives=negatives, sampling=sampling, chunk=chunk)
            part = scratch.touched(local, len(graph.entities))
            cells = [f"{way} {1e3 * seconds / batches:5.2f} ms" for way, seconds in best.items()]
            chosen = "they wait" if part < most else "all move"
            case = f"{NAMES[name]:8} {sampling:6} {negatives:4} for {chunk:2}, {part:4.0%} touched"
            print(case, *cells, chosen, sep="  ", flush=True)


if __name__ == "__main__":
    main()
