"""What a network costs: seconds per round beyond training, and bytes, for ours on Flower and for a plain Flower app.

python benchmarks/federation.py --data FOLDER [--rounds 6] [--json]

Ours: SuperLink behind nginx (or alone, where there is none), three clients of FB15k-237-Fed3, PFedEG+, TransE.
Plain: SuperLink and three SuperNodes as Flower's documentation starts them, without TLS; an app that sends each node an
array of the same size as our rows and gets it back. Everything on this machine, over loopback.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ours import check_extra
from pfedeg.cli.federation_demo import free_port
from pfedeg.graphs.federation import Federation, partition
from pfedeg.network.flower_install import OFFLINE
from pfedeg.network.operations.nginx import find_nginx
from pfedeg.training.saved_run import Run

NODES = 3
APP = """[project]
name = "plain"
version = "1.0.0"
dependencies = []
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.flwr.app]
publisher = "plain"
[tool.flwr.app.components]
serverapp = "plain.app:server"
clientapp = "plain.app:client"
[tool.flwr.app.config]
rounds = 1
size = 1
out = ""
"""
CODE = """
import json, time
import numpy as np
from flwr.app import ArrayRecord, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()

@client.train()
def train(message, context):
    return Message(content=message.content, reply_to=message)

@server.main()
def main(grid, context):
    config = context.run_config
    while len(nodes := list(grid.get_node_ids())) < 3:
        time.sleep(0.2)
    seconds = []
    for number in range(config["rounds"]):
        began = time.perf_counter()
        messages = []
        for node in nodes:
            rows = np.random.default_rng(node % 97).random(config["size"], np.float32)
            content = RecordDict({"rows": ArrayRecord([rows])})
            about = {"dst_node_id": node, "message_type": MessageType.TRAIN, "group_id": str(number)}
            messages.append(Message(content=content, **about))
        replies = list(grid.send_and_receive(messages))
        assert len(replies) == 3 and not any(reply.has_error() for reply in replies)
        seconds.append(time.perf_counter() - began)
    with open(config["out"], "w") as file:
        json.dump(seconds, file)
"""


def federation(data: Path | None) -> Federation:
    """FB15k-237-Fed3, or a synthetic one of about its size."""
    if data is not None:
        return Federation.read(data / "fb15k-237-fed3.parquet")
    rng = np.random.default_rng(0)
    heads, tails = (rng.integers(0, 14_000, 300_000) for _ in range(2))
    relations = rng.integers(0, 237, 300_000)
    triples = {(f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(heads, relations, tails, strict=True)}
    return partition(sorted(triples), NODES, 0)


def pfedeg(*words: str) -> None:
    """An operator's command."""
    subprocess.run([sys.executable, "-m", "pfedeg", *words], check=True, stdout=subprocess.DEVNULL, env=os.environ)


def measure_ours(graphs: Federation, folder: Path, rounds: int) -> dict[str, Any]:
    """Our federation of processes: seconds per round, of which training, and bytes."""
    port = free_port()
    server, secret = str(folder / "server"), str(folder / "secret")
    graphs.write(folder / "data")
    pfedeg("server", "init", server, "--host", "localhost", "--port", str(port))
    pfedeg("secret", secret)
    names = list(graphs.graphs)
    for name in names:
        where = ("--data", str(folder / "data" / name), "--server", f"https://localhost:{port}")
        keys = ("--ca", f"{server}/ca.crt", "--secret", secret, "--threads", "1")
        pfedeg("client", "init", str(folder / name), "--name", name, *where, *keys)
        pfedeg("server", "enroll", server, name, str(folder / name / "client.pub"))
    try:
        pfedeg("server", "start", server, *([] if find_nginx() else ["--no-proxy"]))
        for name in names:
            pfedeg("client", "start", str(folder / name))
        run = ("--method", "pfedeg-plus", "--rounds", str(rounds), "--epochs", "1", "--eval-every", str(rounds))
        pfedeg("server", "run", server, *run, "--json")
    finally:
        for name in names:
            pfedeg("client", "stop", str(folder / name))
        pfedeg("server", "stop", server)
    history = Run(next((folder / "server" / "runs").iterdir())).history
    trained = [Run(next((folder / name / "runs").iterdir())).history for name in names]
    slowest = [max(line["seconds"] for line in lines) for lines in zip(*trained, strict=True)]
    kept = slice(1, rounds - 1)  # the first compiles, the last evaluates
    overhead = [line["seconds"] - training for line, training in zip(history, slowest, strict=True)][kept]
    return {
        "seconds": float(np.median([line["seconds"] for line in history[kept]])),
        "training": float(np.median(slowest[kept])),
        "overhead": float(np.median(overhead)),
        "bytes_up": history[1]["bytes_up"],
        "bytes_down": history[1]["bytes_down"],
    }


def measure_plain(folder: Path, rounds: int, size: int) -> float:
    """A plain Flower app that sends and returns arrays: seconds per round."""
    app = folder / "app"
    (app / "plain").mkdir(parents=True)
    (app / "pyproject.toml").write_text(APP)
    (app / "plain" / "__init__.py").touch()
    (app / "plain" / "app.py").write_text(CODE)
    home, bin_, port = folder / "home", Path(sys.executable).parent, free_port()
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    environment = {**os.environ, **OFFLINE, "FLWR_HOME": str(home), "PATH": f"{bin_}:{os.environ['PATH']}"}
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with open(folder / f"{len(started)}.log", "w") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))

    try:
        superlink = (f"{bin_}/flower-superlink", "--insecure", "--disable-runtime-dependency-installation")
        start(*superlink, "--host", "127.0.0.1", "--port", str(port))
        time.sleep(5)
        for _ in range(NODES):
            supernode = (f"{bin_}/flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}")
            start(*supernode, "--host", "127.0.0.1", "--port", str(free_port()))
        config = f'rounds={rounds} size={size} out="{folder}/seconds.json"'
        command = [f"{bin_}/flwr", "run", str(app), "here", "--run-config", config]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60 + 40 * rounds
        while not (folder / "seconds.json").exists():
            if time.monotonic() > until:
                raise TimeoutError(f"the plain app did not finish; logs are in {folder}")
            time.sleep(0.5)
        time.sleep(0.5)
        seconds = json.loads((folder / "seconds.json").read_text())
    finally:
        for process in started:
            process.kill()
            process.wait()
    return float(np.median(seconds[1:]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with fb15k-237-fed3.parquet; without it a synthetic graph")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    check_extra("flower", "a federation over a network")
    found: dict[str, Any] = {}
    folder = Path(tempfile.mkdtemp(prefix="pfedeg-federation-"))
    try:
        found["ours"] = ours = measure_ours(federation(options.data), folder / "ours", options.rounds)
        print(
            f"ours: {ours['seconds']:.2f} s per round, {ours['training']:.2f} s of it training, "
            f"{ours['overhead']:.2f} s beyond it; "
            f"{ours['bytes_up'] / 1e6:.1f} MB up, {ours['bytes_down'] / 1e6:.1f} MB down",
            flush=True,
        )
        size = ours["bytes_up"] // 4 // NODES
        for name, each in (("rows", size), ("small", 2_500)):
            found[f"plain_{name}"] = measure_plain(folder / name, options.rounds, each)
            print(
                f"plain Flower, {4 * each / 1e6:.2f} MB each way and node: {found[f'plain_{name}']:.2f} s per round",
                flush=True,
            )
        found["ratio"] = found["plain_rows"] / ours["overhead"]
        print(f"ratio: {found['ratio']:.1f}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
