"""The engines: the reference against finite differences, the compiled one against the reference."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from matrix import matrix
from pfedeg import randomness
from pfedeg.engine import reference
from pfedeg.engine.compiled import workspace
from pfedeg.engine.compiled.engine import CompiledEngine
from pfedeg.engine.interface import Absorb, Batches, Knowledge, epoch_keys, positives
from pfedeg.engine.reference import NumpyEngine
from pfedeg.models.base import Tables
from pfedeg.models.distmult import DistMult
from pfedeg.models.registry import MODELS
from pfedeg.models.rotate import RotatE
from pfedeg.models.transe import TransE
from pfedeg.objectives.regularizers import contrast_gradient, pull_gradient
from pfedeg.objectives.self_adversarial import SelfAdversarial
from pfedeg.optimizers.adam import Adam
from recipes import STATE, copied, fresh, recipe
from toy import graph_of, toy_graph, toy_tables

STEP = 1e-6
ABSORB = {
    "none": Absorb(),
    "pull": Absorb(pull=0.03),
    "contrast": Absorb(contrast=0.5, temperature=0.2),
    "pooled": Absorb(contrast=0.5, temperature=0.2, pooled=True),
    "pull and pooled": Absorb(pull=0.03, contrast=0.5, temperature=0.2, pooled=True),
}
models = pytest.mark.parametrize("name", list(MODELS))


# --- the reference against finite differences, in float64 ---


def as_float64(tables):
    return Tables(*(table.astype(np.float64) for table in tables))


def slope(f, x):
    """The gradient of f at the array x by central differences."""
    result = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += STEP
        down[place] -= STEP
        result[place] = (f(up) - f(down)) / (2 * STEP)
    return result


@models
@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_kge_gradient_matches_finite_differences(name, loss):
    model, graph = MODELS[name](3), toy_graph(1, entities=6, relations=2, triples=7)
    tables = as_float64(toy_tables(2, model, graph))
    local = {"negatives": 4, "loss": loss, "alpha": 0.7}
    negatives, valid = reference.sample(batches(local), positives(graph), np.arange(7), 0, 6, key=3)
    valid[0] = False  # a positive without any negative
    valid[1, :2] = False

    def scores(tables):
        q = model.compose(tables.entity[graph.train[:, 0]], tables.relation[graph.train[:, 1]])
        return model.score(q, tables.entity[graph.train[:, 2]]), model.score(q[:, None], tables.entity[negatives])

    weight = np.exp(0.7 * scores(tables)[1]) * valid
    weight /= np.maximum(weight.sum(1, keepdims=True), 1e-300)

    def losses(tables):
        s, s_neg = scores(tables)
        return 0.5 * (np.log(1 + np.exp(-s)) + (weight * np.log(1 + np.exp(s_neg))).sum(1))

    def total(tables):
        return losses(tables).mean() if loss == "mean" else losses(tables).sum()

    measured, gradient = reference.kge_loss(
        model, SelfAdversarial(0.7), batches(local), tables, graph.train, negatives, valid
    )
    np.testing.assert_allclose(measured, losses(tables), rtol=1e-12)
    entity, relation = tables
    np.testing.assert_allclose(gradient.entity, slope(lambda e: total(Tables(e, relation)), entity), atol=1e-8)
    np.testing.assert_allclose(gradient.relation, slope(lambda r: total(Tables(entity, r)), relation), atol=1e-8)


def test_pull_gradient_matches_finite_differences():
    rng = np.random.default_rng(0)
    entity, received = rng.standard_normal((2, 5, 3))
    gradient = pull_gradient(entity, received, 0.3)
    np.testing.assert_allclose(gradient, slope(lambda e: 0.3 * np.linalg.norm(e - received), entity), atol=1e-8)
    assert np.linalg.norm(gradient) == pytest.approx(0.3)


def test_pull_gradient_is_zero_where_nothing_differs():
    entity = np.random.default_rng(0).standard_normal((5, 3))
    assert not np.any(pull_gradient(entity, entity.copy(), 0.3))


@pytest.mark.parametrize("pooled", [False, True])
def test_contrast_gradient_matches_finite_differences(pooled):
    entity, received, previous = np.random.default_rng(0).standard_normal((3, 5, 4))
    received[1] = 0  # the cosine with a zero row is 0
    previous[2] = 0

    def cosine(a, b):
        return np.array(
            [x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) if y.any() else 0.0 for x, y in zip(a, b, strict=True)]
        )

    def term(e):
        z = (cosine(e, previous) - cosine(e, received)) / 0.3
        return 0.4 * (np.log(1 + np.exp(z.mean())) if pooled else np.log(1 + np.exp(z)).mean())

    gradient = contrast_gradient(entity, received, previous, 0.4, 0.3, pooled)
    np.testing.assert_allclose(gradient, slope(term, entity), atol=1e-8)


def test_contrast_gradient_of_a_zero_row_is_zero():
    entity, received, previous = np.random.default_rng(0).standard_normal((3, 3, 4))
    entity[1] = 0
    gradient = contrast_gradient(entity, received, previous, 0.5, 0.2, False)
    assert not gradient[1].any()
    assert gradient[0].all()


# --- negatives ---

STAR = np.array([(0, 0, tail) for tail in (1, 2, 5, 9)] + [(3, 0, 4), (4, 1, 0)])  # (0, 0) has four known tails


def test_own_negatives_are_uniform_over_the_tails_that_are_not_known():
    graph, draws = graph_of(STAR, 12, 2), 20_000
    ids, valid = reference.sample(Batches(negatives=draws), positives(graph), np.array([0]), 0, 12, key=5)
    assert valid.all()
    counts = np.bincount(ids[0], minlength=12)
    rest = [0, 3, 4, 6, 7, 8, 10, 11]
    assert counts.sum() == counts[rest].sum()
    expected = draws / len(rest)
    assert ((counts[rest] - expected) ** 2 / expected).sum() < 24.3  # χ² with 7 degrees of freedom, p = 0.001


def test_shared_negatives_are_uniform_and_known_tails_do_not_count():
    graph, draws = graph_of(STAR, 12, 2), 20_000
    local = {"negatives": draws, "sampling": "shared", "chunk": 2}
    ids, valid = reference.sample(batches(local), positives(graph), np.arange(6), 0, 12, key=5)
    counts = np.bincount(ids[0], minlength=12)
    assert ((counts - draws / 12) ** 2 / (draws / 12)).sum() < 31.3  # χ² with 11 degrees of freedom, p = 0.001
    np.testing.assert_array_equal(ids[0], ids[1])  # the same chunk
    assert (ids[1] != ids[2]).any()
    np.testing.assert_array_equal(valid[0], ~np.isin(ids[0], [1, 2, 5, 9]))
    np.testing.assert_array_equal(valid[4], ids[4] != 4)


def test_negatives_differ_from_place_to_place_and_do_not_depend_on_batches():
    graph, local = graph_of(STAR, 12, 2), {"negatives": 30}
    chosen = np.array([0, 0, 1])
    whole, _ = reference.sample(batches(local), positives(graph), chosen, 0, 12, key=5)
    assert (whole[0] != whole[1]).any()
    parts = [reference.sample(batches(local), positives(graph), chosen[i : i + 1], i, 12, key=5)[0] for i in range(3)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("sampling", ["own", "shared"])
def test_compiled_draws_the_same_negatives(sampling):
    """With one positive, the rows that get a gradient are its head, its tail and its negatives."""
    model, graph = DistMult(2), graph_of(np.array([(0, 0, 1)]), 60, 1)
    local = {"epochs": 1, "negatives": 5, "sampling": sampling}
    tables = toy_tables(0, model, graph)
    for key in range(20):
        negatives, valid = reference.sample(
            batches(local), positives(graph), np.array([0]), 0, 60, key=int(epoch_keys(key, 0)[1])
        )
        moments = fresh(tables)
        arguments = (tables.copy(), moments, nothing(model), positives(graph), key)
        CompiledEngine(1).train(recipe(model, Absorb(), **local), *arguments)
        touched = set(np.flatnonzero(moments["entity1"].any(1)).tolist())
        assert touched == {0, 1} | set(negatives[valid].tolist())


# --- compiled against reference ---


class Case(NamedTuple):
    graph: object
    model: object
    local: dict
    absorb: Absorb
    tables: Tables
    knowledge: Knowledge
    rounds: int
    key: int
    threads: int


def workspace_settings(settings, absorb, entities):
    made = recipe(TransE(1), absorb, **settings)
    return workspace.make_settings(made.batches, made.objective, made.optimizer, absorb, entities)


def batches(settings):
    return recipe(TransE(1), **settings).batches


def nothing(model):
    empty = np.zeros((0, model.entity_width), np.float32)
    return Knowledge(empty, empty)


@st.composite
def cases(draw, name, kind, sampling):
    """ε is large where both are compared: Adam divides by |g| + ε, so with a tiny ε the rounding of a gradient that
    cancels to nearly nothing would decide the sign of a whole step."""
    number = draw(st.integers(0, 2**32))
    entities, relations = draw(st.integers(2, 15) | st.sampled_from([64, 65, 130])), draw(st.integers(1, 3))
    graph = toy_graph(number, entities, relations, draw(st.integers(1, 40)))
    # Known tails of (0, 0): a few, half of all entities, all (so that there are no negatives), all but the last.
    crowd = draw(st.sampled_from([0, entities // 2, entities, entities - 1]))
    known = np.random.default_rng(number).permutation(entities)[:crowd] if crowd < entities - 1 else np.arange(crowd)
    star = np.array([(0, 0, tail) for tail in known]).reshape(-1, 3)
    graph = graph_of(np.concatenate([graph.train, star]), entities, relations)
    model = MODELS[name](draw(st.sampled_from([1, 2, 3, 7, 8, 17, 40, 72])))
    local = {
        "epochs": draw(st.integers(1, 3)),
        "batch": draw(st.sampled_from([1, 3, 8, 11, 100])),
        "negatives": draw(st.sampled_from([1, 2, 3, 5, 8, 20, 33])),
        "sampling": sampling,
        "chunk": draw(st.sampled_from([1, 2, 5, 7, 64])),
        "lr": 1e-3,
        "alpha": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "loss": draw(st.sampled_from(["mean", "sum"])),
        "epsilon": 1e-3,
    }
    tables = toy_tables(number, model, graph)
    knowledge = nothing(model)
    if kind != "none":
        received = toy_tables(number + 1, model, graph).entity
        if draw(st.booleans()):  # E = K at the start, as after "Init"
            received = tables.entity.copy()
        previous = toy_tables(number + 2, model, graph).entity
        if draw(st.booleans()):  # a zero row
            previous[0] = 0
        knowledge = Knowledge(received, previous)
    rounds, threads = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return Case(graph, model, local, ABSORB[kind], tables, knowledge, rounds, number, threads)


class Watched:
    """A model that remembers how close a query came to a candidate without touching it."""

    def __init__(self, model):
        self._model, self.closest = model, np.inf

    def __getattr__(self, name):
        return getattr(self._model, name)

    def score_backward(self, q, t):
        parts = np.abs(q - t) if isinstance(self._model, TransE) else np.hypot(*np.split(q - t, 2, -1))
        self.closest = min(self.closest, np.min(parts, where=parts > 0, initial=np.inf))
        return self._model.score_backward(q, t)


def both(case):
    """Loss, tables and moments of the reference and of the compiled kernels after the case's rounds."""
    results = []
    model = Watched(case.model) if isinstance(case.model, TransE | RotatE) else case.model
    for kernels, seen in ((NumpyEngine(), model), (CompiledEngine(case.threads), case.model)):
        tables, moments = case.tables.copy(), fresh(case.tables)
        data = positives(case.graph)
        loss = [
            kernels.train(
                recipe(seen, case.absorb, **case.local), tables, moments, case.knowledge, data, case.key + number
            )
            for number in range(case.rounds)
        ]
        results.append((np.array(loss), *tables, *moments.values()))
    # Where q meets t the gradient of a distance jumps, and rounding may end up on the other side of the jump.
    if isinstance(model, Watched):
        assume(model.closest > (1e-6 if isinstance(case.model, TransE) else 1e-3))
    return results


