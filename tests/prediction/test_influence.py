"""Influence: a naive loop takes a client's share of the last mix back, scores every candidate and counts ranks."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import own_method
import pytest
from click.testing import CliRunner

import pfedeg
from loopback import SECRET, Network, make_agents, start_run
from pfedeg.cli.explanation_view import _influence_lines
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import Rows, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, Side
from pfedeg.methods.base import ClientView, Method, Strategy
from pfedeg.methods.exchange import Upload
from pfedeg.methods.fede import FedE
from pfedeg.methods.registry import METHODS
from pfedeg.prediction.explanation import Explainer
from pfedeg.prediction.influence import Influence, InfluenceMeasure, read_shares
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.run_folder import MIX
from pfedeg.training.saved_run import Run

CLIENT = "Čedar [x]"
SMALL: dict[str, Any] = {"model": "transe", "rounds": 4, "dim": 8, "negatives": 4, "eval_every": 2, "batch": 8}
SHARING = ["fede", "fedec", "pfedeg-star", "pfedeg-plus", "pfedeg-plus-init", "own_method:METHOD"]


def train(federation: Federation, out: Path, method: Any, **settings: Any) -> Run:
    Training(federation, Config(method=method, **(SMALL | settings)), out=out).run()
    return Run(out)


class Silent(FedE):
    """A method that does not say who contributed."""

    def shares(self, *arguments: Any) -> None:
        return None


SILENT = Method("silent", "Silent", lambda settings, threads: Silent(threads=threads))


@dataclass(frozen=True)
class Wrong(FedE):
    """A method whose shares cannot be."""

    found: Any = None

    def shares(self, state: Any, shared: Shared, uploads: Any, learner: str) -> Any:
        return self.found(shared, learner)


@pytest.fixture(scope="module", params=SHARING)
def run(request: pytest.FixtureRequest, synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(synthetic, tmp_path_factory.mktemp("run") / "one", request.param)


def naive_tables(run: Run, without: str) -> np.ndarray[Any, Any]:
    """The entity table of the client without another one's share, entity by entity and number by number."""
    saved = run.mix()
    assert saved is not None
    (mix, shared), graph = saved, run.graph(CLIENT)
    shares = run.config.build_strategy().shares(mix.state, shared, mix.uploads, CLIENT)
    assert shares is not None
    table = run.tables(CLIENT).entity.astype(np.float64)
    mine, theirs = (mix.uploads[name].tables["entity"] for name in (CLIENT, without))
    for row in range(len(graph.entities)):
        aligned = int(shared.ids[CLIENT][row])
        if aligned not in mine.ids.tolist() or aligned not in theirs.ids.tolist():
            continue
        at = mine.ids.tolist().index(aligned)
        share = float(shares[without][at])
        for column in range(table.shape[1]):
            own = float(mine.values[at, column])
            other = float(theirs.values[theirs.ids.tolist().index(aligned), column])
            table[row, column] -= share * (other - own)
    return table


def naive_standing(
    run: Run, table: np.ndarray[Any, Any], side: Side, question: tuple[int, int], answer: int, known: bool
) -> tuple[int, float]:
    """Rank and score of an answer, candidate by candidate."""
    graph, model = run.graph(CLIENT), run.built_model
    relation = run.tables(CLIENT).relation[question[1]].astype(np.float64)
    compose = model.compose if side == "tail" else model.compose_inverse
    query = compose(table[question[0]], relation)
    facts = {triple for split in SPLITS for triple in map(tuple, graph.triples(split).tolist())}
    score, rank = float(model.score(query, table[answer])), 1
    for other in range(len(graph.entities)):
        triple = (question[0], question[1], other) if side == "tail" else (other, question[1], question[0])
        if other != answer and (known or triple not in facts):
            rank += float(model.score(query, table[other])) > score
    return rank, score


