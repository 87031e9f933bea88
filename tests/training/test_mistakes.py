"""Mistakes in calls from Python and in a method of a user: one line that names the fault and the likely fix."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pfedeg
from loopback import Network, make_agents, start_run
from pfedeg.errors import InputError, PfedegError
from pfedeg.methods.fede import METHOD as FEDE
from pfedeg.methods.fede import FedE
from pfedeg.models.transe import MODEL as TRANSE
from toy import toy_federation

TINY: dict[str, Any] = {"rounds": 2, "dim": 4, "negatives": 2, "batch": 16, "eval_every": 1, "epochs": 1}
FEDERATION = toy_federation()


def downloads_with(change: Callable[[pfedeg.Rows], Any]) -> Callable[..., Any]:
    """An `aggregate` that changes the download of the first client."""

    def aggregate(self: FedE, state: Any, shared: Any, uploads: Any, selected: Any) -> Any:
        state, downloads = FedE.aggregate(self, state, shared, uploads, selected)
        return state, {**downloads, selected[0]: change(downloads[selected[0]].tables["entity"])}

    return aggregate


def entity(ids: Any, values: Any) -> pfedeg.Download:
    return pfedeg.Download({"entity": pfedeg.Rows(ids, values)})


def omit(self: FedE, state: Any, shared: Any, uploads: Any, selected: Any) -> Any:
    state, downloads = FedE.aggregate(self, state, shared, uploads, selected)
    return state, {name: downloads[name] for name in selected[1:]}


def boom(self: FedE, *arguments: Any) -> Any:
    raise ZeroDivisionError("division by zero")


AGGREGATE = "Wrong.aggregate: the download of client 'client-0' "
FAULTS: dict[str, tuple[dict[str, Any], str]] = {  # attributes of the strategy, and the message
    "omits a client": ({"aggregate": omit}, f"{AGGREGATE}is missing; every selected client needs one"),
    "no download": (
        {"aggregate": downloads_with(lambda rows: None)},
        f"{AGGREGATE}is invalid: a NoneType, not an Upload or a Download",
    ),
    "rows in place of a download": (
        {"aggregate": downloads_with(lambda rows: rows)},
        f"{AGGREGATE}is invalid: a Rows, not an Upload or a Download",
    ),
    "no tables": (
        {"aggregate": downloads_with(lambda rows: pfedeg.Download(None))},  # type: ignore[arg-type]
        f"{AGGREGATE}is invalid: tables: a NoneType, not a mapping by name",
    ),
    "a pair in place of rows": (
        {"aggregate": downloads_with(lambda rows: pfedeg.Download({"entity": (rows.ids, rows.values)}))},  # type: ignore[dict-item]
        f"{AGGREGATE}is invalid: table 'entity': a tuple, not Rows(ids, values)",
    ),
    "lists": (
        {"aggregate": downloads_with(lambda rows: entity(rows.ids.tolist(), rows.values.tolist()))},
        f"{AGGREGATE}is invalid: table 'entity': its ids are a list, not a numpy array",
    ),
    "fewer rows": (
        {"aggregate": downloads_with(lambda rows: entity(rows.ids[:-1], rows.values[:-1]))},
        f"{AGGREGATE}is invalid: table 'entity': its ids are not those of the client's shared entities, in order",
    ),
    "fewer values": (
        {"aggregate": downloads_with(lambda rows: entity(rows.ids, rows.values[:-1]))},
        f"{AGGREGATE}is invalid: table 'entity': its values are float32 of shape (9, 4), not float32 of shape (10, 4)",
    ),
    "narrow rows": (
        {"aggregate": downloads_with(lambda rows: entity(rows.ids, rows.values[:, :-1]))},
        f"{AGGREGATE}is invalid: table 'entity': its values are float32 of shape (10, 3), not float32 of shape (10, 4)",
    ),
    "no initial state": (
        {"init": lambda self, shared: None},
        "Wrong.init: expected the state as a mapping, not NoneType",
    ),
    "a list in the state": (
        {"init": lambda self, shared: {"a": [1, 2]}},
        "Wrong.init: state 'a' is a list, not an array",
    ),
    "a number as the name of a state": (
        {"init": lambda self, shared: {1: np.zeros(1)}},
        "Wrong.init: state 1: its name is not a text",
    ),
    "objects in the state": (
        {"init": lambda self, shared: {"a": np.array([None])}},
        "Wrong.init: state 'a' is an array of object, not of numbers",
    ),
    "init fails": ({"init": boom}, "Wrong.init failed: ZeroDivisionError: division by zero"),
    "relation_graph fails": (
        {"relation_graph": boom},
        "Wrong.relation_graph failed: ZeroDivisionError: division by zero",
    ),
    "a small relation graph": (
        {"relation_graph": lambda self, state: np.ones((2, 2))},
        "Wrong.relation_graph: expected an array of floats of shape (3, 3), not (2, 2)",
    ),
    "a relation graph of lists": (
        {"relation_graph": lambda self, state: [[1.0] * 3] * 3},
        "Wrong.relation_graph: expected an array of floats of shape (3, 3), not list",
    ),
    "an infinite relation graph": (
        {"relation_graph": lambda self, state: np.full((3, 3), np.inf)},
        "Wrong.relation_graph: weights that are not finite",
    ),
    "no upload": (
        {"upload": lambda self, client: None},
        "client 'client-0': invalid upload: a NoneType, not an Upload or a Download",
    ),
    "an upload of narrow rows": (
        {
            "upload": lambda self, client: pfedeg.Upload(
                {"entity": pfedeg.Rows(client.ids, client.shared_rows.values[:, :-1])}
            )
        },
        "client 'client-0': invalid upload: table 'entity': its values are float32 of shape (10, 3)",
    ),
    "no knowledge": (
        {"knowledge": lambda self, client, download: None},
        "client 'client-0': invalid knowledge: table 'entity': a NoneType, not Rows(ids, values)",
    ),
    "short knowledge": (
        {"knowledge": lambda self, client, download: pfedeg.Rows(client.ids, client.shared_rows.values[:-1])},
        "client 'client-0': invalid knowledge: table 'entity': its values are float32 of shape (9, 4)",
    ),
}


@dataclass(frozen=True)
class Settings:
    """Which fault the method has."""

    fault: str = pfedeg.setting("omits a client", "one of FAULTS")


METHOD = replace(
    FEDE,
    name="wrong",
    label="Wrong",
    settings=Settings,
    build=lambda settings, threads: type("Wrong", (FedE,), FAULTS[settings.fault][0])(),
)
NOTHING = replace(FEDE, name="nothing", label="Nothing", build=lambda settings, threads: None)  # type: ignore[arg-type,return-value]
CLASS = replace(FEDE, name="class", label="Class", build=lambda settings, threads: FedE)  # type: ignore[arg-type,return-value]
MODEL = replace(TRANSE, name="no-model", label="NoModel", build=lambda dim, settings: settings)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_method_are_named_in_one_process(fault: str) -> None:
    with pytest.raises(PfedegError) as error:
        pfedeg.train(FEDERATION, METHOD, fault=fault, **TINY)
    assert FAULTS[fault][1] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_method_are_named_over_the_network(fault: str, tmp_path: Path) -> None:
    config = pfedeg.Config(METHOD, fault=fault, **TINY)
    agents = make_agents(FEDERATION, tmp_path / "clients", allowed=[config.method])
    with pytest.raises(PfedegError) as error:
        start_run(Network(agents), config, tmp_path / "server").run()
    assert FAULTS[fault][1] in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": NOTHING}, "build returned None; expected a Strategy"),
        ({"method": CLASS}, "build returned <class 'pfedeg.methods.fede.FedE'>, which is a class; call it; expected a"),
        ({"method": "fede", "model": MODEL}, "without dim, entity_width, relation_width, start_range, compose, "),
    ],
)
def test_a_build_that_does_not_make_its_part_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        pfedeg.Training(FEDERATION, pfedeg.Config(**settings, **TINY))
    assert message in str(error.value)


def train(*arguments: Any, **named: Any) -> Any:
    return pfedeg.train(*arguments, **{**TINY, **named})


def graph(triples: Any) -> pfedeg.KnowledgeGraph:
    return pfedeg.KnowledgeGraph.from_names(triples)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: train("world"), "expected a Federation, not 'world'; did you mean `pfedeg.Federation.world()`?"),
        (lambda: train("my-data"), "not 'my-data'; did you mean `pfedeg.Federation.read('my-data')`?"),
        (lambda: train(Path("my-data")), "did you mean `pfedeg.Federation.read('my-data')`?"),
        (lambda: train(FEDERATION.graphs), "not a mapping; `pfedeg.Federation(graphs)` makes one from the clients'"),
        (lambda: train(pfedeg.Federation.world), "did you forget the parentheses?"),
        (lambda: pfedeg.Federation.read(3), "expected the path of a folder or Parquet file, not 3"),  # type: ignore[arg-type]
        (lambda: train(None), "expected a Federation, not None; `pfedeg.Federation.read(path)` reads one"),
        (lambda: train(FEDERATION, "fede", learning_rate=0.1), "setting 'learning_rate'; did you mean 'lr'?"),
        (lambda: train(FEDERATION, "fede", learningRate=0.1), "setting 'learningRate'; did you mean 'lr'?"),
        (lambda: train(FEDERATION, "fede", embedding_dim=8), "setting 'embedding_dim'; did you mean 'dim'?"),
        (lambda: train(FEDERATION, "fede", batch_size=8), "setting 'batch_size'; did you mean 'batch'?"),
        (lambda: train(FEDERATION, "fede", margin=8), "setting 'margin'; did you mean 'gamma'?"),
        (lambda: train(FEDERATION, "fede", foo=8), "unknown setting 'foo'"),
        (lambda: train(FEDERATION, "fede", threads=0), "threads: 0 is not a number of cores; omit it to use all"),
        (lambda: train(FEDERATION, "fede", threads="2"), "threads: '2' is not a number of cores"),
        (lambda: train(FEDERATION, pfedeg.Config()), "not a Config; `pfedeg.Training(federation, config)` takes one"),
        (lambda: pfedeg.Training(FEDERATION, "fede"), "expected a Config, not 'fede'; `pfedeg.Config('fede')` makes"),
        (lambda: pfedeg.Training(FEDERATION, {"lr": 1}), "not {'lr': 1}; `pfedeg.Config(method='fede', rounds=20)` "),
        (lambda: pfedeg.Federation("world"), "by name, not 'world'; did you mean `pfedeg.Federation.world()`?"),
        (lambda: pfedeg.Federation({"a": [("x", "r", "y")]}), "client 'a': expected a KnowledgeGraph, not [('x'"),
        (lambda: pfedeg.Federation({1: graph([("x", "r", "y")])}), "client 1: its name is not a text"),
        (lambda: graph([("x", "r", "y"), ("x", "r")]), "triple 2 is ('x', 'r'); expected (head, relation, tail)"),
        (lambda: graph([("x", "r", 3)]), "triple 1 is ('x', 'r', 3); expected (head, relation, tail), all of them t"),
        (lambda: graph("xry"), "expected a sequence of (head, relation, tail) triples, not 'xry'"),
        (lambda: graph(3), "expected a sequence of (head, relation, tail) triples, not 3"),
    ],
)
def test_mistakes_in_calls_are_named_with_the_likely_fix(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)
    assert len(str(error.value)) < 300


def test_questions_are_checked() -> None:
    training = train(FEDERATION, "single")
    with pytest.raises(InputError, match=r"^k: '3' is not a whole number$"):
        training.predict("client-0", "r0", head="e001", k="3")
    with pytest.raises(InputError, match=r"^entity 3: not a text$"):
        training.predict("client-0", "r0", head=3)
    assert len(training.predict("client-0", "r0", head="e001", k=3, known=True)) == 3


def test_inspect_names_the_fault_of_a_method() -> None:
    from pfedeg.inspection.cost_estimate import RoundTimer

    timer = RoundTimer(FEDERATION, FEDERATION.shared(), 1)
    with pytest.raises(InputError, match=r"^Wrong.aggregate: the download of client 'client-0' is missing"):
        timer.seconds(pfedeg.Config(METHOD, fault="omits a client", **TINY))