@matrix(1, name=MODELS, kind=ABSORB, sampling=["own", "shared"])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_compiled_agrees_with_reference(name, kind, sampling, data):
    """The same numbers up to float32's rounding in sums of up to some hundred terms."""
    expected, found = both(data.draw(cases(name, kind, sampling)))
    for field, a, b in zip(("loss", *Tables._fields, *STATE), expected, found, strict=True):
        worst = np.abs(a).max()
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-5 * max(worst, 1), err_msg=field)


@pytest.mark.parametrize("spread", [20, 60, 3000])
def test_the_running_softmax_copes_with_ever_larger_scores(spread):
    """Scores that rise within `LIMIT`, beyond it, and so far that all weights before them vanish."""
    model, graph, negatives = DistMult(16), graph_of(np.array([(0, 0, 1)]), 60, 1), 40
    local = {"epochs": 1, "negatives": negatives, "epsilon": 1e-3}
    drawn, _ = reference.sample(batches(local), positives(graph), np.array([0]), 0, 60, int(epoch_keys(4, 0)[1]))
    tables = toy_tables(0, model, graph)
    q = tables.entity[0] * tables.relation[0]
    order = {entity: place for place, entity in enumerate(drawn[0].tolist())}  # the last place of each
    for entity, place in order.items():
        if entity > 1:
            tables.entity[entity] = q / (q @ q) * (spread * (place / negatives - 0.5))
    case = Case(graph, model, local, Absorb(), tables, nothing(model), 1, 4, 1)
    assert (np.diff(np.sort(tables.entity[drawn[0]] @ q)[::8]) > 0).all()
    expected, found = both(case)
    for field, a, b in zip(("loss", *Tables._fields, *STATE), expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5 * np.abs(a).max(), err_msg=field)


