"""A federation whose messages go through a network in memory: same results, what leaves a client, what is refused."""

import json
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import plugins
import pytest
from click.testing import CliRunner

from loopback import SECRET, SOON, FakeSigner, Network, make_agents, start_run
from pfedeg.checked_files import read_json
from pfedeg.cli.main import cli
from pfedeg.errors import InputError, RunError
from pfedeg.graphs.alignment import align, token
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import KnowledgeGraph
from pfedeg.methods.exchange import Upload
from pfedeg.network import client_agent, client_session, request_manager
from pfedeg.network.messages import PROTOCOL, Message, ProtocolError, check_change, pack, split, unpack
from pfedeg.network.request_manager import WaitPolicy
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training
from pfedeg.training.saved_run import Run

CLIENTS = ("atlas", "commerce", "government")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_manager, "STATUS_POLL", 0.05)
    monkeypatch.setattr(request_manager, "POLL", (0.01, 0.05))


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Three of the embedded clients."""
    graphs = Federation.world().graphs
    return Federation({name: graphs[name] for name in CLIENTS})


def settings(method: str = "pfedeg-plus", **more: Any) -> Config:
    small: dict[str, Any] = {
        "dim": 8,
        "negatives": 4,
        "batch": 256,
        "lr": 5e-3,
        "rounds": 4,
        "eval_every": 2,
        "epochs": 1,
    }
    return Config(method=method, **(small | more))


def tables_of(home: Path, name: str) -> Any:
    (folder,) = (home / name).iterdir()
    return Run(folder).tables(name)


def assert_same(home: Path, twin: Training, result: dict[str, Any] | None) -> None:
    assert result is not None
    assert twin.result is not None
    for name, tables in twin.tables.items():
        for mine, theirs in zip(tables_of(home, name), tables, strict=True):
            assert np.array_equal(mine, theirs)
    assert {part: result[part] for part in ("valid", "test")} == {p: twin.result[p] for p in ("valid", "test")}


def edit(name: str, raw: bytes, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> bytes:
    """A client's answer, changed and signed again by the same client: a client that lies."""
    message = unpack(split(raw)[1])
    fields, arrays = dict(message.fields), {key: array.copy() for key, array in message.arrays.items()}
    kind = change(fields, arrays)
    return pack(Message(kind or message.kind, fields, arrays), FakeSigner(name).sign)


# The same result


@pytest.mark.parametrize(
    "method", ["pfedeg-star", "pfedeg-plus", "fede", "fedec", "pfedeg-plus-reg", "pfedeg-star-init"]
)
def test_results_are_those_of_the_embedded_run(federation: Federation, tmp_path: Path, method: str) -> None:
    config = settings(method, model="rotate" if method == "fede" else "transe", fraction=0.67)
    twin = Training(federation, config, secret=SECRET).run()
    network = Network(make_agents(federation, tmp_path / "clients"))
    run = start_run(network, config, tmp_path / "server").run()
    assert_same(tmp_path / "clients", twin, run.result)
    assert [line["loss"] for line in run.history] == [line["loss"] for line in twin.history]


def test_kept_moments_give_the_same_too(federation: Federation, tmp_path: Path) -> None:
    config = settings(moments="keep", start="independent")
    network = Network(make_agents(federation, tmp_path / "clients"))
    run = start_run(network, config, tmp_path / "server").run()
    assert_same(tmp_path / "clients", Training(federation, config, secret=SECRET).run(), run.result)


def test_another_secret_gives_other_ids_and_the_same_overlap(federation: Federation) -> None:
    one, other = federation.shared(secret=SECRET), federation.shared(secret=b"x" * 32)
    assert {c: len(ids) for c, ids in one.travelling.items()} == {c: len(ids) for c, ids in other.travelling.items()}
    assert any(not np.array_equal(one.ids[c], other.ids[c]) for c in one.clients)


def test_alignment_by_tokens_is_that_by_names(federation: Federation) -> None:
    tokens = {
        name: np.frombuffer(b"".join(sorted(token(e, SECRET) for e in graph.entities)), np.uint8).reshape(-1, 32)
        for name, graph in federation.graphs.items()
    }
    found, expected = align(tokens), federation.shared(secret=SECRET)
    for name in CLIENTS:
        assert np.array_equal(np.sort(expected.ids[name]), found.ids[name])
        assert np.array_equal(expected.travelling[name], found.travelling[name])


def test_tokens_that_end_in_zeros_are_not_cut() -> None:
    tokens = np.zeros((2, 32), np.uint8)
    tokens[1, 0] = 1
    assert align({"a": tokens, "b": tokens[:1]}).ids["a"].tolist() == [0, 1]


# What leaves a client


