"""A federation of real processes (SuperLink, nginx, clients, runs): who must not get in, and what it must survive."""

import io
import json
import os
import random
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from loopback import Network, make_agents, start_run
from pfedeg.checked_files import parse_json, read_json
from pfedeg.errors import InputError, RunError
from pfedeg.graphs.federation import Federation
from pfedeg.network.channel import RefusedError, Request
from pfedeg.network.client_agent import ClientAgent
from pfedeg.network.client_session import ClientSession
from pfedeg.network.messages import PROTOCOL, Message, pack, split, unpack
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor
from pfedeg.network.operations.alignment_secret import make_secret, read_secret
from pfedeg.network.operations.client_folder import ClientConfig, ClientFolder, read_graph
from pfedeg.network.operations.nginx import PATHS, find_nginx
from pfedeg.network.operations.server_folder import ServerFolder
from pfedeg.training.config import configure
from pfedeg.training.local_run import Training
from pfedeg.training.run_folder import RunFolder, package_version
from pfedeg.training.saved_run import Run
from toy import toy_federation

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(find_nginx() is None, reason="nginx is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what Flower imports
]

NAMES = ("atlas", "commerce", "government")
SETTINGS: dict[str, Any] = {"dim": 64, "epochs": 12, "negatives": 32, "rounds": 6, "eval_every": 3}
FLAGS = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
BUILT_IN = ("--method", "pfedeg-plus")
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{Path(__file__).parent}"}
PROTOBUF = {"Content-Type": "application/protobuf", "Accept": "application/protobuf"}


def wait_until(condition: Callable[[], Any], seconds: float, what: str = "") -> Any:
    """What the condition gives once it is true; a failure if it is not in time."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            pytest.fail(f"not within {seconds:.0f} s: {what or condition}")
        time.sleep(0.05)
    return found


def free_port() -> int:
    """A port that is free, and the next one, too; below those that the system gives to connections meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port


class Site:
    """A server and its clients, each in a folder of its own; `within` is put before every command."""

    def __init__(self, path: Path, within: Sequence[str] = ()) -> None:
        self.path, self.within = path, list(within)
        self.secret, self.server, self.port = path / "secret", path / "server", free_port()
        self.address = f"localhost:{self.port}"
        make_secret(self.secret)
        self.home = ServerFolder.create(self.server, "localhost", self.port)
        for name in NAMES:
            self.home.enroll(name, self.add(name).public)

    def add(self, name: str, data: str = "world") -> ClientFolder:
        config = ClientConfig(name, data, f"https://{self.address}", threads=1)
        return ClientFolder.create(self.path / name, config, ca=self.server / "ca.crt", secret=self.secret)

    def start(self) -> None:
        self.pfedeg("server", "start", self.server)
        for name in NAMES:
            self.pfedeg("client", "start", self.path / name)

    def pfedeg(self, *words: Any) -> str:
        command = [*self.within, sys.executable, "-m", "pfedeg", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        for folder in [*self.path.iterdir(), self.server]:
            if (folder / "run" / "lock").exists():
                with suppress(OSError, ValueError):
                    for pid in json.loads((folder / "run" / "processes.json").read_text()).values():
                        os.kill(pid, signal.SIGCONT)
                supervisor.stop(folder)

    def pid(self, name: str) -> int:
        """The process that does the work: of a client, or "superlink" or "nginx" of the server; 0 if there is none."""
        folder, kind = (self.path / name, "client") if name in NAMES else (self.server, name)
        found: int = json.loads((folder / "run" / "processes.json").read_text()).get(kind, 0)
        return found

    def state(self, name: str) -> str:
        return str(ClientFolder(self.path / name).status()["state"])

    def online(self) -> list[str]:
        """The clients that are online."""
        try:
            clients = self.home.status()["clients"]
        except RunError:  # the SuperLink starts
            return []
        return [name for name, about in clients.items() if about["online"]]

    def settle(self) -> None:
        """Wait until all are there again."""
        wait_until(lambda: self.online() == list(NAMES), 60, "all clients joined")

    def node(self, name: str) -> int:
        found: int = json.loads((self.path / name / "run" / "node.json").read_text())["node"]
        return found

    def asked(self, path: str) -> int:
        """How often the proxy was asked for a path and refused it."""
        logs = (self.server / "log" / f"{name}.log" for name in ("access", "refused"))
        return sum(log.read_text().count(path) for log in logs if log.exists())

    @contextmanager
    def run(self, name: str, *words: Any) -> Iterator["Running"]:
        """`pfedeg server run` in the background; killed at the end if it has not ended."""
        out = self.server / "runs" / name
        resumed = out.exists()
        more = ["--resume"] if resumed else [*(() if "--method" in words else BUILT_IN), "--preset", "quick", *FLAGS]
        command = [*self.within, sys.executable, "-m", "pfedeg", "server", "run", self.server, "--out", out, *more]
        with open(self.path / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(word) for word in [*command, *words]], stdout=log, stderr=log, env=ENVIRONMENT
            )
        try:
            yield Running(process, out, self.path / f"{name}.log")
        finally:
            process.kill()
            process.wait()