@pytest.mark.parametrize("name", ["complex", "distmult"])
def test_rows_are_updated_in_blocks(name):
    """A thread has several blocks, the last one short; rows are as wide as tiles of several vectors, and a rest."""
    graph, model = toy_graph(6, 61, 2, 90), MODELS[name](136)
    local = {"epochs": 2, "batch": 40, "negatives": 9, "epsilon": 1e-3}
    tables = toy_tables(6, model, graph)
    settings = workspace_settings(local, ABSORB["pull"], 61)
    assert 1 < workspace.make_workspace(settings, None, tables, 40, 2).scratch.by_row.shape[1] < 61 // 4
    knowledge = Knowledge(toy_tables(7, model, graph).entity, nothing(model).previous)
    expected, found = both(Case(graph, model, local, ABSORB["pull"], tables, knowledge, 1, 3, 2))
    for field, a, b in zip(("loss", *Tables._fields, *STATE), expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-5 * max(np.abs(a).max(), 1), err_msg=field)


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 2**64 - 1), st.integers(0, 500))
def test_an_order_is_that_of_random_bits(key, n):
    bits = randomness.bits(key, randomness.counters(n)).tolist()
    assert randomness.permutation(key, n).tolist() == sorted(range(n), key=bits.__getitem__)


@pytest.mark.parametrize("sampling", ["own", "shared"])
def test_alpha_zero_weighs_all_negatives_alike(sampling):
    model, graph = DistMult(3), graph_of(STAR, 12, 2)
    local = {"epochs": 1, "negatives": 30, "sampling": sampling, "alpha": 0.0, "lr": 1e-30}  # tables stay as they are
    tables = toy_tables(0, model, graph)
    key = epoch_keys(1, 0)
    order = randomness.permutation(key[0], 6)
    negatives, valid = reference.sample(batches(local), positives(graph), order, 0, 12, key[1])
    expected = []
    for (h, r, t), ids, counts in zip(graph.train[order], negatives, valid, strict=True):
        q = tables.entity[h] * tables.relation[r]
        terms = [np.log1p(np.exp(q @ tables.entity[e])) for e in ids[counts]]
        expected.append(0.5 * (np.log1p(np.exp(-q @ tables.entity[t])) + np.mean(terms)))
    for kernels in (NumpyEngine(), CompiledEngine(1)):
        loss = kernels.train(
            recipe(model, Absorb(), **local), tables.copy(), fresh(tables), nothing(model), positives(graph), 1
        )
        assert loss == pytest.approx(np.mean(expected), rel=1e-5)


