"""The models' equations: gradients against finite differences, inverse queries, reproducible starts."""

import numpy as np
import pytest
from own_model import SimplE

from pfedeg.errors import InputError
from pfedeg.gradient_check import check_model
from pfedeg.models.base import start_rows
from pfedeg.models.registry import MODELS

# Each model's score, written independently: h, r, t → s. Complex rows are complex numbers.
EQUATIONS = {
    "transe": lambda h, r, t: 10 - np.abs(h + r - t).sum(),
    "rotate": lambda h, r, t: 10 - np.abs(_complex(h) * np.exp(1j * np.pi * r * len(r) / 12) - _complex(t)).sum(),
    "complex": lambda h, r, t: (_complex(h) * _complex(r) * _complex(t).conj()).sum().real,
    "distmult": lambda h, r, t: (h * r * t).sum(),
}
STEP = 1e-6
models = pytest.mark.parametrize("name", list(MODELS))
dims = pytest.mark.parametrize("dim", [1, 5])


def _complex(x):
    return x[: len(x) // 2] + 1j * x[len(x) // 2 :]


def draw(name, dim, seed=0):
    model, rng = MODELS[name](dim), np.random.default_rng(seed)
    return model, *(rng.standard_normal(w) for w in (model.entity_width, model.relation_width, model.entity_width))


def slope(f, x):
    """The gradient of f at x by central differences."""
    steps = STEP * np.eye(len(x))
    return np.array([(f(x + step) - f(x - step)) / (2 * STEP) for step in steps])


def test_every_model_is_tested_here():
    assert set(EQUATIONS) == set(MODELS)


@models
@dims
def test_score_equals_the_equation(name, dim):
    model, h, r, t = draw(name, dim)
    assert model.score(model.compose(h, r), t) == pytest.approx(EQUATIONS[name](h, r, t), rel=1e-12)


@models
@dims
def test_gradients_match_finite_differences(name, dim):
    model, h, r, t = draw(name, dim)
    q = model.compose(h, r)
    by_q, by_t = model.score_backward(q, t)
    np.testing.assert_allclose(by_q, slope(lambda q: model.score(q, t), q), atol=1e-8)
    np.testing.assert_allclose(by_t, slope(lambda t: model.score(q, t), t), atol=1e-8)
    by_h, by_r = model.compose_backward(h, r, q, by_q)
    np.testing.assert_allclose(by_h, slope(lambda h: EQUATIONS[name](h, r, t), h), atol=1e-8)
    np.testing.assert_allclose(by_r, slope(lambda r: EQUATIONS[name](h, r, t), r), atol=1e-7)


@pytest.mark.parametrize("model", [*(MODELS[name](3) for name in MODELS), SimplE(3)], ids=lambda model: str(model))
def test_gradient_check_accepts_models(model):
    check_model(model)


def test_gradient_check_names_what_is_wrong():
    class Wrong(SimplE):
        def compose_backward(self, h, r, q, g):
            return super().compose_backward(h, r, q, g)[::-1]

    with pytest.raises(InputError, match="compose_backward, by the head: "):
        check_model(Wrong(3))


@models
def test_gradients_of_stacked_rows_equal_those_of_single_rows(name):
    model = MODELS[name](3)
    rows = [draw(name, 3, seed)[1:] for seed in range(4)]
    h, r, t = (np.stack(part) for part in zip(*rows, strict=True))
    q = model.compose(h, r)
    stacked = (model.score(q, t), *model.score_backward(q, t), *model.compose_backward(h, r, q, t))
    for i in range(4):
        alone = (
            model.score(q[i], t[i]),
            *model.score_backward(q[i], t[i]),
            *model.compose_backward(h[i], r[i], q[i], t[i]),
        )
        for together, single in zip(stacked, alone, strict=True):
            np.testing.assert_allclose(together[i], single, rtol=1e-12)


@models
@dims
def test_compose_inverse_scores_heads(name, dim):
    model, h, r, t = draw(name, dim)
    assert model.score(model.compose_inverse(t, r), h) == pytest.approx(model.score(model.compose(h, r), t), rel=1e-12)


@models
def test_gradient_is_zero_where_distance_is_not_differentiable(name):
    model, h, _, _ = draw(name, 4)
    by_q, by_t = model.score_backward(h, h)
    assert np.isfinite(by_q).all()
    if name in ("transe", "rotate"):
        assert not by_q.any()
        assert not by_t.any()


def test_start_rows_depend_only_on_key_and_id():
    model = MODELS["transe"](6)
    ids = np.array([7, 0, 3, 7, 100_000])
    rows = start_rows(model, 6, 42, ids)
    for id_, row in zip(ids, rows, strict=True):
        np.testing.assert_array_equal(row, start_rows(model, 6, 42, np.array([id_]))[0])
    assert (rows[0] != rows[1]).all()
    assert (rows != start_rows(model, 6, 43, ids)).all()


def test_start_is_uniform_in_its_range():
    model = MODELS["transe"](10, gamma=4.0)
    assert model.start_range == pytest.approx(0.6)
    values = start_rows(model, 10, 1, np.arange(2000)).ravel()
    assert np.abs(values).max() <= 0.6
    counts = np.histogram(values, 20, (-0.6, 0.6))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # χ² with 19 degrees of freedom, p = 0.001


@models
def test_widths_and_float32(name):
    model = MODELS[name](7)
    assert (model.entity_width, model.relation_width) == {
        "transe": (7, 7),
        "rotate": (14, 7),
        "complex": (14, 14),
        "distmult": (7, 7),
    }[name]
    assert start_rows(model, model.entity_width, 0, np.arange(2)).dtype == np.float32
