"""Our kernels, PyKEEN's and PyTorch-BigGraph's on one client graph in one run, and the machine's limit.

python benchmarks/kernels.py --data DIR     the first client of DIR/fb15k-237-fed3.parquet
python benchmarks/kernels.py                a synthetic graph of that size; --entities N: of another
"""

import argparse
import json
import os
from functools import cache
from pathlib import Path

import limits
import machine
import peer_biggraph
from ours import BATCH, CHUNK, DIM, NAMES, NEGATIVES, PULL, Ours, read_graph, synthetic_graph
from peer_pykeen import PyKEEN
from pfedeg.graph import KnowledgeGraph

Rates = dict[str, float]  # by task: "own" and "shared" (training), "rank"


class Limit:
    """The best rates that the machine allows for a graph."""

    def __init__(self, graph: KnowledgeGraph, threads: int) -> None:
        """Measures the machine."""
        self.graph, self.machine = graph, machine.measure(threads)
        self.bandwidth = cache(lambda footprint: machine.bandwidth(footprint, threads))

    def rates(self, ours: Ours) -> Rates:
        """Triples per second of each task."""
        model, known = ours.model, ours.questions
        name = type(model).__name__.lower()
        s = limits.sizes(self.graph, model.entity_width, BATCH, NEGATIVES, CHUNK)
        ranked = len(known.truth)
        needs = {
            "own": (BATCH, limits.own_with_pull(name, s)),
            "shared": (BATCH, limits.shared(name, s)),
            "rank": (ranked, limits.ranking(name, s, len(known.given), ranked)),
        }
        return {
            task: number / limits.least_seconds(passes, self.machine, self.bandwidth)
            for task, (number, passes) in needs.items()
        }


def measure_ours(ours: Ours, repeats: int) -> Rates:
    """Triples per second of each task."""
    triples, ranked = len(ours.graph.train), len(ours.questions.truth)
    return {
        "own": triples / ours.train_seconds("own", PULL, repeats),
        "shared": triples / ours.train_seconds("shared", 0.0, repeats),
        "rank": ranked / ours.rank_seconds(repeats),
    }


def measure_pykeen(graph: KnowledgeGraph, name: str, threads: int, repeats: int) -> Rates:
    """The same of PyKEEN, which has no shared negatives: ours are compared with its own ones."""
    peer = PyKEEN(graph, name, threads)
    train = peer.train(repeats)
    return {"own": train, "shared": train, "rank": peer.rank(repeats)}


def better(one: Rates, other: Rates) -> Rates:
    """The higher rate of each task."""
    return {task: max(one.get(task, 0.0), rate) for task, rate in other.items()}


def compare_biggraph(ours: Ours, rate: float, threads: int, repeats: int) -> dict[str, float]:
    """Ratios to PyTorch-BigGraph; `rate` is ours in chunks of our own size."""
    sharing, ratios = peer_biggraph.SHARING, dict[str, float]()
    name = type(ours.model).__name__.lower()
    alike = len(ours.graph.train) / ours.train_seconds("shared", 0.0, repeats, chunk=sharing)
    rates_row("", f"ours, chunks of {sharing}", {"shared": alike})
    for batch in (BATCH, peer_biggraph.LARGE_BATCH):
        theirs, negatives = peer_biggraph.rate(ours.graph, name, threads, repeats, batch)
        rates_row("", f"BigGraph, b. {batch}", {"shared": theirs})
        row("", "ratio", "", f"{alike / theirs:.2f}×", f"{negatives} neg.")
        row("", f"ratio, chunks of {CHUNK}", "", f"{rate / theirs:.2f}×")
        ratios |= {f"batch_{batch}": round(alike / theirs, 2), f"batch_{batch}_chunk_{CHUNK}": round(rate / theirs, 2)}
    return ratios


def row(*cells: str) -> None:
    """One line of the table."""
    print(f"{cells[0]:8} {cells[1]:19}" + "".join(f"{cell:>14}" for cell in cells[2:]), flush=True)


def rates_row(first: str, who: str, rates: Rates) -> None:
    """One line of figures."""
    row(first, who, *(f"{rates[task]:,.0f}/s" if task in rates else "" for task in ("own", "shared", "rank")))


def read_options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, help="folder with fb15k-237-fed3.parquet")
    source.add_argument("--entities", type=int, help="a synthetic graph of so many entities")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=3, help="how often to measure ours and PyKEEN in turn")
    parser.add_argument("--repeats", type=int, default=2, help="how often to measure each in a turn")
    parser.add_argument("--no-peer", action="store_true", help="only our own figures and the machine's limit")
    parser.add_argument("--json", action="store_true", help="print ratios and rates as JSON on the last line")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = read_options()
    threads, repeats = options.threads, options.repeats
    graph = synthetic_graph(options.entities) if options.entities else read_graph(options.data)
    kind = "first client of FB15k-237-Fed3" if options.data else "synthetic graph"
    print(
        f"{kind}: {len(graph.train):,} triples, {len(graph.entities):,} entities; dim {DIM}, batch {BATCH}, "
        f"{NEGATIVES} negatives, {threads} threads, best of {options.turns} × {repeats}"
    )
    limit = Limit(graph, threads)
    print(machine.describe(limit.machine))
    without_biggraph = options.no_peer or peer_biggraph.missing()
    if isinstance(without_biggraph, str) and without_biggraph:
        print(without_biggraph)
    row("", "", "own, pull", "shared", "ranking")
    result: dict[str, dict[str, object]] = {key: {} for key in ("train", "rank", "biggraph", "limit", "rates")}
    for name in options.models:
        ours = Ours(graph, name, threads)
        best, rates, theirs = limit.rates(ours), Rates(), Rates()
        for _ in range(options.turns):  # the machine is faster at times and slower at times
            rates = better(rates, measure_ours(ours, repeats))
            theirs = better(theirs, {} if options.no_peer else measure_pykeen(graph, name, threads, repeats))
        shares = {task: rates[task] / best[task] for task in rates}
        rates_row(NAMES[name], "ours", rates)
        rates_row("", "machine's limit", best)
        row("", "reached", *(f"{share:.0%}" for share in shares.values()))
        result["limit"][name] = {task: round(share, 3) for task, share in shares.items()}
        result["rates"][name] = {task: round(rate) for task, rate in rates.items()}
        if options.no_peer:
            continue
        ratios = {task: round(rates[task] / theirs[task], 1) for task in rates}
        rates_row("", "PyKEEN", {"own": theirs["own"], "rank": theirs["rank"]})
        row("", "ratio", *(f"{ratio:.0f}×" for ratio in ratios.values()))
        result["train"][name] = {task: ratios[task] for task in ("own", "shared")}
        result["rank"][name] = ratios["rank"]
        if without_biggraph:
            continue
        if name in peer_biggraph.KINDS:
            result["biggraph"][name] = compare_biggraph(ours, rates["shared"], threads, options.turns * repeats)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
