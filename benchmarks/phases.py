"""Where a batch's time goes: milliseconds of each pass, and nanoseconds per (positive, negative) pair.

python benchmarks/phases.py --data FOLDER
python benchmarks/phases.py --data FOLDER --rows 16      own negatives from so few rows that caches hold them
python benchmarks/phases.py --data FOLDER --past         threads write past the caches, see pfedeg/kernels/writing.py
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from ours import BATCH, CHUNK, NAMES, NEGATIVES, PULL, Ours, Sampling, best_of, count, read_graph, thread_count
from pfedeg.engine.compiled.writing import PAST, THROUGH, WAY
from pfedeg.engine.interface import Absorb, Knowledge, Local, Moments, own, passes, scratch, sharing
from pfedeg.engine.lowlevel.compile import Team, kernel

SCALE = np.float32(1e-3)  # what a batch's loss is weighed with


@kernel
def draw(thread, threads, sync, s, chunk, tables, positives, chosen, x):
    """Pass 1."""
    passes._draw(thread, threads, s, chunk, tables, positives, chosen, 0, np.uint64(7), x)


@kernel
def catch_up(thread, threads, sync, s, table, moments, rates, step, x):
    """Which rows it is about, and steps that they have missed."""
    passes._list_touched(thread, threads, x)
    passes._catch_up(thread, s, table, moments, rates, step, x)


@kernel
def ask(thread, threads, sync, model, table, positives, chosen, x):
    """Pass 2 with own negatives: queries."""
    own.ask(thread, threads, model, table, positives, chosen, x)


@kernel
def meet(thread, threads, sync, model, s, chunk, tables, positives, chosen, x):
    """Pass 2: queries and rows; with shared negatives all of it."""
    if chunk is None:
        own.meet(thread, threads, model, s, tables.entity, len(chosen), x)
    else:
        sharing.meet(thread, threads, model, s, chunk, tables, positives, chosen, SCALE, x)


@kernel
def sort(thread, threads, sync, size, x):
    """Pass 2 with own negatives: pairs by entity."""
    own.sort(thread, threads, size, x)


@kernel
def conclude(thread, threads, sync, model, s, table, size, x):
    """Pass 2 with own negatives: both halves together."""
    own.conclude(thread, threads, model, s, table, size, SCALE, x)


@kernel
def settle(thread, threads, sync, s, chunk, size, x):
    """Between passes 2 and 3."""
    if thread == 0:
        passes._settle(s, None, chunk, size, x)


@kernel
def update(thread, threads, sync, model, s, chunk, tables, moments, knowledge, size, rates, step, x):
    """Pass 3."""
    passes._update_relations(thread, threads, model, s, tables.relation, moments, size, rates, step, x)
    passes._update(thread, threads, model, s, chunk, None, tables, moments, knowledge, rates, step, x)


def draw_from(rows: int, x: scratch.Scratch) -> None:
    """Put the first rows of each half in place of drawn ones."""
    middle = len(x.head) // 2
    x.ids[own.LOWER] %= rows
    x.ids[own.UPPER] = middle + x.ids[own.UPPER] % rows


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
    team, rates = Team(threads), scratch.make_rates(local, 0, repeats + 1)
    rng, times = np.random.default_rng(1), dict[str, list[float]]()
    x.relation[:, : tables.relation.shape[1]] = 1
    for step in range(repeats + 1):
        chosen = rng.permutation(len(facts.triples))[:BATCH].astype(np.int64)
        near = Knowledge(known, known[:0])
        table = tables.entity
        work: dict[str, Callable[[], None]] = {
            "draw": partial(team.run, draw, settings, chunk, tables, facts, chosen, x),
            "catch up": partial(team.run, catch_up, settings, table, moments, rates, step, x),
            "ask": partial(team.run, ask, model, table, facts, chosen, x),
            "meet": partial(team.run, meet, model, settings, chunk, tables, facts, chosen, x),
            "sort": partial(team.run, sort, BATCH, x),
            "conclude": partial(team.run, conclude, model, settings, table, BATCH, x),
            "settle": partial(team.run, settle, settings, chunk, BATCH, x),
            "update": partial(team.run, update, model, settings, chunk, tables, moments, near, BATCH, rates, step, x),
        }
        skipped = {"ask", "sort", "conclude"} if chunk else set[str]()
        skipped |= set() if settings.rest else {"catch up"}
        for name in (name for name in work if name not in skipped):
            seconds = best_of(1, work[name])
            if step:  # the first compiles
                times.setdefault(name, []).append(seconds)
            if name == "draw" and rows and chunk is None:
                draw_from(rows, x)
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with fb15k-237-fed3.parquet; without it a synthetic graph")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--rows", type=count, help="own negatives from so many rows of each half only")
    parser.add_argument("--past", action="store_true", help="write what threads exchange past the caches")
    parser.add_argument("--repeats", type=count, default=40)
    options = parser.parse_args()
    graph = read_graph(options.data)
    if options.rows and options.rows > len(graph.entities) // 2:
        parser.error(f"--rows {options.rows}: half of the table has {len(graph.entities) // 2} rows")
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