@matrix(1, name=MODELS, sampling=["own", "shared"], kind=["none", "pull", "pooled"], batch=[5, 101])
def test_threads_do_not_change_a_bit(name, sampling, kind, batch):
    model, graph = MODELS[name](5), toy_graph(3, entities=301, relations=4, triples=230)
    local = {"epochs": 2, "batch": batch, "negatives": 7, "sampling": sampling, "chunk": 6}
    assert workspace_settings(local, ABSORB[kind], 301).lazy == (kind == "none" and batch == 5)
    tables = toy_tables(0, model, graph)
    knowledge = Knowledge(toy_tables(1, model, graph).entity, toy_tables(2, model, graph).entity)
    results = []
    for threads in (1, 2, 3, 4, 7):
        own, moments = tables.copy(), fresh(tables)
        loss = CompiledEngine(threads).train(
            recipe(model, ABSORB[kind], **local), own, moments, knowledge, positives(graph), 9
        )
        results.append([loss, *(array.tobytes() for array in (*own, *moments.values()))])
    assert all(each == results[0] for each in results)
    assert results[0][1] != tables.entity.tobytes()


@pytest.mark.parametrize("sampling", ["own", "shared"])
@pytest.mark.parametrize("beta1", [0.9, 0.1, 0.0])  # after 211, 10 and 0 steps without a gradient, rows move no further
def test_rows_that_few_batches_touch_make_every_step_of_adam(sampling, beta1):
    model, graph = DistMult(8), toy_graph(5, entities=400, relations=2, triples=60)
    local = {"epochs": 5, "batch": 2, "negatives": 1, "sampling": sampling, "chunk": 2}
    local |= {"beta1": beta1, "beta2": 0.95, "epsilon": 1e-3}
    tables = toy_tables(0, model, graph)
    results = []
    for kernels in (NumpyEngine(), CompiledEngine(2)):
        own, moments = tables.copy(), fresh(tables)
        for number in range(2):  # once from moments that are zero, once from those of the call before
            kernels.train(recipe(model, Absorb(), **local), own, moments, nothing(model), positives(graph), number)
        results.append((*own, *moments.values()))
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-7)
    moved = np.any(results[1][0] != tables.entity, 1)
    assert moved.any()
    assert not moved.all()  # some were never touched


