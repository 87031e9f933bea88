"""The objectives: gradients against finite differences, masks, and the paper's formula."""

import numpy as np
import pytest
from own_objective import SampledCrossEntropy

from pfedeg.errors import InputError
from pfedeg.gradient_check import check_objective
from pfedeg.objectives.base import softmax
from pfedeg.objectives.registry import OBJECTIVES
from pfedeg.objectives.self_adversarial import SelfAdversarial

EXACT = [SampledCrossEntropy(), SampledCrossEntropy(0.3)]
BUILT_IN = [one.build(one.settings()) for one in OBJECTIVES.values()]


@pytest.mark.parametrize("objective", [*BUILT_IN, *EXACT], ids=repr)
def test_gradients(objective):
    check_objective(objective, constant_weights=isinstance(objective, SelfAdversarial))


def test_weights_that_are_held_constant_are_no_exact_gradient():
    with pytest.raises(InputError, match="gradient by the negatives: "):
        check_objective(SelfAdversarial())


def test_the_check_finds_a_wrong_gradient():
    class Wrong(SelfAdversarial):
        def loss(self, positive, negative, mask):
            losses, by_positive, by_negative = super().loss(positive, negative, mask)
            return losses, -by_positive, by_negative

    with pytest.raises(InputError, match="gradient by the positives: "):
        check_objective(Wrong())


def test_self_adversarial_is_the_papers_formula():
    positive, negative = np.array([0.3, -2.0]), np.array([[1.0, -1.0, 0.5], [0.0, 3.0, 2.0]])
    mask = np.array([[True, True, True], [True, False, True]])
    losses, by_positive, by_negative = SelfAdversarial(alpha=0.7).loss(positive, negative, mask)
    for i in range(2):
        scores = negative[i, mask[i]]
        w = np.exp(0.7 * scores) / np.exp(0.7 * scores).sum()
        sigmoid = 1 / (1 + np.exp(-scores))
        expected = 0.5 * (np.log1p(np.exp(-positive[i])) - (w * np.log(1 - sigmoid)).sum())
        assert losses[i] == pytest.approx(expected)
        assert by_positive[i] == pytest.approx(-0.5 / (1 + np.exp(positive[i])))
        np.testing.assert_allclose(by_negative[i, mask[i]], 0.5 * w * sigmoid)  # the weights are held constant


def test_softmax_without_any_candidate_is_zero():
    assert softmax(np.array([[1.0, 900.0]]), np.zeros((1, 2), np.bool_)).tolist() == [[0.0, 0.0]]
    assert softmax(np.array([[1000.0, 1000.0]]), np.ones((1, 2), np.bool_)).tolist() == [[0.5, 0.5]]
