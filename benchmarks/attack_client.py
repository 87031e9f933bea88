"""What one malicious client does to the others: their test MRR, with and without the limits and the robust mix.

python benchmarks/attack_client.py [--rounds 20] [--method fede] [--json]

The embedded federation of six clients, preset quick, over a network in this process. One client, atlas, trains as it
should but uploads rows that went the other way: its rows from before training, minus its change, times a factor. The
largest factor is the bound of the optimiser, which is all that limited uploads before.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the network in memory

from loopback import FakeSigner, Network, make_agents, start_run  # type: ignore[import-not-found]  # in tests/
from pfedeg.graphs.federation import Federation
from pfedeg.network import request_manager
from pfedeg.network.messages import Message, pack, split, unpack
from pfedeg.training.config import PRESETS, Config

LIAR = "atlas"
FACTORS = (1.0, 2.0, 4.0)  # times its honest change


class Attack:
    """Alters the uploads of the malicious client."""

    def __init__(self, network: Network, factor: float | None, bound: float, random: bool) -> None:
        """Without a factor, every number changes by the `bound` of the optimiser, in a `random` direction or not."""
        self._factor, self._bound, self._random = factor, bound, random
        self._rng = np.random.default_rng(0)
        self._before: dict[str, Any] = {}
        push = network.push

        def watch(node: int, body: bytes) -> Any:
            message = unpack(split(body)[1])
            if message.fields["to"] == LIAR and message.kind == "train":
                self._before = {"entity": message.arrays["entity/values"]}
            return push(node, body)

        network.push = watch
        network.change = self._change

    def _change(self, name: str, raw: bytes) -> bytes:
        message = unpack(split(raw)[1])
        if name != LIAR or message.kind != "train":
            return raw
        before, honest = self._before["entity"], message.arrays["entity/values"]
        change = before - honest
        if self._random:
            change = self._rng.choice([-1.0, 1.0], change.shape) * np.sqrt((change**2).mean(1, keepdims=True))
        change = self._bound * np.sign(change) if self._factor is None else self._factor * change
        arrays = message.arrays | {"entity/values": (before + change).astype(np.float32)}
        return pack(Message(message.kind, message.fields, arrays), FakeSigner(name).sign)


@contextmanager
def no_limits() -> Iterator[None]:
    """As before: nothing but the bound of the optimiser."""
    limits = "pfedeg.network.upload_limits.UploadLimits"
    with (
        mock.patch(f"{limits}.judge", return_value={}),
        mock.patch(f"{limits}.count", return_value=[]),
        mock.patch("pfedeg.network.client_session.check_download"),
    ):
        yield


def measure(config: Config, attack: str, factor: float | None, limits: bool) -> dict[str, Any]:
    """The mean test MRR of the honest clients, and how often the malicious one was refused."""
    federation = Federation.world()
    steps = config.epochs * -(-len(federation.graphs[LIAR].train) // config.batch)
    with tempfile.TemporaryDirectory() as folder:
        network = Network(make_agents(federation, Path(folder) / "clients"))
        if attack != "none":
            Attack(network, factor, config.build_optimizer().reach(steps), attack == "random")
        if limits:
            run = start_run(network, config, Path(folder) / "server").run()
        else:
            with no_limits():
                run = start_run(network, config, Path(folder) / "server").run()
    assert run.result is not None
    clients = {name: each for name, each in run.result["test"]["clients"].items() if name != LIAR}
    weights = [each["triples"] for each in clients.values()]
    refused = [name for line in run.history for name in line.get("suspicious", {})]
    assert set(refused) <= {LIAR}, f"honest clients were refused: {refused}"
    return {
        "mrr": float(np.average([each["mrr"] for each in clients.values()], weights=weights)),
        "refused": len(refused),
        "left_out": LIAR in run.result.get("left_out", {}),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--method", default="fede")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    request_manager.POLL, request_manager.STATUS_POLL = (0.01, 0.05), 0.05
    found = []
    attacks: list[tuple[str, float | None]] = [("none", 1.0)]
    attacks += [(attack, factor) for attack in ("opposite", "random") for factor in (*FACTORS, None)]
    print(f"{options.method}, {options.rounds} rounds: test MRR of the five honest clients")
    print("| upload of the sixth client | no limits | limits | limits, trimmed mean | limits, median |")
    print("|---|---|---|---|---|")
    for attack, factor in attacks:
        cells = []
        for limits, robust in ((False, "none"), (True, "none"), (True, "trimmed"), (True, "median")):
            config = Config(
                method=options.method,
                **{**PRESETS["quick"], "rounds": options.rounds, "robust": robust},
            )
            each = measure(config, attack, factor, limits)
            found.append({"attack": attack, "factor": factor, "limits": limits, "robust": robust, **each})
            cells.append(f"{each['mrr']:.3f}" + (" (left out)" if each["left_out"] else ""))
        what = "honest" if attack == "none" else f"{attack} × {factor:g}" if factor else f"{attack}, up to the bound"
        print(f"| {what} | {' | '.join(cells)} |", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