class Running:
    """A run in the background."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, log: Path) -> None:
        self.process, self.out, self._log = process, out, log

    def said(self) -> str:
        return self._log.read_text()

    def history(self) -> list[dict[str, Any]]:
        file = self.out / "history.jsonl"
        return (
            [parse_json(line) for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
            if (file.exists())
            else []
        )

    def reach(self, number: int, seconds: float = 60) -> None:
        """Wait for the end of a round."""
        wait_until(lambda: len(self.history()) >= number, seconds, f"round {number}: {self.said()}")

    def finish(self, seconds: float = 120) -> dict[str, Any]:
        wait_until(lambda: self.process.poll() is not None, seconds, f"the end of the run: {self.said()}")
        assert self.process.returncode == 0, self.said()
        result: dict[str, Any] = read_json(self.out / "result.json")
        return result


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        site.start()
        yield site
    finally:
        site.stop()


@pytest.fixture
def site(running: Site) -> Site:
    """The federation, with all clients there."""
    running.settle()
    return running


@pytest.fixture(scope="module")
def undisturbed(running: Site) -> Training:
    """The same run with all clients in this process."""
    return reference(running)


def reference(site: Site, **settings: Any) -> Training:
    config, _ = configure(SETTINGS | {"method": "pfedeg-plus"} | settings, "quick")
    federation = Federation({name: read_graph(ClientConfig(name, "world", ""), 0) for name in NAMES})
    return Training(federation, config, threads=1, secret=read_secret(site.secret)).run()


def without_seconds(value: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name != "seconds"}


def assert_undisturbed(site: Site, run: Running, expected: Training) -> None:
    """Result, rounds and all clients' tables are those of a run in one process, bit for bit."""
    assert without_seconds(read_json(run.out / "result.json")) == without_seconds(expected.result or {})
    assert list(map(without_seconds, run.history())) == list(map(without_seconds, expected.history))
    name = read_json(run.out / "provenance.json")["federation"]
    for client in NAMES:
        own = Run(site.path / client / "runs" / name)
        assert [line["loss"] for line in own.history] == [{client: line["loss"][client]} for line in expected.history]
        for found, want in zip(own.tables(client), expected.tables[client], strict=True):
            np.testing.assert_array_equal(found, want)


# Who must not get in


def public(site: Site) -> httpx.Client:
    """A connection to the public port by somebody who knows the CA's certificate."""
    context = ssl.create_default_context(cafile=str(site.server / "ca.crt"))
    return httpx.Client(base_url=f"https://{site.address}", verify=context, timeout=20)


def fleet(site: Site, name: str, node: int = 0) -> Any:
    """A client's end of the network with this client's key; it does not join."""
    from pfedeg.network.flower_channels import FlowerClientChannel

    folder = site.path / name
    return FlowerClientChannel(site.address, str(folder / "ca.crt"), keys.read_pair(folder / "client.key"), node)


def fleet_requests(node: int) -> dict[str, Any]:
    """What a client asks, by path."""
    from flwr.proto.fleet_pb2 import (
        ActivateNodeRequest,
        DeactivateNodeRequest,
        PullMessagesRequest,
        PushMessagesRequest,
    )
    from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
    from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
    from flwr.proto.node_pb2 import Node

    who = Node(node_id=node)
    return {
        "activate-node": ActivateNodeRequest(public_key=b"key", heartbeat_interval=20),
        "deactivate-node": DeactivateNodeRequest(node_id=node),
        "send-node-heartbeat": SendNodeHeartbeatRequest(node=who, heartbeat_interval=20),
        "pull-messages": PullMessagesRequest(node=who),
        "push-messages": PushMessagesRequest(node=who),
        "pull-object": PullObjectRequest(node=who, run_id=1, object_id="x"),
        "push-object": PushObjectRequest(node=who, run_id=1, object_id="x"),
        "confirm-message-received": ConfirmMessageReceivedRequest(node=who, run_id=1, message_object_id="x"),
    }