def test_what_reaches_the_server_has_no_names_triples_or_relations(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    run = start_run(network, settings("fede", evaluate="after_training"), tmp_path / "server").run()
    heard = b"".join(network.heard)
    names = {name for graph in federation.graphs.values() for name in (*graph.entities, *graph.relations)}
    found = [name for name in names if len(name) > 6 and name.encode() in heard]
    assert not found
    shared = federation.shared(secret=SECRET)
    width = run.config.build_model().entity_width
    for name in CLIENTS:
        tables = tables_of(tmp_path / "clients", name)
        assert not any(row.tobytes() in heard for row in tables.relation)
        own = ~np.isin(shared.ids[name], shared.travelling[name])
        assert own.any()
        assert not any(row.tobytes() in heard for row in tables.entity[own])
    for raw in network.heard:
        message = unpack(split(raw)[1])
        assert set(message.fields) <= FIELDS[message.kind] | {"from", "run", "nonce", "request"}
        assert set(message.arrays) == ARRAYS[message.kind]
        if "entity/values" in message.arrays:
            assert message.arrays["entity/values"].shape == (len(shared.travelling[message.fields["from"]]), width)


FIELDS = {
    "hello": {"protocol", "package", "fingerprint", "entities", "triples"},
    "begin": set(),
    "train": {"round", "loss", "seconds"},
    "evaluate": {"round", "valid"},
    "finish": {"round", "valid", "test"},
}
ARRAYS: dict[str, set[str]] = {
    "hello": {"tokens"},
    "begin": {"entity/ids", "entity/values"},
    "train": {"entity/ids", "entity/values"},
    "evaluate": set(),
    "finish": set(),
}


def test_every_message_and_field_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")
    for kind, fields in FIELDS.items():
        (row,) = re.findall(rf"^\| `{kind}` response \|(.*)$", text, re.MULTILINE)
        assert set(re.findall(r"`([\w/]+)`", row)) == fields | {
            name.replace("entity", "TABLE") for name in ARRAYS[kind]
        }, kind


def test_tokens_are_sent_once_and_in_an_order_that_says_nothing(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    run = start_run(network, settings(rounds=1), tmp_path / "server")
    for _ in run:
        break
    start_run(network, settings(rounds=1), tmp_path / "server", resume=True).run()
    tokens = [n.arrays["tokens"] for n in (unpack(split(raw)[1]) for raw in network.heard) if "tokens" in n.arrays]
    assert len(tokens) == len(CLIENTS)
    assert all(sorted(map(bytes, part)) == list(map(bytes, part)) for part in tokens)


def test_clients_get_their_own_row_of_the_affinity(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    run = start_run(network, settings(), tmp_path / "server").run()
    (folder,) = (tmp_path / "clients" / "atlas").iterdir()
    lines = [line for line in Run(folder).history if "affinity" in line]
    at = {line["round"]: line["affinity"]["atlas"] for line in run.history if "affinity" in line}
    assert at
    for line in lines:
        assert set(line["affinity"]) == {"atlas"}
        if line["round"] in at:
            assert line["affinity"]["atlas"] == at[line["round"]]


# Plug-ins

PLUGINS = {part: f"plugins:{part.upper()}" for part in ("method", "model", "objective", "optimizer")}


@pytest.mark.parametrize(
    "parts", [{"method": PLUGINS["method"]}, {"method": PLUGINS["method"], "evaluate": "after_aggregation"}, PLUGINS]
)
def test_plugins_give_the_results_of_the_embedded_run(
    federation: Federation, tmp_path: Path, parts: dict[str, str]
) -> None:
    config = settings(**(parts | {"trust": 0.7, "fraction": 0.67, "rounds": 5}))
    twin = Training(federation, config, secret=SECRET).run()
    network = Network(make_agents(federation, tmp_path / "clients", allowed=PLUGINS.values()))
    for _ in start_run(network, config, tmp_path / "server"):  # a break: scalars and state come from the checkpoint
        break
    run = start_run(network, config, tmp_path / "server", resume=True).run()
    assert_same(tmp_path / "clients", twin, run.result)
    assert [line["loss"] for line in run.history] == [line["loss"] for line in twin.history]
    begun = [message for message in (unpack(split(raw)[1]) for raw in network.heard) if message.kind == "begin"]
    assert all(message.fields["scalars"] == {"loss": 0.0} and "degree/values" in message.arrays for message in begun)
    (folder,) = (tmp_path / "clients" / "atlas").iterdir()
    assert read_json(folder / "config.json")["method"] == PLUGINS["method"]


@pytest.mark.parametrize("part", PLUGINS)
def test_a_plugin_that_a_client_does_not_allow_is_refused(federation: Federation, tmp_path: Path, part: str) -> None:
    agents = make_agents(federation, tmp_path / "clients", allowed=PLUGINS.values())
    others = [identifier for name, identifier in PLUGINS.items() if name != part]
    agents["commerce"] = make_agents(federation, tmp_path / "clients", allowed=others)["commerce"]
    network = Network(agents)
    told = f"client 'commerce' refuses the run: the {part} '{PLUGINS[part]}' is not built in, and this client does not"
    with pytest.raises(InputError, match=re.escape(told)) as caught:
        start_run(network, settings(**PLUGINS), tmp_path / "server")
    assert str(caught.value).endswith(f"to allow it: pfedeg client allow DIR {PLUGINS[part]}")
    assert not (tmp_path / "server").exists()


def test_code_that_is_not_allowed_is_not_even_imported(federation: Federation, tmp_path: Path) -> None:
    atlas = make_agents(federation, tmp_path)["atlas"]
    wanted = settings().as_dict() | {"method": "antigravity:METHOD; reboot"}
    message = request("hello", settings=wanted, protocol=PROTOCOL, package=_package())
    answer = unpack(split(atlas.respond(pack(message, FakeSigner("server").sign)) or b"")[1])
    assert answer.kind == "refusal"
    assert answer.text("reason").endswith("pfedeg client allow DIR 'antigravity:METHOD; reboot'")
    assert "antigravity" not in sys.modules


def test_an_allowed_plugin_that_is_not_installed_is_named(federation: Federation, tmp_path: Path) -> None:
    atlas = make_agents(federation, tmp_path, allowed=["nowhere.mine:METHOD"])["atlas"]
    wanted = settings().as_dict() | {"method": "nowhere.mine:METHOD"}
    message = request("hello", settings=wanted, protocol=PROTOCOL, package=_package())
    answer = unpack(split(atlas.respond(pack(message, FakeSigner("server").sign)) or b"")[1])
    assert "'nowhere.mine:METHOD' is allowed at this client but cannot be loaded" in answer.text("reason")


def test_a_run_does_not_go_on_with_a_plugin_that_is_allowed_no_more(federation: Federation, tmp_path: Path) -> None:
    config = settings(PLUGINS["method"])
    network = Network(make_agents(federation, tmp_path / "clients", allowed=PLUGINS.values()))
    run = start_run(network, config, tmp_path / "server")
    for _ in run:
        break
    atlas = make_agents(federation, tmp_path / "clients")["atlas"]
    answer = atlas.respond(pack(request("train", run=run.name, round=2), FakeSigner("server").sign)) or b""
    assert "is not built in, and this client does not allow it" in unpack(split(answer)[1]).text("reason")


def test_what_a_method_does_not_declare_is_not_sent(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = plugins.DegreeWeighted.upload

    def upload(self: Any, client: Any) -> Upload:
        found = right(self, client)
        return Upload({**found.tables, "relation": found.tables["degree"]}, found.scalars) if client.loss else found

    monkeypatch.setattr(plugins.DegreeWeighted, "upload", upload)
    network = Network(make_agents(federation, tmp_path / "clients", allowed=PLUGINS.values()))
    with pytest.raises(RunError, match=r"atlas: method Degree-weighted, client 'atlas': invalid upload"):
        start_run(network, settings(PLUGINS["method"]), tmp_path / "server").run()
    assert not any("relation/values" in unpack(split(raw)[1]).arrays for raw in network.heard)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda fields, arrays: fields["scalars"].update(loss=float("1e999")), "scalar 'loss' is inf, not a finite"),
        (lambda fields, arrays: fields["scalars"].update(loss="low"), "scalar 'loss' is 'low', not a finite number"),
        (lambda fields, arrays: fields["scalars"].update(loss=True), "scalar 'loss' is True, not a finite number"),
        (lambda fields, arrays: fields["scalars"].update(loss=10**400), "int too large"),
        (lambda fields, arrays: fields["scalars"].update(more=1.0), "scalars: expected loss, found loss, more"),
        (lambda fields, arrays: fields.pop("scalars"), "scalars: expected loss, found none"),
        (lambda fields, arrays: fields.update(scalars=[1.0]), "scalars are not an object"),
        (lambda fields, arrays: arrays.pop("degree/ids"), "table 'degree' without ids or values"),
        (
            lambda fields, arrays: arrays.update({"degree/values": arrays["degree/values"].astype(np.float64)}),
            "table 'degree': its values are float64",
        ),
        (
            lambda fields, arrays: arrays.update({"degree/values": arrays["entity/values"]}),
            "table 'degree': its values are float32 of shape",
        ),
        (
            lambda fields, arrays: arrays.update({"degree/values": arrays["degree/values"] * np.float32(np.nan)}),
            "table 'degree': values that are not finite",
        ),
        (
            lambda fields, arrays: arrays.update({"degree/ids": arrays["degree/ids"][::-1].copy()}),
            "table 'degree': its ids are not those",
        ),
        (
            lambda fields, arrays: arrays.update(
                {"extra/ids": arrays["degree/ids"], "extra/values": arrays["degree/values"]}
            ),
            "tables: expected entity, degree, found",
        ),
        (lambda fields, arrays: arrays.update({"loose": arrays["degree/values"]}), "table '' without ids or values"),
    ],
)
def test_an_upload_that_the_method_does_not_declare_is_refused(
    federation: Federation, tmp_path: Path, spoil: Callable[..., Any], reason: str
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients", allowed=PLUGINS.values()))

    def tamper(name: str, raw: bytes) -> bytes:
        message = unpack(split(raw)[1])
        if (name, message.kind, message.fields.get("round")) != ("atlas", "train", 2):
            return raw
        fields, arrays = json.loads(json.dumps(dict(message.fields))), dict(message.arrays)
        spoil(fields, arrays)
        return (
            infinite(message) if "inf" in reason else pack(Message(message.kind, fields, arrays), FakeSigner(name).sign)
        )

    def infinite(message: Message) -> bytes:
        """With 1e999, which JSON reads as infinity and `pack` does not write."""
        text = split(pack(message, FakeSigner("atlas").sign))[1]
        loss = repr(message.fields["scalars"]["loss"]).encode()
        body = text.replace(
            b'scalars\\": {\\"loss\\": ' + loss, b'scalars\\": {\\"loss\\": ' + b"1e999".ljust(len(loss))
        )
        assert body != text
        signature = FakeSigner("atlas").sign(body)
        return len(signature).to_bytes(2, "big") + signature + body

    network.change = tamper
    log: list[str] = []
    config = settings(PLUGINS["method"], rounds=3)
    run = start_run(network, config, tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2), log=log).run()
    assert reason in run.history[1]["missing"]["atlas"]
    assert "missing" not in run.history[2]
    assert any("atlas" in line and reason in line for line in log)


# Agreement before the first round


def test_a_client_with_another_secret_is_named(federation: Federation, tmp_path: Path) -> None:
    agents = make_agents(federation, tmp_path / "clients")
    agents["commerce"] = make_agents(federation, tmp_path / "clients", secret=b"other" * 8)["commerce"]
    with pytest.raises(
        InputError,
        match=r"different alignment secrets \('atlas' (\w{8})…, 'commerce' (?!\1)\w{8}…, 'government' \1…\)",
    ):
        start_run(Network(agents), settings(), tmp_path / "server")
    assert not (tmp_path / "server").exists()


def test_a_client_that_is_enrolled_under_another_name_is_told(federation: Federation, tmp_path: Path) -> None:
    atlas = make_agents(federation, tmp_path)["atlas"]
    message = request("hello", to="ATLAS", settings=settings().as_dict(), protocol=PROTOCOL, package=_package())
    answer = unpack(split(atlas.respond(pack(message, FakeSigner("server").sign)) or b"")[1])
    assert answer.kind == "refusal"
    assert answer.text("reason") == "this client is called 'atlas', and the server has enrolled it as 'ATLAS'"


def test_no_overlap_at_all_gets_a_hint(tmp_path: Path) -> None:
    graphs = {n: KnowledgeGraph.from_names([(f"{n}{i}", "r", f"{n}{i + 1}") for i in range(5)]) for n in ("a", "b")}
    network = Network(make_agents(Federation(graphs), tmp_path / "clients"))
    with pytest.raises(InputError, match="the clients share no entities; do all clients use the same names"):
        start_run(network, settings(), tmp_path / "server")


def test_another_version_is_refused_by_the_client(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    monkeypatch.setattr("pfedeg.network.server_transport.package_version", lambda: "9.9")
    with pytest.raises(InputError, match=r"'atlas' refuses the run: the server runs pfedeg 9\.9, this client"):
        start_run(network, settings(), tmp_path / "server")


@pytest.mark.parametrize("wrong", [{"dim": 0}, {"method": "single"}, {"unknown": 1}, {"rounds": None}])
def test_settings_that_are_not_whole_are_refused_by_the_client(
    federation: Federation, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    atlas = make_agents(federation, tmp_path)["atlas"]
    fields = request("hello", settings=settings().as_dict() | wrong, protocol=PROTOCOL, package=_package())
    answer = unpack(split(atlas.respond(pack(fields, FakeSigner("server").sign)) or b"")[1])
    assert answer.kind == "refusal"
    assert "settings" in answer.text("reason")


def _package() -> str:
    from pfedeg.training.run_folder import package_version

    return package_version()


def request(kind: str, arrays: dict[str, Any] | None = None, **fields: Any) -> Message:
    usual = {"to": "atlas", "run": "r1", "nonce": "n1", "certificate": "c"}
    return Message(kind, usual | fields, arrays or {})


# What a client refuses


@pytest.mark.parametrize(
    ("message", "hand"),
    [
        (request("hello"), "stranger"),
        (request("train"), "commerce"),
    ],
)
def test_a_client_does_not_answer_what_is_not_from_its_server_and_for_itself(
    federation: Federation, tmp_path: Path, message: Message, hand: str
) -> None:
    atlas = make_agents(federation, tmp_path)["atlas"]
    assert atlas.respond(pack(message, FakeSigner(hand).sign)) is None
    assert not (tmp_path / "atlas").exists()


@pytest.mark.parametrize(
    "raw", [b"", b"\0" * 40, b"\0\x20" + b"x" * 100, b"\0\x01x" + b"\xff" * 80, b"PK\x03\x04" * 50]
)
def test_a_client_does_not_answer_rubbish(federation: Federation, tmp_path: Path, raw: bytes) -> None:
    assert make_agents(federation, tmp_path)["atlas"].respond(raw) is None


@pytest.mark.parametrize("run", ["../evil", "", "a/b", "A" * 65, ".hidden"])
def test_a_run_cannot_be_named_to_leave_the_folder(federation: Federation, tmp_path: Path, run: str) -> None:
    atlas = make_agents(federation, tmp_path / "home")["atlas"]
    message = request("hello", run=run, settings=settings().as_dict(), protocol=PROTOCOL, package=_package())
    answer = unpack(split(atlas.respond(pack(message, FakeSigner("server").sign)) or b"")[1])
    assert answer.kind == "refusal"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda fields, arrays: arrays.update({"entity/values": arrays["entity/values"] * np.nan}), "not finite"),
        (
            lambda fields, arrays: arrays.update({"entity/values": arrays["entity/values"].astype(np.float64)}),
            "its values are float64 of shape",
        ),
        (
            lambda fields, arrays: arrays.update({"entity/values": arrays["entity/values"][:, :4]}),
            "not float32 of shape",
        ),
        (
            lambda fields, arrays: arrays.update({"entity/ids": arrays["entity/ids"] + 10**6}),
            "its ids are not those of the client's shared entities",
        ),
        (
            lambda fields, arrays: arrays.update({"entity/ids": arrays["entity/ids"][::-1].copy()}),
            "its ids are not those of the client's shared entities, in order",
        ),
        (lambda fields, arrays: arrays.pop("entity/ids"), "table 'entity' without ids or values"),
        (lambda fields, arrays: fields.update(round=0), "round is 0"),
    ],
)
def test_a_client_checks_what_it_downloads(
    federation: Federation, tmp_path: Path, spoil: Callable[..., Any], reason: str
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    push = network.push

    def tamper(node: int, body: bytes) -> str:
        message = unpack(split(body)[1])
        if message.kind == "train" and message.fields["to"] == "atlas":
            fields, arrays = dict(message.fields), dict(message.arrays)
            spoil(fields, arrays)
            body = pack(Message("train", fields, arrays), FakeSigner("server").sign)
        return push(node, body)

    network.push = tamper  # type: ignore[method-assign]
    run = start_run(network, settings(rounds=1), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2)).run()
    assert reason in run.history[0]["missing"]["atlas"]


