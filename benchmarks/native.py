"""Is numba the limit? The longest passes of ComplEx with own negatives, ours and in C, batch by batch in turn.

python benchmarks/native.py --data FOLDER       needs cc (GCC or Clang)

C does less: no queries, no loss, no gradients of heads, tails and relations.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import phases
from ours import BATCH, NEGATIVES, PULL, Ours, count, read_graph, thread_count
from pfedeg.engine.interface import Absorb, Knowledge, Local, Moments, own, scratch
from pfedeg.engine.lowlevel import aligned_arrays
from pfedeg.engine.lowlevel.compile import Team


def compile_c() -> ctypes.CDLL:
    """native.c as a library; may reorder sums, unlike ours."""
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / "native.so")
        command = ["cc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-o", library, str(source)]
        try:
            subprocess.run(command, check=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            print(f"native.c could not be compiled ({error}): is there a C compiler (cc)?", file=sys.stderr)
            sys.exit(2)
        return ctypes.CDLL(library)


class Passes:
    """The passes of a batch, ours and C's, on the same tables."""

    def __init__(self, data: Path | None, threads: int) -> None:
        """Tables at their start."""
        self.ours = Ours(read_graph(data), "complex", threads)
        self.tables, self.facts = self.ours.tables.copy(), self.ours.positives
        local = Local(batch=BATCH, negatives=NEGATIVES, sampling="own")
        self.settings = scratch.make_settings(local, Absorb(pull=PULL), len(self.tables.entity))
        self.moments, self.known = Moments.zeros(self.tables), self.ours.tables.copy().entity
        self.x = scratch.make_scratch(self.settings, None, self.tables, BATCH, threads)
        self.x.relation[:] = self.tables.relation
        self.rates = scratch.make_rates(local, 0, 10_000)
        self.team, self.threads, self.c = Team(threads), threads, compile_c()
        self.by_query, self.share = (
            aligned_arrays.zeros(self.x.part.shape, np.float32),
            np.zeros((2, BATCH), np.float32),
        )
        self.step = 0

    def prepare(self, chosen: NDArray[np.int64]) -> None:
        """Negatives and queries of a batch."""
        self.team.run(phases.draw, self.settings, None, self.tables, self.facts, chosen, self.x)
        self.team.run(phases.ask, self.ours.model, self.tables.entity, self.facts, chosen, self.x)

    def meet(self, chosen: NDArray[np.int64]) -> None:
        """Ours."""
        self.team.run(phases.meet, self.ours.model, self.settings, None, self.tables, self.facts, chosen, self.x)

    def meet_c(self, chosen: NDArray[np.int64]) -> None:
        """C's."""
        x, width, halves = self.x, self.tables.entity.shape[1], cast(Any, own)  # compiled, but also Python

        def work(thread: int, threads: int, _: object) -> None:
            for half in range(2):
                rows = [x.ids[half], x.begin[half], x.end[half], x.weight[half], self.by_query[half], self.share[half]]
                arrays = [_at(array) for array in (self.tables.entity, x.query, *rows)]
                positives = halves.positives_of.py_func(half, thread, threads, BATCH)
                self.c.meet(*arrays, width, *positives, ctypes.c_float(float(self.settings.alpha)))

        self.team.run(work)

    def finish(self, chosen: NDArray[np.int64]) -> None:
        """Ours, for both: what lies between the passes."""
        self.team.run(phases.sort, BATCH, self.x)
        self.team.run(phases.conclude, self.ours.model, self.settings, self.tables.entity, BATCH, self.x)
        self.team.run(phases.settle, self.settings, None, BATCH, self.x)

    def update(self, chosen: NDArray[np.int64]) -> None:
        """Ours."""
        near = Knowledge(self.known, self.known[:0])
        state = (self.settings, None, self.tables, self.moments, near, BATCH, self.rates, self.step, self.x)
        self.team.run(phases.update, self.ours.model, *state)
        self.step += 1

    def update_c(self, chosen: NDArray[np.int64]) -> None:
        """C's."""
        x, moments, (entities, width) = self.x, self.moments, self.tables.entity.shape
        tables = (self.tables.entity, moments.entity1, moments.entity2, self.known, x.square)
        pull = self.settings.pull / np.sqrt(x.square.sum()) if x.square.any() else 0.0
        rate, unbias = self.rates[self.step, :2]
        halves = cast(Any, own)

        def work(thread: int, threads: int, _: object) -> None:
            begin, end = entities * thread // threads, entities * (thread + 1) // threads
            numbers = [ctypes.c_float(float(number)) for number in (pull, rate, unbias, self.settings.epsilon)]
            for half, (first, last) in enumerate(((0, entities // 2), (entities // 2, entities))):
                lists = x.place[slice(*halves.threads_of.py_func(half, threads))]
                pairs = (x.query, x.source, x.sorted_weight, x.factor[half], lists)
                arrays = [_at(array) for array in (*tables, *pairs)]
                self.c.update(*arrays, *lists.shape, width, max(begin, first), min(end, last), *numbers)

        self.team.run(work)
        x.head[:] = -1
        self.step += 1

    def check(self, chosen: NDArray[np.int64]) -> None:
        """C computes what we do: the weights of all pairs, and the rows that are neither heads nor tails."""
        self.prepare(chosen)
        self.meet(chosen)
        weights, shares = self.x.weight.copy(), self.x.sums[:, :, 0].copy()
        self.meet_c(chosen)
        for half, i in np.ndindex(2, BATCH):
            of = half, slice(self.x.begin[half, i], self.x.end[half, i])
            found = self.x.weight[of] / self.share[half, i]
            np.testing.assert_allclose(found, weights[of] / shares[half, i], rtol=1e-4, atol=1e-9)
        self.x.weight[:] = weights
        self.finish(chosen)
        kept = self.tables.copy(), self.moments.copy(), self.x.head.copy()
        self.update(chosen)
        expected = self.tables.entity.copy()
        self.tables, self.moments, self.x.head[:], self.step = kept[0], kept[1], kept[2], self.step - 1
        self.update_c(chosen)
        others = np.setdiff1d(np.arange(len(expected)), self.facts.triples[chosen][:, [0, 2]])
        np.testing.assert_allclose(self.tables.entity[others], expected[others], rtol=1e-3, atol=1e-6)


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with fb15k-237-fed3.parquet; without it a synthetic graph")
    parser.add_argument("--threads", type=thread_count, default=os.cpu_count())
    parser.add_argument("--repeats", type=count, default=60)
    options = parser.parse_args()
    p = Passes(options.data, options.threads)
    rng = np.random.default_rng(1)

    def choose() -> NDArray[np.int64]:
        return rng.permutation(len(p.facts.triples))[:BATCH].astype(np.int64)

    p.check(choose())
    ways: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {
        "ours": (p.meet, p.update),
        "C": (p.meet_c, p.update_c),
    }
    times = {way: np.zeros((options.repeats, 2)) for way in ways}
    for repeat in range(options.repeats):
        for way, (meet, update) in ways.items():
            chosen = choose()
            p.prepare(chosen)
            for place, work in ((0, meet), (1, update)):
                began = time.perf_counter()
                work(chosen)
                times[way][repeat, place] = time.perf_counter() - began
                if place == 0:
                    p.finish(chosen)
    print(f"milliseconds of a batch of {BATCH}, {options.threads} threads: shortest, median of {options.repeats}")
    for way, seconds in times.items():
        both = np.column_stack([seconds, seconds.sum(1)]) * 1e3
        cells = (
            f"{name} {low:.2f}, {middle:.2f}"
            for name, low, middle in zip(("meet", "update", "both"), both.min(0), np.median(both, 0), strict=True)
        )
        print(f"{way:10}", *cells, sep="   ")


if __name__ == "__main__":
    main()
