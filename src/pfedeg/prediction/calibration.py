"""Calibration of scores to probabilities: fitted on validation triples, checked on test triples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Split
from pfedeg.training.link_prediction import Answerer, Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Fit = Literal["isotonic", "platt"]
TOP_ANSWERS = 10  # per question
BINS = 10
MIN_FOR_LINE = 20  # smaller bins are not connected by the line of the plot
MIN_CORRECT = 10  # correct answers needed for a fit


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scores of the best answers to some questions, and whether each is correct: a triple of the evaluated split."""

    scores: NDArray[np.float64]
    correct: NDArray[np.bool_]


@dataclass(frozen=True)
class Bin:
    """Answers of similar probability: their number, mean predicted probability, and share of correct ones."""

    answers: int
    predicted: float
    observed: float


def collect(answerer: Answerer, graph: KnowledgeGraph, split: Split, hidden: Sequence[Split]) -> Pairs:
    """The ten best answers to (h, r, ?) for every triple of a split, except those in the hidden splits.

    Answers known from any other split are excluded, too, since they count neither as correct nor as wrong.
    """
    questions = [(h, r) for h, r in np.unique(graph.triples(split)[:, :2], axis=0).tolist()]
    found: list[tuple[float, bool]] = []
    for answers in answerer.answers(questions, TOP_ANSWERS, hidden=hidden):
        found += [(each.score, each.known == split) for each in answers if each.known in (None, split)]
    return Pairs(np.array([score for score, _ in found]), np.array([correct for _, correct in found], bool))


def fit(pairs: Pairs, kind: Fit, where: str) -> Calibration:
    """A non-decreasing curve from score to probability, by isotonic or logistic (Platt) regression."""
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    correct = int(pairs.correct.sum())
    if correct < MIN_CORRECT or correct == len(pairs.correct):
        raise InputError(f"{where}: {correct} of {len(pairs.correct)} answers on valid are correct; cannot fit a curve")
    if kind == "isotonic":
        fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(pairs.scores, pairs.correct)
        return Calibration(tuple(fitted.X_thresholds_.tolist()), tuple(fitted.y_thresholds_.tolist()))
    logistic = LogisticRegression(C=1e6).fit(pairs.scores[:, None], pairs.correct)
    if logistic.coef_[0, 0] <= 0:
        raise InputError(f"{where}: higher scores are not more often correct on valid; try --method isotonic")
    grid = np.linspace(pairs.scores.min(), pairs.scores.max(), 200)
    return Calibration(tuple(grid.tolist()), tuple(logistic.predict_proba(grid[:, None])[:, 1].tolist()))


def reliability(calibration: Calibration, pairs: Pairs) -> list[Bin]:
    """Predicted probability and observed share of correct answers, for answers of similar probability."""
    predicted = calibration(pairs.scores)
    place = np.minimum((predicted * BINS).astype(int), BINS - 1)
    bins = []
    for each in np.unique(place).tolist():
        inside = place == each
        bins.append(Bin(int(inside.sum()), float(predicted[inside].mean()), float(pairs.correct[inside].mean())))
    return bins


def calibration_error(bins: Sequence[Bin]) -> float:
    """Expected calibration error: mean absolute difference of predicted and observed, weighted by answers."""
    total = sum(each.answers for each in bins)
    return sum(each.answers * abs(each.predicted - each.observed) for each in bins) / total if total else 0.0


def draw(curves: dict[str, list[Bin]]) -> "Figure":
    """A reliability plot. Dots on the diagonal are perfectly calibrated; larger dots stand for more answers."""
    from matplotlib.figure import Figure

    figure = Figure((4.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
    for place, (name, bins) in enumerate(curves.items()):
        many = [each for each in bins if each.answers >= MIN_FOR_LINE]
        axes.plot([each.predicted for each in many], [each.observed for each in many], color=f"C{place}", linewidth=1)
        sizes = [6 + 1.5 * each.answers**0.5 for each in bins]
        places = [each.predicted for each in bins], [each.observed for each in bins]
        style: dict[str, Any] = {"clip_on": False, "zorder": 3}  # do not clip dots at the edges
        axes.scatter(*places, sizes, color=f"C{place}", label=name, alpha=0.7, edgecolors="none", **style)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("observed share of correct test answers")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8)
    return figure


def as_rows(bins: Sequence[Bin]) -> Iterator[dict[str, Any]]:
    """The bins as dictionaries."""
    for each in bins:
        yield {"answers": each.answers, "predicted": each.predicted, "observed": each.observed}
