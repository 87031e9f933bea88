"""`pfedeg predict` and `similar`: single questions, files of questions, all questions of a relation, explanations."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, Side
from pfedeg.prediction.explanation import Explainer
from pfedeg.training import link_prediction as prediction
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.saved_run import Run

CLIENT = "Čedar [x]"
SMALL: dict[str, Any] = {"model": "transe", "rounds": 3, "dim": 8, "negatives": 4, "eval_every": 1, "batch": 8}


@pytest.fixture(scope="module", params=["transe", "complex"])
def run(request: pytest.FixtureRequest, synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    out: Path = tmp_path_factory.mktemp("run") / request.param
    Training(synthetic, Config(method="fede", **(SMALL | {"model": request.param})), out=out).run()
    return out


def call(*words: Any) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words])


def by_hand(run: Path, side: Side, given: int, relation: int) -> list[tuple[str, float, str | None]]:
    """Every entity with its score, computed one by one, and the split that knows it; best first, ties by name."""
    opened = Run(run)
    graph, tables, model = opened.graph(CLIENT), opened.tables(CLIENT), opened.config.build_model()
    compose = model.compose if side == "tail" else model.compose_inverse
    query = compose(tables.entity[given], tables.relation[relation])
    found = []
    for number, name in enumerate(graph.entities):
        triple = (given, relation, number) if side == "tail" else (number, relation, given)
        known = next((split for split in SPLITS if triple in map(tuple, graph.triples(split).tolist())), None)
        found.append((name, float(model.score(query, tables.entity[number])), known))
    return sorted(found, key=lambda each: (-each[1], each[0]))


@pytest.mark.parametrize("side", ["tail", "head"])
@pytest.mark.parametrize("known", [True, False])
def test_predictions_are_the_best_of_all_entities(
    run: Path, side: Side, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "MAX_SCORES", 30)  # two questions at a time
    opened = Run(run)
    graph = opened.graph(CLIENT)
    questions = [(e, r) for e in range(5) for r in range(len(graph.relations))]
    answers = opened.answerer(CLIENT, side).answers(questions, 4, hidden=() if known else SPLITS)
    for (given, relation), found in zip(questions, answers, strict=True):
        wanted = [each for each in by_hand(run, side, given, relation) if known or each[2] is None][:4]
        assert [(a.entity, a.known) for a in found] == [(name, split) for name, _, split in wanted]
        assert [a.score for a in found] == pytest.approx([score for _, score, _ in wanted], rel=1e-4, abs=1e-5)
        assert [a.rank for a in found] == [1, 2, 3, 4]


def test_ties_are_ordered_by_name_and_low_scores_omitted(run: Path) -> None:
    opened = Run(run)
    tables = opened.tables(CLIENT)
    tables.entity[3:9] = tables.entity[3]
    found = next(opened.answerer(CLIENT).answers([(3, 0)], 12, hidden=()))
    same = [
        a.entity
        for a in found
        if a.score == next(b.score for b in found if b.entity == opened.graph(CLIENT).entities[3])
    ]
    assert same == list(opened.graph(CLIENT).entities[3:9])
    for k in (2, 4):
        assert next(opened.answerer(CLIENT).answers([(3, 0)], k, hidden=())) == found[:k]
    min_score = found[5].score
    kept = next(opened.answerer(CLIENT).answers([(3, 0)], 12, hidden=(), min_score=min_score))
    assert kept == [a for a in found if a.score >= min_score]


def test_all_questions_of_a_relation_in_every_file_format(run: Path, tmp_path: Path) -> None:
    graph = Run(run).graph(CLIENT)
    relation = graph.relations[1]
    words = ("predict", run, "--client", CLIENT, "--relation", relation, "--top", 2)
    done = call(*words, "--json")
    rows = [json.loads(line) for line in done.output.splitlines()]
    heads = {h for split in SPLITS for h, r, _ in graph.named(split) if r == relation}
    assert {row["head"] for row in rows} == heads
    assert len(rows) == 2 * len(heads)
    facts = {triple for split in SPLITS for triple in graph.named(split)}
    assert not facts & {(row["head"], row["relation"], row["tail"]) for row in rows}
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        assert f"wrote {2 * len(heads)} answers" in call(*words, "--out", tmp_path / name).output
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()] == rows
    table = pq.read_table(tmp_path / "a.parquet").to_pylist()
    with open(tmp_path / "a.csv", newline="") as file:
        text = list(csv.DictReader(file))
    for row, other, spelled in zip(rows, table, text, strict=True):
        assert other == {**row, "score": np.float32(row["score"])}
        assert spelled == {name: "" if value is None else str(value) for name, value in row.items()}
    head_rows = [json.loads(line) for line in call(*words, "--heads", "--json").output.splitlines()]
    assert {row["tail"] for row in head_rows} == {
        t for split in SPLITS for _, r, t in graph.named(split) if r == relation
    }


def test_a_file_of_questions(run: Path, tmp_path: Path) -> None:
    graph = Run(run).graph(CLIENT)
    head, relation, tail = graph.named("train")[0]
    (tmp_path / "q.csv").write_text(f"head;relation;tail\n{head};{relation};\n;{relation};{tail}\n")
    words = ("predict", run, "--client", CLIENT, "-k", 3, "--questions")
    rows = [json.loads(line) for line in call(*words, tmp_path / "q.csv", "--json").output.splitlines()]
    assert [row["side"] for row in rows] == ["tail"] * 3 + ["head"] * 3
    alone = json.loads(
        call("predict", run, "--client", CLIENT, "-k", 3, "--head", head, "--relation", relation, "--json").output
    )
    assert [row["tail"] for row in rows[:3]] == [each["entity"] for each in alone["predictions"]]


def test_answers_keep_the_order_of_questions_and_no_file_is_overwritten(run: Path, tmp_path: Path) -> None:
    graph = Run(run).graph(CLIENT)
    (head, relation, tail), *_ = graph.named("train")
    heads, tails = pa.array([None, head, None]), pa.array([tail, None, tail])
    questions = pa.table({"head": heads, "relation": pa.array([relation] * 3), "tail": tails})
    pq.write_table(questions, tmp_path / "q.parquet")
    words = ("predict", run, "--client", CLIENT, "-k", 1, "--questions", tmp_path / "q.parquet")
    rows = [json.loads(line) for line in call(*words, "--json").output.splitlines()]
    assert [row["side"] for row in rows] == ["head", "tail", "head"]
    done = call(*words, "--out", tmp_path / "q.parquet")
    assert "q.parquet: already exists" in str(done.exception)
    assert pq.read_table(tmp_path / "q.parquet").equals(questions)


def test_a_few_questions_are_answered_in_the_terminal(run: Path, tmp_path: Path) -> None:
    graph = Run(run).graph(CLIENT)
    (head, relation, tail), *_ = graph.named("train")
    (tmp_path / "q.csv").write_text(f"head,relation,tail\n{head},{relation},\n,{relation},{tail}\n")
    done = call("predict", run, "--client", CLIENT, "-k", 2, "--explain", "--questions", tmp_path / "q.csv")
    assert done.exit_code == 0, done.exception
    places = [done.output.index(text) for text in (f"({head}, {relation}, ?)", f"(?, {relation}, {tail})")]
    assert places == sorted(places)
    assert done.output.count("nearest known facts: ") == 4


def test_numeric_names_in_a_parquet_question_file(run: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"head": [7], "relation": ["left"]}), tmp_path / "q.parquet")
    words = ("predict", run, "--client", CLIENT, "--json", "--questions", tmp_path / "q.parquet")
    assert "question 1: unknown entity '7'" in str(call(*words).exception)
    pq.write_table(pa.table({"head": pa.array([], pa.string()), "relation": pa.array([], pa.string())}), words[-1])
    assert "q.parquet: contains no questions" in str(call(*words).exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head,relation\n,left\n", "question 1: give either a head or a tail"),
        ("head,relation\ne14,\n", "question 1: the relation is missing"),
        ("", "found nothing"),
        ("head,relation\ne14,nowhere\n", "q.csv, question 1: unknown relation 'nowhere'"),
        ("head,relation\ne14,left\ne99,left\n", "q.csv, question 2: unknown entity 'e99'"),
        ("head,relation,tail\ne14,left,e15\n", "question 1: give either a head or a tail"),
        ("a,b\n1,2\n", "expected columns head, relation"),
        ("head,relation\n", "contains no questions"),
    ],
)
def test_invalid_questions_are_refused_before_any_is_answered(
    run: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "q.csv").write_text(text)
    done = call("predict", run, "--client", CLIENT, "--questions", tmp_path / "q.csv", "--out", tmp_path / "a.csv")
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["q.csv"]


def test_wrong_questions_are_skipped_and_reported_on_request(run: Path, tmp_path: Path) -> None:
    lines = ["head,relation,tail", "e14,left,", "e99,left,", "e15,left,", "e14,nowhere,", ",left,e14"]
    (tmp_path / "q.csv").write_text("\n".join(lines))
    words = (
        "predict",
        run,
        "--client",
        CLIENT,
        "-k",
        1,
        "--questions",
        tmp_path / "q.csv",
        "--out",
        tmp_path / "a.csv",
    )
    stopped = call(*words)
    assert "question 2: unknown entity 'e99'" in str(stopped.exception)
    assert str(stopped.exception).endswith("(--on-error skip continues with the others)")
    done = call(*words, "--on-error", "skip")
    assert done.exit_code == 0, done.exception
    *skipped, count = [line for line in done.stderr.splitlines() if line.startswith("skipped")]
    assert [line.partition("q.csv, ")[2][:10] for line in skipped] == ["question 2", "question 4"]
    assert count == "skipped 2 questions of 5"
    assert "wrote 3 answers to 3 questions" in done.output
    with open(tmp_path / "a.csv", newline="") as file:
        assert [row["side"] for row in csv.DictReader(file)] == ["tail", "tail", "head"]
    (tmp_path / "q.csv").write_text("head,relation\ne99,left\n")
    none = call(*words, "--on-error", "skip", "--force")
    assert "q.csv: no question can be answered; question 1: unknown entity 'e99'" in str(none.exception)


def test_similar_takes_top_like_predict(run: Path) -> None:
    words = ("similar", run, "--client", CLIENT, "--entity", "e14", "--json")
    assert call(*words, "--top", 3).output == call(*words, "-k", 3).output
    assert len(json.loads(call(*words, "--top", 3).output)["similar"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--relation", "left"), "--out: 12 questions are too many for a terminal; write the answers to a file"),
        (("--relation", "left", "--out", "a.pdf"), "expected a file name ending in .parquet, .csv or .jsonl"),
        (("--relation", "left", "--out", "none/a.csv"), "no such folder: none"),
        (("--questions", "none.csv", "--out", "a.csv"), "none.csv: no such file"),
        (("--questions", "q.csv", "--head", "e14"), "cannot be combined with --head"),
        ((), "--relation: missing"),
        (("--head", "e14", "--relation", "left", "--heads"), "--heads: only allowed with --relation alone"),
        (
            ("--head", "e14", "--relation", "left", "--on-error", "skip"),
            "--on-error skip: only allowed with --questions",
        ),
        (("--head", "e14", "--relation", "left", "--min-score", "nan"), "--min-score: nan is not a number"),
    ],
)
def test_invalid_options_give_one_line_errors(run: Path, words: tuple[str, ...], message: str) -> None:
    done = call("predict", run, "--client", CLIENT, *words)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_similar_entities_have_the_highest_cosine(run: Path) -> None:
    opened = Run(run)
    graph, table = opened.graph(CLIENT), opened.tables(CLIENT).entity.astype(np.float64)
    cosine = [float(row @ table[2] / np.linalg.norm(row) / np.linalg.norm(table[2])) for row in table]
    order = sorted((e for e in range(len(table)) if e != 2), key=lambda e: -cosine[e])[:4]
    done = json.loads(call("similar", run, "--client", CLIENT, "--entity", graph.entities[2], "-k", 4, "--json").output)
    assert [each["entity"] for each in done["similar"]] == [graph.entities[e] for e in order]
    assert [each["cosine"] for each in done["similar"]] == pytest.approx([cosine[e] for e in order], rel=1e-5)
    assert "unknown client" in str(call("similar", run, "--client", "x", "--entity", "e14").exception)


def test_neighbours_are_the_most_similar_training_triples(run: Path) -> None:
    opened = Run(run)
    graph, table = opened.graph(CLIENT), opened.tables(CLIENT).entity.astype(np.float64)
    unit = dict(zip(graph.entities, table / np.linalg.norm(table, axis=1, keepdims=True), strict=True))
    head, relation, tail = graph.named("train")[0]
    ids = graph.entity_ids[head], graph.relation_ids[relation], graph.entity_ids[tail]
    found = Explainer(opened, CLIENT).neighbours(*ids, 2)
    others = [triple for triple in graph.named("train") if triple[1] == relation and triple != (head, relation, tail)]
    similarity = {each: float(unit[each[0]] @ unit[head] + unit[each[2]] @ unit[tail]) / 2 for each in others}
    wanted = sorted(others, key=lambda each: -similarity[each])[:2]
    assert [each[:3] for each in found] == wanted
    assert [each.similarity for each in found] == pytest.approx([similarity[each] for each in wanted], rel=1e-5)


def test_explanations_are_written_with_the_answers(run: Path, tmp_path: Path) -> None:
    graph = Run(run).graph(CLIENT)
    head, relation, _ = graph.named("train")[0]
    words = ("predict", run, "--client", CLIENT, "--explain", "--relation", relation, "-k", 2)
    alone = json.loads(call(*words, "--head", head, "--json").stdout)["predictions"]
    assert {fact["relation"] for fact in alone[0]["nearest_facts"]} == {relation}
    assert [each["without"] for each in alone[0]["influence"]][-1] is None
    assert {each["without"] for each in alone[0]["influence"]} == {"ash", "birch", None}
    for each in alone[0]["influence"]:
        assert each["rank"] == alone[0]["rank"] + each["rank_change"]
        assert each["score"] == pytest.approx(alone[0]["score"] + each["score_change"], abs=1e-4)
    shown = call(*words, "--head", head).stdout
    assert "nearest known facts: (" in shown
    assert "without birch: rank " in shown
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        assert call(*words, "--out", tmp_path / name).exit_code == 0
    wanted = [(each["nearest_facts"], each["influence"]) for each in alone]
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(row["nearest_facts"], row["influence"]) for row in lines if row["head"] == head] == wanted
    with open(tmp_path / "a.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["head"] == head]
    assert [(json.loads(row["nearest_facts"]), json.loads(row["influence"])) for row in rows] == wanted
    table = [row for row in pq.read_table(tmp_path / "a.parquet").to_pylist() if row["head"] == head]
    for row, (facts, influence) in zip(table, wanted, strict=True):
        assert row["nearest_facts"] == [each | {"similarity": np.float32(each["similarity"])} for each in facts]
        for found, each in zip(row["influence"], influence, strict=True):
            assert found == {
                name: np.float32(value) if isinstance(value, float) else value for name, value in each.items()
            }