# What the server refuses


def spoil_values(change: Callable[[Any], Any]) -> Callable[..., Any]:
    def spoil(fields: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["entity/values"] = change(arrays["entity/values"])

    return spoil


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (spoil_values(lambda values: values * np.float32(np.inf)), "not finite"),
        (spoil_values(lambda values: values.astype(np.float64)), "float32"),
        (spoil_values(lambda values: values[:-1]), "not float32 of shape"),
        (spoil_values(lambda values: values + np.float32(2)), "a number changed by"),
        (
            lambda fields, arrays: arrays.update({"entity/ids": arrays["entity/ids"] + 1}),
            "its ids are not those of the client's shared entities",
        ),
        (lambda fields, arrays: fields.update(round=1), "round is 1, expected 2"),
        (lambda fields, arrays: fields.update(loss="low"), "loss is missing"),
        (lambda fields, arrays: fields.update(loss=None), "loss is missing"),
        (lambda fields, arrays: "evaluate", "response 'evaluate' to request 'train'"),
        (lambda fields, arrays: fields.update({"from": "commerce"}), "from is 'commerce', expected 'atlas'"),
        (lambda fields, arrays: fields.update(nonce="0" * 32), "nonce is"),
        (lambda fields, arrays: fields.update(run="other"), "run is 'other', expected"),
    ],
)
def test_an_upload_that_cannot_be_is_refused_and_the_last_good_one_used(
    federation: Federation, tmp_path: Path, spoil: Callable[..., Any], reason: str
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))

    def tamper(name: str, raw: bytes) -> bytes:
        message = unpack(split(raw)[1])
        return (
            edit(name, raw, spoil)
            if (name, message.kind, message.fields.get("round")) == ("atlas", "train", 2)
            else raw
        )

    network.change = tamper
    log: list[str] = []
    config = settings(rounds=3)
    run = start_run(network, config, tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2), log=log)
    good = {}
    for done in run:
        good[done.number] = run._transport.latest["atlas"].tables["entity"].values
    assert np.array_equal(good[2], good[1])
    assert not np.array_equal(good[3], good[2])
    assert reason in run.history[1]["missing"]["atlas"]
    assert "missing" not in run.history[2]
    assert any("refused" in line and reason in line for line in log)


