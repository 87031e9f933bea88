"""Calibration of scores to probabilities: fitted on validation triples, checked on test triples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Side, Split
from pfedeg.plots import new_figure, short
from pfedeg.training.link_prediction import Answerer, Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Fit = Literal["isotonic", "platt"]
TOP_ANSWERS = 10  # per question
BINS = 10
MIN_FOR_LINE = 20  # smaller bins are not connected by the line of the plot
MIN_CORRECT = 10  # correct answers needed for a fit
MIN_CASES = 20  # answers that a step of the isotonic curve rests on


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


class Step(NamedTuple):
    """A level piece of an isotonic curve: scores from `low` to `high`, with so many answers, and correct ones."""

    low: float
    high: float
    correct: int
    cases: int

    @property
    def rate(self) -> float:
        """The share of correct answers."""
        return self.correct / self.cases

    @property
    def probability(self) -> float:
        """The rule of succession: few answers give neither 0 nor 1."""
        return (self.correct + 1) / (self.cases + 2)

    def with_next(self, other: "Step") -> "Step":
        """One step over both."""
        return Step(self.low, other.high, self.correct + other.correct, self.cases + other.cases)


def collect(answerer: Answerer, graph: KnowledgeGraph, split: Split, hidden: Sequence[Split]) -> Pairs:
    """The ten best answers to the question of every triple of a split, except those in the hidden splits.

    Questions are (h, r, ?) or (?, r, t), as the answerer's. Answers known from any other split are excluded, too, since
    they count neither as correct nor as wrong.
    """
    given = 0 if answerer.side == "tail" else 2
    questions = [(entity, r) for entity, r in np.unique(graph.triples(split)[:, [given, 1]], axis=0).tolist()]
    found: list[tuple[float, bool]] = []
    for answers in answerer.answers(questions, TOP_ANSWERS, hidden=hidden):
        found += [(each.score, each.known == split) for each in answers if each.known in (None, split)]
    return Pairs(np.array([score for score, _ in found]), np.array([correct for _, correct in found], bool))


def fit(pairs: Pairs, kind: Fit, where: str) -> Calibration:
    """A non-decreasing curve from score to probability, by isotonic or logistic (Platt) regression."""
    correct = int(pairs.correct.sum())
    if correct < MIN_CORRECT or correct == len(pairs.correct):
        raise InputError(f"{where}: {correct} of {len(pairs.correct)} answers on valid are correct; cannot fit a curve")
    return _isotonic(pairs) if kind == "isotonic" else _platt(pairs, where)


def _isotonic(pairs: Pairs) -> Calibration:
    """Steps of at least `MIN_CASES` answers each, with (correct + 1) / (answers + 2) as their probability."""
    steps = pool_adjacent_violators(pairs)
    while len(steps) > 1 and (least := min(step.cases for step in steps)) < MIN_CASES:
        at = next(i for i, step in enumerate(steps) if step.cases == least)
        before = steps[at].rate - steps[at - 1].rate if at else np.inf
        after = steps[at + 1].rate - steps[at].rate if at + 1 < len(steps) else np.inf
        _merge(steps, at - 1 if before <= after else at)
    while (falling := _first_fall(steps)) is not None:
        _merge(steps, falling)
    points = [(score, step) for step in steps for score in dict.fromkeys((step.low, step.high))]
    return Calibration(
        tuple(score for score, _ in points),
        tuple(step.probability for _, step in points),
        tuple(step.cases for _, step in points),
    )


def pool_adjacent_violators(pairs: Pairs) -> list[Step]:
    """The isotonic regression of correct answers on scores, as steps with rising rates."""
    scores, place, cases = np.unique(pairs.scores, return_inverse=True, return_counts=True)
    correct = np.bincount(place, pairs.correct).astype(int)
    steps: list[Step] = []
    for score, right, number in zip(scores.tolist(), correct.tolist(), cases.tolist(), strict=True):
        steps.append(Step(score, score, right, number))
        while len(steps) > 1 and steps[-2].rate >= steps[-1].rate:
            _merge(steps, len(steps) - 2)
    return steps


def _merge(steps: list[Step], at: int) -> None:
    """Replace a step and the next one by one step."""
    steps[at : at + 2] = [steps[at].with_next(steps[at + 1])]


def _first_fall(steps: Sequence[Step]) -> int | None:
    """The first step that is not below the next one: few answers are pulled more towards one half."""
    return next((i for i, (a, b) in enumerate(pairwise(steps)) if a.probability >= b.probability), None)


def _platt(pairs: Pairs, where: str) -> Calibration:
    """1 / (1 + exp(−a·score − b)), fitted to Platt's targets, which are not 0 and 1: few answers give neither."""
    correct, cases = int(pairs.correct.sum()), len(pairs.correct)
    centre, spread = float(pairs.scores.mean()), float(pairs.scores.std()) or 1.0
    x = np.stack([(pairs.scores - centre) / spread, np.ones(cases)], 1)
    wanted = np.where(pairs.correct, (correct + 1) / (correct + 2), 1 / (cases - correct + 2))

    def loss(weights: NDArray[np.float64]) -> float:
        z = x @ weights
        return float((np.logaddexp(0, z) - wanted * z).sum())

    weights = np.zeros(2)
    for _ in range(100):  # Newton's method; half the step while it goes too far
        found = _logistic(x @ weights)
        gradient = x.T @ (found - wanted)
        step = np.linalg.solve((x * (found * (1 - found))[:, None]).T @ x + 1e-9 * np.eye(2), gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-9:
            step /= 2
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    if weights[0] <= 0:
        raise InputError(f"{where}: higher scores are not more often correct on valid; try --method isotonic")
    grid = np.linspace(pairs.scores.min(), pairs.scores.max(), 200)
    chances = _logistic(weights[0] * (grid - centre) / spread + weights[1])
    return Calibration(tuple(grid.tolist()), tuple(chances.tolist()), (cases,) * len(grid))


def _logistic(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-z))


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


def figure_of(curves: Mapping[str, Mapping[Side, Sequence[Bin]]]) -> Callable[[], "Figure"]:
    """A reliability plot per direction. Dots on the diagonal are perfectly calibrated; larger dots: more answers."""
    sides: tuple[Side, ...] = ("tail", "head")

    def make() -> "Figure":
        figure, panels = new_figure((8.6, 4.4), 2)
        style: dict[str, Any] = {"clip_on": False, "zorder": 3}  # do not clip dots at the edges
        for axes, side in zip(panels, sides, strict=True):
            axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
            for place, (name, found) in enumerate(curves.items()):
                bins = found.get(side, ())
                many = [each for each in bins if each.answers >= MIN_FOR_LINE]
                color = f"C{place % 10}"
                axes.plot([each.predicted for each in many], [each.observed for each in many], color=color, linewidth=1)
                sizes = [6 + 1.5 * each.answers**0.5 for each in bins]
                places = [each.predicted for each in bins], [each.observed for each in bins]
                axes.scatter(*places, sizes, color=color, label=short(name), alpha=0.7, edgecolors="none", **style)
            axes.set_title(f"predicting {side}s", fontsize=9)
            axes.set_xlabel("predicted probability")
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
        panels[0].set_ylabel("observed share of correct test answers")
        panels[1].legend(fontsize=8)
        return figure

    return make


def as_rows(bins: Sequence[Bin]) -> Iterator[dict[str, Any]]:
    """The bins as dictionaries."""
    for each in bins:
        yield {"answers": each.answers, "predicted": each.predicted, "observed": each.observed}
