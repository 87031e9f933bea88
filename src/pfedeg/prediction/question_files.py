"""Reads questions from a file, or makes them for all entities of a relation; all are checked before any is answered."""

import csv
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path

import numpy as np

from pfedeg.errors import InputError
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph, Side
from pfedeg.training.link_prediction import look_up, parse_question

Question = tuple[Side, tuple[int, int]]  # the side to predict; the given entity and the relation


def relation_questions(relation: str, heads: bool, graph: KnowledgeGraph) -> list[Question]:
    """A question for every entity that has this relation."""
    kind, column = look_up("relation", relation, graph), 2 if heads else 0
    parts = [graph.triples(split) for split in SPLITS]
    given = np.unique(np.concatenate([part[part[:, 1] == kind, column] for part in parts])).tolist()
    return [("head" if heads else "tail", (entity, kind)) for entity in given]


def read_questions(path: Path, graph: KnowledgeGraph, skip: Callable[[str], None] | None = None) -> list[Question]:
    """Read and check the questions in a file; `skip` is told of a wrong one, which otherwise stops the reading."""
    questions, first = [], ""
    for number, row in enumerate(_rows(path), 1):
        try:
            questions.append(
                parse_question(graph, row.get("relation") or "", row.get("head") or None, row.get("tail") or None)
            )
        except InputError as error:
            text = f"{path}, question {number}: {error}"
            if skip is None:
                raise InputError(f"{text} (--on-error skip continues with the others)") from None
            skip(text)
            first = first or text
    if first and not questions:
        raise InputError(f"{path}: no question can be answered; {first.partition(', ')[2]}")
    if not questions:
        raise InputError(f"{path}: contains no questions")
    return questions


def _rows(path: Path) -> Iterable[dict[str, str | None]]:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from None
        names = table.column_names
        rows = [{key: None if value is None else str(value) for key, value in row.items()} for row in table.to_pylist()]
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
        first = text.partition("\n")[0]
        reader = csv.DictReader(
            StringIO(text, newline=""), delimiter="\t" if "\t" in first else ";" if ";" in first else ","
        )
        try:
            rows, names = list(reader), list(reader.fieldnames or ())
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: {error}") from None
    if "relation" not in names or not {"head", "tail"} & set(names):
        found = ", ".join(names) or "nothing"
        expected = "expected columns head, relation (and tail, to predict heads) in the first line"
        raise InputError(f"{path}: {expected}; found {found}")
    return rows
