"""What the owner of a client's data allows: every limit refuses a server that asks for more, before a run and in it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopback import SECRET, Network, make_agents, start_run
from pfedeg.errors import InputError
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.network import request_manager
from pfedeg.network.limits import Limits, federated_methods
from pfedeg.network.request_manager import WaitPolicy
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from toy import toy_federation

SOME = WaitPolicy(quorum=1, timeout=0.3, absent_timeout=0.2)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_manager, "STATUS_POLL", 0.05)
    monkeypatch.setattr(request_manager, "POLL", (0.01, 0.05))


class Owner:
    """The owner of one client's data, with limits that can be changed at any time; the others keep the defaults."""

    def __init__(self, federation: Federation, home: Path) -> None:
        self.limits, self.name, self.log = Limits(), next(iter(federation.graphs)), list[str]()
        self.agents = make_agents(federation, home)
        own = make_agents(federation, home, limits=lambda: self.limits, log=self.log.append)
        self.agents[self.name] = own[self.name]


@pytest.fixture
def federation() -> Federation:
    return toy_federation()


@pytest.fixture
def owner(federation: Federation, tmp_path: Path) -> Owner:
    return Owner(federation, tmp_path / "clients")


def settings(**more: Any) -> Config:
    small: dict[str, Any] = {"dim": 8, "negatives": 4, "batch": 32, "rounds": 3, "eval_every": 1, "epochs": 2}
    return Config(**({"method": "fede"} | small | more))


BEFORE = [
    ({"dim": 7}, "dim is 8; the owner of this client's data allows at most 7"),
    ({"epochs": 1}, "epochs is 2; the owner of this client's data allows at most 1"),
    ({"batch": 31}, "batch is 32; the owner of this client's data allows at most 31"),
    ({"negatives": 3}, "negatives is 4; the owner of this client's data allows at most 3"),
    ({"rounds": 2}, "rounds is 3; the owner of this client's data allows at most 2"),
    ({"methods": ("pfedeg-plus",)}, "the method 'fede' is not one that the owner of this client's data allows"),
    ({"methods": ()}, "(methods: none)"),
    ({"shared": 0.0}, "allows a share of at most 0 (shared)"),
    ({"message_mb": 1.0}, "allows at most 1 (message_mb)"),
    ({"disk_gb": 1e-6}, "allows at most 1e-06 (disk_gb)"),
]


@pytest.mark.parametrize(("limit", "reason"), BEFORE, ids=lambda value: str(value)[:30])
def test_a_server_that_asks_for_more_is_refused_before_the_run(
    owner: Owner, tmp_path: Path, limit: dict[str, Any], reason: str
) -> None:
    owner.limits = replace(Limits(), **limit)
    network = Network(owner.agents)
    with pytest.raises(InputError, match=rf"^client '{owner.name}' (refuses the run|does not begin): ") as caught:
        start_run(network, settings(), tmp_path / "server")
    assert reason in str(caught.value)
    assert any(line.startswith("refused: ") and reason in line for line in owner.log)
    assert not (tmp_path / "server").exists()
    assert not list((tmp_path / "clients" / owner.name).glob("*"))


@pytest.mark.parametrize(
    ("limit", "reason"),
    [each for each in BEFORE if "message_mb" not in each[0]]
    + [
        ({"rounds": 1, "dim": 8}, "allows at most 1"),
        ({"minutes_per_round": 1e-9}, "it would take longer than 1e-09 minutes, the limit of the owner"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_limits_hold_in_every_round(owner: Owner, tmp_path: Path, limit: dict[str, Any], reason: str) -> None:
    """The owner edits client.json after the first round: the client takes no further part, and the run says why."""
    log: list[str] = []
    run = start_run(Network(owner.agents), settings(), tmp_path / "server", policy=SOME, log=log)
    for done in run:
        assert "missing" not in run.history[0]
        if done.number == 1:
            owner.limits = replace(Limits(), **limit)
    assert [owner.name in line.get("missing", {}) for line in run.history] == [False, True, True]
    assert reason in run.history[1]["missing"][owner.name]
    assert any(line.startswith("refused: ") and reason in line for line in owner.log)
    assert any(line.startswith(f"client '{owner.name}' gives no result: ") and reason in line for line in log)


def test_a_client_goes_on_once_its_owner_allows_more(owner: Owner, federation: Federation, tmp_path: Path) -> None:
    """A round that was stopped leaves no trace in the state: the tables are those of a run without limits."""
    network = Network(owner.agents)
    run = start_run(network, settings(), tmp_path / "server")
    owner.limits = replace(Limits(), minutes_per_round=1e-9)
    with pytest.raises(Exception, match="it would take longer"):
        run.run()
    owner.limits = Limits()
    run = start_run(network, settings(), tmp_path / "server", resume=True).run()
    twin = Training(federation, settings(), secret=SECRET).run()
    assert run.result is not None
    assert twin.result is not None
    assert run.result["test"] == twin.result["test"]


def test_more_runs_than_allowed_are_refused(owner: Owner, tmp_path: Path) -> None:
    owner.limits = replace(Limits(), runs=1)
    network = Network(owner.agents)
    start_run(network, settings(rounds=1), tmp_path / "one").run()
    with pytest.raises(InputError, match=r"this client has 1 runs; .* allows at most 1 \(runs\); remove folders"):
        start_run(network, settings(rounds=1), tmp_path / "two")
    assert len(list((tmp_path / "clients" / owner.name).iterdir())) == 1


def test_a_message_larger_than_allowed_is_ignored_before_it_is_parsed(owner: Owner) -> None:
    owner.limits = replace(Limits(), message_mb=1.0)
    assert owner.agents[owner.name].respond(bytes(1_000_001)) is None
    assert owner.log == ["ignored a message: a message of 1.0 MB; the owner of this client's data allows at most 1 "
                         "(message_mb)"]  # fmt: skip


# The file


def test_defaults_suit_the_data() -> None:
    def of(entities: int) -> Limits:
        graph = KnowledgeGraph.from_names([("a", "r", "b")])
        names = tuple(map(str, range(entities)))
        return Limits.suited(replace(graph, entities=names, train=np.zeros((10 * entities, 3), np.int32)))

    small, large = of(1000), of(1_000_000)
    assert (small.dim, large.dim) == (1024, 128)
    assert small.message_mb < 20 < 1000 < large.message_mb <= 2000
    assert small.disk_gb < large.disk_gb
    assert small.minutes_per_round < large.minutes_per_round
    for each in (small, large):
        assert Limits.read(json.loads(json.dumps({"dim": each.dim, "methods": each.methods})), "f").dim == each.dim
        assert each.methods == federated_methods()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "client.json: limits is not an object"),
        ({"dims": 3}, "client.json: unknown limit 'dims'; did you mean 'dim'"),
        ({"dim": 0}, "client.json: limits: dim: 0 is out of range"),
        ({"dim": "8"}, "client.json: limits: dim: '8' is not a whole number"),
        ({"shared": 1.5}, "client.json: limits: shared: 1.5 is out of range"),
        ({"message_mb": float("inf")}, "client.json: limits: message_mb: inf is out of range"),
        ({"methods": ["feed"]}, "client.json: limits: methods must be a list of fede"),
        ({"methods": "fede"}, "client.json: limits: methods must be a list of"),
    ],
)
def test_wrong_limits_are_named(content: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Limits.read(content, "client.json")
    assert str(caught.value).startswith(message)
