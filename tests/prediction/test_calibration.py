"""Probabilities: fitted on valid, checked on test, saved with the run, shown with answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.prediction import calibration
from pfedeg.prediction.calibration import (
    MIN_CASES,
    Bin,
    Pairs,
    calibration_error,
    collect,
    fit,
    pool_adjacent_violators,
    reliability,
)
from pfedeg.training.config import Config
from pfedeg.training.link_prediction import Calibration
from pfedeg.training.local_run import Training
from pfedeg.training.saved_run import Run


def logistic(scores: Any) -> Any:
    return 1 / (1 + np.exp(-scores))


def drawn(seed: int, many: int = 4000) -> Pairs:
    """Synthetic answers that are correct with the logistic function of their score as probability."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, 2, many)
    return Pairs(scores, random.random(many) < logistic(scores))


@pytest.mark.parametrize("kind", ["isotonic", "platt"])
def test_fit_recovers_the_true_probabilities(kind: Any) -> None:
    curve = fit(drawn(1), kind, "here")
    grid = np.linspace(-3, 3, 13)
    assert curve(grid) == pytest.approx(logistic(grid), abs=0.08 if kind == "isotonic" else 0.03)
    assert (np.diff(curve(np.linspace(-50, 50, 999))) >= 0).all()
    assert calibration_error(reliability(curve, drawn(2))) < 0.03
    assert calibration_error(reliability(Calibration((-9.0, 9.0), (0.5, 0.5)), drawn(2))) < 0.03  # true on average,
    assert len(reliability(Calibration((-9.0, 9.0), (0.5, 0.5)), drawn(2))) == 1  # but it tells nothing apart
    assert calibration_error(reliability(Calibration((-9.0, 9.0), (0.9, 0.9)), drawn(2))) > 0.3


@pytest.mark.parametrize("many", [40, 300, 4000])
def test_steps_are_those_of_isotonic_regression(many: int) -> None:
    pairs = drawn(3, many)
    tied = Pairs(np.round(pairs.scores, 1), pairs.correct)
    steps = pool_adjacent_violators(tied)
    wanted = IsotonicRegression().fit(tied.scores, tied.correct).predict([step.low for step in steps])
    assert [step.rate for step in steps] == pytest.approx(wanted)
    assert sum(step.cases for step in steps) == many
    assert sum(step.correct for step in steps) == tied.correct.sum()


def by_hand(pairs: Pairs, low: float, high: float) -> tuple[float, int]:
    """The probability of scores in a range by the documented formula, and the number of answers."""
    inside = [bool(right) for score, right in zip(pairs.scores, pairs.correct, strict=True) if low <= score <= high]
    return (sum(inside) + 1) / (len(inside) + 2), len(inside)


@pytest.mark.parametrize("seed", range(5))
def test_a_probability_is_a_smoothed_share_of_enough_answers(seed: int) -> None:
    pairs = drawn(seed, 200)
    curve = fit(pairs, "isotonic", "here")
    ends = list(zip(curve.scores, curve.probabilities, curve.cases, strict=True))
    for probability, cases in {(p, n) for _, p, n in ends}:
        scores = [score for score, p, n in ends if (p, n) == (probability, cases)]
        assert (probability, cases) == (pytest.approx(by_hand(pairs, min(scores), max(scores))[0]), cases)
        assert by_hand(pairs, min(scores), max(scores))[1] == cases >= MIN_CASES
    assert (np.diff(curve.probabilities) >= 0).all()


@pytest.mark.parametrize("kind", ["isotonic", "platt"])
def test_few_answers_give_neither_zero_nor_one(kind: Any) -> None:
    """Two of the three best answers are right, and a gap separates them from the rest."""
    scores = np.concatenate([np.linspace(0, 1, 60), [9.0, 9.1, 9.2]])
    correct = np.concatenate([np.arange(60) % 5 == 0, [False, True, True]])
    curve = fit(Pairs(scores, correct), kind, "here")
    chance, (cases,) = float(curve(np.array([9.3]))[0]), curve.cases_at(np.array([9.3]))
    assert chance < 0.85
    assert cases is not None
    assert cases >= MIN_CASES
    separated = fit(Pairs(np.arange(80.0), np.arange(80) >= 50), kind, "here")
    assert 0 < separated.probabilities[0] < 0.02
    assert 0.95 < separated.probabilities[-1] < 1
    if kind == "isotonic":
        assert (separated.probabilities[0], separated.probabilities[-1]) == pytest.approx((1 / 52, 31 / 32))


