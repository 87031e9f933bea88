"""From scores to probabilities: fitted on validation triples, checked on test triples, kept with the run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Split
from pfedeg.training.answering import Answerer, Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["isotonic", "platt"]
ANSWERS = 10  # to each question
BINS = 10
FEW = 20  # answers that are drawn, but not joined by a line
LEAST = 10  # right answers without which nothing can be fitted


@dataclass(frozen=True)
class Pairs:
    """Scores of the best answers to some questions, and whether each is a fact of the split that was asked about."""

    scores: NDArray[np.float64]
    right: NDArray[np.bool_]


@dataclass(frozen=True)
class Bin:
    """Answers of about the same probability: how many, what was said, and how many were right."""

    answers: int
    said: float
    right: float


def collect(answerer: Answerer, graph: KnowledgeGraph, split: Split, hidden: Sequence[Split]) -> Pairs:
    """The ten best answers to (h, r, ?) of every triple of a split, without what the hidden splits hold.

    An answer that stands in a split which is neither hidden nor asked about is left out: it is neither right nor wrong.
    """
    questions = [(h, r) for h, r in np.unique(graph.triples(split)[:, :2], axis=0).tolist()]
    found: list[tuple[float, bool]] = []
    for answers in answerer.answers(questions, ANSWERS, hidden=hidden):
        found += [(each.score, each.known == split) for each in answers if each.known in (None, split)]
    return Pairs(np.array([score for score, _ in found]), np.array([right for _, right in found], bool))


def need_scikit_learn() -> None:
    """Say what to install, if it is not there."""
    if find_spec("sklearn") is None:
        raise InputError("calibration is fitted with scikit-learn: pip install 'pfedeg[calibrate]'")


def fit(pairs: Pairs, kind: Kind, where: str) -> Calibration:
    """A curve from score to probability that never falls: by isotonic regression, or a logistic one (Platt)."""
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    right = int(pairs.right.sum())
    if right < LEAST or right == len(pairs.right):
        raise InputError(f"{where}: {right} right answers among {len(pairs.right)} on valid: no curve can be fitted")
    if kind == "isotonic":
        fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(pairs.scores, pairs.right)
        return Calibration(tuple(fitted.X_thresholds_.tolist()), tuple(fitted.y_thresholds_.tolist()))
    logistic = LogisticRegression(C=1e6).fit(pairs.scores[:, None], pairs.right)
    if logistic.coef_[0, 0] <= 0:
        raise InputError(f"{where}: higher scores are not more often right on valid; try --method isotonic")
    grid = np.linspace(pairs.scores.min(), pairs.scores.max(), 200)
    return Calibration(tuple(grid.tolist()), tuple(logistic.predict_proba(grid[:, None])[:, 1].tolist()))


def reliability(calibration: Calibration, pairs: Pairs) -> list[Bin]:
    """What was said and what was right, for answers of about the same probability."""
    said = calibration(pairs.scores)
    place = np.minimum((said * BINS).astype(int), BINS - 1)
    bins = []
    for each in np.unique(place).tolist():
        inside = place == each
        bins.append(Bin(int(inside.sum()), float(said[inside].mean()), float(pairs.right[inside].mean())))
    return bins


def deviation(bins: Sequence[Bin]) -> float:
    """Expected calibration error: how far what is said is from what is right, on average over answers."""
    total = sum(each.answers for each in bins)
    return sum(each.answers * abs(each.said - each.right) for each in bins) / total if total else 0.0


def draw(curves: dict[str, list[Bin]]) -> "Figure":
    """A reliability plot: on the diagonal, what is said is right; the larger a dot, the more answers."""
    from matplotlib.figure import Figure

    figure = Figure((4.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
    for place, (name, bins) in enumerate(curves.items()):
        many = [each for each in bins if each.answers >= FEW]
        axes.plot([each.said for each in many], [each.right for each in many], color=f"C{place}", linewidth=1)
        sizes = [6 + 1.5 * each.answers**0.5 for each in bins]
        places = [each.said for each in bins], [each.right for each in bins]
        whole: dict[str, Any] = {"clip_on": False, "zorder": 3}  # dots at the ends are not cut by the frame
        axes.scatter(*places, sizes, color=f"C{place}", label=name, alpha=0.7, edgecolors="none", **whole)
    axes.set_xlabel("probability that is told")
    axes.set_ylabel("share of test answers that are right")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8)
    return figure


def table(bins: Sequence[Bin]) -> Iterator[dict[str, Any]]:
    """For scripts."""
    for each in bins:
        yield {"answers": each.answers, "said": each.said, "right": each.right}
