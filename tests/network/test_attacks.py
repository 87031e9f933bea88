"""Limits against clients and servers that lie: who is refused, named and left out; and honest runs that are not."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopback import SECRET, FakeSigner, Network, make_agents, start_run
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import Rows
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, KnowledgeGraph
from pfedeg.methods.registry import METHODS
from pfedeg.models.registry import MODELS
from pfedeg.network import request_manager
from pfedeg.network.messages import Message, pack, split, unpack
from pfedeg.network.server_transport import RemoteTransport
from pfedeg.network.upload_limits import LEAST_CLIENTS, MOST_CLAIM, Sizes, UploadLimits, counted_triples
from pfedeg.training.config import PRESETS, Config
from pfedeg.training.local_run import Training
from pfedeg.training.saved_run import Run

CLIENTS = ("atlas", "census", "commerce", "government")
FEDERATED = [name for name in METHODS if METHODS.get(name).is_federated]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_manager, "STATUS_POLL", 0.05)
    monkeypatch.setattr(request_manager, "POLL", (0.01, 0.05))


@pytest.fixture(scope="module")
def federation() -> Federation:
    graphs = Federation.world().graphs
    return Federation({name: graphs[name] for name in CLIENTS})


def settings(method: str = "fede", **more: Any) -> Config:
    small: dict[str, Any] = {"dim": 8, "negatives": 4, "batch": 256, "lr": 5e-3, "epochs": 1, "eval_every": 2}
    return Config(method=method, **(small | {"rounds": 6} | more))


def lie(name: str, raw: bytes, change: Callable[[Any, dict[str, Any]], Any]) -> bytes:
    """A client's upload with other numbers, signed by the same client; other messages stay as they are."""
    message = unpack(split(raw)[1])
    if message.kind != "train":
        return raw
    fields = dict(message.fields)
    values = change(message.arrays["entity/values"].copy(), fields)
    arrays = message.arrays | {"entity/values": np.ascontiguousarray(values)}
    return pack(Message("train", fields, arrays), FakeSigner(name).sign)


# Uploads


def sizes(change: float, row: float = 1.0) -> Sizes:
    return Sizes(change, change / 2, row)


def test_the_majority_sets_the_limits_and_earlier_rounds_count() -> None:
    limits = UploadLimits()
    assert not limits.judge({name: sizes(1.0) for name in "abcd"})
    refused = limits.judge({"a": sizes(1.2), "b": sizes(0.9), "c": sizes(0.0), "d": sizes(9.0)})
    assert list(refused) == ["d"]
    assert "largest change 9 per √step, above the limit" in refused["d"]
    assert list(limits.judge({"d": sizes(9.0)})) == ["d"]  # alone in its round: the others' earlier rounds count
    assert not limits.judge({"d": sizes(1.0)})


def test_a_client_that_hardly_changes_does_not_make_the_others_suspicious() -> None:
    limits = UploadLimits()
    for _ in range(8):
        assert not limits.judge({"a": sizes(1.0), "b": sizes(1.5), "c": sizes(0.0)})


def test_clients_that_differ_much_are_not_refused() -> None:
    assert not UploadLimits().judge({name: sizes(1.0 + 3 * i) for i, name in enumerate("abcdefg")})


def test_two_clients_cannot_tell_which_of_them_lies() -> None:
    assert LEAST_CLIENTS == 3
    assert not UploadLimits().judge({"a": sizes(1.0), "b": sizes(1e6)})


def test_sizes_are_per_row_step_and_round() -> None:
    ids = np.arange(2, dtype=np.int32)
    before, after = Rows(ids, np.zeros((2, 4), np.float32)), Rows(ids, np.array([[3] * 4, [0] * 4], np.float32))
    assert Sizes.of(before, after) == pytest.approx((3.0, 4.5**0.5, 3.0))
    assert Sizes.of(before, after, 4, 3) == pytest.approx((0.5, 0.125**0.5, 3.0))


def test_limits_survive_a_checkpoint() -> None:
    limits, other = UploadLimits(), UploadLimits()
    limits.judge({name: sizes(1.0) for name in "abc"})
    for _ in range(3):
        limits.count({}, {"c": "why"}, 4)
    other.restore(limits.fields())
    assert other.fields() == limits.fields()
    assert list(other.left_out) == ["c"]