def test_platt_is_logistic_regression_on_targets_inside_zero_and_one() -> None:
    pairs = drawn(4, 500)
    right, wrong = int(pairs.correct.sum()), int((~pairs.correct).sum())
    target = np.where(pairs.correct, (right + 1) / (right + 2), 1 / (wrong + 2))
    twice = np.concatenate([pairs.scores, pairs.scores])[:, None]
    model = LogisticRegression(C=1e9, tol=1e-9).fit(
        twice, np.repeat([True, False], 500), sample_weight=np.concatenate([target, 1 - target])
    )
    curve = fit(pairs, "platt", "here")
    grid = np.array(curve.scores)
    assert np.array(curve.probabilities) == pytest.approx(model.predict_proba(grid[:, None])[:, 1], abs=1e-4)
    assert set(curve.cases) == {500}


def test_between_two_steps_the_smaller_number_of_answers_counts() -> None:
    curve = Calibration((0.0, 1.0, 2.0, 3.0), (0.2, 0.2, 0.6, 0.6), (50, 50, 30, 30))
    assert curve.cases_at(np.array([-5, 0, 0.5, 1, 1.5, 2, 2.5, 9])) == [50, 50, 50, 50, 30, 30, 30, 30]
    assert Calibration((0.0, 1.0), (0.2, 0.3)).cases_at(np.array([0.5])) == [None]


def test_reliability_compares_predicted_and_observed() -> None:
    pairs = Pairs(np.array([0.0, 0.0, 1.0, 1.0]), np.array([False, True, True, True]))
    bins = reliability(Calibration((0.0, 1.0), (0.2, 1.0)), pairs)
    assert bins == [Bin(2, pytest.approx(0.2), 0.5), Bin(2, 1.0, 1.0)]
    assert calibration_error(bins) == pytest.approx((2 * 0.3 + 2 * 0.0) / 4)


@pytest.mark.parametrize("right", [0, 9, 100])
def test_too_few_correct_answers_are_refused(right: int) -> None:
    with pytest.raises(InputError, match=f"here: {right} of 100 answers on valid are correct; cannot fit a curve"):
        fit(Pairs(np.arange(100.0), np.arange(100) < right), "isotonic", "here")


@pytest.fixture
def run(synthetic: Federation, tmp_path: Path) -> Path:
    """A small run, long enough for some correct answers."""
    config = Config(method="fede", rounds=30, dim=16, negatives=8, batch=8, lr=0.01, eval_every=10)
    Training(synthetic, config, out=tmp_path / "run").run()
    return tmp_path / "run"


def call(*words: Any) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_hidden_answers_are_excluded_from_the_fit(run: Path) -> None:
    opened = Run(run)
    graph, answerer = opened.graph("ash"), opened.answerer("ash")
    pairs = collect(answerer, graph, "valid", ["train"])
    questions = np.unique(graph.valid[:, :2], axis=0).tolist()
    scores, right = [], []
    for h, r in questions:
        for answer in next(answerer.answers([(h, r)], 10, hidden=["train"])):
            triple = (graph.entities[h], graph.relations[r], answer.entity)
            assert triple not in graph.named("train")
            if triple not in graph.named("test"):
                scores.append(answer.score)
                right.append(triple in graph.named("valid"))
    assert pairs.scores.tolist() == scores
    assert pairs.correct.tolist() == right


