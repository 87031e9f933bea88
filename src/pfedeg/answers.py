"""Commands that answer questions from a finished run: one, a file of them, or all of a relation."""

import csv
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from io import StringIO
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedeg.errors import InputError, printable
from pfedeg.options import CONTEXT, console, count, json_option, say, threads_option

if TYPE_CHECKING:
    from pfedeg.graph import KnowledgeGraph, Side
    from pfedeg.prediction import Prediction, Run

COLUMNS = ("head", "relation", "tail", "asked", "rank", "score", "known", "label")
LINE_SECONDS = 5.0
Row = dict[str, Any]


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--client", required=True, metavar="NAME", help="whose tables answer")
@click.option("--head", metavar="NAME", help="ask for tails: (HEAD, RELATION, ?)")
@click.option("--relation", metavar="NAME", help="alone: ask for the tails of all heads that have it")
@click.option("--tail", metavar="NAME", help="ask for heads: (?, RELATION, TAIL)")
@click.option("--questions", type=click.Path(path_type=Path), help="a CSV, TSV or Parquet file: head, relation[, tail]")
@click.option("--heads", is_flag=True, help="with --relation alone: ask for heads instead of tails")
@click.option("-k", "--top", "k", default=10, metavar="N", help="how many answers to a question  [10]")
@click.option("--min-score", type=float, default=-inf, metavar="X", help="leave out answers with a lower score")
@click.option("--known", is_flag=True, help="also show answers in the client's own triples, valid and test included")
@click.option("--out", type=click.Path(path_type=Path), help="write the answers to NAME.parquet, .csv or .jsonl")
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
    k: int,
    min_score: float,
    known: bool,
    out: Path | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Answer questions from a finished RUN, with names; triples that the client knows are left out.

    \b
    Examples:
      pfedeg predict runs/mine --client government --head Kyoto --relation in_country -k 3 --known
      pfedeg predict runs/mine --client atlas --relation borders --tail Poland --json
      pfedeg predict runs/mine --client atlas --relation borders --top 3 --min-score 2 --out borders.csv
      pfedeg predict runs/mine --client atlas --questions questions.csv --out answers.parquet
    """
    from pfedeg.kernels import default_kernels
    from pfedeg.prediction import Run

    many = questions is not None or (head is None and tail is None)
    if questions is not None and (head, relation, tail) != (None, None, None):
        raise InputError("--questions: a file of questions goes without --head, --relation and --tail")
    if questions is None and relation is None:
        raise InputError("--relation: missing; say what to ask, or give a file by --questions")
    if heads and (questions is not None or not many):
        raise InputError("--heads: is for --relation alone")
    opened = Run(run, default_kernels(threads))
    if many:
        graph = opened.graph(opened.client(client))
        asked = _of_file(questions, graph) if questions else _of_relation(relation or "", heads, graph)
        _answer_many(opened, client, asked, k, known, min_score, out, as_json)
        return
    answers = opened.predict(client, relation or "", head=head, tail=tail, k=k, known=known, least=min_score)
    if out is not None:
        with _writer(out) as write:
            write([_row(_names(head, relation or "", tail), answer) for answer in answers])
        click.echo(f"wrote {count(len(answers), 'answer')} to {out}")
    elif as_json:
        question = {"client": client, "head": head, "relation": relation, "tail": tail}
        lines = [asdict(answer) for answer in answers]
        click.echo(json.dumps(question | {"predictions": lines}, ensure_ascii=False))
    else:
        _show(opened, client, head, relation or "", tail, answers, known)


def _show(
    run: "Run", client: str, head: str | None, relation: str, tail: str | None, answers: Any, known: bool
) -> None:
    from pfedeg.terminal import predictions_table

    asked = ", ".join("?" if part is None else printable(part) for part in (head, relation, tail))
    terminal = console()
    terminal.print(f"{printable(client)}: ({asked})", style="bold", highlight=False, soft_wrap=True)
    terminal.print(predictions_table(answers))
    left_out = 0 if known else run.known(client, relation, head=head, tail=tail)
    if left_out:
        say(f"{count(left_out, 'known answer')} left out; see --known")


Asked = tuple["Side", tuple[int, int]]  # which side is asked for; the given entity and the relation


def _of_relation(relation: str, heads: bool, graph: "KnowledgeGraph") -> list[Asked]:
    """A question for every entity that the relation is known of."""
    import numpy as np

    from pfedeg.graph import SPLITS
    from pfedeg.prediction import look_up

    kind, column = look_up("relation", relation, graph), 2 if heads else 0
    parts = [graph.triples(split) for split in SPLITS]
    given = np.unique(np.concatenate([part[part[:, 1] == kind, column] for part in parts])).tolist()
    return [("head" if heads else "tail", (entity, kind)) for entity in given]


def _of_file(path: Path, graph: "KnowledgeGraph") -> list[Asked]:
    """The questions of a file, every one checked before any is answered."""
    from pfedeg.prediction import ask

    asked = []
    for number, row in enumerate(_rows(path), 1):
        try:
            asked.append(ask(graph, row.get("relation") or "", row.get("head") or None, row.get("tail") or None))
        except InputError as error:
            raise InputError(f"{path}, question {number}: {error}") from None
    if not asked:
        raise InputError(f"{path}: no questions in it")
    return asked


def _rows(path: Path) -> Iterable[dict[str, str | None]]:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            rows: list[dict[str, str | None]] = pq.read_table(path).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from None
        names = list(rows[0]) if rows else []
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
        first = text.partition("\n")[0]
        reader = csv.DictReader(
            StringIO(text, newline=""), delimiter="\t" if "\t" in first else ";" if ";" in first else ","
        )
        rows, names = list(reader), list(reader.fieldnames or ())
    if "relation" not in names or not {"head", "tail"} & set(names):
        raise InputError(
            f"{path}: expected columns head, relation (and tail, to ask for heads); found {', '.join(names)}"
        )
    return rows


def _answer_many(
    run: "Run",
    client: str,
    asked: Sequence[Asked],
    k: int,
    known: bool,
    least: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Answer, question by question, and write as we go."""
    from pfedeg.terminal import duration

    if out is None and not as_json:
        raise InputError(f"--out: {count(len(asked), 'question')} are many for a terminal; name a file, or add --json")
    graph, began, said, written = run.graph(run.client(client)), time.monotonic(), time.monotonic(), 0
    with _writer(out) if out else _printer() as write:
        for place, (side, question, answers) in enumerate(_answers(run, client, asked, k, known, least), 1):
            entity, relation = graph.entities[question[0]], graph.relations[question[1]]
            given = _names(entity, relation, None) if side == "tail" else _names(None, relation, entity)
            write([_row(given, answer) for answer in answers])
            written += len(answers)
            if (now := time.monotonic()) - said > LINE_SECONDS:
                said, ahead = now, (now - began) / place * (len(asked) - place)
                say(f"{place:,} of {count(len(asked), 'question')}, {duration(ahead)} left")
    if out:
        click.echo(f"wrote {count(written, 'answer')} to {count(len(asked), 'question')} to {out}")


