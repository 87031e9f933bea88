"""Whether shared negatives learn as much as own ones: validation MRR by round, for each model.

python benchmarks/sampling.py --data DIR --rounds 12 --json docs/plots/sampling.json --plot docs/plots
python benchmarks/sampling.py --from docs/plots/sampling.json --plot docs/plots     draws again without training
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from curves import SAMPLINGS, Point
from ours import NAMES, check_extra
from pfedeg.cli.tables import rounds_with_progress
from pfedeg.engine.interface import default_engine
from pfedeg.graphs.federation import Federation
from pfedeg.methods.registry import METHODS
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training

CURVE, ALIKE = "sampling", 0.003  # differences of MRR below which the two are alike


def measure(options: argparse.Namespace) -> Iterable[Point]:
    """A run for each model and sampling, with equal settings otherwise."""
    federation = Federation.read(options.data / f"{options.dataset}.parquet")
    for model in options.models:
        for sampling in SAMPLINGS:
            config = Config(
                method=options.method, model=model, rounds=options.rounds, sampling=sampling, eval_every=options.every
            )
            out = options.out and options.out / f"{model}-{sampling}"
            training = Training(federation, config, out=out, resume=True, engine=default_engine())
            for _ in rounds_with_progress(training, Console(stderr=True), f"{NAMES[model]}, {sampling} negatives"):
                pass
            for line in training.history:
                if "valid" in line:
                    mrr = line["valid"]["weighted"]["mrr"]
                    yield Point(curve=CURVE, model=model, sampling=sampling, x=line["round"], y=mrr)


def compare(points: list[Point]) -> None:
    """Shared less own in each round of each model."""
    for model in dict.fromkeys(point["model"] for point in points):
        own, shared = (
            {point["x"]: point["y"] for point in points if (point["model"], point["sampling"]) == (model, sampling)}
            for sampling in SAMPLINGS
        )
        difference = {number: shared[number] - own[number] for number in own}
        cells = "  ".join(f"{number}: {value:+.4f}" for number, value in difference.items())
        verdict = "alike" if max(map(abs, difference.values())) <= ALIKE else f"not within {ALIKE} in every round"
        print(f"{NAMES[model]:8} shared − own by round  {cells}  {verdict}")


def main() -> None:
    """Measure or read, print, keep, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with DATASET.parquet")
    parser.add_argument("--dataset", default="fb15k-237-fed3")
    parser.add_argument("--models", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--method", choices=list(METHODS), default="pfedeg-star")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--every", type=int, default=2, help="rounds between evaluations")
    parser.add_argument("--out", type=Path, help="keep the runs there, and continue those that are there already")
    parser.add_argument("--json", type=Path, help="keep the points in this file")
    parser.add_argument("--from", dest="source", type=Path, help="take the points from this file")
    parser.add_argument("--plot", type=Path, help="draw into this folder (needs the plot extra)")
    options = parser.parse_args()
    if not (options.data or options.source):
        parser.error("--data or --from is needed")
    if options.plot:
        check_extra("plot", "--plot")
    points: list[Point] = json.loads(options.source.read_text()) if options.source else []
    for point in () if options.source else measure(options):
        print(f"{point['model']:8} {point['sampling']:6} round {point['x']:>3}  valid MRR {point['y']:.4f}", flush=True)
        points.append(point)
    compare(points)
    if options.json:
        options.json.write_text("[\n" + ",\n".join(json.dumps(point) for point in points) + "\n]\n")
    if options.plot:
        from plots import draw

        draw(points, options.plot, "svg")


if __name__ == "__main__":
    main()
