"""How time and memory of our kernels grow with triples, negatives, dimension and entities, as points and as plots.

python benchmarks/curves.py --json points.json --plot docs/plots
python benchmarks/curves.py --from points.json --plot docs/plots     draws again without measuring
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypedDict

from ours import BATCH, NAMES, PULL, Ours, Sampling, check_extra, count, synthetic_graph, thread_count

REPEATS = 2
TRIPLES, ENTITIES = 16 * BATCH, 12_800  # where a curve does not vary them
SAMPLINGS: tuple[Sampling, ...] = ("own", "shared")


class Point(TypedDict):
    """One measurement."""

    curve: str
    model: str
    sampling: str  # "own", "shared", or "" where there are no negatives
    x: int
    y: float


def train_point(curve: str, name: str, sampling: Sampling, x: int, y: float) -> Point:
    """Of a training curve."""
    return Point(curve=curve, model=name, sampling=sampling, x=x, y=y)


def pull(sampling: Sampling) -> float:
    """Own negatives come with the dense pull, shared ones without, as in the kernel benchmark."""
    return PULL if sampling == "own" else 0.0


def by_triples(threads: int) -> Iterable[Point]:
    """Seconds per epoch against training triples."""
    for name in NAMES:
        ours = Ours(synthetic_graph(ENTITIES, 64 * BATCH, 10), name, threads)
        for sampling in SAMPLINGS:
            for triples in (4 * BATCH, 16 * BATCH, 64 * BATCH):
                seconds = ours.train_seconds(sampling, pull(sampling), REPEATS, triples)
                yield train_point("train-triples", name, sampling, triples, seconds)


def by_negatives(threads: int) -> Iterable[Point]:
    """Microseconds per triple against negatives."""
    for name in NAMES:
        ours = Ours(synthetic_graph(ENTITIES, TRIPLES, 10), name, threads)
        for sampling in SAMPLINGS:
            for negatives in (16, 64, 256, 1024):
                seconds = ours.train_seconds(sampling, pull(sampling), REPEATS, negatives=negatives)
                yield train_point("train-negatives", name, sampling, negatives, 1e6 * seconds / TRIPLES)


def by_dimension(threads: int) -> Iterable[Point]:
    """Microseconds per triple against the dimension."""
    graph = synthetic_graph(ENTITIES, TRIPLES, 10)
    for name in NAMES:
        for dim in (32, 64, 128, 256, 512):
            ours = Ours(graph, name, threads, dim)
            for sampling in SAMPLINGS:
                seconds = ours.train_seconds(sampling, pull(sampling), REPEATS)
                yield train_point("train-dimension", name, sampling, dim, 1e6 * seconds / TRIPLES)


def by_entities(threads: int) -> Iterable[Point]:
    """Microseconds per triple, and milliseconds per ranked triple, against entities."""
    for entities in (3_200, 12_800, 51_200, 204_800):
        graph = synthetic_graph(entities, TRIPLES, 512)
        for name in NAMES:
            ours = Ours(graph, name, threads)
            for sampling in SAMPLINGS:
                seconds = ours.train_seconds(sampling, pull(sampling), REPEATS)
                yield train_point("train-entities", name, sampling, entities, 1e6 * seconds / TRIPLES)
            milliseconds = 1e3 * ours.rank_seconds(REPEATS) / len(graph.test)
            yield Point(curve="rank-entities", model=name, sampling="", x=entities, y=milliseconds)


def by_memory(threads: int) -> Iterable[Point]:
    """Peak memory in MB of a process that trains and ranks, against entities."""
    for entities in (3_200, 102_400, 204_800, 409_600):
        for name in NAMES:
            command = [sys.executable, __file__, "--peak", name, str(entities), "--threads", str(threads)]
            peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            yield Point(curve="memory-entities", model=name, sampling="own", x=entities, y=peak)


def peak_memory(name: str, entities: int, threads: int) -> float:
    """MB that this process has used at most, after training with the pull and ranking."""
    ours = Ours(synthetic_graph(entities, BATCH, 64), name, threads)
    ours.train_seconds("own", PULL, 1)
    ours.rank_seconds(1)
    status = Path("/proc/self/status")
    if status.exists():  # Linux counts the memory of the process that started this one as well, but not here
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1e3
    unit = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


CURVES: tuple[Callable[[int], Iterable[Point]], ...] = (by_triples, by_negatives, by_dimension, by_entities, by_memory)


def measure(threads: int, turns: int) -> list[Point]:
    """The lowest of every point, going through all curves several times: machines are slow for minutes at a time."""
    lowest = dict[tuple[str, str, str, int], Point]()
    for turn in range(turns):
        for curve in CURVES:
            for point in curve(threads):
                key = point["curve"], point["model"], point["sampling"], point["x"]
                print(
                    "turn {} of {}  {:16} {:8} {:6} {:>8,} {:12.4g}".format(turn + 1, turns, *key, point["y"]),
                    flush=True,
                )
                lowest[key] = min(lowest.get(key, point), point, key=lambda each: each["y"])
    return list(lowest.values())


def main() -> None:
    """Measure or read, print, keep, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=thread_count, default=os.cpu_count())
    parser.add_argument("--turns", type=count, default=3, help="how often to go through all curves")
    parser.add_argument("--json", type=Path, help="keep the points in this file")
    parser.add_argument("--from", dest="source", type=Path, help="take the points from this file")
    parser.add_argument("--plot", type=Path, help="draw into this folder (needs the plot extra)")
    parser.add_argument("--kind", choices=["svg", "png"], default="svg")
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "ENTITIES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(peak_memory(options.peak[0], int(options.peak[1]), options.threads))
        return
    if options.plot:
        check_extra("plot", "--plot")
    points = json.loads(options.source.read_text()) if options.source else measure(options.threads, options.turns)
    if options.json:
        options.json.write_text("[\n" + ",\n".join(json.dumps(point) for point in points) + "\n]\n")
    if options.plot:
        from plots import draw

        draw(points, options.plot, options.kind)


if __name__ == "__main__":
    main()