def test_a_replayed_upload_is_refused(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    kept: list[bytes] = []

    def replay(name: str, raw: bytes) -> bytes:
        message = unpack(split(raw)[1])
        if name != "atlas" or message.kind != "train":
            return raw
        kept.append(raw)
        return kept[0]

    network.change = replay
    run = start_run(network, settings(rounds=2), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2)).run()
    assert "missing" not in run.history[0]
    assert "nonce is" in run.history[1]["missing"]["atlas"]


def test_an_answer_in_anothers_name_does_not_stop_its_own(federation: Federation, tmp_path: Path) -> None:
    config = settings(rounds=2)
    network = Network(make_agents(federation, tmp_path / "clients"))
    forged = []

    def forge(name: str, raw: bytes) -> bytes:
        if name == "atlas" and not forged and unpack(split(raw)[1]).kind == "train":
            forged.append(raw)
            return edit("commerce", raw, lambda fields, arrays: None)
        return raw

    network.change = forge
    log: list[str] = []
    run = start_run(network, config, tmp_path / "server", log=log).run()
    assert_same(tmp_path / "clients", Training(federation, config, secret=SECRET).run(), run.result)
    assert any("in the name of 'atlas': not signed by this client" in line for line in log)


@pytest.mark.parametrize("metrics", [None, {"triples": 3}, {"triples": -1}, "good", 7])
def test_metrics_that_cannot_be_are_refused(federation: Federation, tmp_path: Path, metrics: Any) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))

    def tamper(name: str, raw: bytes) -> bytes:
        wrong = name == "atlas" and unpack(split(raw)[1]).kind == "evaluate"
        return edit(name, raw, lambda fields, arrays: fields.update(valid=metrics)) if wrong else raw

    network.change = tamper
    run = start_run(network, settings(rounds=2), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2)).run()
    assert sorted(run.history[1]["valid"]["clients"]) == ["commerce", "government"]


