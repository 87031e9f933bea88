"""A round of all clients on one machine: a thread for each, all threads for one after another, and as the rule has it.

python benchmarks/clients.py                                    the embedded federation
python benchmarks/clients.py --data DIR/fb15k-237-fed10.parquet

"serial" is the share of a client's training that more threads do no faster, from the times of one client alone.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ours import NAMES
from pfedeg.engine.compiled.crew import FusedCrew
from pfedeg.engine.interface import Absorb, Kernels, Knowledge, Local, Moments, cores, positives
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import Model, Tables, start_rows
from pfedeg.models.registry import MODELS
from pfedeg.training.schedule import Job, _at_once, carry_out


def make_job(model: Model, graph: KnowledgeGraph, local: Local, pull: float) -> Job[float]:
    """Local training of one client from its first tables, again and again the same."""
    entity = start_rows(model, model.entity_width, 1, np.arange(len(graph.entities)))
    start = Tables(entity, start_rows(model, model.relation_width, 2, np.arange(len(graph.relations))))
    facts, knowledge, absorb = positives(graph), Knowledge(entity, entity[:0]), Absorb(pull=pull)

    def train(kernels: Kernels) -> float:
        tables = start.copy()
        return kernels.train(model, local, absorb, tables, Moments.zeros(tables), knowledge, facts, 7)

    return Job(float(len(graph.train)), train)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare(name: str, jobs: dict[str, Job[float]], threads: int, repeats: int) -> str:
    """One line of the table; the ways take turns, the best of each counts."""
    crew, alone = FusedCrew(threads), FusedCrew(1)
    largest = max(jobs.values(), key=lambda job: job.size)
    ways: dict[str, Callable[[], object]] = {
        "side": lambda: {name: future.result() for name, future in _at_once(jobs, crew).items()},
        "turn": lambda: {name: job.do(crew) for name, job in jobs.items()},
        "rule": lambda: carry_out(jobs, crew),
        "one": lambda: largest.do(alone),
        "all": lambda: largest.do(crew),
    }
    results = {way: work() for way, work in ways.items()}  # compiles
    assert results["side"] == results["turn"] == results["rule"], "results differ"
    best = {way: min(seconds(work) for _ in range(repeats)) for way, work in ways.items()}
    serial = (best["all"] / best["one"] - 1 / threads) / (1 - 1 / threads)
    figures = (best["side"], best["turn"], best["rule"])
    return (
        f"{name:8}"
        + "".join(f"{each:13.3f} s" for each in figures)
        + f"{best['turn'] / best['side']:13.2f}×{serial:9.0%}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a federation; without it the embedded one")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--negatives", type=int, default=256)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--pull", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    federation = Federation.read(options.data) if options.data else Federation.world()
    local = Local(epochs=1, batch=options.batch, negatives=options.negatives)
    sizes = ", ".join(f"{len(graph.train):,}" for graph in federation.graphs.values())
    print(
        f"{len(federation.graphs)} clients of {sizes} triples; dim {options.dim}, {options.negatives} negatives,",
        end="",
    )
    print(f" {options.threads} threads, best of {options.repeats}")
    print(f"{'':8}{'side by side':>15}{'in turn':>15}{'by the rule':>15}{'turn / side':>14}{'serial':>9}")
    for name in options.models:
        model = MODELS[name](options.dim)
        jobs = {client: make_job(model, graph, local, options.pull) for client, graph in federation.graphs.items()}
        print(compare(NAMES[name], jobs, options.threads, options.repeats), flush=True)


if __name__ == "__main__":
    main()
