"""Whom a client trusts: bytes that nobody signed, expired and revoked certificates, repeated requests."""

import base64
import contextlib
import datetime
import json
import random
import socket
import ssl
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("flwr", reason="needs the flower extra")

import httpx
from cryptography.hazmat.primitives import serialization

from loopback import FakeSigner, make_agents
from pfedeg.cli.main import cli
from pfedeg.errors import InputError
from pfedeg.network.http import http_client
from pfedeg.network.messages import PROTOCOL, Message, pack, split, unpack
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations.alignment_secret import make_secret
from pfedeg.network.operations.client_folder import ClientConfig, ClientFolder
from pfedeg.network.operations.client_process import make_agent
from pfedeg.network.operations.server_folder import ServerFolder
from pfedeg.network.operations.server_process import start
from pfedeg.training.config import Config
from pfedeg.training.run_folder import package_version
from toy import toy_federation


@pytest.fixture
def server(tmp_path: Path) -> ServerFolder:
    return ServerFolder.create(tmp_path / "server", "localhost", 18710)


@pytest.fixture
def client(tmp_path: Path, server: ServerFolder) -> ClientFolder:
    make_secret(tmp_path / "secret")
    config = ClientConfig("atlas", "world", "https://localhost:18710")
    return ClientFolder.create(tmp_path / "me", config, ca=server.path / "ca.crt", secret=tmp_path / "secret")


def hello(certificate: bytes, nonce: str = "n1", **more: Any) -> Message:
    settings = Config(method="fede", dim=8).as_dict()
    fields = {"to": "atlas", "run": "r1", "nonce": nonce, "certificate": certificate.decode("latin-1")}
    return Message("hello", fields | {"settings": settings, "protocol": PROTOCOL, "package": package_version()} | more)


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(cli, [*map(str, words)])