def test_a_number_may_move_as_far_as_adam_can(federation: Federation) -> None:
    rows = federation.shared(secret=SECRET).travelling["atlas"]
    from pfedeg.graphs.alignment import Rows

    before = Rows(rows, np.zeros((len(rows), 2), np.float32))
    check_change(before, Rows(rows, np.full((len(rows), 2), 0.5, np.float32)), 0.5)
    with pytest.raises(ProtocolError, match=r"changed by 0\.5; training changes it by 0\.4"):
        check_change(before, Rows(rows, np.full((len(rows), 2), 0.5, np.float32)), 0.4)
    with pytest.raises(ProtocolError, match="changed by nan"):
        check_change(before, Rows(rows, np.full((len(rows), 2), np.nan, np.float32)), 0.4)


@pytest.mark.parametrize("start", ["shared", "independent"])
def test_rows_to_start_from_cannot_be_made_up(federation: Federation, tmp_path: Path, start: str) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))

    def tamper(name: str, raw: bytes) -> bytes:
        wrong = name == "atlas" and unpack(split(raw)[1]).kind == "begin"
        return edit(name, raw, spoil_values(lambda values: values * np.float32(100))) if wrong else raw

    network.change = tamper
    with pytest.raises(InputError, match="'atlas' does not begin: its response was refused: begin: "):
        start_run(network, settings(start=start), tmp_path / "server")


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("hello", lambda fields, arrays: fields.update(triples=10**400)),
        ("hello", lambda fields, arrays: fields.update(triples=True)),
        ("train", lambda fields, arrays: fields.update(round=10**400)),
        ("evaluate", lambda fields, arrays: fields["valid"].update(triples=10**400)),
        ("evaluate", lambda fields, arrays: fields["valid"].update(triples=10**9)),
        ("finish", lambda fields, arrays: fields.update(test={"triples": 1, "mrr": "1"})),
    ],
)
def test_odd_numbers_do_not_stop_the_server(
    federation: Federation, tmp_path: Path, kind: str, spoil: Callable[..., Any]
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))

    def tamper(name: str, raw: bytes) -> bytes:
        message = unpack(split(raw)[1])
        late = message.fields.get("round", 9) > 2  # how many triples it evaluates is known by then
        return edit(name, raw, spoil) if name == "atlas" and message.kind == kind and (late or kind == "train") else raw

    network.change = tamper
    refused = pytest.raises(InputError, match="'atlas' refuses the run") if kind == "hello" else nullcontext()
    with refused:
        run = start_run(network, settings(), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2)).run()
        lines = [*run.history, run.result or {}]
        assert any("its response was refused" in line.get("missing", {}).get("atlas", "") for line in lines)


