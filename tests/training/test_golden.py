"""Golden numbers; after a deliberate change of results: python tests/test_golden.py --update

Every method × model trains a small federation for three rounds; what it reached is kept in golden.json.
Random numbers are the same on every machine, arithmetic is not: another CPU sums in another order. How much that
matters shows the reference, which also sums in another order: its losses differ by up to 3e-8, its ranks not at
all. LOSS is some sixty times that; a wrong sign, weight, key or order moves a loss by 4e-4 or more (as far as the
closest two methods are apart). A rank changes only where two scores nearly tie, and then by one place: MRR allows for
one triple of the 150 to go from rank 1 to 2.
"""

import json
import os
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pfedeg
from matrix import matrix
from pfedeg.engine.interface import Engine
from pfedeg.engine.reference import NumpyEngine
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from toy import toy_federation

FILE = Path(__file__).parents[1] / "golden.json"
LOSS, MRR = 2e-6, 0.5 / 150
SETTINGS = {"dim": 8, "batch": 64, "negatives": 16, "lr": 0.01, "seed": 1}
SETTINGS |= {"beta": 0.1, "p": 0.9, "mu": 2.0}  # large, so that methods differ after three rounds
RUNS = [f"{method} {model}" for method in METHODS for model in MODELS]


def measure(run: str, engine: Engine | None = None, **settings: Any) -> dict[str, float]:
    method, model = run.split()
    federation = toy_federation(clients=3, entities=40, triples=400, held_out=50)
    config = pfedeg.Config(method=method, model=model, rounds=3, eval_every=3, **(SETTINGS | settings))
    last = list(pfedeg.Training(federation, config, engine=engine))[-1]
    triples = sum(m.triples for m in last.metrics.values())
    return {
        "loss": sum(weight * loss for weight, loss in enumerate(last.loss.values(), 1)),  # distinguishes clients
        "mrr": sum(m.mrr * m.triples for m in last.metrics.values()) / triples,
    }


def check(run: str, found: dict[str, float]) -> None:
    golden = json.loads(FILE.read_text(encoding="utf-8"))[run]
    assert found["loss"] == pytest.approx(golden["loss"], rel=LOSS)
    assert found["mrr"] == pytest.approx(golden["mrr"], abs=MRR)


@matrix(1, method=METHODS, model=sorted(MODELS))
def test_golden_numbers(method, model):
    check(f"{method} {model}", measure(f"{method} {model}"))


@pytest.mark.full
@pytest.mark.parametrize("sampling", ["own", "shared"])
@pytest.mark.parametrize("model", ["transe", "rotate", "complex"])
def test_baseline_processors_give_the_same_numbers(model, sampling, tmp_path):
    """Compiled for a processor that has only what all of its kind have, and here; rows of several registers."""
    run, settings = f"pfedeg-plus {model}", {"dim": 24, "sampling": sampling}
    code = f"import json, test_golden; print(json.dumps(test_golden.measure({run!r}, **{settings!r})))"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found, here = json.loads(done.stdout), measure(run, **settings)
    assert found["loss"] == pytest.approx(here["loss"], rel=LOSS)
    assert found["mrr"] == pytest.approx(here["mrr"], abs=MRR)


@pytest.mark.parametrize("run", [f"pfedeg-plus {model}" for model in MODELS] + ["fedec transe", "single transe"])
def test_reference_gives_the_same_numbers(run):
    check(run, measure(run, NumpyEngine()))


def test_golden_numbers_cover_all_methods_and_models_and_distinguish_methods():
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    assert set(golden) == set(RUNS)
    for model in MODELS:
        losses = sorted(golden[f"{method} {model}"]["loss"] for method in METHODS)
        assert all(b > a * (1 + 100 * LOSS) for a, b in pairwise(losses))


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    warnings.simplefilter("error")
    FILE.write_text(json.dumps({run: measure(run) for run in RUNS}, indent=1) + "\n", encoding="utf-8")
