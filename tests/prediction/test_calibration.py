"""Probabilities: fitted on valid, checked on test, saved with the run, shown with answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.prediction import calibration
from pfedeg.prediction.calibration import Bin, Pairs, calibration_error, collect, fit, reliability
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
    assert set(json.loads(done.output)) == {"ash"}
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    after = json.loads(call("predict", run, "--client", "ash", "--head", "e00", "--relation", "near", "--json").output)
    curve = Run(run).calibration("ash")
    assert curve is not None
    for each, other in zip(after["predictions"], before["predictions"], strict=True):
        assert each["entity"] == other["entity"]
        assert each["probability"] == pytest.approx(float(curve(np.array([each["score"]]))[0]))
    assert "probability" in call("predict", run, "--client", "ash", "--head", "e00", "--relation", "near").output


@pytest.mark.parametrize(
    "content", ["{", '{"scores": [1], "probabilities": [2]}', '{"scores": [2, 1], "probabilities": [0, 1]}']
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
    assert "client 'birch': 0 of 3 answers on valid are correct" in done.output
    assert [Run(run).calibration(name) is not None for name in ("ash", "birch")] == [True, False]
    assert isinstance(call("calibrate", run, "--client", "birch").exception, InputError)
    monkeypatch.setattr(calibration, "collect", lambda *parts: Pairs(np.zeros(3), np.zeros(3, bool)))
    assert isinstance(call("calibrate", run).exception, InputError)


def test_only_tail_predictions_have_probabilities(run: Path) -> None:
    opened = Run(run)
    opened.calibrate("ash", Calibration((-9.0, 9.0), (0.2, 0.7)))
    head, relation, tail = opened.graph("ash").named("train")[0]
    assert all(each.probability is not None for each in opened.predict("ash", relation, head=head))
    assert all(each.probability is None for each in opened.predict("ash", relation, tail=tail))


def test_invalid_options_give_one_line_errors(run: Path, tmp_path: Path) -> None:
    assert "expected a file name ending in" in str(call("calibrate", run, "--picture", tmp_path / "p.pdf").exception)
    assert "unknown client 'x'" in str(call("calibrate", run, "--client", "x").exception)


def test_missing_packages_are_reported_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.extras.is_installed", lambda name: name != "sklearn")
    done = call("calibrate", run)
    assert "pip install 'pfedeg[calibrate]'" in str(done.exception)
    assert done.output == ""