def test_text_that_cannot_be_written_is_refused(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))

    def tamper(name: str, raw: bytes) -> bytes:
        if name != "atlas" or unpack(split(raw)[1]).kind != "train":
            return raw
        body = split(raw)[1].replace(b'\\"seconds\\"', b'\\"\\\\ud800\\" ')
        assert body != split(raw)[1]
        signature = FakeSigner("atlas").sign(body)
        return len(signature).to_bytes(2, "big") + signature + body

    network.change = tamper
    run = start_run(network, settings(rounds=1), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2)).run()
    assert "not a message (UnicodeEncodeError)" in run.history[0]["missing"]["atlas"]


def test_a_client_outlives_text_that_cannot_be_written(federation: Federation, tmp_path: Path) -> None:
    atlas = make_agents(federation, tmp_path)["atlas"]
    raw = pack(request("hello", certificate="XXXXXX"), FakeSigner("server").sign)
    body = split(raw)[1].replace(b"XXXXXX", b"\\\\ud800"[:7].ljust(6))
    signature = FakeSigner("server").sign(body)
    assert atlas.respond(len(signature).to_bytes(2, "big") + signature + body) is None


def test_what_fails_at_a_client_is_told_without_its_paths(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))

    def fail(seed: int) -> Any:
        raise InputError("/secret/place/train.tsv, line 2: Alice has two columns")

    network.agents["atlas"]._graph = fail
    with pytest.raises(InputError, match="error with its files") as caught:
        start_run(network, settings(), tmp_path / "server")
    assert "Alice" not in str(caught.value)
    assert b"Alice" not in b"".join(network.heard)


# Faults