def test_a_claimed_number_of_triples_counts_up_to_a_multiple_of_the_others() -> None:
    assert counted_triples({"a": 2**39, "b": 100, "c": 120}) == {"a": 120 * MOST_CLAIM, "b": 100, "c": 120}
    assert counted_triples({"a": 2**39, "b": 100})["a"] == 100 * MOST_CLAIM


@pytest.mark.parametrize("method", ["fede", "pfedeg-plus-reg"])
def test_a_client_that_lies_is_named_left_out_and_the_run_goes_on(
    federation: Federation, tmp_path: Path, method: str
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    rng = np.random.default_rng(0)
    network.change = lambda name, raw: (
        lie(name, raw, lambda v, _: v + rng.choice([-0.2, 0.2], v.shape).astype(np.float32)) if name == "atlas" else raw
    )
    log: list[str] = []
    run = start_run(network, settings(method), tmp_path / "server", log=log)
    for done in run:  # a break: what is known of the clients comes from the checkpoint
        if done.number == 2:
            break
    run = start_run(network, settings(method), tmp_path / "server", resume=True, log=log).run()
    assert run.result is not None
    assert ["atlas" in line.get("suspicious", {}) for line in run.history] == [True] * 3 + [False] * 3
    assert "above the limit" in run.history[0]["suspicious"]["atlas"]
    assert "refused 3 times in a row" in run.history[2]["left_out"]["atlas"]
    assert "atlas" not in run.history[3]["selected"]
    assert list(run.result["left_out"]) == ["atlas"]
    assert sorted(run.result["test"]["clients"]) == ["census", "commerce", "government"]
    assert any("client 'atlas' is left out from now on" in line for line in log)


def test_a_client_whose_responses_are_always_invalid_does_not_end_the_run(
    federation: Federation, tmp_path: Path
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    network.change = lambda name, raw: (
        lie(name, raw, lambda v, fields: (fields.update(loss="low"), v)[1]) if name == "atlas" else raw
    )
    run = start_run(network, settings(), tmp_path / "server").run()
    assert "loss is missing" in run.history[0]["suspicious"]["atlas"]
    assert "atlas" in run.history[-1]["left_out"]


def test_a_client_that_was_left_out_has_no_influence_on_the_others(federation: Federation, tmp_path: Path) -> None:
    """The others learn as if the mean over the owners had never contained it."""
    network = Network(make_agents(federation, tmp_path / "clients"))
    network.change = lambda name, raw: lie(name, raw, lambda v, _: v * 0 + 50) if name == "atlas" else raw
    run = start_run(network, settings(rounds=4, eval_every=4), tmp_path / "server").run()
    assert run.result is not None
    assert sorted(run.history[2]["left_out"]) == ["atlas"]
    (folder,) = (tmp_path / "clients" / "census").iterdir()
    assert np.abs(Run(folder).tables("census").entity).max() < 3


def test_the_number_of_triples_that_a_client_claims_is_bounded(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))

    def claim(name: str, raw: bytes) -> bytes:
        message = unpack(split(raw)[1])
        if name != "atlas" or message.kind != "hello":
            return raw
        return pack(Message("hello", {**message.fields, "triples": 2**39}, message.arrays), FakeSigner(name).sign)

    network.change = claim
    log: list[str] = []
    run = start_run(network, settings(rounds=1), tmp_path / "server", log=log)
    network.change = lambda name, raw: lie(name, raw, lambda v, _: v + 50) if name == "atlas" else raw
    run.run()
    assert "training changes it by" in run.history[0]["suspicious"]["atlas"]
    assert any("claims 549,755,813,888 training triples, many more than the others" in line for line in log)


def test_a_client_cannot_claim_more_triples_than_it_is_enrolled_with(federation: Federation, tmp_path: Path) -> None:
    requests = request_manager.RequestManager(
        Network(make_agents(federation, tmp_path / "clients")),
        "run",
        {name: request_manager.Member(name.encode(), FakeSigner(name).verify) for name in CLIENTS},
        sign=FakeSigner("server").sign,
        certificate=b"certificate",
        policy=request_manager.WaitPolicy(timeout=0.3, absent_timeout=0.2),
        enrolled=lambda name: True,
        log=lambda text: None,
    )
    told = "client 'atlas' claims 2,285 training triples, but is enrolled with 2,000 at most"
    with pytest.raises(InputError, match=told):
        RemoteTransport(requests, settings(), most_triples={"atlas": 2000, "census": 1964}).handshake()


@pytest.mark.parametrize("robust", ["trimmed", "median"])
def test_a_robust_mix_gives_the_results_of_the_embedded_run(
    federation: Federation, tmp_path: Path, robust: str
) -> None:
    config = settings("pfedeg-plus", robust=robust, rounds=4)
    twin, plain = (Training(federation, each, secret=SECRET).run() for each in (config, config.replace(robust="none")))
    run = start_run(Network(make_agents(federation, tmp_path / "clients")), config, tmp_path / "server").run()
    assert [line["loss"] for line in run.history] == [line["loss"] for line in twin.history]
    assert twin.history[-1]["loss"] != plain.history[-1]["loss"]


# Downloads


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda v, rng: rng.uniform(-1.5, 1.5, v.shape), "away from this client's last upload"),
        (lambda v, rng: v + 1000 * (np.arange(len(v)) == 0)[:, None], "a downloaded row has the size"),
        (lambda v, rng: v + rng.choice([-0.6, 0.6], v.shape), "the download is|a downloaded row is"),
    ],
)
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("method", ["fede", "pfedeg-plus-reg"])
def test_a_client_refuses_rows_that_no_average_can_give(
    federation: Federation, tmp_path: Path, spoil: Callable[..., Any], reason: str, number: int, method: str
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    push, rng = network.push, np.random.default_rng(0)

    def tamper(node: int, body: bytes) -> str:
        message = unpack(split(body)[1])
        if (message.kind, message.fields["to"], message.fields.get("round")) == ("train", "atlas", number):
            arrays = dict(message.arrays)
            arrays["entity/values"] = spoil(arrays["entity/values"], rng).astype(np.float32)
            body = pack(Message("train", message.fields, arrays), FakeSigner("server").sign)
        return push(node, body)

    network.push = tamper  # type: ignore[method-assign]
    policy = request_manager.WaitPolicy(3, 0.3, 0.2)
    run = start_run(network, settings(method, rounds=4), tmp_path / "server", policy=policy).run()
    assert re.search(reason, run.history[number - 1]["missing"]["atlas"])
    assert "suspicious" not in run.history[number - 1]  # the server is at fault
    assert "missing" not in run.history[3]


# Honest runs


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("method", FEDERATED)
def test_honest_runs_are_not_refused(tmp_path: Path, method: str, model: str) -> None:
    config = Config(method=method, model=model, **{**PRESETS["quick"], "dim": 16, "negatives": 16, "rounds": 4})
    network = Network(make_agents(Federation.world(), tmp_path / "clients"))
    log: list[str] = []
    run = start_run(network, config, tmp_path / "server", log=log).run()
    assert not any("missing" in line or "suspicious" in line for line in run.history)
    assert not any("refused" in line or "warning" in line for line in log)


@pytest.mark.parametrize("kept", [(20, 20, 20, 20, 20, 1), (1, 5, 10, 20, 40, 80), (1, 1, 1, 1, 1, 20), (30, 1, 30)])
@pytest.mark.parametrize("method", ["fede", "pfedeg-plus-reg"])
def test_honest_clients_with_much_more_or_less_data_are_not_refused(
    tmp_path: Path, method: str, kept: tuple[int, ...]
) -> None:
    """Every so many triples of a client are kept."""
    graphs = {}
    for (name, graph), every in zip(Federation.world().graphs.items(), kept, strict=False):
        parts = [graph.named(split)[::every] for split in SPLITS]
        graphs[name] = KnowledgeGraph.from_names(*parts)
    config = Config(method=method, **{**PRESETS["quick"], "dim": 16, "negatives": 16, "rounds": 4})
    network = Network(make_agents(Federation(graphs), tmp_path / "clients"))
    run = start_run(network, config, tmp_path / "server").run()
    assert not any("missing" in line or "suspicious" in line for line in run.history)


@pytest.mark.parametrize(
    "more",
    [
        {"start": "independent"},
        {"fraction": 0.34},
        {"moments": "keep", "evaluate": "after_aggregation"},
        {"robust": "median"},
        {"lr": 0.05},
    ],
)
@pytest.mark.parametrize("method", ["fede", "pfedeg-plus", "pfedeg-plus-reg"])
def test_honest_runs_with_other_settings_are_not_refused(tmp_path: Path, method: str, more: dict[str, Any]) -> None:
    config = settings(method, **({"rounds": 8} | more))
    run = start_run(Network(make_agents(Federation.world(), tmp_path / "clients")), config, tmp_path / "server").run()
    assert not any("missing" in line or "suspicious" in line for line in run.history)