@pytest.mark.parametrize("threads", [1, 2])
def test_more_threads_than_work(threads):
    model, graph = TransE(3), graph_of(np.array([(0, 0, 1)]), 2, 1)
    tables = toy_tables(0, model, graph)
    for sampling in ("own", "shared"):
        loss = CompiledEngine(threads).train(
            recipe(model, epochs=3, batch=1, negatives=1, sampling=sampling),
            tables,
            fresh(tables),
            nothing(model),
            positives(graph),
            0,
        )
        assert np.isfinite(loss)


@models
def test_scores_agree(name):
    model, graph = MODELS[name](9), toy_graph(0, entities=23)
    tables = toy_tables(0, model, graph)
    queries = toy_tables(1, model, graph).entity[:5]
    expected = NumpyEngine().scores(model, tables, queries)
    np.testing.assert_allclose(CompiledEngine(2).scores(model, tables, queries), expected, rtol=1e-5, atol=1e-5)


# --- Adam ---


def test_adam_steps_by_hand():
    local = {"lr": 0.1, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3}
    tables = Tables(np.array([[1.0, -2.0]]), np.array([[0.5]]))
    moments = fresh(tables)
    gradients = [0.3, -0.1, 0.7]
    value, first, second = 1.0, 0.0, 0.0
    for step, g in enumerate(gradients, 1):
        Adam(**local).step(tables, moments, Tables(np.array([[g, 0.0]]), np.array([[2 * g]])))
        first = 0.8 * first + 0.2 * g
        second = 0.9 * second + 0.1 * g**2
        value -= 0.1 * (first / (1 - 0.8**step)) / (math.sqrt(second / (1 - 0.9**step)) + 1e-3)
        assert tables.entity[0, 0] == pytest.approx(value, rel=1e-12)
        assert moments["entity1"][0, 0] == pytest.approx(first, rel=1e-12)
        assert moments["entity2"][0, 0] == pytest.approx(second, rel=1e-12)
        assert moments["steps"][0] == step
    assert tables.entity[0, 1] == -2.0  # no gradient, no step
    assert tables.relation[0, 0] != 0.5


