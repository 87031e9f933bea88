"""The client's process: stays connected to the server and responds to its requests; reconnects after faults."""

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from pfedeg.engine.interface import default_engine
from pfedeg.files import load_json, write_json
from pfedeg.graphs.alignment import fingerprint
from pfedeg.network.channel import (
    ClientChannel,
    InvalidMessageError,
    RefusedError,
    RunEndedError,
    UnreachableError,
)
from pfedeg.network.client_agent import ClientAgent
from pfedeg.network.flower_channels import FlowerClientChannel
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations.alignment_secret import read_secret
from pfedeg.network.operations.client_folder import ClientFolder, parse_address, read_graph

POLL = (0.1, 0.3, 2.0)  # seconds between polls for requests: after a request, during a run, when idle
IDLE = 120.0  # seconds without a request after which a client is idle
RECONNECT = (1.0, 10.0)  # seconds before reconnecting: at first, and at most


def work(client: ClientFolder, log: Callable[[str], None]) -> None:
    """Join the server and respond to its requests until terminated."""
    config, key = client.config, keys.read_pair(client.path / "client.key")
    agent = make_agent(client, log)
    signal.signal(signal.SIGTERM, lambda *about: sys.exit(0))
    node_file = client.path / "run" / "node.json"
    number = _node(node_file) if node_file.exists() else 0
    pause, logged = RECONNECT[0], ""
    while True:
        problem = ""
        channel = FlowerClientChannel(parse_address(config.server), str(client.path / "ca.crt"), key, number)
        try:
            channel.join()
            number = channel.node
            write_json(node_file, {"node": number})
            client.write_status("joined")
            log(f"joined {config.server}")
            pause, logged = RECONNECT[0], ""
            _serve(client, channel, agent, log)
        except UnreachableError as error:
            problem = f"cannot reach {config.server}: {_explain(str(error))}"
            client.write_status("unreachable", _explain(str(error)))
        except RefusedError as error:
            problem = f"the server refuses this client; is its key enrolled, and this machine's clock right? ({error})"
            client.write_status("refused", problem)
        except RunEndedError as error:
            problem = f"a run has ended: {error}"
        except SystemExit:
            channel.leave()
            raise
        if problem != logged:
            log(problem)
        logged = problem
        channel.close()
        time.sleep(pause)
        pause = min(2 * pause, RECONNECT[1])


def make_agent(client: ClientFolder, log: Callable[[str], None]) -> ClientAgent:
    """The agent with everything in the client's folder."""
    config, authority = client.config, keys.read_certificate(client.path / "ca.crt")
    secret, signer = read_secret(client.path / "secret"), keys.Signer(keys.read_pair(client.path / "client.key"))

    def trusted(certificate: bytes, body: bytes, signature: bytes) -> bool:
        found = keys.certified(authority, certificate, keys.keep_revoked(client.path, authority, certificate))
        return found is not None and keys.signed_by(found, body, signature)

    return ClientAgent(
        client.path / "runs",
        config.name,
        lru_cache(1)(lambda seed: read_graph(config, seed)),
        secret,
        fingerprint(secret),
        sign=signer.sign,
        trusted=trusted,
        engine=lambda: default_engine(config.threads),
        source=config.data,
        allowed=client.allowed,
        limits=client.limits,
        log=log,
    )


def _serve(client: ClientFolder, channel: ClientChannel, agent: ClientAgent, log: Callable[[str], None]) -> None:
    pause, last = POLL[0], time.monotonic()
    while True:
        try:
            request = channel.receive(client.limits().message_bytes)
        except InvalidMessageError as error:
            log(f"ignored a message: {error}")
            continue
        if request is None:
            time.sleep(pause)
            pause = min(1.1 * pause, POLL[1] if time.monotonic() - last < IDLE else POLL[2])
            continue
        response = agent.respond(request.body)
        if response is not None:
            with suppress(RefusedError, RunEndedError):  # of an earlier run; the server repeats what it still needs
                channel.respond(request, response)
        pause, last = POLL[0], time.monotonic()
        client.write_status("joined")


def _explain(error: str) -> str:
    """What to do about a server that cannot be reached."""
    if "certificate has expired" in error or "certificate is not yet valid" in error:
        return (
            "its certificate has expired (the server operator: pfedeg server renew), or this machine's clock is wrong"
        )
    if "certificate revoked" in error:
        return "its certificate was revoked by `pfedeg server renew`: an old server, or someone who has its key"
    if "CERTIFICATE_VERIFY_FAILED" in error:
        return "its certificate does not match this client's ca.crt; get the right ca.crt from the server operator"
    if "Connection refused" in error or error.startswith("502"):
        return f"{error}; is the server running, and the port right?"
    return error


def _node(file: Path) -> int:
    """The number under which the server last knew this client; 0, which asks for a new one, if the file is damaged."""
    try:
        return int(load_json(file)["node"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return 0