def _answers(
    run: "Run", client: str, asked: Sequence[Asked], k: int, known: bool, least: float
) -> Iterator[tuple["Side", tuple[int, int], "list[Prediction]"]]:
    """The questions for tails first, then those for heads, each with its answers."""
    sides: tuple[Side, ...] = ("tail", "head")
    for side in sides:
        questions = [question for which, question in asked if which == side]
        if questions:
            answers = run.answerer(client, side).answers(questions, k, known=known, least=least)
            for question, found in zip(questions, answers, strict=True):
                yield side, question, found


def _names(head: str | None, relation: str, tail: str | None) -> Row:
    return {"head": head, "relation": relation, "tail": tail, "asked": "tail" if tail is None else "head"}


def _row(given: Row, answer: "Prediction") -> Row:
    found = {"rank": answer.rank, "score": answer.score, "known": answer.known, "label": answer.label}
    return {**given, given["asked"]: answer.entity, **found}


Write = Callable[[Sequence[Row]], None]


@contextmanager
def _printer() -> Iterator[Write]:
    """A line of JSON for each answer, on standard output."""
    yield lambda rows: click.echo("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), nl=False)


@contextmanager
def _writer(out: Path) -> Iterator[Write]:
    """Rows to a file, which appears when all are there."""
    from pfedeg.store import writing

    if out.suffix not in (".parquet", ".csv", ".jsonl"):
        raise InputError(f"--out {out}: expected a name that ends with .parquet, .csv or .jsonl")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} is not there")
    with writing(out) as path:
        if out.suffix == ".parquet":
            yield from _parquet(path)
        else:
            with open(path, "w", encoding="utf-8", newline="") as file:
                if out.suffix == ".csv":
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    writer.writeheader()
                    yield writer.writerows
                else:
                    yield lambda rows: file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _parquet(path: Path) -> Iterator[Write]:
    """Rows to a Parquet file, some ten thousand at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [(name, pa.string()) for name in COLUMNS if name not in ("rank", "score")]
    schema = pa.schema([*texts[:4], ("rank", pa.int32()), ("score", pa.float32()), *texts[4:]])
    held: list[Row] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:

        def write(rows: Sequence[Row], all: bool = False) -> None:
            held.extend(rows)
            if len(held) > 10_000 or (all and held):
                writer.write_table(pa.Table.from_pylist(held, schema))
                held.clear()

        yield write
        write([], all=True)


@click.command(context_settings=CONTEXT)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--client", required=True, metavar="NAME", help="whose tables are looked at")
@click.option("--entity", required=True, metavar="NAME", help="what others are compared with")
@click.option("-k", default=10, type=click.IntRange(1), metavar="N", help="how many  [10]")
@json_option
def similar(run: Path, client: str, entity: str, k: int, as_json: bool) -> None:
    """Show the entities whose embeddings are most like that of one (by cosine).

    \b
    Example:
      pfedeg similar runs/mine --client atlas --entity Poland -k 5
    """
    from pfedeg.prediction import Run
    from pfedeg.terminal import predictions_table

    found = Run(run).similar(client, entity, k)
    if as_json:
        lines = [{"rank": a.rank, "entity": a.entity, "cosine": a.score, "label": a.label} for a in found]
        click.echo(json.dumps({"client": client, "entity": entity, "similar": lines}, ensure_ascii=False))
        return
    terminal = console()
    terminal.print(f"{printable(client)}: like {printable(entity)}", style="bold", highlight=False, soft_wrap=True)
    terminal.print(predictions_table(found))
