"""Where a batch's time goes: milliseconds of each pass, and nanoseconds per (positive, negative) pair.

python benchmarks/phases.py --data FOLDER
python benchmarks/phases.py --data FOLDER --rows 16      own negatives from so few rows only that caches hold them
python benchmarks/phases.py --data FOLDER --past         rows are written past the caches, see pfedeg/kernels/writing.py
"""

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ours import BATCH, CHUNK, NAMES, NEGATIVES, PULL, Ours, Sampling, best_of, count, read_graph
from pfedeg.kernels import Absorb, Knowledge, Local, Moments, Positives, passes, scratch
from pfedeg.kernels.jit import Team, kernel
from pfedeg.kernels.writing import PAST, THROUGH, WAY


@kernel
def draw(thread, threads, sync, s, chunk, entities, positives, chosen, groups, x):
    """Pass 1."""
    lo, hi = groups * thread // threads, groups * (thread + 1) // threads
    passes._draw_all(thread, s, chunk, entities, positives, chosen, lo, hi, 0, np.uint64(7), x)


@kernel
def catch_up(thread, threads, sync, s, table, moments, rates, step, x):
    """Which rows it is about, and steps that they have missed."""
    passes._list_touched(thread, threads, x)
    passes._catch_up(thread, s, table, moments, rates, step, x)


@kernel
def meet(thread, threads, sync, model, s, chunk, tables, positives, chosen, groups, x):
    """Pass 2."""
    for group in range(groups * thread // threads, groups * (thread + 1) // threads):
        passes._meet(thread, model, s, chunk, tables, positives, chosen, group, np.float32(1e-3), x)


@kernel
def sort(thread, threads, sync, s, chunk, size, x):
    """The end of pass 2."""
    passes._sort_pairs(thread, s, chunk, size * thread // threads, size * (thread + 1) // threads, x)


@kernel
def settle(thread, threads, sync, s, size, ready, x):
    """Between passes 2 and 3."""
    if thread == 0:
        passes._settle(sync, s, None, size, ready, x)


@kernel
def update(thread, threads, sync, model, s, tables, moments, knowledge, size, rates, step, x):
    """Pass 3."""
    passes._update_relations(thread, threads, model, s, tables.relation, moments, size, rates, step, x)
    passes._update(thread, threads, model, s, None, tables, moments, knowledge, rates, step, x)


def draw_from(rows: int, facts: Positives, chosen: NDArray[np.int64], x: scratch.Scratch) -> None:
    """Put the first rows in place of drawn ones, and count anew."""
    x.ids[:] %= rows
    parts = np.arange(len(x.place) + 1) * len(chosen) // len(x.place)
    for thread, (lo, hi) in enumerate(pairwise(parts)):
        met = np.append(x.ids[lo:hi].ravel(), facts.triples[chosen[lo:hi], 2])
        before = np.cumsum(np.bincount(met, minlength=x.place.shape[1]))[:-1]
        x.place[thread, :2] = lo * (1 + x.ids.shape[1])
        x.place[thread, 2:] = x.place[thread, 0] + before[:-1]


def phases(
    ours: Ours, sampling: Sampling, pull: float, threads: int, repeats: int, rows: int | None = None, past: bool = False
) -> dict[str, float]:
    """Seconds of each pass, the median of several batches."""
    local = Local(batch=BATCH, negatives=NEGATIVES, sampling=sampling, chunk=CHUNK)
    chunk = CHUNK if sampling == "shared" else None
    model, tables, facts = ours.model, ours.tables.copy(), ours.positives
    settings = scratch.make_settings(local, Absorb(pull=pull), len(tables.entity))
    moments, known = Moments.zeros(tables), ours.tables.copy().entity
    x = scratch.make_scratch(settings, chunk, tables, BATCH, threads)
    x.pace[WAY] = PAST if past else THROUGH
    groups = BATCH // (chunk or 1)
    ready = BATCH + groups * x.ids.shape[1] if chunk else BATCH
    team, rates = Team(threads), scratch.make_rates(local, 0, repeats)
    rng, times = np.random.default_rng(1), dict[str, list[float]]()
    x.relation[:, : tables.relation.shape[1]] = 1
    for step in range(repeats):
        chosen = rng.permutation(len(facts.triples))[:BATCH].astype(np.int64)
        near = Knowledge(known, known[:0])
        work: dict[str, Callable[[], None]] = {
            "draw": partial(team.run, draw, settings, chunk, len(tables.entity), facts, chosen, groups, x),
            "catch up": partial(team.run, catch_up, settings, tables.entity, moments, rates, step, x),
            "meet": partial(team.run, meet, model, settings, chunk, tables, facts, chosen, groups, x),
            "sort": partial(team.run, sort, settings, chunk, BATCH, x),
            "settle": partial(team.run, settle, settings, BATCH, ready, x),
            "update": partial(team.run, update, model, settings, tables, moments, near, BATCH, rates, step, x),
        }
        for name in (name for name in work if settings.rest or name != "catch up"):
            seconds = best_of(1, work[name])
            if step:  # the first compiles
                times.setdefault(name, []).append(seconds)
            if name == "draw" and rows and chunk is None:
                draw_from(rows, facts, chosen, x)
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with fb15k-237-fed3.parquet; without it a synthetic graph")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", type=count, default=1)
    parser.add_argument("--rows", type=count, help="own negatives from so many rows only")
    parser.add_argument("--past", action="store_true", help="write rows past the caches")
    parser.add_argument("--repeats", type=count, default=40)
    options = parser.parse_args()
    graph = read_graph(options.data)
    for name in options.models:
        ours = Ours(graph, name, 1)
        settings: tuple[tuple[Sampling, float], ...] = (("own", PULL), ("shared", 0.0))
        for sampling, pull in settings:
            seconds = phases(ours, sampling, pull, options.threads, options.repeats, options.rows, options.past)
            pairs = BATCH * NEGATIVES
            cells = (f"{phase} {1e3 * each:.2f} ms ({1e9 * each / pairs:.0f})" for phase, each in seconds.items())
            print(f"{NAMES[name]:8} {sampling:7}", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    main()