def armoured(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"


# Bytes that nobody signed


def test_a_certificate_with_a_wrong_version_does_not_end_the_client(server: ServerFolder, client: ClientFolder) -> None:
    der = keys.read_certificate(server.path / "server.crt").public_bytes(serialization.Encoding.DER)
    place = der.index(bytes([0xA0, 3, 2, 1, 2])) + 4  # [0] INTEGER 2: version 3
    log: list[str] = []
    agent = make_agent(client, log.append)
    for version in (1, 3, 9, 255):
        wrong = armoured(der[:place] + bytes([version]) + der[place + 1 :])
        assert keys.certified(keys.read_certificate(server.path / "ca.crt"), wrong) is None
        assert agent.respond(pack(hello(wrong), keys.Signer.of_server(server.path).sign)) is None
    assert len(log) == 4
    assert all("not signed by the server that this client trusts" in line for line in log)


def test_no_damaged_certificate_or_list_ends_the_client(server: ServerFolder, client: ClientFolder) -> None:
    keys.revoke_server(server.path)
    keys.certify_server(server.path, "localhost")
    signer = keys.Signer.of_server(server.path)
    log: list[str] = []
    agent, chance = make_agent(client, log.append), random.Random(0)
    for _ in range(300):
        damaged = bytearray(signer.certificate)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(7)
        agent.respond(pack(hello(bytes(damaged)), signer.sign))  # may be ignored, must not raise
    assert len(log) > 100


def test_whatever_fails_before_the_signature_is_checked_is_ignored(tmp_path: Path) -> None:
    log: list[str] = []
    (agent,) = list(make_agents(toy_federation(), tmp_path, log=log.append).values())[:1]

    def fail(certificate: bytes, body: bytes, signature: bytes) -> bool:
        raise MemoryError("in a library")

    agent._trusted = fail
    assert agent.respond(pack(hello(b"c"), FakeSigner("server").sign)) is None
    assert log == ["ignored a message: it cannot be read (MemoryError)"]


def test_a_bad_message_from_the_network_does_not_hide_the_others() -> None:
    from pfedeg.network.flower import _read_incoming

    about = SimpleNamespace(message_id="1", reply_to_message_id="2", run_id=3)
    found = _read_incoming(SimpleNamespace(metadata=about), None)
    assert (found.id, found.reply_to, found.error) == ("1", "2", "not a message of ours")


# Repeated requests


def test_a_client_ignores_a_request_that_was_recorded_earlier(tmp_path: Path) -> None:
    log: list[str] = []
    name, agent = next(iter(make_agents(toy_federation(), tmp_path, log=log.append).items()))
    sign = FakeSigner("server").sign
    first, second = (pack(hello(b"c", nonce, to=name), sign) for nonce in ("one", "two"))
    assert agent.respond(first) is not None
    assert agent.respond(first) is not None, "the latest may be repeated: its response may have been lost"
    assert agent.respond(second) is not None
    assert agent.respond(first) is None
    assert agent.respond(pack(hello(b"c", "two", to=name, run="r2"), sign)) is None
    assert log[-2:] == ["ignored a message: a request that repeats the nonce of an earlier one"] * 2
    assert agent.respond(second) is not None


# Revoked and expired certificates


def renewed(server: ServerFolder) -> tuple[keys.Signer, keys.Signer]:
    """The server's signer before and after `server renew`."""
    before = keys.Signer.of_server(server.path)
    assert invoke("server", "renew", server.path).output.endswith("the old ones are revoked\n")
    return before, keys.Signer.of_server(server.path)


def answered(agent: Any, signer: keys.Signer, nonce: str) -> str:
    response = agent.respond(pack(hello(signer.certificate, nonce), signer.sign))
    return "" if response is None else unpack(split(response)[1]).kind


def test_a_client_no_longer_takes_requests_of_a_renewed_key(server: ServerFolder, client: ClientFolder) -> None:
    first, second = renewed(server)
    agent = make_agent(client, lambda text: None)
    assert answered(agent, first, "1") == "hello", "the client has not heard of the renewal"
    assert answered(agent, second, "2") == "hello"
    assert answered(agent, first, "3") == ""
    assert answered(make_agent(client, lambda text: None), first, "4") == "", "also after a restart"
    _, third = renewed(server)
    assert answered(agent, third, "5") == "hello"
    assert answered(agent, second, "6") == ""
    assert answered(agent, first, "7") == ""


def test_an_older_or_foreign_list_does_not_replace_a_newer_one(
    tmp_path: Path, server: ServerFolder, client: ClientFolder
) -> None:
    first, second = renewed(server)
    older = (server.path / keys.REVOKED).read_bytes()
    _, third = renewed(server)
    other = ServerFolder.create(tmp_path / "other", "localhost", 18712)
    for _ in range(3):
        keys.revoke_server(other.path)
    agent = make_agent(client, lambda text: None)
    assert answered(agent, third, "1") == "hello"
    kept = (client.path / keys.REVOKED).read_bytes()
    assert kept == (server.path / keys.REVOKED).read_bytes()
    for i, wrong in enumerate((older, (other.path / keys.REVOKED).read_bytes(), b"-----BEGIN X509 CRL-----\nAAAA\n")):
        answered(agent, keys.Signer(third._key, (server.path / "server.crt").read_bytes() + wrong), f"x{i}")
        assert (client.path / keys.REVOKED).read_bytes() == kept
    assert answered(agent, second, "2") == ""
    assert answered(agent, first, "3") == ""


def test_tls_refuses_a_revoked_certificate(server: ServerFolder, client: ClientFolder) -> None:
    def reach() -> str:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(server.path / "old.crt", server.path / "old.key")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(5)

            def serve() -> None:
                with contextlib.suppress(OSError):
                    context.wrap_socket(listener.accept()[0], server_side=True).close()

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            try:
                with http_client(str(client.path / "ca.crt"), 5) as http:
                    http.get(f"https://localhost:{listener.getsockname()[1]}/")
            except httpx.TransportError as error:
                return str(error)
            finally:
                thread.join(5)
        return ""

    for kind in ("crt", "key"):
        (server.path / f"old.{kind}").write_bytes((server.path / f"server.{kind}").read_bytes())
    assert "CERTIFICATE_VERIFY_FAILED" not in reach()
    _, second = renewed(server)
    assert answered(make_agent(client, lambda text: None), second, "1") == "hello"
    assert "certificate revoked" in reach()


def test_expired_certificates_are_named(
    server: ServerFolder, client: ClientFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "server.crt: valid until 20" in invoke("server", "status", server.path).output
    monkeypatch.setattr(keys, "DAYS_OF_SERVER", 0)
    keys.certify_server(server.path, "localhost")
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-")
    with pytest.raises(InputError, match=rf"server\.crt: the certificate expired on {today}.*pfedeg server renew"):
        start(server)
    shown = invoke("server", "status", server.path).output
    assert f"server.crt: the certificate expired on {today}" in shown
    assert "(pfedeg server renew)" in shown
    assert (
        json.loads(invoke("server", "status", server.path, "--json").output)["certificates"]["ca.crt"]["problem"] == ""
    )
    assert "ca.crt" not in invoke("client", "status", client.path).output
    monkeypatch.setattr(keys, "YEARS_OF_CA", 0)
    keys.make_authority(client.path, "localhost")
    with pytest.raises(InputError, match=r"ca\.crt: the certificate expired on .*; get the new one from the server"):
        client.start()
    assert "ca.crt: the certificate expired on" in invoke("client", "status", client.path).output
