"""The library against the method in plain loops (examples/naive_pfedeg.py)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import pfedeg
from pfedeg.training.evaluation import weighted

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import naive_pfedeg

ROUNDS = 5


@pytest.mark.parametrize("method", ["pfedeg-star", "pfedeg-plus"])
def test_library_agrees_with_the_naive_example(method):
    """Loops in float64, library in float32: Adam divides by small gradients, which enlarges their difference."""
    federation = naive_pfedeg.numbers()
    s = naive_pfedeg.Settings(rounds=ROUNDS, batch=20)
    config = pfedeg.Config(method=method, model="transe", eval_every=1, patience=ROUNDS, **vars(s))
    training = pfedeg.Training(federation, config)
    naive = naive_pfedeg.pfedeg_naive(federation, method, s)
    rounds = list(zip(naive, training, strict=True))
    for (_, mrr), round_ in rounds:
        assert weighted(round_.metrics).mrr == pytest.approx(mrr, abs=1e-12), round_.number
    assert training.best_round == ROUNDS  # so that `tables` are those of the last round
    for client in rounds[-1][0][0]:
        tables = training.tables[client.name]
        np.testing.assert_allclose(tables.entity, client.E, rtol=0, atol=2e-5)
        np.testing.assert_allclose(tables.relation, client.R, rtol=0, atol=2e-5)