@pytest.mark.parametrize("side", ["tail", "head"])
@pytest.mark.parametrize("known", [True, False])
def test_influence_is_that_of_a_naive_loop(run: Run, side: Side, known: bool) -> None:
    measure, hidden = InfluenceMeasure(run, CLIENT), () if known else SPLITS
    assert measure.unknown == ""
    answerer, seen = run.answerer(CLIENT, side), set()
    for question in [(1, 0), (4, 1)]:
        (answers,) = answerer.answers([question], 4, hidden=hidden)
        entities = [run.graph(CLIENT).entity_ids[answer.entity] for answer in answers]
        for answer, entity, found in zip(
            answers, entities, measure.measure(side, question, entities, hidden), strict=True
        ):
            assert [each.without for each in found][-1] is None
            before = run.tables(CLIENT).entity.astype(np.float64)
            everyone = before.copy()
            for each in found[:-1]:
                assert each.without is not None
                table = naive_tables(run, each.without)
                everyone -= before - table
                rank, score = naive_standing(run, table, side, question, entity, known)
                assert (each.rank, each.score) == (rank, pytest.approx(score, rel=1e-4, abs=1e-4))
                assert each.rank_change == rank - answer.rank
                assert each.score_change == pytest.approx(score - answer.score, abs=1e-4)
                seen.add(each.rank_change)
            rank, score = naive_standing(run, everyone, side, question, entity, known)
            assert (found[-1].rank, found[-1].score) == (rank, pytest.approx(score, rel=1e-4, abs=1e-4))
            changes = [each.score_change for each in found[:-1]]
            assert changes == sorted(changes)
    assert len(seen) > 1 or not seen - {0}


def test_shares_say_what_a_client_starts_from(run: Run) -> None:
    """U + Σ_j s_j (U_j − U) is the knowledge that the method's own code makes of these uploads."""
    saved, strategy = run.mix(), run.config.build_strategy()
    assert saved is not None
    mix, shared = saved
    assert mix.round == (run.result or {})["best_round"]
    _, downloads = strategy.aggregate(mix.state, shared, mix.uploads, shared.clients)
    for name in shared.clients:
        mine = mix.uploads[name].tables["entity"]
        view = ClientView(
            run.graph(name), run.tables(name)._replace(entity=mine.values), mine.ids, np.arange(len(mine.ids)),
            mix.uploads[name].scalars.get("loss", 0.0),
        )  # fmt: skip
        wanted = strategy.knowledge(view, downloads[name])
        shares = read_shares(strategy, mix, shared, name)
        assert shares is not None
        mixed = mine.values.astype(np.float64)
        for other, share in shares.items():
            assert other != name
            theirs = mix.uploads[other].tables["entity"]
            for at, aligned in enumerate(mine.ids.tolist()):
                place = np.flatnonzero(theirs.ids == aligned)
                if len(place):
                    mixed[at] += share[at] * (theirs.values[place[0]] - mine.values[at].astype(np.float64))
        assert wanted.values == pytest.approx(mixed, rel=1e-4, abs=1e-5)


def test_evaluated_after_aggregation_the_counterfactual_is_exact(synthetic: Federation, tmp_path: Path) -> None:
    """FedE keeps the mean itself, so another mix with the client's own rows in place of another's is the truth."""
    run = train(synthetic, tmp_path / "run", "fede")
    saved, strategy = run.mix(), run.config.build_strategy()
    assert saved is not None
    mix, shared = saved
    mine, theirs = (mix.uploads[name].tables["entity"] for name in (CLIENT, "ash"))
    values, both = theirs.values.copy(), np.isin(theirs.ids, mine.ids)
    values[both] = mine.values[np.searchsorted(mine.ids, theirs.ids[both])]
    uploads = {**mix.uploads, "ash": Upload({"entity": Rows(theirs.ids, values)})}
    _, downloads = strategy.aggregate({}, shared, uploads, [CLIENT])
    table = naive_tables(run, "ash")
    rows = {int(aligned): row for row, aligned in enumerate(shared.ids[CLIENT])}
    received = downloads[CLIENT].tables["entity"]
    assert table[[rows[e] for e in received.ids.tolist()]] == pytest.approx(received.values, abs=1e-5)


def test_answers_of_one_client_are_explained_differently(synthetic: Federation, tmp_path: Path) -> None:
    run = train(synthetic, tmp_path / "run", "pfedeg-plus")
    explainer = Explainer(run, CLIENT)
    answers = [answer.entity for answer in run.predict(CLIENT, "left", head="e14", k=5)]
    question = run.graph(CLIENT).entity_ids["e14"], run.graph(CLIENT).relation_ids["left"]
    found = explainer.explain("tail", question, answers)
    changes = {tuple(round(each.score_change, 6) for each in one.influence) for one in found}
    assert len(changes) == 5
    assert all(one.neighbours for one in found)