@models
def test_compiled_steps_are_adam_with_the_default_epsilon(name):
    """From the moments after a step follow the gradient, and from it and the moments before, everything else."""
    model, graph = MODELS[name](4), toy_graph(0)
    local, tables = {"epochs": 1}, toy_tables(0, model, graph)
    knowledge = Knowledge(toy_tables(1, model, graph).entity, np.zeros((0, model.entity_width), np.float32))
    moments, kernels = fresh(tables), CompiledEngine(2)
    for step in range(1, 4):
        before, earlier = tables.copy(), copied(moments)
        kernels.train(recipe(model, ABSORB["pull"], **local), tables, moments, knowledge, positives(graph), step)
        assert moments["steps"][0] == step
        for table, old, m, v, m_old, v_old in (
            (
                tables.entity,
                before.entity,
                moments["entity1"],
                moments["entity2"],
                earlier["entity1"],
                earlier["entity2"],
            ),
            (
                *(part[1] for part in (tables, before)),
                moments["relation1"],
                moments["relation2"],
                earlier["relation1"],
                earlier["relation2"],
            ),
        ):
            g = (m.astype(np.float64) - 0.9 * m_old) / 0.1
            np.testing.assert_allclose(v, 0.999 * v_old + 0.001 * g**2, rtol=1e-3, atol=1e-12)
            move = 1e-3 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
            np.testing.assert_allclose(table, old - move, rtol=0, atol=2e-7)
            assert np.abs(move).max() > 1e-4


# --- trouble ---


@matrix(1, name=MODELS, sampling=["own", "shared"], threads=[1, 2])
def test_nan_makes_the_loss_not_finite(name, sampling, threads):
    model, graph = MODELS[name](3), toy_graph(0)
    tables = toy_tables(0, model, graph)
    tables.entity[graph.train[0, 0], 0] = np.nan
    local = {"epochs": 2, "batch": 16, "negatives": 4, "sampling": sampling}
    loss = CompiledEngine(threads).train(
        recipe(model, Absorb(), **local), tables, fresh(tables), nothing(model), positives(graph), 0
    )
    assert not np.isfinite(loss)
