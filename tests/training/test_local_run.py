"""Complete runs: rounds, early stopping, the run folder, and resuming after every kind of interruption."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import pfedeg
from pfedeg.checked_files import parse_json, read_arrays, read_json, write_arrays
from pfedeg.engine.interface import default_engine
from pfedeg.errors import DataWarning, InputError, RunError
from pfedeg.files import safe_name, writing
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.training import run_folder as run_folder
from pfedeg.training import run_loop as run_loop
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.rounds import Round
from pfedeg.training.run_folder import CHECKPOINT, SCHEMA, RunFolder
from pfedeg.training.saved_run import Run

CHECKPOINT_EVERY_ROUND = Path(__file__).parents[1] / "checkpoint_every_round.py"
METRICS = {"mrr", "hits@1", "hits@5", "hits@10"}
TINY: dict[str, Any] = {"dim": 8, "negatives": 4, "batch": 16, "lr": 0.02, "rounds": 6, "eval_every": 2, "epochs": 2}
ENGINE = default_engine(1)


def tiny(method: str = "pfedeg-plus", **settings: Any) -> Config:
    values = TINY | {"method": method} | settings
    if method in ("single", "collective"):
        values["epochs"] = 1
    return Config(**values)


def start(federation: Federation, config: Config | None = None, **options: Any) -> Training:
    return Training(federation, config or tiny(), **({"engine": ENGINE} | options))


def without_seconds(value: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name != "seconds"}


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def assert_same_run(one: Path, other: Path) -> None:
    """Equal bit for bit, except seconds and the path of the data."""
    assert files(one) == files(other)
    for name in files(one):
        if name == "result.json":
            a, b = (without_seconds(read_json(folder / name)) for folder in (one, other))
            assert a == b
        elif name == "history.jsonl":
            a, b = ([without_seconds(line) for line in RunFolder(folder).history()] for folder in (one, other))
            assert a == b
        elif name != "provenance.json":
            assert (one / name).read_bytes() == (other / name).read_bytes(), name


class Breaking:
    """An engine that fails at one call: `train` returns NaN, or either is interrupted."""

    def __init__(self, *, nan: int = 0, stop_train: int = 0, stop_ranks: int = 0) -> None:
        self.nan, self.stop_train, self.stop_ranks = nan, stop_train, stop_ranks
        self.trained = self.ranked = 0

    def train(self, *arguments: Any) -> float:
        self.trained += 1
        if self.trained == self.stop_train:
            raise KeyboardInterrupt
        loss = ENGINE.train(*arguments)
        return float("nan") if self.trained == self.nan else loss

    def ranks(self, *arguments: Any) -> Any:
        self.ranked += 1
        if self.ranked == self.stop_ranks:
            raise KeyboardInterrupt
        return ENGINE.ranks(*arguments)

    scores = ENGINE.scores


# Rounds


def test_rounds_are_an_iterator(synthetic: Federation) -> None:
    run = start(synthetic)
    rounds = iter(run)
    first = next(rounds)
    assert isinstance(first, Round)
    assert (first.number, first.metrics, run.rounds_done, run.result) == (1, None, 1, None)
    assert set(first.loss) == set(first.selected) == set(synthetic.graphs)
    numbers = [done.number for done in rounds]
    assert numbers == [2, 3, 4, 5, 6]
    assert run.result is not None
    assert list(run) == []


def test_two_loops_with_a_break_equal_one_loop(synthetic: Federation) -> None:
    whole, parts = start(synthetic).run(), start(synthetic)
    for done in parts:
        if done.number == 3:
            break
    parts.run()
    assert without_seconds(parts.result or {}) == without_seconds(whole.result or {})
    np.testing.assert_array_equal(parts.tables["ash"].entity, whole.tables["ash"].entity)


def test_evaluation_every_k_rounds_and_after_the_last(synthetic: Federation) -> None:
    run = start(synthetic, tiny(rounds=5)).run()
    assert [line["round"] for line in run.history if "valid" in line] == [2, 4, 5]
    assert [line["round"] for line in run.history if "affinity" in line] == [2, 4, 5]


@pytest.mark.parametrize("method", ["pfedeg-plus", "fede", "collective"])
def test_early_stopping_keeps_the_best_tables(synthetic: Federation, method: str) -> None:
    run = start(synthetic, tiny(method, rounds=40, eval_every=1, patience=2, lr=0.2)).run()
    curve = [line["valid"]["weighted"]["mrr"] for line in run.history]
    best = int(np.argmax(curve)) + 1
    assert run.result is not None
    assert (run.result["best_round"], run.result["rounds"]) == (best, best + 2)
    assert len(curve) == best + 2 < 40
    assert run.result["valid"]["weighted"]["mrr"] == max(curve)
    short = start(synthetic, tiny(method, rounds=best, eval_every=1, patience=99, lr=0.2)).run()
    for client, tables in run.tables.items():
        for kept, last in zip(tables, short.tables[client], strict=True):
            np.testing.assert_array_equal(kept, last)


def test_single_stops_each_client_by_itself(synthetic: Federation) -> None:
    config = tiny("single", rounds=40, eval_every=1, patience=2, lr=0.2, start="independent")
    together = start(synthetic, config).run()
    ends = set()
    for client, graph in synthetic.graphs.items():
        alone = start(Federation({client: graph}), config).run()
        np.testing.assert_array_equal(together.tables[client].entity, alone.tables[client].entity)
        assert alone.result is not None
        assert together.result is not None
        assert together.result["test"]["clients"][client] == alone.result["test"]["clients"][client]
        trained = [line["round"] for line in together.history if client in line["selected"]]
        assert trained == list(range(1, alone.result["rounds"] + 1))
        ends.add(alone.result["rounds"])
    assert together.rounds_done == max(ends)
    assert len(ends) > 1


def test_a_fraction_of_the_clients_trains_in_each_round(synthetic: Federation) -> None:
    run = start(synthetic, tiny(fraction=0.4, rounds=8)).run()
    selected = [line["selected"] for line in run.history]
    assert all(len(names) == 1 for names in selected)
    assert len({names[0] for names in selected}) > 1
    assert all(list(line["loss"]) == line["selected"] for line in run.history)
    assert all(set(line["valid"]["clients"]) == set(synthetic.graphs) for line in run.history if "valid" in line)
    rows = {name: len(ids) for name, ids in synthetic.shared().travelling.items()}
    assert [line["bytes_up"] for line in run.history] == [rows[names[0]] * 4 * (8 + 1) for names in selected]


@pytest.mark.parametrize("method", ["single", "collective"])
def test_nothing_is_exchanged_without_federation(synthetic: Federation, method: str) -> None:
    run = start(synthetic, tiny(method)).run()
    assert all(line["bytes_up"] == line["bytes_down"] == 0 for line in run.history)
    assert run.affinity() is None


def test_train_takes_settings_by_name(synthetic: Federation) -> None:
    run = pfedeg.train(synthetic, "fede", "transe", threads=1, **TINY)
    assert run.config.method == "fede"
    assert run.result is not None
    best = run.predict("ash", "near", head="e00", k=3)
    assert [answer.rank for answer in best] == [1, 2, 3]
    with pytest.raises(InputError, match="unknown client 'ahs'; did you mean 'ash'"):
        run.predict("ahs", "near", head="e00")


# Data that limit the run


def test_a_single_client_federation_works_with_a_warning(synthetic: Federation) -> None:
    one = Federation({"ash": synthetic.graphs["ash"]})
    with pytest.warns(DataWarning, match="a federation of one client: it has no other client to learn from"):
        run = start(one).run()
    assert run.result is not None
    assert set(run.result["test"]["clients"]) == {"ash"}


@pytest.mark.parametrize("method", ["pfedeg-star", "pfedeg-plus", "fede", "fedec"])
def test_two_clients_that_share_nothing_work_with_a_warning(synthetic: Federation, method: str) -> None:
    other = KnowledgeGraph.from_names([("x", "r", "y"), ("y", "r", "z")], [("z", "r", "x")])
    with pytest.warns(DataWarning, match="the clients share no entities, so no client can learn from another"):
        run = start(Federation({"ash": synthetic.graphs["ash"], "lone": other}), tiny(method)).run()
    assert run.result is not None
    assert all(line["bytes_up"] == line["bytes_down"] == 0 for line in run.history)


def test_a_client_that_shares_nothing_is_named(synthetic: Federation) -> None:
    other = KnowledgeGraph.from_names([("x", "r", "y"), ("y", "r", "z")], [("z", "r", "x")])
    with pytest.warns(DataWarning, match="client 'lone' shares no entity with the others"):
        start(Federation({**synthetic.graphs, "lone": other}))


def test_a_client_with_training_triples_only_trains_without_evaluation(synthetic: Federation) -> None:
    plain = KnowledgeGraph.from_names(synthetic.graphs["birch"].named("train"))
    with pytest.warns(DataWarning, match="client 'birch' has no valid and test triples"):
        run = start(Federation({"ash": synthetic.graphs["ash"], "birch": plain})).run()
    assert run.result is not None
    assert run.result["test"]["clients"]["birch"] == dict.fromkeys(METRICS) | {"triples": 0}
    ash = run.result["test"]["clients"]["ash"]
    assert run.result["test"]["weighted"] == {name: ash[name] for name in METRICS}


@pytest.mark.filterwarnings("ignore:client .* has no valid")
@pytest.mark.parametrize("method", ["pfedeg-plus", "single", "collective"])
def test_without_any_valid_triples_the_last_tables_are_kept(synthetic: Federation, method: str, tmp_path: Path) -> None:
    plain = {name: KnowledgeGraph.from_names(graph.named("train")) for name, graph in synthetic.graphs.items()}
    with pytest.warns(DataWarning, match="no client has valid triples: no early stopping"):
        run = start(Federation(plain), tiny(method, patience=1), out=tmp_path / "run").run()
    assert run.result is not None
    assert (run.result["rounds"], run.result["best_round"]) == (6, 6)
    assert run.result["valid"]["weighted"] == dict.fromkeys(METRICS)
    assert Run(tmp_path / "run").result == run.result


# The run directory


def test_the_run_directory(synthetic: Federation, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "one"
    run = start(synthetic, out=out, source="here").run()
    homes = [f"clients/{safe_name(client)}" for client in synthetic.graphs]
    tables = [f"{home}/{name}.safetensors" for home in homes for name in ("graph", "tables")]
    root = [".lock", "config.json", "history.jsonl", "mix.safetensors", "provenance.json", "result.json"]
    assert files(out) == sorted([*root, CHECKPOINT, *tables])
    assert len({(out / name).stat().st_mode for name in files(out)}) == 1
    assert read_json(out / "config.json") == {"schema": SCHEMA, **run.config.as_dict()}
    origin = read_json(out / "provenance.json")
    assert origin["data_fingerprint"] == synthetic.fingerprint
    assert (origin["data"], origin["seed"], origin["clients"]) == ("here", 0, list(synthetic.graphs))
    assert origin["package"] == run_folder.package_version()
    assert origin["git_revision"] is None or re.fullmatch(r"[0-9a-f]{40}\+?", origin["git_revision"])


def test_result_json(synthetic: Federation, tmp_path: Path) -> None:
    run = start(synthetic, tiny(seed=5), out=tmp_path / "run").run()
    result = read_json(tmp_path / "run" / "result.json")
    assert result == run.result
    assert list(result) == ["method", "model", "seed", "rounds", "best_round", "seconds", "valid", "test"]
    assert (result["method"], result["model"], result["seed"], result["rounds"]) == ("pfedeg-plus", "transe", 5, 6)
    for split in ("valid", "test"):
        assert set(result[split]) == {"weighted", "clients"}
        assert set(result[split]["weighted"]) == METRICS
        assert list(result[split]["clients"]) == list(synthetic.graphs)
        for client, values in result[split]["clients"].items():
            assert set(values) == METRICS | {"triples"}
            assert values["triples"] == len(synthetic.graphs[client].triples(split))
        clients = result[split]["clients"].values()
        mean = sum(v["mrr"] * v["triples"] for v in clients) / sum(v["triples"] for v in clients)
        assert result[split]["weighted"]["mrr"] == pytest.approx(mean)


def test_history_has_a_line_per_round(synthetic: Federation, tmp_path: Path) -> None:
    run = start(synthetic, out=tmp_path / "run").run()
    lines = [parse_json(text) for text in (tmp_path / "run" / "history.jsonl").read_bytes().splitlines(keepends=True)]
    assert lines == run.history
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5, 6]
    names = {"round", "selected", "loss", "seconds", "bytes_up", "bytes_down"}
    assert set(lines[0]) == names
    assert set(lines[1]) == names | {"valid", "affinity"}
    for learner, shares in lines[1]["affinity"].items():
        assert learner in synthetic.graphs
        assert list(shares) == list(synthetic.graphs)
        assert sum(shares.values()) == pytest.approx(1)
    travelling = sum(len(ids) for ids in synthetic.shared().travelling.values())
    assert lines[0]["bytes_up"] == lines[0]["bytes_down"] == travelling * 4 * (8 + 1)


def test_table_files_contain_names_but_no_times_or_paths(synthetic: Federation, tmp_path: Path) -> None:
    run = start(synthetic, out=tmp_path / "one", source="secret place").run()
    for client, graph in synthetic.graphs.items():
        path = tmp_path / "one" / "clients" / safe_name(client) / "tables.safetensors"
        with safe_open(path, "numpy") as file:
            assert set(file.metadata()) == {"client", "sha256"}
            assert file.metadata()["client"] == client
            names = file.keys()  # the open file itself is not iterable
            arrays = {name: file.get_tensor(name) for name in names}
        np.testing.assert_array_equal(arrays["entity"], run.tables[client].entity)
        np.testing.assert_array_equal(arrays["relation"], run.tables[client].relation)
        assert run_folder.unpack_names("entity", arrays) == graph.entities
        assert run_folder.unpack_names("relation", arrays) == graph.relations
        assert b"secret place" not in path.read_bytes()


def test_identical_runs_have_identical_files(synthetic: Federation, tmp_path: Path) -> None:
    for name, threads in (("one", 1), ("two", 2)):
        start(synthetic, out=tmp_path / name, engine=default_engine(threads)).run()
    assert_same_run(tmp_path / "one", tmp_path / "two")
    start(synthetic, tiny(seed=1), out=tmp_path / "three").run()
    tables = f"clients/{safe_name('ash')}/tables.safetensors"
    assert (tmp_path / "one" / tables).read_bytes() != (tmp_path / "three" / tables).read_bytes()


def test_a_run_on_disk_evaluates_to_its_result(synthetic: Federation, tmp_path: Path) -> None:
    result = start(synthetic, out=tmp_path / "run").run().result
    run = Run(tmp_path / "run", ENGINE)
    for split in ("valid", "test"):
        assert run_loop.summary(run.evaluate(split)) == result[split]
    both, heads = run.evaluate("test", None), run.evaluate("test", "head")
    assert both["ash"].triples == heads["ash"].triples
    graph = run.graph("Čedar [x]")
    assert graph.named("train") == synthetic.graphs["Čedar [x]"].named("train")


def test_client_names_may_be_anything(synthetic: Federation, tmp_path: Path) -> None:
    names = ["../up", "line\u2028two\x85three\nfour\0", "[/bold]"]
    odd = Federation(dict(zip(names, synthetic.graphs.values(), strict=True)))
    begun = start(odd, out=tmp_path / "run")
    next(iter(begun))
    run = start(odd, out=tmp_path / "run", resume=True).run()
    assert run.result is not None
    again = start(odd, out=tmp_path / "run", resume=True)
    assert (again.result, again.history) == (run.result, run.history)
    assert set(Run(tmp_path / "run", ENGINE).evaluate()) == set(names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


# Resuming


@pytest.fixture(scope="module")
def uninterrupted(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that all interrupted runs must equal."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    start(synthetic, out=out).run()
    return out


@pytest.mark.parametrize(
    "config",
    [
        tiny("pfedeg-plus", moments="keep"),
        tiny("pfedeg-star", fraction=0.5),
        tiny("pfedeg-plus-reg", evaluate="after_aggregation"),
        tiny("fede"),
        tiny("fedec"),
        tiny("single", patience=1, lr=0.2),
        tiny("collective"),
    ],
    ids=lambda config: config.method,
)
def test_a_run_interrupted_several_times_resumes(synthetic: Federation, config: Config, tmp_path: Path) -> None:
    whole = start(synthetic, config, out=tmp_path / "whole").run()
    for stop in (1, 2, 5):
        for done in start(synthetic, config, out=tmp_path / "parts", resume=True):
            if done.number == stop:
                break
        assert (tmp_path / "parts" / CHECKPOINT).exists() or whole.rounds_done <= stop
        assert not (tmp_path / "parts" / "result.json").exists() or whole.rounds_done <= stop
    start(synthetic, config, out=tmp_path / "parts", resume=True).run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize(
    "moment",
    [
        {"stop_train": 1},
        {"stop_train": 8},
        {"stop_ranks": 1},
        {"stop_ranks": 5},
        {"stop_ranks": 11},  # while the result is made
        {"stop_ranks": 14},
    ],
    ids=str,
)
def test_an_interrupt_within_a_round_leaves_a_complete_checkpoint(
    synthetic: Federation, moment: dict[str, int], uninterrupted: Path, tmp_path: Path
) -> None:
    run = start(synthetic, out=tmp_path / "run", engine=Breaking(**moment))
    with pytest.raises(KeyboardInterrupt):
        run.run()
    saved = RunFolder(tmp_path / "run").load_checkpoint()
    assert saved is not None
    assert saved[1]["round"] == run.rounds_done == len(run.history)
    resumed = start(synthetic, out=tmp_path / "run", resume=True)
    assert resumed.rounds_done == run.rounds_done
    resumed.run()
    assert_same_run(tmp_path / "run", uninterrupted)
    (tmp_path / "run" / "result.json").unlink()
    run.run()
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_run_of_the_first_schema_can_be_resumed(synthetic: Federation, tmp_path: Path) -> None:
    config = tiny("pfedeg-plus", moments="keep")
    start(synthetic, config, out=tmp_path / "whole").run()
    for done in start(synthetic, config, out=tmp_path / "old"):
        if done.number == 3:
            break
    settings = read_json(tmp_path / "old" / "config.json")
    for name in ("schema", "objective", "optimizer"):  # as the first version wrote it
        del settings[name]
    (tmp_path / "old" / "config.json").write_text(json.dumps(settings | {"mu": None, "tau": None}))
    arrays, metadata = read_arrays(tmp_path / "old" / CHECKPOINT)
    about = json.loads(metadata["about"])
    del about["loss"]
    arrays = {name.replace("/optimizer/", "/moments/"): array for name, array in arrays.items()}
    write_arrays(tmp_path / "old" / CHECKPOINT, arrays, {"about": json.dumps(about)})
    with pytest.warns(DataWarning, match="started by an earlier version of pfedeg"):
        resumed = start(synthetic, config, out=tmp_path / "old", resume=True)
    assert resumed.rounds_done == 3
    resumed.run()
    whole, old = (read_json(tmp_path / name / "result.json") for name in ("whole", "old"))
    assert without_seconds(whole) == without_seconds(old)


@pytest.mark.parametrize("line", ["[]", "5", "{}", '{"round": "x"}'])
def test_a_damaged_history_is_named(synthetic: Federation, tmp_path: Path, line: str) -> None:
    start(synthetic, tiny(rounds=1), out=tmp_path / "run").run()
    (tmp_path / "run" / "history.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=r"history\.jsonl, line 1: damaged"):
        Run(tmp_path / "run")


def test_a_damaged_config_is_named(synthetic: Federation, tmp_path: Path) -> None:
    start(synthetic, tiny(rounds=1), out=tmp_path / "run").run()
    settings = read_json(tmp_path / "run" / "config.json")
    for wrong, message in (({"dim": None}, "dim: None is neither a number nor a text"), ({"method": [5]}, "method: ")):
        (tmp_path / "run" / "config.json").write_text(json.dumps(settings | wrong))
        with pytest.raises(InputError, match=rf"run.config\.json: {message}"):
            Run(tmp_path / "run")


def test_a_path_is_no_federation() -> None:
    with pytest.raises(InputError, match=r"not .world.; did you mean `pfedeg\.Federation\.world\(\)`"):
        pfedeg.train("world")  # type: ignore[arg-type]


def test_a_run_of_a_newer_schema_is_refused(synthetic: Federation, tmp_path: Path) -> None:
    start(synthetic, out=tmp_path / "run").run()
    settings = read_json(tmp_path / "run" / "config.json")
    (tmp_path / "run" / "config.json").write_text(json.dumps(settings | {"schema": SCHEMA + 1}))
    with pytest.raises(InputError, match=r"config\.json: written by a newer version of pfedeg \(schema 3"):
        RunFolder.open(tmp_path / "run").config()


def test_history_ahead_of_the_checkpoint_or_truncated_is_repaired(
    synthetic: Federation, uninterrupted: Path, tmp_path: Path
) -> None:
    for done in start(synthetic, out=tmp_path / "run"):
        if done.number == 3:
            break
    with open(tmp_path / "run" / "history.jsonl", "a") as file:
        file.write('{"round": 4}\n{"round": 5, "sel')
    (tmp_path / "run" / f".{CHECKPOINT}.123.tmp").write_text("half")
    resumed = start(synthetic, out=tmp_path / "run", resume=True)
    assert [line["round"] for line in resumed.history] == [1, 2, 3]
    resumed.run()
    assert_same_run(tmp_path / "run", uninterrupted)


def test_resuming_a_finished_run_returns_its_result(synthetic: Federation, uninterrupted: Path) -> None:
    before = {name: (uninterrupted / name).read_bytes() for name in files(uninterrupted)}
    again = start(synthetic, out=uninterrupted, resume=True)
    assert list(again) == []
    assert again.result == parse_json(before["result.json"])
    assert (again.rounds_done, again.best_round) == (again.result["rounds"], again.result["best_round"])
    lines = [line for line in again.history if "affinity" in line and line["round"] <= again.best_round]
    assert again.affinity() == lines[-1]["affinity"]
    assert again.predict("ash", "near", head="e00")
    assert {name: (uninterrupted / name).read_bytes() for name in files(uninterrupted)} == before


def test_folders_with_other_content_are_refused(synthetic: Federation, uninterrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="already contains a run; add --resume to continue it, or choose another --out"
    ):
        start(synthetic, out=uninterrupted)
    with pytest.raises(InputError, match="contains a run with dim = 8, not 9; choose another --out, or give the same"):
        start(synthetic, tiny(dim=9), out=uninterrupted, resume=True)
    with pytest.raises(InputError, match="contains a run with method = pfedeg-plus, not fede"):
        start(synthetic, tiny("fede"), out=uninterrupted, resume=True)
    fewer = Federation({name: synthetic.graphs[name] for name in ("ash", "birch")})
    with pytest.raises(InputError, match=r"contains a run on other data \(.*\); choose another --out"):
        start(fewer, out=uninterrupted, resume=True)
    (tmp_path / "thesis").write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match="already exists; choose another --out or another folder"):
            start(synthetic, out=tmp_path, resume=resume)
        with pytest.raises(InputError, match="already exists"):
            start(synthetic, out=tmp_path / "thesis", resume=resume)
    assert files(tmp_path) == ["thesis"]


def test_two_processes_cannot_work_on_one_run(synthetic: Federation, tmp_path: Path) -> None:
    first = iter(start(synthetic, out=tmp_path / "run"))
    for _ in range(3):
        next(first)
    before = (tmp_path / "run" / "history.jsonl").read_bytes()
    with pytest.raises(InputError, match="run: another process is working on this run"):
        start(synthetic, out=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "history.jsonl").read_bytes() == before
    first.close()
    assert start(synthetic, out=tmp_path / "run", resume=True).rounds_done == 3


def test_a_damaged_checkpoint_is_reported(synthetic: Federation, tmp_path: Path) -> None:
    next(iter(start(synthetic, out=tmp_path / "run")))
    (tmp_path / "run" / CHECKPOINT).write_bytes(b"\xff" * 20)
    with pytest.raises(InputError, match=r"checkpoint\.safetensors: damaged \("):
        start(synthetic, out=tmp_path / "run", resume=True)


def test_checkpoints_are_written_every_few_seconds(
    synthetic: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, saved = [0.0], []

    def save(folder: RunFolder, arrays: Any, about: Any) -> None:
        saved.append(about["round"])

    monkeypatch.setattr(run_loop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(RunFolder, "save_checkpoint", save)
    for _ in start(synthetic, tiny(rounds=10), out=tmp_path / "run"):
        now[0] += run_loop.CHECKPOINT_SECONDS * 0.4
    assert saved == [4, 7, 10, 10]  # and at the end


# Failure


def test_divergence_names_client_and_round_and_keeps_the_rounds_before(
    synthetic: Federation, uninterrupted: Path, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="client 'birch', round 3: training diverged"):
        start(synthetic, out=tmp_path / "run", engine=Breaking(nan=9 - 1)).run()
    resumed = start(synthetic, out=tmp_path / "run", resume=True)
    assert resumed.rounds_done == 2
    resumed.run()
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_huge_learning_rate_diverges(synthetic: Federation) -> None:
    with pytest.raises(RunError, match=r"client '.*', round 1: training diverged \(NaN or infinity\)"):
        start(synthetic, tiny(lr=1e38)).run()


@pytest.mark.parametrize("where", ["append_history", "save_checkpoint", "finish"])
def test_a_full_disk_is_reported_and_the_run_can_be_resumed(
    synthetic: Federation, where: str, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(synthetic, out=tmp_path / "run")

    def full(folder: RunFolder, *arguments: Any) -> None:
        with writing(folder.path / "something") as temporary:
            temporary.write_text("half")
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, where, full)
        patch.setattr(run_loop, "CHECKPOINT_SECONDS", -1.0)
        with pytest.raises(RunError, match=r"something: cannot be written: No space left on device$"):
            run.run()
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert not (tmp_path / "run" / "result.json").exists()
    start(synthetic, out=tmp_path / "run", resume=True).run()
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("resume", [False, True])
def test_a_failure_in_the_first_round_leaves_no_folder(synthetic: Federation, tmp_path: Path, resume: bool) -> None:
    with pytest.raises(RunError, match="round 1: training diverged"):
        start(synthetic, out=tmp_path / "run", resume=resume, engine=Breaking(nan=1)).run()
    assert list(tmp_path.iterdir()) == []
    start(synthetic, out=tmp_path / "run").run()


def test_a_failure_in_the_first_round_of_a_resumed_run_keeps_its_folder(synthetic: Federation, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(synthetic, out=tmp_path / "run", engine=Breaking(stop_train=1)).run()
    with pytest.raises(RunError, match="round 1: training diverged"):
        start(synthetic, out=tmp_path / "run", resume=True, engine=Breaking(nan=1)).run()
    assert start(synthetic, out=tmp_path / "run", resume=True).rounds_done == 0


# Real processes

LONG: dict[str, Any] = TINY | {"rounds": 400, "eval_every": 40, "patience": 99, "epochs": 1}


@pytest.fixture(scope="module")
def data(synthetic: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of the clients as a folder."""
    path = tmp_path_factory.mktemp("data") / "two"
    Federation({name: synthetic.graphs[name] for name in ("ash", "birch")}).write(path)
    return path


