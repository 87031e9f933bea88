"""Ranks and metrics: against a count in plain Python, with ties and filters, from both sides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix import matrix
from pfedeg.engine.compiled.engine import CompiledEngine
from pfedeg.engine.compiled.lanes.operations import QUERIES
from pfedeg.engine.compiled.ranking import ROWS
from pfedeg.engine.interface import questions
from pfedeg.engine.reference import NumpyEngine
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.models.base import Tables
from pfedeg.models.registry import MODELS
from pfedeg.training.evaluation import Evaluator, Metrics, queries, weighted
from toy import toy_graph

REFERENCE = NumpyEngine()
models = pytest.mark.parametrize("name", list(MODELS))
sides = pytest.mark.parametrize("side", ["tail", "head"])


def counted_ranks(model, tables, graph, split, side):
    """Rank = 1 + #greater + ½ · #equal, candidate by candidate."""
    facts = {tuple(triple) for part in ("train", "valid", "test") for triple in graph.triples(part).tolist()}
    result = []
    for h, r, t in graph.triples(split).tolist():

        def score(h, r, t):
            return model.score(model.compose(tables.entity[h], tables.relation[r]), tables.entity[t])

        truth, rank = score(h, r, t), 1.0
        for e in range(len(graph.entities)):
            other = (h, r, e) if side == "tail" else (e, r, t)
            if other in facts:  # the triple itself among them
                continue
            rank += 1.0 if score(*other) > truth else 0.5 if score(*other) == truth else 0.0
        result.append(rank)
    return np.array(result)


def integer_tables(seed, model, graph):
    """Small whole numbers, so that scores are exact and often tie.

    Of RotatE's components one half lies on the real and one on the imaginary axis: moduli are whole numbers too, and
    relations do not rotate.
    """
    rng = np.random.default_rng(seed)
    entity = rng.integers(-2, 3, (len(graph.entities), model.entity_width)).astype(np.float32)
    relation = rng.integers(-2, 3, (len(graph.relations), model.relation_width)).astype(np.float32)
    if model.entity_width > model.relation_width:
        half = model.dim // 2
        entity[:, :half] = 0
        entity[:, model.dim + half :] = 0
        relation[:] = 0
    return Tables(entity, relation)


@models
@sides
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32), entities=st.integers(2, 13), dim=st.sampled_from([1, 2, 5, 8]), held=st.integers(1, 9)
)
def test_ranks_equal_a_plain_count(name, side, seed, entities, dim, held):
    model, graph = MODELS[name](dim), toy_graph(seed, entities, 2, 3 * held + 5, held)
    tables = integer_tables(seed, model, graph)
    evaluator = Evaluator(graph)
    for split in ("valid", "test", "train"):
        expected = counted_ranks(model, tables, graph, split, side)
        for engine in (REFERENCE, CompiledEngine(2)):
            np.testing.assert_array_equal(evaluator.ranks(engine, model, tables, split, side), expected)


@models
@sides
def test_fused_ranks_agree_on_real_tables(name, side):
    model, graph = MODELS[name](6), toy_graph(0, entities=40, triples=150, held_out=40)
    rng = np.random.default_rng(1)
    tables = Tables(
        rng.standard_normal((40, model.entity_width)).astype(np.float32),
        rng.standard_normal((3, model.relation_width)).astype(np.float32),
    )
    evaluator = Evaluator(graph)
    expected = evaluator.ranks(REFERENCE, model, tables, "valid", side)
    np.testing.assert_array_equal(evaluator.ranks(CompiledEngine(1), model, tables, "valid", side), expected)
    assert len(set(expected.tolist())) > 10


@matrix(1, name=MODELS, side=["tail", "head"], threads=[1, 2])
def test_ranks_over_several_blocks_of_rows_and_queries(name, side, threads):
    model, graph = MODELS[name](8), toy_graph(3, 2 * ROWS + 5, 2, 900, 4 * QUERIES + 9)
    tables, evaluator = integer_tables(3, model, graph), Evaluator(graph)
    expected = evaluator.ranks(REFERENCE, model, tables, "valid", side)
    np.testing.assert_array_equal(evaluator.ranks(CompiledEngine(threads), model, tables, "valid", side), expected)
    assert np.diff(graph.known(side).start).max() > 2


def test_ties_and_filters_by_hand():
    """Four candidates b, c, d, e with scores 0, 1, 1, 2 for (a, r, ?); the correct answer is c."""
    names = [("a", "r", "e")], [("a", "r", "c")], [("d", "r", "b")]
    graph = KnowledgeGraph.from_names(*names)
    model = MODELS["distmult"](1)
    tables = Tables(np.array([[1], [0], [1], [1], [2]], np.float32), np.ones((1, 1), np.float32))
    ranks = Evaluator(graph).ranks(REFERENCE, model, tables, "valid")
    assert ranks.tolist() == [2.0]  # e is known, hence no rival; a and d tie: 1 + ½ + ½


def test_ranks_keep_the_order_of_triples():
    graph = toy_graph(5, entities=9, relations=2, triples=40, held_out=12)
    model = MODELS["transe"](3)
    tables = integer_tables(5, model, graph)
    ranks = Evaluator(graph).ranks(REFERENCE, model, tables, "valid", "head")
    assert len(set(ranks.tolist())) > 3
    for i in range(12):
        grouped, _ = questions(graph.valid[i : i + 1], graph.known("head"), 2, 2)
        assert REFERENCE.ranks(model, tables, queries(model, tables, grouped, "head"), grouped) == [ranks[i]]


def test_metrics_of_ranks():
    metrics = Metrics.of(np.array([1.0, 1.5, 5.0, 10.0, 20.0]))
    assert metrics.mrr == pytest.approx((1 + 1 / 1.5 + 0.2 + 0.1 + 0.05) / 5)
    assert metrics.hits == pytest.approx((0.2, 0.6, 0.8))
    assert metrics.triples == 5
    assert metrics.as_dict() == {"mrr": metrics.mrr, "hits@1": 0.2, "hits@5": 0.6, "hits@10": 0.8}


def test_average_is_weighted_by_triples():
    parts = {
        "a": Metrics.of(np.array([1.0])),
        "b": Metrics.of(np.array([2.0, 4.0, 20.0])),
        "c": Metrics.of(np.zeros(0)),
    }
    total = weighted(parts)
    assert total.mrr == pytest.approx((1 + 0.5 + 0.25 + 0.05) / 4)
    assert total.hits == pytest.approx((0.25, 0.75, 0.75))
    assert total.triples == 4


def test_nothing_to_evaluate_is_none():
    graph = toy_graph(0)
    tables = integer_tables(0, MODELS["transe"](2), graph)
    metrics = Evaluator(graph).metrics(CompiledEngine(1), MODELS["transe"](2), tables, "valid")
    assert metrics.triples == 0
    assert set(metrics.as_dict().values()) == {None}
    assert weighted({"a": metrics}).triples == 0
    assert weighted({}).triples == 0