def test_a_client_that_is_removed_is_left_out_at_once(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    run = start_run(network, settings(), tmp_path / "server", policy=WaitPolicy(2, 60, 60))
    for done in run:
        if done.number == 1:
            network.removed = {"atlas"}
    assert [line.get("missing", {}).get("atlas") for line in run.history] == [None, *["is no longer enrolled"] * 3]
    again = start_run(network, settings(), tmp_path / "server", resume=True, policy=WaitPolicy(2, 0.3, 0.2))
    assert sorted(again.run().result["test"]["clients"]) == ["commerce", "government"]  # type: ignore[index]


def test_without_enough_clients_a_removal_ends_the_run(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    log: list[str] = []
    run = start_run(network, settings(), tmp_path / "server", log=log)
    network.removed = {"atlas"}
    told = "2 of 3 clients responded, 3 are needed (atlas: is no longer enrolled); continue with --resume --quorum 2"
    with pytest.raises(RunError, match=re.escape(told)):
        run.run()
    assert len(log) < 20


def test_a_run_resumes_without_a_client_if_the_quorum_allows(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    patience = WaitPolicy(2, 0.3, 0.2)
    for _ in start_run(network, settings(), tmp_path / "server", policy=patience):
        break
    network.offline = {"atlas"}
    run = start_run(network, settings(), tmp_path / "server", resume=True, policy=patience).run()
    assert all(line["missing"]["atlas"] == "is offline" for line in run.history[1:])


def test_a_graph_that_changes_counts_from_the_next_run_on(federation: Federation, tmp_path: Path) -> None:
    config = settings()
    network = Network(make_agents(federation, tmp_path / "clients"))
    for _ in start_run(network, config, tmp_path / "server"):
        break
    other = Federation({**federation.graphs, "atlas": Federation.world().graphs["census"]})
    network.agents = make_agents(other, tmp_path / "clients")
    run = start_run(network, config, tmp_path / "server", resume=True).run()
    assert_same(tmp_path / "clients", Training(federation, config, secret=SECRET).run(), run.result)


def test_a_client_killed_while_it_begins_can_begin_again(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings()
    network = Network(make_agents(federation, tmp_path / "clients"))
    real, killed = client_agent.write_arrays, []

    def die_once(path: Path, *rest: Any) -> None:
        if path.name == "alignment.safetensors" and not killed:
            killed.append(path)
            raise KeyboardInterrupt
        real(path, *rest)

    monkeypatch.setattr(client_agent, "write_arrays", die_once)
    push = network.push

    def restart(node: int, body: bytes) -> str:
        try:
            return push(node, body)
        except KeyboardInterrupt:
            name = CLIENTS[node]
            network.agents[name] = make_agents(federation, tmp_path / "clients")[name]
            network.joined[name] += 1
            return "lost"

    network.push = restart  # type: ignore[method-assign]
    run = start_run(network, config, tmp_path / "server").run()
    assert killed
    assert_same(tmp_path / "clients", Training(federation, config, secret=SECRET).run(), run.result)


def test_a_client_keeps_every_line_of_its_history(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    real, failed = client_session.ClientSession._record, []

    def fail_once(self: Any, number: int, download: Any) -> None:
        if number == 2 and not failed:
            failed.append(number)
            raise OSError("no space")
        real(self, number, download)

    monkeypatch.setattr(client_session.ClientSession, "_record", fail_once)
    run = start_run(network, settings(), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2))
    for done in run:
        if done.number == 2:
            (name,) = set(CLIENTS) - set(done.loss)
    (folder,) = (tmp_path / "clients" / name).iterdir()
    assert [line["round"] for line in Run(folder).history] == [1, 3, 4]
    assert run.history[1]["missing"][name].startswith("the client failed (OSError)")


def test_a_round_that_is_asked_for_again_with_other_knowledge_is_undone_first(
    federation: Federation, tmp_path: Path
) -> None:
    def rounds(home: Path, *scales: float) -> Any:
        """What atlas answers last, if it is asked for round 2 with its own rows, scaled in these ways."""
        network = Network(make_agents(federation, home / "clients"))
        run = start_run(network, settings(), home / "server")
        for _ in run:
            break
        rows = run._transport.latest["atlas"].tables["entity"]
        for scale in scales:
            fields = {"to": "atlas", "run": run.name, "nonce": f"n{scale}", "certificate": "c", "round": 2}
            message = Message(
                "train", fields, {"entity/ids": rows.ids, "entity/values": rows.values * np.float32(scale)}
            )
            raw = network.agents["atlas"].respond(pack(message, FakeSigner("server").sign))
        return unpack(split(raw or b"")[1])

    once, again = rounds(tmp_path / "once", 1.01), rounds(tmp_path / "again", 0.99, 1.01)
    assert np.array_equal(once.arrays["entity/values"], again.arrays["entity/values"])
    assert once.fields["loss"] == again.fields["loss"] != rounds(tmp_path / "other", 0.99).fields["loss"]


def test_a_client_can_undo_the_first_round_that_it_took_part_in(federation: Federation, tmp_path: Path) -> None:
    config = settings(rounds=4)
    network = Network(make_agents(federation, tmp_path / "clients"))
    patience = WaitPolicy(2, 0.3, 0.2)
    run = start_run(network, config, tmp_path / "server", policy=patience)
    for done in run:
        network.offline = {"atlas"} if done.number == 1 else set()
        if done.number == 2:
            break
    (folder,) = (tmp_path / "clients" / "atlas").iterdir()
    found = client_session.ClientSession(
        folder, folder.name, "atlas", network.agents["atlas"]._engine, lambda text: None
    )
    assert found.saved.round == 1
    found._roll_back_before(1)
    assert found.saved.round == 0


def test_who_is_missing_is_in_the_history_and_comes_back(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    run = start_run(network, settings(rounds=4), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2))
    for done in run:
        network.offline = {"atlas"} if done.number == 1 else set()
    assert [sorted(line.get("missing", {})) for line in run.history] == [[], ["atlas"], [], []]
    assert run.history[1]["missing"]["atlas"] == "is offline"
    assert sorted(run.history[1]["loss"]) == ["commerce", "government"]


def test_a_round_below_the_quorum_is_repeated(federation: Federation, tmp_path: Path) -> None:
    config = settings(rounds=2)
    network = Network(make_agents(federation, tmp_path / "clients"))
    lost = iter([True, True, True])

    def lose(name: str, raw: bytes) -> bytes | None:
        message = unpack(split(raw)[1])
        return None if name == "atlas" and message.kind == "train" and next(lost, False) else raw

    network.change = lose
    log: list[str] = []
    run = start_run(network, config, tmp_path / "server", log=log, policy=WaitPolicy(3, 0.3, 0.2)).run()
    assert [line for line in log if "2 of 3 clients responded, 3 are needed: repeating the round for atlas" in line]
    assert_same(tmp_path / "clients", Training(federation, config, secret=SECRET).run(), run.result)


def test_refusals_below_the_quorum_end_the_run_with_a_reason(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    network.change = lambda name, raw: (
        edit(name, raw, lambda fields, arrays: fields.update(loss=None))
        if unpack(split(raw)[1]).kind == "train"
        else raw
    )
    with pytest.raises(RunError, match=r"0 of 3 clients responded, 3 are needed \(atlas: its response was refused"):
        start_run(network, settings(), tmp_path / "server").run()


@pytest.mark.parametrize("method", ["pfedeg-plus", "pfedeg-plus-reg"])
def test_clients_may_die_between_any_two_messages(federation: Federation, tmp_path: Path, method: str) -> None:
    config = settings(method)
    network = Network(make_agents(federation, tmp_path / "clients"))
    turn = iter(range(10**6))

    def die(name: str, raw: bytes) -> bytes | None:
        """Every third time the client's process is another one afterwards; every sixth time its answer is lost."""
        now = next(turn)
        if now % 3 == 0:
            network.agents[name] = make_agents(federation, tmp_path / "clients")[name]
            network.joined[name] += 1
        return None if now % 6 == 0 else raw

    network.change = die
    run = start_run(network, config, tmp_path / "server").run()
    assert_same(tmp_path / "clients", Training(federation, config, secret=SECRET).run(), run.result)


class Crash(BaseException):
    """The server's process dies."""


@pytest.mark.parametrize("method", ["pfedeg-plus", "fede", "pfedeg-star-reg"])
def test_the_server_may_die_at_any_answer(federation: Federation, tmp_path: Path, method: str) -> None:
    config = settings(method, rounds=3)
    twin = Training(federation, config, secret=SECRET).run()
    network = Network(make_agents(federation, tmp_path / "clients"))

    count = [0]

    def crash(name: str, raw: bytes) -> bytes:
        count[0] += 1
        if count[0] in (7, 15, 20, 27, 36, 46, 58):
            raise Crash
        return raw

    network.change = crash
    crashes = 0
    result = None
    for _ in range(40):
        try:
            first = not (tmp_path / "server").exists()
            run = start_run(network, config, tmp_path / "server", resume=not first)
            result = run.run().result
            break
        except Crash:
            crashes += 1
    assert crashes == 7
    assert_same(tmp_path / "clients", twin, result)


def test_a_client_that_has_lost_its_files_is_named_on_resume(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    for _ in start_run(network, settings(), tmp_path / "server"):
        break
    network.agents |= {"atlas": make_agents(federation, tmp_path / "elsewhere")["atlas"]}
    with pytest.raises(InputError, match="'atlas' refuses the run: its files of this run are missing"):
        start_run(network, settings(), tmp_path / "server", resume=True)


def test_a_client_that_misses_the_end_gets_its_result_on_resume(federation: Federation, tmp_path: Path) -> None:
    config = settings()
    network = Network(make_agents(federation, tmp_path / "clients"))
    patience = WaitPolicy(2, 0.3, 0.2)
    run = start_run(network, config, tmp_path / "server", policy=patience)
    for done in run:
        if done.number == 4:
            network.offline = {"atlas"}
    assert run.result is not None
    assert run.result["missing"] == {"atlas": "is offline"}
    network.offline = set()
    again = start_run(network, config, tmp_path / "server", resume=True).run()
    assert_same(tmp_path / "clients", Training(federation, config, secret=SECRET).run(), again.result)


def test_messages_are_bounded_before_they_are_read(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    network.change = lambda name, raw: (
        raw + b"\0" * (64 << 20) if name == "atlas" and unpack(split(raw)[1]).kind == "train" else raw
    )
    log: list[str] = []
    run = start_run(network, settings(rounds=1), tmp_path / "server", policy=WaitPolicy(2, 0.3, 0.2), log=log).run()
    assert "atlas" in run.history[0]["missing"]
    assert any("too large" in line for line in log)


def test_the_servers_folder_has_no_tables_and_no_names(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    start_run(network, settings(), tmp_path / "server").run()
    assert sorted(path.name for path in (tmp_path / "server").iterdir() if path.name != ".lock") == [
        "config.json",
        "history.jsonl",
        "provenance.json",
        "result.json",
    ]
    assert read_json(tmp_path / "server" / "provenance.json")["clients"] == list(CLIENTS)


def test_a_servers_run_can_be_shown_and_says_where_its_tables_are(federation: Federation, tmp_path: Path) -> None:
    network = Network(make_agents(federation, tmp_path / "clients"))
    start_run(network, settings(), tmp_path / "server").run()
    shown = CliRunner().invoke(cli, ["show", str(tmp_path / "server")])
    assert " MB sent over the network" in shown.output
    with pytest.raises(InputError, match="a server's run; the clients have the graphs and tables"):
        Run(tmp_path / "server").evaluate("test")


def test_only_federated_methods_have_a_server(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="single does not run over a network"):
        start_run(Network(make_agents(federation, tmp_path)), settings("single"), tmp_path / "server", policy=SOON)
