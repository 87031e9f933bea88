"""The command `demo`: four methods compared on the embedded federation, with predictions that readers can check."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pfedeg.cli.tables import affinity_table, comparison_table, metrics_table, rounds_with_progress
from pfedeg.graphs.federation import Federation
from pfedeg.methods.registry import METHODS
from pfedeg.text import duration
from pfedeg.training.config import configure
from pfedeg.training.local_run import Training

if TYPE_CHECKING:
    from rich.console import Console

COMPARED = ("single", "fede", "pfedeg-star", "pfedeg-plus")
QUESTIONS = (
    ("government", "Rio de Janeiro", "in_country", "Brazil"),
    ("commerce", "Vietnam", "speaks", "Vietnamese language"),
    ("transport", "Karagandy", "in_time_zone", "Asia/Almaty"),
)


def show_demo(out: Path, threads: int | None, console: "Console", log: "Console") -> None:
    """Train and compare the methods, predict some held-out facts, and suggest what to try next."""
    from pfedeg.engine.lowlevel.code_cache import is_first_use

    began = time.monotonic()
    federation = Federation.world()
    console.print(
        "Six organisations know different things about the same countries and cities (GeoNames, CC BY 4.0):",
        highlight=False,
        soft_wrap=True,
    )
    for name, graph in federation.graphs.items():
        relations, held_out = ", ".join(graph.relations), len(graph.valid) + len(graph.test)
        console.print(
            f"  {name}: {len(graph.train):,} facts to train on and {held_out:,} held out, about "
            f"{len(graph.entities):,} entities ({relations})",
            highlight=False,
            soft_wrap=True,
        )
    if is_first_use():
        log.print("first use: compiling the training loops, once, takes some seconds", highlight=False, soft_wrap=True)
    runs = {}
    for method in COMPARED:
        training = Training(
            federation,
            configure({"method": method}, "quick")[0],
            out=out / method,
            resume=True,
            threads=threads,
            source="world",
        )
        if training.result is not None:
            log.print(f"{METHODS[method].label}: already trained in {out / method}", highlight=False, soft_wrap=True)
        for _ in rounds_with_progress(training, log, METHODS[method].label):
            pass
        runs[method] = training
    results = {METHODS[method].label: training.result or {} for method, training in runs.items()}
    console.print()
    console.print(metrics_table("Test metrics", {label: result["test"] for label, result in results.items()}))
    console.print(comparison_table("Weighted over clients", results))
    affinity = runs["pfedeg-plus"].affinity()
    if affinity:
        console.print(affinity_table(affinity))
    console.print("Facts held out for testing: the rank of the correct answer", style="bold")
    for client, head, relation, tail in QUESTIONS:
        console.print(f"  {client}: ({head}, {relation}, ?)  correct: {tail}", highlight=False, soft_wrap=True)
        for method in ("single", "pfedeg-plus"):
            answers = runs[method].predict(
                client, relation, head=head, k=len(federation.graphs[client].entities), known=True
            )
            open_answers = [a.entity for a in answers if not a.known or a.entity == tail]
            rank, best = open_answers.index(tail) + 1, ", ".join(open_answers[:3])
            console.print(
                f"    {METHODS[method].label:8} rank {rank:>4}   best three: {best}", highlight=False, soft_wrap=True
            )
    where = out / "pfedeg-plus"
    console.print(
        f"\nDone in {duration(time.monotonic() - began)}. The runs are in {out}. Try next:",
        highlight=False,
        soft_wrap=True,
    )
    for line in (
        f"pfedeg show {where}",
        f"pfedeg predict {where} --client government --head Kyoto --relation in_country -k 3 --known",
        "pfedeg train world --method pfedeg-plus --model rotate --preset quick --out runs/mine",
        "pfedeg train FOLDER   (your own data: a subfolder per client, each with triples.tsv)",
    ):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
