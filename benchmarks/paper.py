"""One cell of the paper's tables with the paper's settings: the validation curve, the test metrics, time and memory.

python benchmarks/paper.py --data DIR --dataset fb15k-237-fed3 --model transe --method pfedeg-star --rounds 20
"""

import argparse
import json
import resource
from pathlib import Path

from rich.console import Console

from pfedeg.cli.tables import metrics_table, rounds_with_progress
from pfedeg.engine.interface import default_engine
from pfedeg.graphs.federation import Federation
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with DATASET.parquet")
    parser.add_argument("--dataset", default="fb15k-237-fed3")
    parser.add_argument("--model", choices=list(MODELS), default="transe")
    parser.add_argument("--method", choices=list(METHODS), default="pfedeg-star")
    parser.add_argument("--rounds", type=int, help="rounds; three times as many for methods that do not federate")
    parser.add_argument("--p", type=float, default=0.5)
    parser.add_argument("--beta", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sampling", choices=["own", "shared"], default="own")
    parser.add_argument("--out", type=Path, help="keep the run there, and continue it if it is there already")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    federation = Federation.read(options.data / f"{options.dataset}.parquet")
    alone = not METHODS[options.method].is_federated
    config = Config(
        method=options.method,
        model=options.model,
        rounds=options.rounds and options.rounds * (3 if alone else 1),
        seed=options.seed,
        sampling=options.sampling,
        eval_every=15 if alone else 5,
        **{name: value for name in ("p", "beta") if (value := getattr(options, name)) is not None},
    )
    engine = default_engine(options.threads)
    source = options.dataset
    training = Training(federation, config, out=options.out, resume=True, engine=engine, source=source)
    for _ in rounds_with_progress(
        training, Console(stderr=True), f"{options.dataset} {options.method} {options.model}"
    ):
        pass
    result = training.result or {}
    valid = {line["round"]: line["valid"]["weighted"]["mrr"] for line in training.history if "valid" in line}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if options.json:
        print(json.dumps({"valid_mrr": valid, "peak_memory_gb": round(memory, 3), **result}))
        return
    print("valid MRR by round:", "  ".join(f"{number}: {mrr:.4f}" for number, mrr in valid.items()))
    Console().print(metrics_table(f"{options.dataset}, {options.method}, {options.model}: test", {"": result["test"]}))
    print(f"{result['rounds']} rounds in {result['seconds']:.0f} s, peak memory {memory:.2f} GB")


if __name__ == "__main__":
    main()