@pytest.fixture(scope="module")
def long_run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of many rounds."""
    out = tmp_path_factory.mktemp("runs") / "long"
    start(Federation.read(data), Config(**LONG), out=out).run()
    return out


def command(data: Path, out: Path, *more: str, limit: int = 0, threads: int = 1) -> list[str]:
    flags = [word for name, value in LONG.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    arguments = ["train", str(data), *flags, "--threads", str(threads), "--out", str(out), *more]
    return [sys.executable, str(CHECKPOINT_EVERY_ROUND), str(limit), *arguments]


def wait_for_rounds(process: "subprocess.Popen[str]", out: Path, rounds: int) -> None:
    path = out / "history.jsonl"
    while process.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= rounds):
        time.sleep(0.002)


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that end with the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_a_killed_run_resumes(
    data: Path, long_run: Path, tmp_path: Path, processes: list["subprocess.Popen[str]"]
) -> None:
    out, chance = tmp_path / "run", random.Random(0)
    for rounds in (0, 1, 60, 200, 300):
        process = subprocess.Popen(command(data, out, "--resume"), stderr=subprocess.PIPE, text=True)
        processes.append(process)
        wait_for_rounds(process, out, rounds)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (out / "result.json").exists()
    done = subprocess.run(command(data, out, "--resume"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "resuming after round" in done.stderr
    assert_same_run(out, long_run)


@pytest.mark.usefixtures("sigint_enabled")
@pytest.mark.parametrize("threads", [1, 2], ids=["one client after another", "side by side"])
def test_ctrl_c_saves_and_prints_how_to_resume(
    data: Path, long_run: Path, tmp_path: Path, threads: int, processes: list["subprocess.Popen[str]"]
) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(command(data, out, threads=threads), stderr=subprocess.PIPE, text=True)
    processes.append(process)
    wait_for_rounds(process, out, 20)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in stderr
    found = re.search(r"^interrupted; saved after round (\d+)\. Resume with: (.*) --resume$", stderr, re.MULTILINE)
    assert found is not None, stderr
    saved = RunFolder(out).load_checkpoint()
    assert saved is not None
    assert saved[1]["round"] == int(found[1]) >= 19  # the line of round 20 is written just before the round is whole
    assert f"train {data} " in found[2]
    start(Federation.read(data), Config(**LONG), out=out, resume=True).run()
    assert_same_run(out, long_run)


@pytest.mark.parametrize(
    ("limit", "file"),
    [(500, r"graph\.safetensors"), (1500, r"checkpoint\.safetensors"), (9000, r"history\.jsonl")],
)
def test_write_errors_give_one_line_and_exit_code_1(
    data: Path, long_run: Path, tmp_path: Path, limit: int, file: str
) -> None:
    out = tmp_path / "run"
    done = subprocess.run(command(data, out, limit=limit), capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    *_, last = done.stderr.splitlines()
    assert re.fullmatch(rf"error: .*{file}: cannot be written: File too large", last), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.tmp"))
    assert "graph" not in file or list(tmp_path.iterdir()) == []
    start(Federation.read(data), Config(**LONG), out=out, resume=True).run()
    assert_same_run(out, long_run)
