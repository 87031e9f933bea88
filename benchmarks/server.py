"""The server's update on synthetic federations: time, bandwidth and memory against clients, ids and owners per id.

python benchmarks/server.py            about three minutes, up to 1,000 clients and 1 M aligned ids
python benchmarks/server.py --quick    a few seconds
python benchmarks/server.py --plot docs/plots

"moved" counts what must move at least: every row read once per pass (PFedEG+ has two) and every new row written once.
It is compared with numpy's copy of a large array on as many threads ("of copy"). New rows need new memory, which the
system clears first; "reused" is the time into memory that was used before. Extra memory is the index of owners and the
peak of the update beyond uploads and new rows.
"""

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curves import Point
from ours import check_extra
from pfedeg import aligned_arrays
from pfedeg.engine.interface import Absorb, cores
from pfedeg.graphs.alignment import Mat, Rows, Shared
from pfedeg.methods import affinity, mixing
from pfedeg.methods import mixing_reference as reference
from pfedeg.methods.base import State, Strategy
from pfedeg.methods.exchange import Download, Upload
from pfedeg.methods.fede import FedE
from pfedeg.methods.pfedeg import PFedEGPlus, PFedEGStar

WIDTH = 128
PASSES = {"star": 2, "plus": 3, "fede": 2}  # how often the rows move: read, read again, written


class Case(NamedTuple):
    """A federation where each id has the same number of random owners."""

    series: str
    clients: int
    ids: int
    owners: int