@pytest.mark.parametrize(
    ("method", "settings", "reason"),
    [
        ("single", {}, "Single exchanges nothing"),
        ("collective", {}, "Collective exchanges nothing"),
        ("pfedeg-plus-reg", {}, "with PFedEG+_Reg, clients do not start from what they receive"),
        (SILENT, {}, "Silent does not say who contributed: its Strategy has no method `shares`"),
        ("pfedeg-plus", {"p": 0.0}, "no other client had a share in what Čedar [x] received"),
        ("fede", {"fraction": 0.34, "evaluate": "after_training"}, "did not take part in the last mix"),
    ],
)
def test_where_it_cannot_be_computed_the_reason_is_given(
    synthetic: Federation, tmp_path: Path, method: Any, settings: dict[str, Any], reason: str
) -> None:
    run = train(synthetic, tmp_path / "run", method, **settings)
    client = CLIENT
    if "fraction" in settings:
        saved = run.mix()
        assert saved is not None
        client = next(name for name in run.clients if name not in saved.mix.learners)
    head, relation, _ = run.graph(client).named("train")[0]
    words = ["predict", str(run.path), "--client", client, "--head", head, "--relation", relation, "--explain"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.exception
    assert "influence of each other client: not known; " in done.stderr
    assert reason in done.stderr
    assert "nearest known facts: (" in done.stdout
    assert "without " not in done.stdout
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert [each["influence"] for each in json.loads(done.stdout)["predictions"]] == [[]] * 10


def test_a_pull_alone_counts_when_what_is_received_is_kept(synthetic: Federation, tmp_path: Path) -> None:
    run = train(synthetic, tmp_path / "run", "pfedeg-plus-reg", evaluate="after_aggregation")
    assert InfluenceMeasure(run, CLIENT).unknown == ""


def test_a_run_without_its_last_mix(synthetic: Federation, tmp_path: Path) -> None:
    run = train(synthetic, tmp_path / "run", "fede")
    (run.path / MIX).unlink()
    assert "an earlier version made it; train again" in InfluenceMeasure(run, CLIENT).unknown
    (run.path / MIX).write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"mix\.safetensors: damaged"):
        InfluenceMeasure(run, CLIENT)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda shared, learner: {"nobody": np.zeros(len(shared.travelling[learner]))}, "'nobody' is not another"),
        (lambda shared, learner: {learner: np.zeros(len(shared.travelling[learner]))}, "is not another client"),
        (lambda shared, learner: {"ash": np.zeros(3)}, "the shares of 'ash' are not"),
        (lambda shared, learner: {"ash": np.full(len(shared.travelling[learner]), np.nan)}, "finite numbers"),
        (lambda shared, learner: {"ash": np.ones(len(shared.travelling[learner]))}, "entities that it does not have"),
        (lambda shared, learner: 1 / 0, "Wrong.shares failed: ZeroDivisionError"),
    ],
)
def test_shares_that_cannot_be_are_refused(synthetic: Federation, tmp_path: Path, found: Any, message: str) -> None:
    saved = train(synthetic, tmp_path / "run", "fede").mix()
    assert saved is not None
    with pytest.raises(pfedeg.PfedegError, match=message):
        read_shares(Wrong(found=found), *saved, CLIENT)


def test_an_interrupted_run_keeps_the_same_last_mix(synthetic: Federation, tmp_path: Path) -> None:
    config = Config(method="pfedeg-plus", **(SMALL | {"rounds": 6}))
    Training(synthetic, config, out=tmp_path / "one").run()
    for _ in range(6):
        for _ in Training(synthetic, config, out=tmp_path / "two", resume=True):
            break
    Training(synthetic, config, out=tmp_path / "two", resume=True).run()
    assert (tmp_path / "one" / MIX).read_bytes() == (tmp_path / "two" / MIX).read_bytes()
    saved = Run(tmp_path / "two").mix()
    assert saved is not None
    result = Run(tmp_path / "two").result
    assert saved.mix.round == (result or {})["best_round"]


def test_rounds_do_not_hold_uploads(synthetic: Federation) -> None:
    assert all(done.mix is None for done in Training(synthetic, Config(method="fede", **SMALL)))