def auth_headers(folder: Path) -> dict[str, str]:
    """What Flower's own interceptor adds in the name of a key."""
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    key = keys.read_pair(folder / "client.key")
    seen: dict[str, str] = {}

    class Context:
        request = httpx.Request("POST", "https://localhost/")

    NodeAuthHttpInterceptor(key, key.public_key()).intercept(
        Context(), lambda context: seen.update(context.request.headers)
    )
    return {name: value for name, value in seen.items() if name.lower() not in ("host", "content-length")}


def test_without_a_key_nothing_is_answered(site: Site) -> None:
    asked = fleet_requests(site.node("atlas"))
    assert set(asked) == set(PATHS)
    with public(site) as someone:
        for path, request in asked.items():
            found = someone.post(f"/v1/fleet/{path}", content=request.SerializeToString(), headers=PROTOBUF)
            assert found.status_code == 401, (path, found.text)
        body = asked["send-node-heartbeat"].SerializeToString()
        headers = PROTOBUF | auth_headers(site.path / "atlas")
        assert someone.post("/v1/fleet/send-node-heartbeat", content=body, headers=headers).status_code == 200


def test_a_key_speaks_for_its_owner_only(site: Site) -> None:
    asked = fleet_requests(site.node("atlas"))
    with public(site) as someone:
        for path, request in asked.items():
            headers = PROTOBUF | auth_headers(site.path / "government")
            found = someone.post(f"/v1/fleet/{path}", content=request.SerializeToString(), headers=headers)
            assert found.status_code == 401, (path, found.text)


def test_a_stranger_is_refused(site: Site) -> None:
    folder = shutil.copytree(
        site.path / "atlas", site.path / "stranger", ignore=shutil.ignore_patterns("run", "runs", "log")
    )
    (folder / "runs").mkdir()
    keys.make_pair(folder, "atlas")
    site.pfedeg("client", "start", folder)
    try:
        wait_until(lambda: ClientFolder(folder).status()["state"] == "refused", 30, "the stranger is refused")
        assert "enrolled" in ClientFolder(folder).status()["detail"]
    finally:
        site.pfedeg("client", "stop", folder)
    for node in (0, site.node("atlas")):
        end = fleet(site, "stranger", node)
        with pytest.raises(RefusedError, match="401"):
            end.receive(1000)
        end.close()
    assert site.online() == list(NAMES)


def test_only_tls_is_spoken(site: Site) -> None:
    body = fleet_requests(site.node("atlas"))["send-node-heartbeat"].SerializeToString()
    headers = PROTOBUF | auth_headers(site.path / "atlas")
    found = httpx.post(f"http://{site.address}/v1/fleet/send-node-heartbeat", content=body, headers=headers, timeout=20)
    assert found.status_code in (400, 404, 405)


def routes() -> list[str]:
    """Every path of the SuperLink."""
    from fastapi.routing import iter_route_contexts
    from flwr.superlink.main import create_app

    return sorted({str(route.path) for route in iter_route_contexts(create_app().routes)})


