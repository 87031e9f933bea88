"""`make federation-demo`: a server and three clients on this machine, and what each of them can see."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from pfedeg.cli.federation import check_flower
from pfedeg.errors import PfedegError, RunError
from pfedeg.graphs.federation import Federation
from pfedeg.network.operations.alignment_secret import read_secret
from pfedeg.network.operations.nginx import find_nginx
from pfedeg.training.config import configure
from pfedeg.training.local_run import Training
from pfedeg.training.saved_run import Run

CLIENTS = ("atlas", "commerce", "government")
SETTINGS = ("--method", "pfedeg-plus", "--preset", "quick")


def pfedeg(*words: str) -> str:
    """Run and show a command; returns its output."""
    click.secho(f"$ pfedeg {' '.join(words)}", bold=True)
    done = subprocess.run(
        [sys.executable, "-m", "pfedeg", *words], stdout=subprocess.PIPE, stderr=None, text=True, check=False
    )
    click.echo(done.stdout, nl=False)
    if done.returncode:
        raise RunError(f"pfedeg {words[0]} ended with {done.returncode}")
    return done.stdout


def free_port() -> int:
    """A free port such that the next port is free, too."""
    for _ in range(100):
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port
    raise RunError("no free ports")


def show(out: Path, rounds: int, clients: Sequence[str] = CLIENTS) -> None:
    """Run everything from certificates to predictions."""
    began, port = time.monotonic(), free_port()
    server, secret = out / "server", out / "alignment.secret"
    click.echo(f"Everything is in {out}. First the server operator:")
    pfedeg("server", "init", str(server), "--host", "localhost", "--port", str(port))
    click.echo("\nThe clients share a secret, which the server must not have, and each makes its own key pair:")
    out.mkdir(parents=True, exist_ok=True)
    pfedeg("secret", str(secret))
    for name in clients:
        where = ("--data", "world", "--server", f"https://localhost:{port}")
        keys = ("--ca", str(server / "ca.crt"), "--secret", str(secret))
        pfedeg("client", "init", str(out / name), "--name", name, *where, *keys)
    click.echo("\nThe server operator enrols the public keys and starts the server:")
    for name in clients:
        pfedeg("server", "enroll", str(server), name, str(out / name / "client.pub"))
    proxy: tuple[str, ...] = ()
    if find_nginx() is None:
        click.secho("nginx is not installed (apt install nginx-light); using the SuperLink's own TLS instead", fg="red")
        proxy = ("--no-proxy",)
    started = []
    try:
        started.append(("server", server))
        pfedeg("server", "start", str(server), *proxy)
        click.echo("\nThe clients join, and the server operator starts a run:")
        for name in clients:
            started.append(("client", out / name))
            pfedeg("client", "start", str(out / name))
        pfedeg("server", "run", str(server), *SETTINGS, "--rounds", str(rounds))
        _compare(out, server, read_secret(secret), rounds, clients)
        pfedeg("server", "status", str(server))
    finally:
        for kind, folder in reversed(started):
            pfedeg(kind, "stop", str(folder))
    click.echo(f"\nDone in {time.monotonic() - began:.0f} s.")


def _compare(out: Path, server: Path, secret: bytes, rounds: int, clients: Sequence[str]) -> None:
    """Show what each party sees, and check the tables against a run in one process."""
    from pfedeg.network.operations.server_folder import ServerFolder

    (folder,) = [server / "runs" / name for name in ServerFolder(server).runs()]
    graphs = {name: graph for name, graph in Federation.world().graphs.items() if name in clients}
    config = configure({"method": "pfedeg-plus", "rounds": rounds}, "quick")[0]
    twin = Training(Federation(graphs), config, secret=secret).run()
    click.echo("\nWhat the server sees:")
    shared = twin.federation.shared(secret=secret)
    for name in clients:
        entities, common = len(shared.ids[name]), len(shared.travelling[name])
        click.echo(f"  {name}: {entities:,} tokens, and the rows of {common:,} shared entities")
    kept = [path for path in server.rglob("*") if path.is_file()]
    blob = b"".join(path.read_bytes() for path in kept)
    names = {name for graph in graphs.values() for name in (*graph.entities, *graph.relations) if len(name) > 6}
    seen = sorted(name for name in names if name.encode() in blob)
    click.echo(f"  in its {len(kept)} files: {len(seen)} of the {len(names):,} names of more than six letters")
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    up, down = (sum(line[kind] for line in history) / 1e6 for kind in ("bytes_up", "bytes_down"))
    click.echo(f"  traffic: {up:.1f} MB from clients, {down:.1f} MB to clients in {len(history)} rounds")
    click.echo("\nWhat each client has:")
    for name in clients:
        (path,) = (out / name / "runs").iterdir()
        run = Run(path)
        same = all(np.array_equal(a, b) for a, b in zip(run.tables(name), twin.tables[name], strict=True))
        if not same:
            raise RunError(f"{name}: its tables differ from those of the run in one process")
        close = [line["affinity"][name] for line in run.history if "affinity" in line][-1]
        text = ", ".join(f"{other} {share:.0%}" for other, share in close.items() if other != name)
        click.echo(
            f"  {name}: tables identical, bit for bit, to those of the same run in one process; learns from {text}"
        )
    path = next((out / clients[-1] / "runs").iterdir())
    question = ("--head", "Kyoto", "--relation", "in_country", "-k", "3", "--known")
    if clients[-1] == "government":
        pfedeg("predict", str(path), "--client", clients[-1], *question)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/federation-demo"))
@click.option("--rounds", type=click.IntRange(1), default=20)
def main(out: Path, rounds: int) -> None:
    """Run a federation of processes on this machine."""
    if out.exists():
        raise click.ClickException(f"{out}: already exists; remove it or choose another --out")
    try:
        check_flower()
        show(out.resolve(), rounds)
    except PfedegError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
