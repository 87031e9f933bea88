"""Training and ranking of the compiled engine, PyKEEN and PyTorch-BigGraph on one client graph in one run.

python benchmarks/kernels.py --data DIR     the first client of DIR/fb15k-237-fed3.parquet
python benchmarks/kernels.py                a synthetic graph of that size; --entities N: of another
"""

import argparse
import json
import math
import os
import sys
from pathlib import Path

import peer_biggraph
from ours import BATCH, CHUNK, DIM, NAMES, NEGATIVES, PULL, Ours, check_extra, count, read_graph, thread_count
from peer_biggraph import SHARING
from peer_pykeen import PyKEEN
from pfedeg.graphs.knowledge_graph import KnowledgeGraph

Rates = dict[str, float]  # by task: "own" and "shared" (training), "rank"


class Match:
    """One model's rates, ours and the peers': the best of several turns, since machines are slow at times."""

    def __init__(self, graph: KnowledgeGraph, name: str, threads: int, least: float) -> None:
        """Nothing is measured yet."""
        self.name, self.graph, self.threads, self.least = name, graph, threads, least
        self.ours = Ours(graph, name, threads, least=least)
        self.rates, self.pykeen = Rates(), Rates()
        self.alike, self.biggraph = 0.0, dict[int, tuple[float, str]]()

    def measure(self, repeats: int, pykeen: bool, biggraph: bool) -> None:
        """One turn: ours, PyKEEN, ours in BigGraph's chunks, BigGraph."""
        _keep_better(self.rates, self._measure_ours(repeats))
        if pykeen:
            _keep_better(self.pykeen, self._measure_pykeen(repeats))
        seconds = self.ours.train_seconds("shared", 0.0, repeats, chunk=SHARING)
        self.alike = max(self.alike, len(self.graph.train) / seconds)
        if not biggraph or self.name not in peer_biggraph.KINDS:
            return
        for batch in (BATCH, peer_biggraph.LARGE_BATCH):
            rate, _ = self.biggraph.get(batch, (0.0, ""))
            epochs = 1 + max(repeats, math.ceil(self.least * rate / len(self.graph.train)))
            found = peer_biggraph.rate(self.graph, self.name, self.threads, epochs, batch)
            self.biggraph[batch] = max(self.biggraph.get(batch, found), found)

    def _measure_ours(self, repeats: int) -> Rates:
        """Triples per second of each task."""
        triples, ranked = len(self.graph.train), len(self.ours.questions.truth)
        return {
            "own": triples / self.ours.train_seconds("own", PULL, repeats),
            "shared": triples / self.ours.train_seconds("shared", 0.0, repeats),
            "rank": ranked / self.ours.rank_seconds(repeats),
        }

    def _measure_pykeen(self, repeats: int) -> Rates:
        """The same of PyKEEN, which has no shared negatives: ours are compared with its own ones."""
        peer = PyKEEN(self.graph, self.name, self.threads, self.least)
        train = peer.train(repeats)
        return {"own": train, "shared": train, "rank": peer.rank(repeats)}

    def show(self, result: dict[str, dict[str, object]]) -> None:
        """Print the table of this model, and add its figures to the result."""
        rates, name = self.rates, self.name
        rates_row(NAMES[name], "ours", rates)
        rates_row("", f"ours, chunks of {SHARING}", {"shared": self.alike})
        result["rates"][name] = {task: round(rate) for task, rate in rates.items()}
        if self.pykeen:
            ratios = {task: round(rates[task] / self.pykeen[task], 1) for task in rates}
            rates_row("", "PyKEEN", {task: self.pykeen[task] for task in ("own", "rank")})
            row("", "ratio", *(f"{ratio:.0f}×" for ratio in ratios.values()))
            wide = round(self.alike / self.pykeen["shared"], 1)
            row("", f"ratio, chunks of {SHARING}", "", f"{wide:.0f}×")
            result["train"][name] = {"own": ratios["own"], "shared": ratios["shared"], f"shared_{SHARING}": wide}
            result["rank"][name] = ratios["rank"]
        if self.biggraph:
            result["biggraph"][name] = self._show_biggraph()

    def _show_biggraph(self) -> dict[str, float]:
        ratios = dict[str, float]()
        for batch, (theirs, negatives) in self.biggraph.items():
            alike, default = self.alike / theirs, self.rates["shared"] / theirs
            rates_row("", f"BigGraph, b. {batch}", {"shared": theirs})
            row("", f"ratio, chunks of {SHARING}", "", f"{alike:.2f}×", f"{negatives} neg.")
            row("", f"ratio, chunks of {CHUNK}", "", f"{default:.2f}×")
            ratios |= {f"batch_{batch}": round(alike, 2), f"batch_{batch}_chunk_{CHUNK}": round(default, 2)}
        return ratios


def _keep_better(best: Rates, found: Rates) -> None:
    """The higher rate of each task."""
    best |= {task: max(best.get(task, rate), rate) for task, rate in found.items()}


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
    source.add_argument("--entities", type=count, help="a synthetic graph with this number of entities")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", type=thread_count, default=os.cpu_count())
    parser.add_argument("--turns", type=count, default=3, help="how often to go through all models and peers")
    parser.add_argument("--repeats", type=count, default=2, help="how often to measure each in a turn at least")
    parser.add_argument("--seconds", type=count, default=4, help="how long to measure each in a turn at least")
    parser.add_argument("--no-peer", action="store_true", help="only our own figures")
    parser.add_argument("--json", action="store_true", help="print ratios and rates as JSON on the last line")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = read_options()
    if not options.no_peer:
        check_extra("bench", "the comparison with PyKEEN", "--no-peer measures ours alone")
    threads, repeats = options.threads, options.repeats
    graph = read_graph(options.data, options.entities)
    kind = "first client of FB15k-237-Fed3" if options.data else "synthetic graph"
    print(
        f"{kind}: {len(graph.train):,} triples, {len(graph.entities):,} entities; dim {DIM}, batch {BATCH}, "
        f"{NEGATIVES} negatives, {threads} threads, best of {options.turns} turns of at least {options.seconds} seconds"
    )
    without_biggraph = "" if options.no_peer else peer_biggraph.missing()
    if without_biggraph:
        print(without_biggraph)
    matches = [Match(graph, name, threads, options.seconds) for name in options.models]
    for turn in range(options.turns):
        for match in matches:
            print(f"turn {turn + 1} of {options.turns}: {NAMES[match.name]}", file=sys.stderr, flush=True)
            match.measure(repeats, not options.no_peer, not options.no_peer and not without_biggraph)
    row("", "", "own, pull", "shared", "ranking")
    result: dict[str, dict[str, object]] = {key: {} for key in ("train", "rank", "biggraph", "rates")}
    for match in matches:
        match.show(result)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