def ask(site: Site, target: str, method: str = "POST") -> int:
    """The status of a request with exactly this target."""
    context = ssl.create_default_context(cafile=str(site.server / "ca.crt"))
    head = f"{method} {target} HTTP/1.1\r\nHost: {site.address}\r\nContent-Type: application/protobuf\r\n"
    plain = socket.create_connection(("127.0.0.1", site.port), 20)
    with context.wrap_socket(plain, server_hostname="localhost") as tls:
        tls.sendall(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while b"\r\n" not in answer and (more := tls.recv(4096)):
            answer += more
    return int(answer.split(maxsplit=2)[1])


def test_other_interfaces_are_not_reachable(site: Site) -> None:
    known = routes()
    assert {"/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/push-messages"} <= set(known)
    allowed = {f"/v1/fleet/{path}" for path in PATHS}
    assert allowed < set(known)
    for path in known:
        if path not in allowed:
            assert ask(site, path) == 404, path
            assert ask(site, path, "GET") in (404, 405), path
    for path in allowed:
        assert ask(site, path) in (400, 401, 415, 422), path


@pytest.mark.parametrize(
    "target",
    [
        "/v1/fleet/../control/list-nodes",
        "/v1/fleet/%2e%2e/control/list-nodes",
        "/v1/fleet/..%2fcontrol/list-nodes",
        "/v1/fleet/%2e%2e%2fcontrol%2flist-nodes",
        "/v1/fleet/pull-messages/../../control/list-nodes",
        "/v1/fleet/pull-messages%2f..%2f..%2fcontrol%2flist-nodes",
        "/v1/fleet/pull-messages/..;/..;/control/list-nodes",
        "/v1/fleet/pull-messages;/../../control/list-nodes",
        "//v1/control/list-nodes",
        "/v1//control//list-nodes",
        "/v1/./control/list-nodes",
        "/v1/control/list-nodes/",
        "/v1/control/list-nodes?x=/v1/fleet/pull-messages",
        "/v1/control%2flist-nodes",
        "/V1/CONTROL/LIST-NODES",
        "\\v1\\control\\list-nodes",
        "https://localhost/v1/control/list-nodes",
        "http://127.0.0.1/v1/control/list-nodes",
        "https://localhost/v1/fleet/../control/list-nodes",
        "/v1/fleet/get-fab",
        "/v1/fleet/../fleet/get-fab",
        "/v1/fleet/%67et-fab",
    ],
)
def test_no_detour_leads_to_other_interfaces(site: Site, target: str) -> None:
    assert ask(site, target) in (400, 404)


def hello(site: Site, name: str, sign: Callable[[bytes], bytes], certificate: bytes) -> bytes:
    """A question that every client answers, if it comes from its server."""
    config, _ = configure(SETTINGS | {"method": "pfedeg-plus"}, "quick")
    fields = {
        "to": name,
        "run": "audit",
        "nonce": secrets.token_hex(8),
        "certificate": certificate.decode(),
        "alignment": "",
    }
    more = {"protocol": PROTOCOL, "package": package_version(), "settings": config.as_dict()}
    return pack(Message("hello", fields | more), sign)


def test_code_of_the_server_is_not_run_at_clients(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.app import ConfigRecord, RecordDict
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.proto.fab_pb2 import Fab
    from flwr.supercore.control import ControlHttpClient

    from pfedeg.network import flower

    mark, bundle = tmp_path / "mark", io.BytesIO()
    evil = f"open({str(mark)!r}, 'w').close()\nfrom flwr.clientapp import ClientApp\napp = ClientApp()\n"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("pyproject.toml", flower.APP.replace("pfedeg:installed", "evil:app"))
        archive.writestr("evil.py", evil)
    start = ControlHttpClient.StartRun
    fab = Fab(content=bundle.getvalue())
    monkeypatch.setattr(ControlHttpClient, "StartRun", lambda self, asked: start(self, StartRunRequest(fab=fab)))
    log, node = site.path / "atlas" / "log" / "client.log", site.node("atlas")
    process, heard = site.pid("atlas"), site.asked("get-fab")

    def ignored() -> int:
        return log.read_text().count("ignored a message")

    other = tmp_path / "other"
    other.mkdir()
    keys.make_authority(other, "localhost")
    forger, server = keys.Signer.of_server(other), keys.Signer.of_server(site.server)
    with site.home.channel() as channel:
        channel.open()
        forged = [
            b"train",
            hello(site, "atlas", forger.sign, forger.certificate),
            hello(site, "atlas", forger.sign, server.certificate),
        ]
        for body in forged:
            before = ignored()
            sent = channel.push(node, body)
            wait_until(lambda before=before: ignored() > before, 20, "the message is ignored")
            assert list(channel.pull([sent], 1 << 20)) == []
        with monkeypatch.context() as patch:  # as an app of Flower's would talk
            patch.setattr(flower, "_content", lambda body: RecordDict({"config": ConfigRecord({"lr": 0.1})}))
            before = ignored()
            sent = channel.push(node, b"")
        wait_until(lambda: ignored() > before, 20, "a message of Flower's own kind is ignored")
        assert list(channel.pull([sent], 1 << 20)) == []
        genuine = channel.push(node, hello(site, "atlas", server.sign, server.certificate))
        (reply,) = wait_until(lambda: list(channel.pull([genuine], 1 << 20)), 20, "an answer to the server itself")
        misled = channel.push(node, hello(site, "commerce", server.sign, server.certificate))
        (other_reply,) = wait_until(lambda: list(channel.pull([misled], 1 << 20)), 20, "an answer to the wrong name")
    assert unpack(split(reply.body)[1]).kind == "hello"
    assert unpack(split(other_reply.body)[1]).kind == "refusal"
    assert (site.state("atlas"), site.pid("atlas")) == ("joined", process)
    assert not mark.exists()
    assert site.asked("get-fab") == heard
    assert ask(site, "/v1/fleet/get-fab") == 404
    wait_until(lambda: site.asked("get-fab") == heard + 1, 5, "it would have been seen")


def test_half_a_message_keeps_nobody_waiting(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.proto.message_pb2 import PushObjectResponse
    from flwr.supercore.runtime import RuntimeHttpClient

    server = keys.Signer.of_server(site.server)
    question = hello(site, "atlas", server.sign, server.certificate)
    with site.home.channel() as channel:
        channel.open()
        with monkeypatch.context() as patch:
            patch.setattr(RuntimeHttpClient, "PushObject", lambda self, request: PushObjectResponse(stored=True))
            half = channel.push(site.node("atlas"), question)
        time.sleep(2)
        whole = channel.push(site.node("atlas"), question)
        (reply,) = wait_until(lambda: list(channel.pull([half, whole], 1 << 20)), 10, "an answer to the whole message")
    assert reply.to == whole
    assert unpack(split(reply.body)[1]).kind == "hello"


class Puppet:
    """A client in this process, with the key, the graph and the files of one whose process is stopped."""

    def __init__(self, site: Site, name: str) -> None:
        self.home = ClientFolder(site.path / name)
        from pfedeg.network.operations.client_process import make_agent

        self.agent = make_agent(self.home, lambda text: None)
        self.node = fleet(site, name)

    def serve(self, answer: Callable[[Request, Message, bytes], bytes | None], until: Callable[[], bool]) -> None:
        """Reply what `answer` makes of a request, what it asks and the right reply, until told to stop."""
        self.node.join()
        try:
            while not until():
                request = self.node.receive(1 << 30)
                if request is None:
                    time.sleep(0.1)
                    continue
                right = self.agent.respond(request.body)
                assert right is not None
                changed = answer(request, unpack(split(request.body)[1]), right)
                if changed is not None:
                    with suppress(RefusedError):
                        self.node.respond(request, changed)
        finally:
            self.node.leave()


def test_replayed_and_forged_uploads_are_refused(site: Site, undisturbed: Training) -> None:
    site.pfedeg("client", "stop", site.path / "atlas")
    puppet, other = Puppet(site, "atlas"), fleet(site, "government", site.node("government"))
    thief = keys.Signer(keys.read_pair(site.path / "government" / "client.key"))
    captured: dict[int, bytes] = {}
    asked: list[tuple[str, int]] = []

    def answer(request: Request, note: Message, right: bytes) -> bytes | None:
        number = note.fields.get("round", 0)
        asked.append((note.kind, number))
        if note.kind != "train" or asked.count((note.kind, number)) > 1:
            return right
        captured[number] = right
        if number == 2:
            return captured[1]  # of another round
        if number == 3:  # by another client
            body = split(right)[1]
            signature = thief.sign(body)
            with suppress(RefusedError):
                other.respond(request, len(signature).to_bytes(2, "big") + signature + body)
            return None
        return right

    try:
        with site.run("replayed") as run:
            puppet.serve(answer, lambda: run.process.poll() is not None)
            run.finish()
            said = run.said()
    finally:
        other.close()
        site.pfedeg("client", "start", site.path / "atlas")
    assert "refused a response in the name of 'atlas': nonce is" in said
    assert "refused a response in the name of 'atlas': not signed by this client" in said
    assert (asked.count(("train", 2)), asked.count(("train", 3))) == (2, 2)
    assert_undisturbed(site, run, undisturbed)


def test_a_removed_client_is_out_at_once(site: Site) -> None:
    folder = site.path / "government"
    with site.run("removed", "--quorum", 2) as run:
        run.reach(2)
        site.pfedeg("server", "remove", site.server, "government")
        try:
            wait_until(lambda: site.state("government") == "refused", 30, "the removed client is refused")
            end = fleet(site, "government", site.node("government"))
            with pytest.raises(RefusedError, match="401"):
                end.receive(1000)
            end.close()
            result = run.finish()
        finally:
            with pytest.raises(InputError, match="a removed key can be enrolled again"):
                site.home.enroll("government", folder / "client.pub")
            assert "government" not in site.home.enrollment.keys()  # noqa: SIM118 (a method)
            site.pfedeg("client", "stop", folder)
            keys.make_pair(folder, "government")
            site.pfedeg("server", "enroll", site.server, "government", folder / "client.pub")
            site.pfedeg("client", "start", folder)
    last = run.history()[-1]
    assert last["missing"] == {"government": "is no longer enrolled"}
    assert set(last["loss"]) == {"atlas", "commerce"}
    assert set(result["test"]["clients"]) == {"atlas", "commerce"}


# What it must survive


def test_an_undisturbed_run_equals_one_in_a_process(site: Site, undisturbed: Training) -> None:
    with site.run("undisturbed") as run:
        run.finish()
    assert_undisturbed(site, run, undisturbed)


def test_a_plugin_runs_where_every_client_allows_it(site: Site) -> None:
    words, plugin = ("--method", "plugins:METHOD", "--trust", 0.7), "plugins:METHOD"
    for name in ("atlas", "government"):
        site.pfedeg("client", "allow", site.path / name, plugin)
    with site.run("refused-plugin", *words) as run:
        wait_until(lambda: run.process.poll() is not None, 60, "the run is refused")
        assert run.process.returncode == 2
    (line,) = [line for line in run.said().splitlines() if line.startswith("error: ")]
    told = f"'commerce' refuses the run: the method {plugin!r} is not built in, and this client does not allow it"
    assert f"{told}; to allow it: pfedeg client allow DIR {plugin}" in line
    assert not run.out.exists()
    site.pfedeg("client", "allow", site.path / "commerce", plugin)
    try:
        with site.run("plugin", *words) as run:
            run.finish()
        assert_undisturbed(site, run, reference(site, method=plugin, trust=0.7))
    finally:
        for name in NAMES:
            site.pfedeg("client", "allow", site.path / name, plugin, "--remove")


def test_clients_may_die_at_any_moment(site: Site, undisturbed: Training) -> None:
    with site.run("killed-clients") as run:
        for number, name, delay in ((1, "atlas", 0.1), (2, "commerce", 0.5), (3, "government", 0.8)):
            run.reach(number)
            time.sleep(delay)
            before = site.pid(name)
            os.kill(before, signal.SIGKILL)
            wait_until(lambda name=name, before=before: site.pid(name) not in (0, before), 20, "a new process")
        run.finish()
    assert_undisturbed(site, run, undisturbed)


def test_a_client_that_dies_before_it_records_a_round_does_so_later(tmp_path: Path, monkeypatch: Any) -> None:
    config, _ = configure(SETTINGS | {"method": "fede", "rounds": 3, "dim": 8, "epochs": 1}, "quick")
    network = Network(make_agents(toy_federation(), tmp_path))
    died: list[int] = []
    record = ClientSession._record

    def die(session: ClientSession, number: int, download: Any) -> None:
        if number == 2 and not died:
            died.append(number)
            network.agents |= make_agents(toy_federation(), tmp_path)
            network.joined = dict.fromkeys(network.joined, 1)
            raise Lost
        record(session, number, download)

    class Lost(BaseException):
        pass

    respond = ClientAgent.respond

    def lose(agent: ClientAgent, raw: bytes) -> bytes | None:
        try:
            return respond(agent, raw)
        except Lost:
            return None

    monkeypatch.setattr(ClientSession, "_record", die)
    monkeypatch.setattr(ClientAgent, "respond", lose)
    run = start_run(network, config, tmp_path / "server").run()
    assert died
    for name in network.agents:
        assert [line["round"] for line in RunFolder(tmp_path / name / run.name).history()] == [1, 2, 3]


def test_the_run_may_die_at_any_moment(site: Site, undisturbed: Training) -> None:
    for number, delay in ((1, 0.2), (2, 0.6), (4, 0.9)):
        with site.run("killed-run") as run:
            run.reach(number)
            time.sleep(delay)
            run.process.send_signal(signal.SIGKILL)
            assert run.process.wait(20) == -signal.SIGKILL
            assert not (run.out / "result.json").exists()
    with site.run("killed-run") as run:
        run.finish()
    assert_undisturbed(site, run, undisturbed)


def test_the_superlink_may_die_at_any_moment(site: Site, undisturbed: Training) -> None:
    with site.run("killed-superlink") as run:
        run.reach(2)
        time.sleep(0.4)
        before = site.pid("superlink")
        os.kill(before, signal.SIGKILL)
        run.finish()
        assert site.pid("superlink") not in (0, before)
    assert_undisturbed(site, run, undisturbed)


def test_the_proxy_may_die_at_any_moment(site: Site, undisturbed: Training) -> None:
    with site.run("killed-proxy") as run:
        run.reach(2)
        before = site.pid("nginx")
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: site.pid("nginx") not in (0, before), 20, "a new process")
        time.sleep(3)
        again = site.pid("nginx")
        run.finish()
    assert again == site.pid("nginx")  # the port was free again
    assert_undisturbed(site, run, undisturbed)


def test_nothing_is_left_of_killed_watchers(site: Site) -> None:
    for folder, words in ((site.server, ("server", "start")), (site.path / "atlas", ("client", "start"))):
        left = json.loads((folder / "run" / "processes.json").read_text()).values()
        os.kill(supervisor.find(folder) or 0, signal.SIGKILL)
        wait_until(lambda left=left: not any(Path(f"/proc/{pid}").exists() for pid in left), 20, "they end, too")
        site.pfedeg(*words, folder)
    site.settle()


def test_a_client_that_hangs_is_left_out_and_comes_back(site: Site) -> None:
    words = ("--quorum", 2, "--timeout", 4, "--rounds", 12)
    with site.run("hanging", *words) as run:
        run.reach(1)
        os.kill(site.pid("commerce"), signal.SIGSTOP)
        try:
            wait_until(lambda: sum("missing" in line for line in run.history()) >= 2, 60, "rounds without it")
        finally:
            os.kill(site.pid("commerce"), signal.SIGCONT)
        result = run.finish()
    without = [line for line in run.history() if "missing" in line]
    assert all(line["missing"] == {"commerce": "does not respond"} for line in without)
    assert all(set(line["loss"]) == {"atlas", "government"} for line in without)
    last = run.history()[-1]
    assert (last["round"], set(last["loss"]), "missing" in last) == (12, set(NAMES), False)
    assert set(result["test"]["clients"]) == set(NAMES)


def test_a_round_below_the_quorum_is_repeated(site: Site, undisturbed: Training) -> None:
    with site.run("below-quorum", "--quorum", 3, "--timeout", 3, "--absent-timeout", 3) as run:
        run.reach(2)
        os.kill(site.pid("commerce"), signal.SIGSTOP)
        try:
            wait_until(lambda: run.said().count("repeating the round for commerce") >= 2, 60, "rounds repeated")
            stands = len(run.history())
            wait_until(lambda: run.said().count("repeating the round for commerce") >= 3, 60, "rounds repeated")
            assert len(run.history()) == stands < 6
        finally:
            os.kill(site.pid("commerce"), signal.SIGCONT)
        run.finish()
    assert all("missing" not in line for line in run.history())
    assert_undisturbed(site, run, undisturbed)


def test_a_run_waits_for_who_comes_late(site: Site, undisturbed: Training) -> None:
    site.pfedeg("client", "stop", site.path / "government")
    with site.run("late") as run:
        try:
            wait_until(lambda: "client 'government' is offline" in run.said(), 30, "it is missed")
            time.sleep(2)
            assert run.history() == []
        finally:
            site.pfedeg("client", "start", site.path / "government")
        run.finish()
    assert_undisturbed(site, run, undisturbed)


class Wire:
    """Carries connections to a port, and can be cut."""

    def __init__(self, target: int) -> None:
        self._target, self._open = target, set[socket.socket]()
        self._lock = threading.Lock()
        self._listen(0)
        self.port: int = self._door.getsockname()[1]

    def _listen(self, port: int) -> None:
        self._door = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._accept, args=(self._door,), daemon=True)
        self._thread.start()

    def _accept(self, door: socket.socket) -> None:
        while True:
            try:
                near, _ = door.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            with self._lock:
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while part := one.recv(1 << 16):
                other.sendall(part)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Break every connection, and take no new one."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join()
        with self._lock:
            for end in self._open:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            self._open.clear()

    def mend(self) -> None:
        self._listen(self.port)


def test_a_cut_wire_is_survived(site: Site, undisturbed: Training) -> None:
    wire, file = Wire(site.port), site.path / "atlas" / "client.json"
    plain = file.read_text()
    site.pfedeg("client", "stop", site.path / "atlas")
    file.write_text(plain.replace(f":{site.port}", f":{wire.port}"))
    site.pfedeg("client", "start", site.path / "atlas")
    try:
        site.settle()
        with site.run("cut-wire") as run:
            run.reach(2)
            time.sleep(0.4)
            wire.cut()
            wait_until(lambda: site.state("atlas") == "unreachable", 30, "it notices")
            stands = len(run.history())
            time.sleep(60)  # long enough for Flower to take it for gone
            assert len(run.history()) <= stands + 1 < 6
            wire.mend()
            run.finish()
        assert site.state("atlas") == "joined"
    finally:
        site.pfedeg("client", "stop", site.path / "atlas")
        wire.cut()
        file.write_text(plain)
        site.pfedeg("client", "start", site.path / "atlas")
    assert_undisturbed(site, run, undisturbed)


# Whom it talks to


class Closed:
    """A network of its own that has nothing but loopback; it counts what had no way out, and listens for DNS."""

    def __init__(self, name: str) -> None:
        self.name, self.within = name, ["ip", "netns", "exec", name]
        self._resolver = Path("/etc/netns") / name

    def __enter__(self) -> "Closed":
        self._resolver.mkdir(parents=True)
        (self._resolver / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        subprocess.run(["ip", "netns", "add", self.name], check=True, timeout=20)
        self._ran("ip", "link", "set", "lo", "up")
        listen = (
            "import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.bind(('127.0.0.1', 53))\nprint(flush=True)\n"
        )
        listen += "while True:\n    print(s.recv(4096).hex(), flush=True)\n"
        command = [*self.within, sys.executable, "-c", listen]
        self._log = (self._resolver / "asked").open("w+")
        self._listener = subprocess.Popen(command, stdout=self._log)
        wait_until(lambda: (self._resolver / "asked").stat().st_size, 20, "the resolver listens")
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.kill()
        self._listener.wait()
        self._log.close()
        subprocess.run(["ip", "netns", "del", self.name], check=True, timeout=20)
        shutil.rmtree(self._resolver)

    def _ran(self, *words: str) -> str:
        done = subprocess.run([*self.within, *words], check=True, capture_output=True, text=True, timeout=60)
        return done.stdout

    def outward(self) -> int:
        """How often somebody wanted to reach what is not on this machine, by address."""
        four = self._ran("cat", "/proc/net/snmp").splitlines()
        names, values = (line.split() for line in four if line.startswith("Ip:"))
        six = dict(line.split() for line in self._ran("cat", "/proc/net/snmp6").splitlines())
        return int(dict(zip(names, values, strict=True))["OutNoRoutes"]) + int(six["Ip6OutNoRoutes"])

    def asked(self) -> int:
        """How many questions for names were asked."""
        return len((self._resolver / "asked").read_text().splitlines()) - 1

    def try_out(self, target: str) -> None:
        """Try to reach somebody else."""
        reach = f"    socket.create_connection(({target!r}, 443), 2)"
        code = f"import contextlib, socket\nwith contextlib.suppress(OSError):\n{reach}"
        self._ran(sys.executable, "-c", code)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and ip netns")
def test_nobody_talks_to_anybody_else(tmp_path: Path) -> None:
    with Closed(f"pfedeg-{os.getpid()}") as closed:
        site = Site(tmp_path, closed.within)
        try:
            site.start()
            with site.run("closed") as run:
                run.finish()
        finally:
            site.stop()
        assert (closed.outward(), closed.asked()) == (0, 0)
        assert_undisturbed(site, run, reference(site))
        closed.try_out("192.0.2.1")
        assert closed.outward() > 0  # it would have been seen
        closed.try_out("example.org")
        assert closed.asked() > 0
