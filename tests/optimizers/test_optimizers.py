"""The optimisers: their formulas, step by step, and how far a step can reach."""

import numpy as np
import pytest
from own_optimizer import Adagrad

from pfedeg.errors import InputError
from pfedeg.gradient_check import check_optimizer
from pfedeg.models.base import Tables
from pfedeg.optimizers.adam import Adam
from pfedeg.optimizers.registry import OPTIMIZERS

ALL = [one.build(one.settings()) for one in OPTIMIZERS.values()] + [Adagrad()]


@pytest.mark.parametrize("optimizer", ALL, ids=repr)
def test_steps_descend_and_stay_within_reach(optimizer):
    check_optimizer(optimizer)


def test_the_check_finds_a_step_uphill_and_one_too_far():
    class Uphill(Adagrad):
        def step(self, tables, state, gradient):
            super().step(tables, state, Tables(*(-table for table in gradient)))

    class Far(Adagrad):
        def reach(self, steps):
            return 0.5 * self.lr

    with pytest.raises(InputError, match="did not decrease the table 'entity'"):
        check_optimizer(Uphill())
    with pytest.raises(InputError, match="further than `reach`"):
        check_optimizer(Far())


def test_adam_is_the_formula():
    rng, adam = np.random.default_rng(0), Adam(lr=0.1)
    tables = Tables(rng.standard_normal((3, 2)), rng.standard_normal((2, 2)))
    x, m, v = tables.entity.copy(), 0.0, 0.0
    state = adam.init(tables)
    for t in range(1, 6):
        g = rng.standard_normal((3, 2))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        adam.step(tables, state, Tables(g, np.zeros((2, 2))))
        np.testing.assert_allclose(tables.entity, x, rtol=1e-12)
    assert state["steps"].tolist() == [5]