def test_calibrated_runs_predict_probabilities(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.prediction.calibration.MIN_CORRECT", 1)
    before = json.loads(call("predict", run, "--client", "ash", "--head", "e00", "--relation", "near", "--json").output)
    assert {each["probability"] for each in before["predictions"]} == {None}
    done = call("calibrate", run, "--client", "ash", "--picture", tmp_path / "p.png", "--json")
    assert done.exit_code == 0, done.exception
    assert set(json.loads(done.stdout)) == {"ash"}
    assert set(json.loads(done.stdout)["ash"]) == {"tail", "head"}
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    after = json.loads(call("predict", run, "--client", "ash", "--head", "e00", "--relation", "near", "--json").output)
    curve = Run(run).calibration("ash")
    assert curve is not None
    for each, other in zip(after["predictions"], before["predictions"], strict=True):
        assert each["entity"] == other["entity"]
        assert each["probability"] == pytest.approx(float(curve(np.array([each["score"]]))[0]))
        assert each["cases"] >= MIN_CASES
    shown = call("predict", run, "--client", "ash", "--head", "e00", "--relation", "near").output
    assert "probability" in shown
    assert "(n = " in shown


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"scores": [1], "probabilities": [2]}',
        '{"tail": {"scores": [2, 1], "probabilities": [0, 1]}}',
        '{"tail": {"scores": [1, 2], "probabilities": [0, 1], "cases": [3]}}',
        '{"tail": {"scores": [1, 2], "probabilities": [0, 1], "cases": [3, 0]}}',
    ],
)
def test_a_damaged_curve_is_reported(run: Path, content: str) -> None:
    (run / "clients" / "ash" / "calibration.json").write_text(content)
    with pytest.raises(InputError, match=r"calibration.json: damaged .*run `pfedeg calibrate` again"):
        Run(run).predict("ash", "near", head="e00")


def test_clients_with_too_few_correct_answers_are_skipped(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(answerer: Any, graph: KnowledgeGraph, *rest: Any) -> Pairs:
        return drawn(1) if "e00" in graph.entities else Pairs(np.zeros(3), np.zeros(3, bool))

    monkeypatch.setattr(calibration, "collect", some)
    done = call("calibrate", run)
    assert done.exit_code == 0
    assert "skipped: " in done.output
    assert "client 'birch', predicting tails: 0 of 3 answers on valid are correct" in done.output
    assert [Run(run).calibration(name) is not None for name in ("ash", "birch")] == [True, False]
    assert isinstance(call("calibrate", run, "--client", "birch").exception, InputError)
    monkeypatch.setattr(calibration, "collect", lambda *parts: Pairs(np.zeros(3), np.zeros(3, bool)))
    assert isinstance(call("calibrate", run).exception, InputError)


def test_heads_and_tails_have_curves_of_their_own(run: Path) -> None:
    opened, flat = Run(run), {0.2: Calibration((0.0,), (0.2,), (30,)), 0.7: Calibration((0.0,), (0.7,), (40,))}
    opened.calibrate("ash", {"tail": flat[0.2], "head": flat[0.7]})
    head, relation, tail = opened.graph("ash").named("train")[0]
    assert {(each.probability, each.cases) for each in opened.predict("ash", relation, head=head)} == {(0.2, 30)}
    assert {(each.probability, each.cases) for each in opened.predict("ash", relation, tail=tail)} == {(0.7, 40)}
    question = opened.graph("ash").entity_ids[tail], opened.graph("ash").relation_ids[relation]
    (answers,) = opened.answerer("ash", "head").answers([question], 3)
    assert {each.probability for each in answers} == {0.7}


def test_a_direction_without_a_curve_is_named(run: Path) -> None:
    Run(run).calibrate("ash", {"tail": Calibration((0.0,), (0.2,), (30,))})
    head, relation, tail = Run(run).graph("ash").named("train")[0]
    words = ("predict", run, "--client", "ash", "--relation", relation)
    text = "no probabilities: predicted heads of client 'ash' are not calibrated; `pfedeg calibrate` says why"
    assert text in call(*words, "--tail", tail).stderr
    assert text in call(*words, "--heads", "--json").stderr
    assert "no probabilities" not in call(*words, "--head", head).stderr
    assert "no probabilities" not in call("predict", run, "--client", "birch", "--relation", relation, "--json").stderr


def test_curves_of_an_earlier_version_are_for_tails(run: Path) -> None:
    points = {"scores": [-9.0, 9.0], "probabilities": [0.2, 0.7]}
    (run / "clients" / "ash" / "calibration.json").write_text(json.dumps(points))
    assert Run(run).calibration("ash", "tail") == Calibration((-9.0, 9.0), (0.2, 0.7))
    assert Run(run).calibration("ash", "head") is None


def test_invalid_options_give_one_line_errors(run: Path, tmp_path: Path) -> None:
    assert "expected a file name ending in" in str(call("calibrate", run, "--picture", tmp_path / "p.pdf").exception)
    assert "unknown client 'x'" in str(call("calibrate", run, "--client", "x").exception)