FULL = [
    *(Case("ids", 3, ids, 3) for ids in (62_500, 125_000, 250_000, 500_000, 1_000_000)),
    *(Case("clients", clients, 250_000, 3) for clients in (3, 10, 30, 100, 300, 1_000)),
    *(Case("owners", 1_000, 300_000 // owners, owners) for owners in (2, 3, 10, 30, 100, 300, 1_000)),
    Case("largest", 1_000, 1_000_000, 3),
]
QUICK = [
    *(Case("ids", 3, ids, 3) for ids in (10_000, 20_000, 40_000)),
    *(Case("clients", clients, 20_000, 3) for clients in (3, 30, 300)),
    *(Case("owners", 100, 20_000 // owners, owners) for owners in (2, 10, 100)),
]


def make_shared(case: Case) -> Shared:
    """Owners at random distances from each other around the circle of clients."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, case.clients, (case.ids, 1))
    gaps = rng.integers(1, max(2, (case.clients - 1) // case.owners + 1), (case.ids, case.owners - 1))
    owner = ((first + np.cumsum(np.append(0 * first, gaps, 1), 1)) % case.clients).ravel()
    order = np.argsort(owner, kind="stable")
    ids = (order // case.owners).astype(np.int32)
    ends = np.searchsorted(owner[order], np.arange(1, case.clients))
    return Shared({f"c{i:04}": part for i, part in enumerate(np.split(ids, ends))})


def make_uploads(shared: Shared) -> dict[str, Rows]:
    """Every client's rows, each in separate memory."""
    rng = np.random.default_rng(1)
    return {
        client: Rows(ids, rng.random((len(ids), WIDTH), np.float32) - np.float32(0.5))
        for client, ids in shared.travelling.items()
    }


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """The shortest of several times; fewer, if they take long."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < 2:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def copy_bandwidth(threads: int, size: int, repeats: int) -> tuple[float, float]:
    """Bytes per second that numpy's copy reads and writes: into reused memory, and into new memory."""
    source, target = np.ones(size // 4, np.float32), np.ones(size // 4, np.float32)
    parts = [slice(len(source) * i // threads, len(source) * (i + 1) // threads) for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def copy(to: Mat) -> None:
            list(pool.map(lambda part: np.copyto(to[part], source[part]), parts))

        reused = best_of(repeats, lambda: copy(target))
        new = best_of(repeats, lambda: copy(np.empty_like(source)))
    return 2 * source.nbytes / reused, 2 * source.nbytes / new


def extra_memory(work: Callable[[], Mapping[str, Download]]) -> int:
    """Bytes allocated at the peak of the work beyond what it returns; compiled code allocates nothing.

    The process's own peak would hide what comes from memory that was freed before.
    """
    tracemalloc.start()
    made = sum(sent.tables["entity"].values.nbytes for sent in work().values())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return max(0, peak - made)


def measure(case: Case, threads: int, repeats: int) -> dict[str, Any]:
    """Times, bytes and ratios of one federation."""
    shared = make_shared(case)
    began = time.perf_counter()
    owners = shared.ownership
    indexed = time.perf_counter() - began
    latest = make_uploads(shared)
    uploads = {client: Upload({"entity": rows}) for client, rows in latest.items()}
    size = sum(rows.values.nbytes for rows in latest.values())
    absorb = Absorb(replace=True)
    strategies: dict[str, Strategy] = {
        "star": PFedEGStar(absorb, threads=threads),
        "plus": PFedEGPlus(absorb, threads=threads),
        "fede": FedE(threads=threads),
    }
    weights = affinity.overlap_weights(shared, threads)
    result: dict[str, Any] = case._asdict() | {
        "rows": len(owners.client),
        "owners_squared": int((np.diff(owners.start) ** 2).sum()),
        "input_bytes": size,
        "index_bytes": sum(part.nbytes for part in owners),
        "index_seconds": indexed,
        "overlap_seconds": best_of(repeats, lambda: affinity.overlap_weights(shared, threads)),
    }
    reused = {
        "star": lambda out: mixing.mix(shared, latest, weights, 0.5, shared.clients, threads, out),
        "plus": lambda out: mixing.mix(
            shared, latest, affinity.distance_weights(shared, latest, "sum", threads), 0.5, shared.clients, threads, out
        ),
        "fede": lambda out: mixing.mean(shared, latest, shared.clients, threads, out),
    }

    def weigh() -> Mapping[str, Download]:
        affinity.distance_weights(shared, latest, "sum", threads)
        return {}

    for name, strategy in strategies.items():
        state = strategy.init(shared)

        def update(strategy: Strategy = strategy, state: State = state) -> Mapping[str, Download]:
            return strategy.aggregate(state, shared, uploads, shared.clients)[1]

        extra = extra_memory(update)
        if name == "plus":  # the weights come first; their tables are gone when rows are made
            extra = max(extra, extra_memory(weigh))
        seconds = best_of(repeats, update)
        out = aligned_arrays.empty((len(owners.client), WIDTH), np.float32)
        out[:] = 0
        ready = best_of(repeats, lambda name=name, out=out: reused[name](out))  # type: ignore[misc]  # mypy infers no lambda with defaults
        del out
        result[name] = {"seconds": seconds, "reused": ready, "bytes": PASSES[name] * size, "extra_bytes": extra}
    if case.clients <= 30 and case.ids <= 250_000:
        for name, work in {
            "star": lambda: reference.mix(shared, latest, weights, 0.5, shared.clients),
            "plus": lambda: (
                reference.similarities(shared, latest),
                reference.mix(shared, latest, weights, 0.5, shared.clients),
            ),
            "fede": lambda: reference.mean(shared, latest, shared.clients),
        }.items():
            result[name]["numpy"] = best_of(1, work)
    return result


def compare(result: dict[str, Any], copy: tuple[float, float]) -> None:
    """Add the fractions of the copy's bandwidth."""
    for name in PASSES:
        part = result[name]
        part["fraction"] = part["bytes"] / part["reused"] / copy[0]
        part["fraction_new"] = part["bytes"] / part["seconds"] / copy[1]


def show(result: dict[str, Any]) -> None:
    """One federation as three lines."""
    head = f"{result['series']:8}{result['clients']:6,}{result['ids']:11,}{result['owners']:7,}"
    head += f"{result['owners_squared']:13,}"
    for name, label in {"star": "PFedEG*", "plus": "PFedEG+", "fede": "FedE"}.items():
        part = result[name]
        speed = part["bytes"] / part["reused"] / 1e9
        ratio = f"{part['numpy'] / part['seconds']:.1f}×" if "numpy" in part else "–"
        extra = f"{(result['index_bytes'] + part['extra_bytes']) / 1e6:.1f}"
        print(f"{head:45} {label:8}{part['seconds']:9.4f}{part['reused']:9.4f}{speed:8.1f}", end="")
        print(f"{part['fraction']:9.0%}{part['fraction_new']:7.0%}{extra:>10}{ratio:>10}", flush=True)
        head = ""


def points(results: list[dict[str, Any]]) -> list[Point]:
    """What is drawn: time against ids, and time per pair of owners against owners per id."""
    found = []
    for result in results:
        for name in PASSES:
            seconds = result[name]["reused"]
            if result["series"] == "ids":
                found.append(Point(curve="server-ids", model=name, sampling="", x=result["ids"], y=1e3 * seconds))
            if result["series"] == "owners":
                each = 1e9 * seconds / result["owners_squared"]
                found.append(Point(curve="server-owners", model=name, sampling="", x=result["owners"], y=each))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small federations")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print all figures as JSON on the last line")
    parser.add_argument("--plot", type=Path, help="draw into this folder (needs the plot extra)")
    options = parser.parse_args()
    if options.plot:
        check_extra("plot", "--plot")
    measure(Case("", 3, 100, 3), options.threads, 1)  # compiles
    print(
        f"rows of {WIDTH} float32, {options.threads} threads, best of {options.repeats}; fractions are of numpy's copy,"
    )
    print("the fastest seen so far, into reused memory and into new memory")
    print(
        f"{'series':8}{'clients':>6}{'ids':>10}{'owners':>7}{'Σ owners²':>13}{'':9}{'seconds':>10}{'reused':>9}",
        end="",
    )
    print(f"{'GB/s':>8}{'of copy':>9}{'(new)':>7}{'extra MB':>10}{'vs numpy':>10}")
    results, copy = [], (0.0, 0.0)
    for case in QUICK if options.quick else FULL:
        now = copy_bandwidth(options.threads, 1 << (27 if options.quick else 29), options.repeats)
        copy = max(copy[0], now[0]), max(copy[1], now[1])
        results.append(measure(case, options.threads, options.repeats))
        compare(results[-1], copy)
        show(results[-1])
    print(f"numpy's copy: {copy[0] / 1e9:.1f} GB/s into reused memory, {copy[1] / 1e9:.1f} GB/s into new memory")
    for result in results:
        compare(result, copy)
    if options.plot:
        from plots import draw

        draw(points(results), options.plot, "svg")
    if options.json:
        speeds = {"reused": copy[0], "new": copy[1]}
        print(
            json.dumps({"width": WIDTH, "threads": options.threads, "copy_bytes_per_second": speeds, "cases": results})
        )


if __name__ == "__main__":
    main()
