"""The machine's limits, measured: vector arithmetic per second, and bytes per second at a given distance.

python benchmarks/machine.py
"""

import argparse
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ours import best_of, thread_count
from pfedeg.engine.lowlevel.compile import PHASE, Team
from pfedeg.engine.lowlevel.compile import atomic_add as _typed_atomic_add

helpers: Any = cgutils  # has no annotations
CHAINS = 14  # independent sums: enough to hide the latency of an operation, with two constants just 16 registers
START = 2.0  # of the first chain; from 1, where multiply–add changes nothing, the compiler would leave the chain out
ROUNDS = 32_000_000  # some 70 ms: starting threads takes a part in a thousand of it


class Machine(NamedTuple):
    """What all threads together reach, in operations on single-precision numbers."""

    multiply: float  # multiplications or fused multiply–adds per second, nothing else at the same time
    add: float  # additions per second, nothing else at the same time
    mixed: float  # of both in equal parts: more than either where they have units of their own
    threads: int

    @property
    def flops(self) -> float:
        """Floating-point operations per second, a fused multiply–add counted as two."""
        return 2 * self.multiply


def lanes() -> int:
    """Single-precision numbers in a vector register."""
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx") else 4


def measure(threads: int, repeats: int = 5) -> Machine:
    """The arithmetic, on vectors that never leave their registers."""
    rates = [_arithmetic_rate(kinds, threads, repeats) for kinds in ("m", "a", "ma")]
    return Machine(rates[0], rates[1], rates[2], threads)


def _arithmetic_rate(kinds: str, threads: int, repeats: int) -> float:
    """Operations per second, each chain of the next of these kinds: m(ultiply–add) or a(dd)."""
    loop, team, result = _loop(kinds, lanes()), Team(threads), np.zeros(threads, np.float32)
    team.run(loop, 1, result)
    return threads * ROUNDS * CHAINS * lanes() / best_of(repeats, lambda: team.run(loop, ROUNDS, result))


def _loop(kinds: str, width: int) -> Callable[..., None]:
    """A compiled loop, one operation of every chain per round, in vectors that the compiler need not find."""

    @intrinsic
    def chains(typing: Any, rounds: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector, integer = ir.VectorType(ir.FloatType(), width), ir.IntType(64)
            kind = ir.FunctionType(vector, [vector] * 3)
            fma = helpers.get_or_insert_function(builder.module, kind, f"llvm.fma.v{width}f32")
            factor, term = (ir.Constant(vector, [x] * width) for x in (0.9999, 1e-4))
            before, loop = builder.block, builder.append_basic_block("loop")
            after = builder.append_basic_block("after")
            builder.branch(loop)
            builder.position_at_end(loop)
            count = builder.phi(integer)
            count.add_incoming(ir.Constant(integer, 0), before)
            sums = [builder.phi(vector) for _ in range(CHAINS)]
            ends = []
            for number, old in enumerate(sums):
                multiply = kinds[number % len(kinds)] == "m"
                new = builder.call(fma, [old, factor, term]) if multiply else builder.fadd(old, term)
                old.add_incoming(ir.Constant(vector, [START + number] * width), before)
                old.add_incoming(new, loop)
                ends.append(new)
            following = builder.add(count, ir.Constant(integer, 1))
            count.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, arguments[0]), loop, after)
            builder.position_at_end(after)
            total = ends[0]
            for other in ends[1:]:
                total = builder.fadd(total, other)
            return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

        return types.float32(types.int64), generate

    count: Any = chains  # called from compiled code, it takes no typing context

    @numba.njit(nogil=True)
    def run(thread: int, threads: int, sync: Any, rounds: int, result: Any) -> None:
        result[thread] = count(rounds)

    made: Callable[..., None] = run
    return made


@numba.njit(nogil=True, fastmath=True)
def _update(thread: int, threads: int, sync: Any, a: Any, b: Any, passes: int) -> None:
    """Two streams read, one of them written: what an optimiser does."""
    x, y = a[thread], b[thread]
    for _ in range(passes):
        for k in range(len(x)):
            x[k] = np.float32(0.5) * x[k] + y[k]


@numba.njit(nogil=True)
def _copy(thread: int, threads: int, sync: Any, a: Any, b: Any, passes: int) -> None:
    x, y = a[thread], b[thread]
    for _ in range(passes):
        for k in range(len(x)):
            x[k] = y[k]


def bandwidth(footprint: float, threads: int, kind: str = "update", repeats: int = 5) -> float:
    """Bytes read and written per second by all threads going over `footprint` bytes again and again."""
    size = max(int(footprint) // (8 * threads), 1024)
    a, b = (np.ones((threads, size), np.float32) for _ in range(2))
    function, moved = (_update, 12) if kind == "update" else (_copy, 8)
    passes, team = max(1, int(2e8 / footprint)), Team(threads)
    team.run(function, a, b, 1)
    return moved * a.size * passes / best_of(repeats, lambda: team.run(function, a, b, passes))


atomic_add: Any = _typed_atomic_add  # called from compiled code, it takes no typing context


@numba.njit(nogil=True)
def _volley(thread: int, threads: int, sync: Any, turns: int) -> None:
    """The first and the last thread pass a word to and fro."""
    if 0 < thread < threads - 1:
        return
    for turn in range(turns):
        if thread == 0:
            atomic_add(sync, PHASE, 1)
        while atomic_add(sync, PHASE, 0) < 2 * turn + (2 if thread == 0 else 1):
            pass
        if thread > 0:
            atomic_add(sync, PHASE, 1)


def trip(threads: int, turns: int = 2000, repeats: int = 10) -> float:
    """Seconds that a word takes from the first thread's core to the last one's and back: whether they share a cache."""
    team = Team(threads)
    return best_of(repeats, lambda: team.run(_volley, turns)) / turns if threads > 1 else 0.0


def describe(machine: Machine) -> str:
    """What was measured, in words."""
    near, far = (
        {kind: bandwidth(size, machine.threads, kind) / 1e9 for kind in ("copy", "update")} for size in (8e6, 5e8)
    )
    return (
        f"machine: {machine.flops / 1e9:.0f} Gflop/s by fused multiply–adds of {lanes()} numbers, "
        f"{machine.add / 1e9:.0f} G additions/s, {machine.mixed / 1e9:.0f} G of both in turn/s; "
        f"memory: copy {far['copy']:.0f}, update {far['update']:.0f} GB/s; "
        f"8 MB in cache: copy {near['copy']:.0f}, update {near['update']:.0f} GB/s; "
        f"a word to another core and back {trip(machine.threads) * 1e9:.0f} ns"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=thread_count, default=os.cpu_count())
    options = parser.parse_args()
    print(describe(measure(options.threads)))
    for size in (1e6, 4e6, 8e6, 16e6, 24e6, 32e6, 48e6, 64e6, 128e6, 512e6):
        print(f"{size / 1e6:6.0f} MB: update {bandwidth(size, options.threads) / 1e9:6.1f} GB/s")


if __name__ == "__main__":
    main()
