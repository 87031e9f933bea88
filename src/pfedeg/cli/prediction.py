"""Commands that use the tables of a finished run: predict, similar, calibrate."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from itertools import groupby
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedeg.cli.options import CONTEXT, client_option, console, force_option, json_option, print_note, threads_option
from pfedeg.errors import InputError
from pfedeg.text import plural, printable

if TYPE_CHECKING:
    from pfedeg.graphs.knowledge_graph import KnowledgeGraph, Side
    from pfedeg.prediction.answer_files import Row
    from pfedeg.prediction.question_files import Question
    from pfedeg.training.link_prediction import Prediction
    from pfedeg.training.saved_run import Run

COLUMNS = ("head", "relation", "tail", "side", "rank", "score", "probability", "known", "label")
MAX_PRINTED = 10  # questions answered in a terminal
EXPLANATIONS = ("similar_triples", "contributions")


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
@click.option("--explain", is_flag=True, help="also show similar known triples and the contributions of other clients")
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
    min_score = -inf if min_score is None else min_score
    if isnan(min_score):
        raise InputError("--min-score: nan is not a number")
    if out is not None:
        check_output(out, force)
    opened = Run(run, default_engine(threads))
    opened.require_finished()
    graph = opened.graph(opened.find_client(client))
    explain_row = _make_explain_row(opened, client) if explain else None
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
        if out is None and not as_json:
            if len(found) > MAX_PRINTED:
                problem = f"{len(found):,} questions are too many for a terminal"
                raise InputError(f"--out: {problem}; write the answers to a file with --out, or add --json")
            for side, question, answers in _answers(opened, client, found, k, known, min_score):
                _show(opened, client, _question_row(graph, side, question), answers, known, explain_row)
            return
        _answer_many(opened, client, found, k, known, min_score, out, explain_row)
        return
    answers = opened.predict(client, relation or "", head=head, tail=tail, k=k, known=known, min_score=min_score)
    given = _question_row(graph, *parse_question(graph, relation or "", head, tail))
    if out is None and not as_json:
        _show(opened, client, given, answers, known, explain_row)
        return
    rows = [_row(given, answer, explain_row) for answer in answers]
    if out is not None:
        with writer(out, _columns(explain)) as write:
            write(rows)
        click.echo(f"wrote {plural(len(answers), 'answer')} to {out}")
    else:
        answer_to = {"client": client, "head": head, "relation": relation, "tail": tail}
        explanations = [{name: row[name] for name in EXPLANATIONS if name in row} for row in rows]
        lines = [asdict(answer) | extra for answer, extra in zip(answers, explanations, strict=True)]
        click.echo(json.dumps(answer_to | {"predictions": lines}, ensure_ascii=False))


def _show(run: "Run", client: str, given: "Row", answers: Any, known: bool, explain_row: "ExplainRow | None") -> None:
    """Print a question, its answers and their explanations."""
    from pfedeg.cli.tables import predictions_table

    graph, (head, relation, tail) = run.graph(run.find_client(client)), (given[name] for name in COLUMNS[:3])
    question = ", ".join(
        "?" if part is None else printable(graph.display_name(part)) for part in (head, relation, tail)
    )
    terminal = console()
    terminal.print(f"{printable(client)}: ({question})", style="bold", highlight=False, soft_wrap=True)
    terminal.print(predictions_table(answers))
    left_out = 0 if known else run.count_known(client, relation, head=head, tail=tail)
    if left_out:
        print_note(f"{plural(left_out, 'known answer')} omitted; add --known to show them")
    for row in [_row(given, answer, explain_row) for answer in answers] if explain_row else ():
        triples = row["similar_triples"] or "none"
        click.echo(
            printable(f"{row['rank']:>3} {graph.display_name(row[row['side']])}: similar known triples: {triples}")
        )
        if row["contributions"]:
            click.echo(printable(f"    contributions of other clients: {row['contributions']}"))


ExplainRow = Callable[[str, str, str], dict[str, str]]


def _make_explain_row(run: "Run", client: str) -> ExplainRow:
    """A function from a triple to its explanation as text: similar known triples, contributions of other clients."""
    from pfedeg.prediction.explanation import Explainer

    explainer, graph = Explainer(run, client), run.graph(run.find_client(client))

    def explain_row(head: str, relation: str, tail: str) -> dict[str, str]:
        explanation = explainer.explain(head, relation, tail)
        similar = [
            (tuple(graph.display_name(name) for name in each[:3]), each.similarity) for each in explanation.neighbours
        ]
        triples = "; ".join(f"({', '.join(names)}) {similarity:.2f}" for names, similarity in similar)
        shares = {
            graph.display_name(name): ", ".join(f"{other} {share:.0%}" for other, share in found.items())
            for name, found in explanation.contributions.items()
        }
        contributions = "; ".join(f"{name}: {text}" for name, text in shares.items() if text)
        return dict(zip(EXPLANATIONS, (triples, contributions), strict=True))

    return explain_row


def _answer_many(
    run: "Run",
    client: str,
    questions: "Sequence[Question]",
    k: int,
    known: bool,
    min_score: float,
    out: Path | None,
    explain_row: ExplainRow | None,
) -> None:
    """Answer many questions and write each answer as soon as it is known."""
    from pfedeg.cli.tables import progress_bar, time_left
    from pfedeg.prediction.answer_files import printer, writer

    graph, began, written, total = run.graph(run.find_client(client)), time.monotonic(), 0, len(questions)
    with (
        writer(out, _columns(explain_row is not None)) if out else printer() as write,
        progress_bar(console(stderr=True), "answering", total) as show,
    ):
        for place, (side, question, answers) in enumerate(_answers(run, client, questions, k, known, min_score), 1):
            given = _question_row(graph, side, question)
            write([_row(given, answer, explain_row) for answer in answers])
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


def _row(given: "Row", answer: "Prediction", explain_row: ExplainRow | None) -> "Row":
    found = {name: getattr(answer, name) for name in ("rank", "score", "probability", "known", "label")}
    row = {**given, given["side"]: answer.entity, **found}
    return row | explain_row(row["head"], row["relation"], row["tail"]) if explain_row else row


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


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@client_option("calibrate only this client  [default: all clients]", required=False)
@click.option(
    "--method",
    "kind",
    type=click.Choice(["isotonic", "platt"]),
    default="isotonic",
    help="how to fit the curve",
)
@click.option("--picture", type=click.Path(path_type=Path), help="draw a reliability plot, NAME.png or NAME.svg")
@force_option
@threads_option
@json_option
def calibrate(
    run: Path, client: str | None, kind: Any, picture: Path | None, force: bool, threads: int | None, as_json: bool
) -> None:
    """Turn the scores of a RUN into probabilities.

    The curve is fitted on valid triples and checked on test triples. A probability is the share of held-out triples
    among the ten best tails with similar scores. True answers that are not in the graph count as wrong. From then on,
    `pfedeg predict` shows probabilities.

    \b
    Example:
      pfedeg calibrate runs/mine --picture reliability.png
    """
    from pfedeg.cli.tables import progress_bar, time_left
    from pfedeg.engine.interface import default_engine
    from pfedeg.files import check_output, writing
    from pfedeg.prediction.calibration import (
        as_rows,
        calibration_error,
        collect,
        draw,
        fit,
        reliability,
        require_scikit_learn,
    )
    from pfedeg.training.saved_run import Run

    if picture is not None and picture.suffix not in (".png", ".svg"):
        raise InputError(f"--picture {picture}: expected a file name ending in .png or .svg")
    if picture is not None:
        check_output(picture, force)
    require_scikit_learn()
    opened = Run(run, default_engine(threads))
    opened.require_finished()
    results, curves, fitted = {}, {}, {}
    began, names = time.monotonic(), [opened.find_client(client)] if client else list(opened.clients)
    with progress_bar(console(stderr=True), "calibrating", len(names)) as show:
        for place, name in enumerate(names):
            show(
                place,
                f"{name}, {place + 1} of {plural(len(names), 'client')}{time_left(began, place, len(names))}",
                False,
            )
            graph, answerer = opened.graph(name), opened.answerer(name)
            try:
                fitted[name] = fit(collect(answerer, graph, "valid", ["train"]), kind, f"{run}, client {name!r}")
            except InputError as error:
                if client or (place + 1 == len(names) and not fitted):
                    raise
                print_note(f"skipped: {error}")
                continue
            bins = reliability(fitted[name], collect(answerer, graph, "test", ["train", "valid"]))
            results[name], curves[name] = {"error": calibration_error(bins), "bins": list(as_rows(bins))}, bins
    if picture is not None:
        figure = draw(curves)
        with writing(picture) as path:
            figure.savefig(path, format=picture.suffix[1:], dpi=160)
    for name, curve in fitted.items():
        opened.calibrate(name, curve)
    if as_json:
        click.echo(json.dumps(results, ensure_ascii=False))
        return
    for name, bins in curves.items():
        answers = sum(each.answers for each in bins)
        click.echo(
            printable(f"{name}: calibration error {calibration_error(bins):.3f} ({plural(answers, 'test answer')})")
        )
        for each in bins:
            click.echo(f"  predicted {each.predicted:.2f}, observed {each.observed:.2f} (n = {each.answers:,})")
