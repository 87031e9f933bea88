"""Attacks of strangers on the public port: large bodies and idle connections leave a federation as it is."""

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from test_federation_processes import free_port

from pfedeg.network.flower_channels import FlowerClientChannel
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor
from pfedeg.network.operations.nginx import find_nginx
from pfedeg.network.operations.server_folder import ServerFolder

pytestmark = [pytest.mark.full, pytest.mark.skipif(find_nginx() is None, reason="nginx is not installed")]
MB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerFolder]:
    home = tmp_path_factory.mktemp("soak")
    found = ServerFolder.create(home / "server", "localhost", free_port())
    keys.make_pair(home, "atlas")
    found.enroll("atlas", home / "client.pub")
    subprocess.run([sys.executable, "-m", "pfedeg", "server", "start", str(found.path)], check=True, timeout=60)
    try:
        for _ in range(100):  # the proxy may come up after the SuperLink
            with suppress(OSError), socket.create_connection(("127.0.0.1", found.config.port), 1):
                break
            time.sleep(0.1)
        yield found
    finally:
        supervisor.stop(found.path)


def superlink_mb(server: ServerFolder) -> float:
    """The memory of the SuperLink, with its children."""
    parent = json.loads((server.path / "run" / "processes.json").read_text())["superlink"]
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(process.name)) == parent:
                total += int((process / "statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE") / MB


def join(server: ServerFolder, seconds: float = 10.0) -> None:
    """An enrolled client joins, asks for messages and leaves."""
    key, began = keys.read_pair(server.path.parent / "client.key"), time.monotonic()
    channel = FlowerClientChannel(f"localhost:{server.config.port}", str(server.path / "ca.crt"), key)
    channel.join()
    assert channel.receive(MB) is None
    channel.leave()
    assert time.monotonic() - began < seconds


def connect(server: ServerFolder) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=server.path / "ca.crt")
    return context.wrap_socket(
        socket.create_connection(("127.0.0.1", server.config.port), 10), server_hostname="localhost"
    )


def post(server: ServerFolder, path: str, size: int, key: bytes = b"") -> int:
    """The status of a response to a large body; 0 if the connection was cut first."""
    named = f"flwr-public-key: {base64.b64encode(key).decode()}\r\n" if key else ""
    head = f"POST /v1/fleet/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/protobuf\r\n"
    with connect(server) as stream:
        with suppress(OSError):  # the proxy need not read all
            stream.sendall(f"{head}{named}Content-Length: {size}\r\n\r\n".encode() + bytes(size))
        with suppress(OSError):
            return int(([*stream.recv(100).split(), b"0", b"0"])[1])
    return 0


def test_large_bodies_of_strangers_do_not_reach_the_superlink(server: ServerFolder, tmp_path: Path) -> None:
    join(server)
    before = superlink_mb(server)
    keys.make_pair(tmp_path, "stranger")
    stranger = keys.identity(keys.read_public(tmp_path / "client.pub"))
    requests = [(path, 8 * MB) for path in ("push-object", "push-messages", "activate-node", "pull-messages")] * 12
    requests += [("push-object", 5 * MB), ("activate-node", 8000)] * 12
    with ThreadPoolExecutor(24) as pool:
        found = list(pool.map(lambda each: post(server, *each, stranger), requests))
    assert set(found) <= {0, 401, 413}, found
    assert 401 in found
    assert superlink_mb(server) < before + 100
    join(server)


def test_the_largest_bodies_of_enrolled_clients_are_bounded(server: ServerFolder) -> None:
    mine = keys.identity(keys.read_public(server.path.parent / "client.pub"))
    for path in ("activate-node", "push-messages", "pull-object"):
        assert post(server, path, MB, mine) in (0, 413)
    assert post(server, "push-object", 8 * MB, mine) in (0, 413)
    assert post(server, "push-object", 100, mine) in (400, 401), "this one reaches the SuperLink"


def test_idle_connections_do_not_stop_a_federation(server: ServerFolder) -> None:
    with ExitStack() as stack:
        idle = []
        for number in range(510):
            stream = stack.enter_context(socket.create_connection(("127.0.0.1", server.config.port), 10))
            stream.sendall(b"\x16" if number % 2 else b"P")
            idle.append(stream)
        join(server)
        until = time.monotonic() + 25
        for stream in idle:  # the proxy ends all of them
            stream.settimeout(max(0.1, until - time.monotonic()))
            with suppress(ConnectionError):
                while stream.recv(1000):
                    pass
        join(server)
