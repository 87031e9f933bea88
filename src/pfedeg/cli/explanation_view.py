"""Explanations of answers, as text for a terminal and as rows for files and JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pfedeg.cli.options import print_note

if TYPE_CHECKING:
    from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Side, Split
    from pfedeg.prediction.answer_files import Row
    from pfedeg.prediction.explanation import Explainer, Explanation
    from pfedeg.prediction.influence import Influence
    from pfedeg.training.link_prediction import Prediction
    from pfedeg.training.saved_run import Run

EXPLANATIONS = ("nearest_facts", "influence")
MOST_SHOWN = 4  # clients per answer in a terminal, those that change its score most


class AnswerExplainer:
    """Explains the answers of one client, ranked among those that are not hidden."""

    def __init__(self, explainer: "Explainer", graph: "KnowledgeGraph", hidden: "Sequence[Split]") -> None:
        """`hidden` are the splits whose triples are no answers."""
        self._explainer, self._graph, self._hidden = explainer, graph, hidden

    def rows(self, side: "Side", question: tuple[int, int], answers: "Sequence[Prediction]") -> "list[Row]":
        """What explains each answer, as lists of dictionaries."""
        explained = self._explain(side, question, answers)
        return [
            {
                "nearest_facts": [each._asdict() for each in one.neighbours],
                "influence": [asdict(each) for each in one.influence],
            }
            for one in explained
        ]

    def lines(self, side: "Side", question: tuple[int, int], answers: "Sequence[Prediction]") -> Iterator[str]:
        """What explains each answer, as text with display labels."""
        names = self._graph.display_name
        for answer, explained in zip(answers, self._explain(side, question, answers), strict=True):
            facts = [(tuple(names(part) for part in each[:3]), each.similarity) for each in explained.neighbours]
            text = "; ".join(f"({', '.join(parts)}) {similarity:.2f}" for parts, similarity in facts)
            yield f"{answer.rank:>3} {names(answer.entity)}"
            yield f"      nearest known facts: {text or 'none'}"
            given = self._graph.entities[question[0]]
            ends = (given, answer.entity) if side == "tail" else (answer.entity, given)
            yield from _influence_lines(explained.influence, names(ends[0]), names(ends[1]))

    def _explain(self, side: "Side", question: tuple[int, int], answers: "Sequence[Prediction]") -> "list[Explanation]":
        entities = [answer.entity for answer in answers]
        return self._explainer.explain(side, question, entities, hidden=self._hidden)


def make_explainer(run: "Run", client: str, known: bool) -> AnswerExplainer:
    """An explainer of answers, with or without known ones among them; notes if influences are not known."""
    from pfedeg.graphs.knowledge_graph import SPLITS
    from pfedeg.prediction.explanation import Explainer

    explainer = Explainer(run, client)
    if explainer.unknown:
        print_note(f"influence of each other client: not known; {explainer.unknown}")
    return AnswerExplainer(explainer, run.graph(run.find_client(client)), () if known else SPLITS)


def _influence_lines(influence: "Sequence[Influence]", head: str, tail: str) -> Iterator[str]:
    """Rank and score of an answer without each client, if there are not too many."""
    single = [each for each in influence if each.without is not None]
    shown = sorted(single, key=lambda each: -abs(each.score_change))[:MOST_SHOWN]
    for each in influence:
        if each in shown:
            yield f"      {_influence_text(each, head, tail)}"
    if left := len(single) - len(shown):
        yield f"      without {f'any of {left:,} others' if left > 1 else 'the other one'}: the score changes less"
    for each in influence:
        if each.without is None:
            yield f"      {_influence_text(each, head, tail)}"


def _influence_text(each: "Influence", head: str, tail: str) -> str:
    who = "all other clients" if each.without is None else each.without
    moved = f"{abs(each.rank_change):,} {'lower' if each.rank_change > 0 else 'higher'}"
    rank = f"rank {each.rank:,} ({moved})" if each.rank_change else f"rank {each.rank:,} as before"
    shares = ((head, each.head_share), (tail, each.tail_share))
    share = ", ".join(f"{value:.0%} of {name}" for name, value in shares if value)
    text = f"without {who}: {rank}, score {each.score:.3f} ({each.score_change:+.3f})"
    return f"{text}; its share: {share}" if share else text
