"""Start or resume a run with the clients that are enrolled in a server's folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pfedeg.checked_files import read_json
from pfedeg.errors import InputError
from pfedeg.network.channel import ServerChannel
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor
from pfedeg.network.operations.server_folder import ServerFolder
from pfedeg.network.request_manager import Member, RequestManager, WaitPolicy
from pfedeg.network.server_run import ServerRun
from pfedeg.network.server_transport import RemoteTransport
from pfedeg.training.config import Config


def start_run(
    server: ServerFolder,
    channel: ServerChannel,
    config: Config,
    out: Path,
    *,
    name: str,
    resume: bool,
    policy: WaitPolicy,
    threads: int | None,
    log: Callable[[str], None],
) -> ServerRun:
    """A run with all clients that are enrolled now; a resumed run has the clients with which it began."""
    if supervisor.find(server.path) is None:
        raise InputError(f"{server.path}: the server is not running; start it with `pfedeg server start`")
    enrolled = server.enrollment.keys()
    if not enrolled:
        raise InputError(f"{server.path}: no client is enrolled; `pfedeg server enroll` takes a client's public key")
    if policy.quorum > len(enrolled):
        raise InputError(f"--quorum {policy.quorum}: only {len(enrolled)} clients are enrolled")
    began = out / "provenance.json"
    names = _clients(began) if began.exists() else list(enrolled)
    removed = Member(b"", lambda body, signature: False)  # a client that was removed since; its last upload counts
    members = {
        name: Member(keys.identity(enrolled[name]), partial(keys.signed_by, enrolled[name]))
        if name in enrolled
        else removed
        for name in names
    }
    signer = keys.Signer.of_server(server.path)

    def connect(run: str) -> RemoteTransport:
        requests = RequestManager(
            channel,
            run,
            members,
            sign=signer.sign,
            certificate=signer.certificate,
            policy=policy,
            enrolled=server.enrollment.contains,
            log=log,
        )
        triples = server.enrollment.triples()
        return RemoteTransport(requests, config, names=server.name_for, log=log, most_triples=triples)

    return ServerRun(config, connect, out=out, name=name, resume=resume, threads=threads)


def _clients(provenance: Path) -> list[str]:
    names = read_json(provenance).get("clients")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{provenance}: damaged (clients is not a list of names)")
    return names
