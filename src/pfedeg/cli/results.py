"""The commands that look at runs: show, evaluate."""

import json
from pathlib import Path
from typing import Any

import click

from pfedeg.cli.options import CONTEXT, console, json_option, threads_option
from pfedeg.text import plural


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--split", type=click.Choice(["train", "valid", "test"]), default="test", help="triples to rank")
@click.option("--side", type=click.Choice(["tail", "head", "both"]), default="tail", help="entity to predict")
@threads_option
@json_option
def evaluate(run: Path, split: Any, side: str, threads: int | None, as_json: bool) -> None:
    """Evaluate a finished RUN again: MRR and Hits@k.

    Metrics are per client, and averaged over clients weighted by triples.

    \b
    Examples:
      pfedeg evaluate runs/mine --split valid
      pfedeg evaluate runs/mine --side both --json
    """
    from pfedeg.cli.tables import metrics_table
    from pfedeg.engine.interface import default_engine
    from pfedeg.training.run_result import summary
    from pfedeg.training.saved_run import Run

    opened = Run(run, default_engine(threads))
    opened.require_finished()
    which: Any = None if side == "both" else side
    metrics = summary(opened.evaluate(split, which))
    if as_json:
        click.echo(json.dumps({"split": split, "side": side, **metrics}, ensure_ascii=False))
        return
    predicted = "head and tail" if side == "both" else side
    title = f"{opened.title}: {split} metrics, {predicted} prediction"
    console().print(metrics_table(title, {"": metrics}))


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def show(run: Path, as_json: bool) -> None:
    """Summarise a RUN: metrics, validation curve, relation graph.

    The run may be unfinished.

    \b
    Example:
      pfedeg show runs/mine
    """
    from pfedeg.cli.tables import affinity_table, curve, metrics_table
    from pfedeg.text import duration
    from pfedeg.training.saved_run import Run

    opened = Run(run)
    result, history = opened.result, opened.history
    evaluated = [line for line in history if "valid" in line]
    if as_json:
        content = {
            "config": opened.effective_settings,
            "provenance": opened.provenance,
            "result": result,
            "history": history,
        }
        click.echo(json.dumps(content, ensure_ascii=False))
        return
    out = console()
    origin = opened.provenance
    seconds = sum(line.get("seconds", 0) for line in history)
    sent = sum(line.get("bytes_up", 0) + line.get("bytes_down", 0) for line in history)
    how = "repeat the train command with --resume"
    if "federation" in origin:
        how = "the server operator resumes it with `pfedeg server run DIR --resume`"
    state = "finished" if result else f"not finished; {how}"
    out.print(f"{run}: {opened.title}, seed {opened.seed}, {state}", highlight=False, soft_wrap=True)
    source, fingerprint = origin["data"] or "from Python", origin["data_fingerprint"][:12]
    text = f"data {source} (fingerprint {fingerprint}), pfedeg {origin['package']}"
    out.print(text, highlight=False, soft_wrap=True)
    exchanged = "sent over the network" if "federation" in origin else "exchanged in process"
    best = f", best round {result['best_round']}" if result else ""
    text = f"{plural(len(history), 'round')}{best}, {duration(seconds)}, {sent / 1e6:.1f} MB {exchanged}"
    out.print(text, highlight=False)
    if result:
        out.print(metrics_table("Metrics", {"valid": result["valid"], "test": result["test"]}))
    elif evaluated:
        out.print(metrics_table(f"Metrics of round {evaluated[-1]['round']}", {"valid": evaluated[-1]["valid"]}))
    points = [(line["round"], line["valid"]["weighted"]["mrr"]) for line in evaluated]
    drawn = curve([(number, mrr) for number, mrr in points if mrr is not None])
    if drawn:
        out.print("valid MRR by round", style="bold")
        out.print(drawn, highlight=False)
    if affinity := opened.affinity():
        out.print(affinity_table(affinity))