@pytest.mark.parametrize("method", ["pfedeg-plus", "fede", "own_method:METHOD"])
def test_a_client_in_a_federation_sees_the_others_together(
    synthetic: Federation, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = make_agents(synthetic, tmp_path / "clients", allowed=(method,))
    config = Config(method=method, **SMALL)
    start_run(Network(agents), config, tmp_path / "server").run()
    twin = Training(synthetic, config, out=tmp_path / "twin", secret=SECRET).run()
    assert twin.result is not None
    (folder,) = (tmp_path / "clients" / CLIENT).iterdir()
    alone, together = InfluenceMeasure(Run(folder), CLIENT), InfluenceMeasure(Run(tmp_path / "twin"), CLIENT)
    for question in [(1, 0), (4, 1)]:
        here = alone.measure("tail", question, [2, 5], SPLITS)
        there = together.measure("tail", question, [2, 5], SPLITS)
        for one, several in zip(here, there, strict=True):
            (only,) = one
            assert only.without is None
            assert only.head_share is None
            assert (only.rank, only.score) == (several[-1].rank, pytest.approx(several[-1].score, abs=1e-4))
    words = ["predict", str(folder), "--client", CLIENT, "--head", "e14", "--relation", "left", "--explain"]
    done = CliRunner().invoke(cli, words)
    assert "without all other clients: rank " in done.stdout
    assert "ash" not in done.stdout
    assert "is not told who contributed" in done.stderr


def test_a_client_that_dies_keeps_the_same_of_its_last_mix(synthetic: Federation, tmp_path: Path) -> None:
    config, turn = Config(method="pfedeg-plus", **SMALL), iter(range(10**6))
    start_run(Network(make_agents(synthetic, tmp_path / "one")), config, tmp_path / "first").run()
    network = Network(make_agents(synthetic, tmp_path / "two"))

    def die(name: str, raw: bytes) -> bytes | None:
        """Every third time the client's process is another one afterwards; every sixth time its answer is lost."""
        now = next(turn)
        if now % 3 == 0:
            network.agents[name] = make_agents(synthetic, tmp_path / "two")[name]
            network.joined[name] += 1
        return None if now % 6 == 0 else raw

    network.change = die
    start_run(network, config, tmp_path / "second").run()
    for name in synthetic.graphs:
        (one,), (two,) = ((tmp_path / home / name).rglob("received.safetensors") for home in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_labels_stand_for_names_in_a_terminal(synthetic: Federation, tmp_path: Path) -> None:
    graphs = {
        name: replace(graph, labels={"e14": "Fourteen", "left": "left of", "e15": "Fifteen"})
        for name, graph in synthetic.graphs.items()
    }
    run = train(Federation(graphs), tmp_path / "run", "pfedeg-plus")
    words = ["predict", str(run.path), "--client", CLIENT, "--head", "e14", "--relation", "left", "--explain"]
    text = CliRunner().invoke(cli, words).stdout
    assert ", left of, " in text
    assert "% of Fourteen" in text
    assert "e14" not in text.replace("Fourteen (e14)", "").replace("Fifteen (e15)", "")
    assert "without ash: rank " in text
    shutil.rmtree(run.path)


def test_a_terminal_shows_the_clients_that_change_the_score_most() -> None:
    changes = {"a": -3.0, "b": -0.5, "c": 0.1, "d": 0.2, "e": 0.3, "f": 4.0, None: 1.0}
    found = [Influence(name, 2, 1.0 + change, 1, change, None, None) for name, change in changes.items()]
    lines = [line.strip() for line in _influence_lines(found, "Kyoto", "Japan")]
    assert [line.partition(":")[0] for line in lines] == [
        "without a",
        "without b",
        "without e",
        "without f",
        "without any of 2 others",
        "without all other clients",
    ]
    assert lines[0] == "without a: rank 2 (1 lower), score -2.000 (-3.000)"
    one = Influence("a", 4, 1.5, -2, 0.25, 0.125, 0.0)
    text = "without a: rank 4 (2 higher), score 1.500 (+0.250); its share: 12% of Kyoto"
    assert [line.strip() for line in _influence_lines([one], "Kyoto", "Japan")] == [text]


def test_the_example_declares_its_shares() -> None:
    strategy: Strategy = METHODS.get("own_method:METHOD").build(own_method.Settings(), None)
    assert type(strategy).shares is not Strategy.shares
