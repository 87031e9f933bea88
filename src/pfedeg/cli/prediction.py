"""Commands that answer with the tables of a finished run: predict, similar."""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from itertools import groupby
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pfedeg.cli.explanation_view import EXPLANATIONS, AnswerExplainer, make_explainer
from pfedeg.cli.options import CONTEXT, client_option, console, force_option, json_option, print_note, threads_option
from pfedeg.errors import InputError
from pfedeg.text import plural, printable

if TYPE_CHECKING:
    from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Side
    from pfedeg.prediction.answer_files import Row
    from pfedeg.prediction.question_files import Question
    from pfedeg.training.link_prediction import Prediction
    from pfedeg.training.saved_run import Run

COLUMNS = ("head", "relation", "tail", "side", "rank", "score", "probability", "cases", "known", "label")
MAX_PRINTED = 10  # questions answered in a terminal


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@client_option("the client whose tables answer")
@click.option("--head", metavar="NAME", help="predict tails: (HEAD, RELATION, ?)")
@click.option("--relation", metavar="NAME", help="without --head and --tail: predict the tails of all its heads")
@click.option("--tail", metavar="NAME", help="predict heads: (?, RELATION, TAIL)")
@click.option(
    "--questions",
    type=click.Path(path_type=Path),
    help="a CSV, TSV or Parquet file with columns head, relation[, tail]",
)
@click.option("--heads", is_flag=True, help="with --relation alone: predict heads instead of tails")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    help="with --questions: stop at a wrong question before any is answered, or skip and report it",
)
@click.option("-k", "--top", "k", default=10, type=click.IntRange(1), metavar="N", help="answers per question")
@click.option("--min-score", type=float, metavar="X", help="omit answers with a lower score  [default: none]")
@click.option("--known", is_flag=True, help="also show known answers, including those in valid and test")
@click.option("--explain", is_flag=True, help="also show the nearest known facts and the influence of other clients")
@click.option("--out", type=click.Path(path_type=Path), help="write the answers to NAME.parquet, .csv or .jsonl")
@force_option
@threads_option
@json_option
def predict(
    run: Path,
    client: str,
    head: str | None,
    relation: str | None,
    tail: str | None,
    questions: Path | None,
    heads: bool,
    on_error: str,
    k: int,
    min_score: float | None,
    known: bool,
    explain: bool,
    out: Path | None,
    force: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Answer questions with the tables of a RUN.

    Answers that the client already knows are omitted unless you add --known.

    \b
    Examples:
      pfedeg predict runs/mine --client government --head Kyoto --relation in_country -k 3 --known
      pfedeg predict runs/mine --client government --head Kyoto --relation in_country --explain
      pfedeg predict runs/mine --client atlas --relation borders --tail Poland --json
      pfedeg predict runs/mine --client atlas --relation borders --top 3 --min-score 2 --out borders.csv
      pfedeg predict runs/mine --client atlas --questions questions.csv --out answers.parquet
    """
    from pfedeg.engine.interface import default_engine
    from pfedeg.files import check_output
    from pfedeg.prediction.answer_files import writer
    from pfedeg.prediction.question_files import read_questions, relation_questions
    from pfedeg.training.link_prediction import parse_question
    from pfedeg.training.saved_run import Run

    many = questions is not None or (head is None and tail is None)
    if questions is not None and (head, relation, tail) != (None, None, None):
        raise InputError("--questions: cannot be combined with --head, --relation or --tail")
    if questions is None and relation is None:
        raise InputError("--relation: missing; give a relation, or a file of questions with --questions")
    if heads and (questions is not None or not many):
        raise InputError("--heads: only allowed with --relation alone")
    if on_error == "skip" and questions is None:
        raise InputError("--on-error skip: only allowed with --questions")
    min_score = -inf if min_score is None else min_score
    if isnan(min_score):
        raise InputError("--min-score: nan is not a number")
    if out is not None:
        check_output(out, force)
    opened = Run(run, default_engine(threads))
    opened.require_finished()
    graph = opened.graph(opened.find_client(client))
    explainer = make_explainer(opened, client, known) if explain else None
    if many:
        skipped: list[str] = []
        skip = skipped.append if on_error == "skip" else None
        if questions:
            found = read_questions(questions, graph, skip)
        else:
            found = relation_questions(relation or "", heads, graph)
        for text in skipped[:MAX_PRINTED]:
            print_note(f"skipped: {text}")
        if skipped:
            print_note(f"skipped {plural(len(skipped), 'question')} of {len(skipped) + len(found):,}")
        _note_missing_curves(opened, client, {side for side, _ in found})
        if out is None and not as_json:
            if len(found) > MAX_PRINTED:
                problem = f"{len(found):,} questions are too many for a terminal"
                raise InputError(f"--out: {problem}; write the answers to a file with --out, or add --json")
            for side, question, answers in _answers(opened, client, found, k, known, min_score):
                _show(opened, client, side, question, answers, known, explainer)
            return
        _answer_many(opened, client, found, k, known, min_score, out, explainer)
        return
    _note_missing_curves(opened, client, {"tail" if head is not None else "head"})
    answers = opened.predict(client, relation or "", head=head, tail=tail, k=k, known=known, min_score=min_score)
    side, question = parse_question(graph, relation or "", head, tail)
    if out is None and not as_json:
        _show(opened, client, side, question, answers, known, explainer)
        return
    rows = _rows(graph, side, question, answers, explainer)
    if out is not None:
        with writer(out, _columns(explain)) as write:
            write(rows)
        click.echo(f"wrote {plural(len(answers), 'answer')} to {out}")
    else:
        answer_to = {"client": client, "head": head, "relation": relation, "tail": tail}
        explanations = [{name: row[name] for name in EXPLANATIONS if name in row} for row in rows]
        lines = [asdict(answer) | extra for answer, extra in zip(answers, explanations, strict=True)]
        click.echo(json.dumps(answer_to | {"predictions": lines}, ensure_ascii=False))


def _note_missing_curves(run: "Run", client: str, sides: "Collection[Side]") -> None:
    """Say that a calibrated client has no probabilities for some of the questions."""
    known = run.find_client(client)
    curves: dict[Side, bool] = {"tail": run.calibration(known, "tail") is not None}
    curves["head"] = run.calibration(known, "head") is not None
    for side in sorted(sides):
        if any(curves.values()) and not curves[side]:
            text = f"predicted {side}s of client {client!r} are not calibrated; `pfedeg calibrate` says why"
            print_note(f"no probabilities: {text}")


def _show(
    run: "Run",
    client: str,
    side: "Side",
    question: tuple[int, int],
    answers: "Sequence[Prediction]",
    known: bool,
    explainer: "AnswerExplainer | None",
) -> None:
    """Print a question, its answers and their explanations."""
    from pfedeg.cli.tables import predictions_table

    graph = run.graph(run.find_client(client))
    given = _question_row(graph, side, question)
    head, relation, tail = (given[name] for name in COLUMNS[:3])
    text = ", ".join("?" if part is None else printable(graph.display_name(part)) for part in (head, relation, tail))
    terminal = console()
    terminal.print(f"{printable(client)}: ({text})", style="bold", highlight=False, soft_wrap=True)
    terminal.print(predictions_table(answers))
    left_out = 0 if known else run.count_known(client, relation, head=head, tail=tail)
    if left_out:
        print_note(f"{plural(left_out, 'known answer')} omitted; add --known to show them")
    for line in explainer.lines(side, question, answers) if explainer else ():
        click.echo(printable(line))


def _answer_many(
    run: "Run",
    client: str,
    questions: "Sequence[Question]",
    k: int,
    known: bool,
    min_score: float,
    out: Path | None,
    explainer: "AnswerExplainer | None",
) -> None:
    """Answer many questions and write each answer as soon as it is known."""
    from pfedeg.cli.tables import progress_bar, time_left
    from pfedeg.prediction.answer_files import printer, writer

    graph, began, written, total = run.graph(run.find_client(client)), time.monotonic(), 0, len(questions)
    with (
        writer(out, _columns(explainer is not None)) if out else printer() as write,
        progress_bar(console(stderr=True), "answering", total) as show,
    ):
        for place, (side, question, answers) in enumerate(_answers(run, client, questions, k, known, min_score), 1):
            write(_rows(graph, side, question, answers, explainer))
            written += len(answers)
            show(place, f"{place:,} of {plural(total, 'question')}{time_left(began, place, total)}", False)
    if out:
        click.echo(f"wrote {plural(written, 'answer')} to {plural(len(questions), 'question')} to {out}")


def _answers(
    run: "Run", client: str, questions: "Sequence[Question]", k: int, known: bool, min_score: float
) -> Iterator[tuple["Side", tuple[int, int], "list[Prediction]"]]:
    """Each question with its answers, in order."""
    from pfedeg.graphs.knowledge_graph import SPLITS

    answerer = cache(lambda side: run.answerer(client, side))
    for side, group in groupby(questions, key=lambda each: each[0]):
        batch = [question for _, question in group]
        answers = answerer(side).answers(batch, k, hidden=() if known else SPLITS, min_score=min_score)
        for question, found in zip(batch, answers, strict=True):
            yield side, question, found


def _columns(explained: bool) -> tuple[str, ...]:
    return (*COLUMNS, *EXPLANATIONS) if explained else COLUMNS


def _question_row(graph: "KnowledgeGraph", side: "Side", question: tuple[int, int]) -> "Row":
    """The names of a question, with None for the part to predict."""
    entity, relation = graph.entities[question[0]], graph.relations[question[1]]
    head, tail = (entity, None) if side == "tail" else (None, entity)
    return {"head": head, "relation": relation, "tail": tail, "side": side}


def _rows(
    graph: "KnowledgeGraph",
    side: "Side",
    question: tuple[int, int],
    answers: "Sequence[Prediction]",
    explainer: "AnswerExplainer | None",
) -> "list[Row]":
    """A row for each answer to a question."""
    given = _question_row(graph, side, question)
    rows = [
        {**given, side: answer.entity, **{name: getattr(answer, name) for name in COLUMNS[4:]}} for answer in answers
    ]
    if explainer is None:
        return rows
    return [row | found for row, found in zip(rows, explainer.rows(side, question, answers), strict=True)]


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@client_option("the client whose tables are used")
@click.option("--entity", required=True, metavar="NAME", help="the entity to compare with")
@click.option("-k", "--top", "k", default=10, type=click.IntRange(1), metavar="N", help="number of similar entities")
@json_option
def similar(run: Path, client: str, entity: str, k: int, as_json: bool) -> None:
    """List the entities most similar to an entity.

    Similarity is the cosine of their embeddings.

    \b
    Example:
      pfedeg similar runs/mine --client atlas --entity Poland -k 5
    """
    from pfedeg.cli.tables import predictions_table
    from pfedeg.training.saved_run import Run

    opened = Run(run)
    opened.require_finished()
    found = opened.similar(client, entity, k)
    if as_json:
        lines = [{"rank": a.rank, "entity": a.entity, "cosine": a.score, "label": a.label} for a in found]
        click.echo(json.dumps({"client": client, "entity": entity, "similar": lines}, ensure_ascii=False))
        return
    terminal = console()
    terminal.print(
        f"{printable(client)}: similar to {printable(entity)}", style="bold", highlight=False, soft_wrap=True
    )
    terminal.print(predictions_table(found))
