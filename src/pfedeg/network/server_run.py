"""A run with remote clients, as the server sees it: rounds, checkpoints, who is missing, the result."""

import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfedeg.checked_files import Arrays, parsing
from pfedeg.errors import InputError
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.graphs.knowledge_graph import Split
from pfedeg.methods.exchange import Upload
from pfedeg.methods.registry import METHODS
from pfedeg.network.client_session import digest
from pfedeg.network.server_transport import RemoteTransport
from pfedeg.training.config import Config
from pfedeg.training.evaluation import Metrics
from pfedeg.training.last_mix import Mix
from pfedeg.training.rounds import Round
from pfedeg.training.run_folder import CHECKPOINT, RunFolder, provenance
from pfedeg.training.run_loop import RunLoop


def new_name() -> str:
    """A unique name for a run."""
    return f"{time.strftime('%Y-%m-%d')}-{secrets.token_hex(4)}"


class ServerRun(RunLoop):
    """An iterator over the rounds of a federation; connect(run) gives the transport to its clients."""

    _transport: RemoteTransport

    def __init__(
        self,
        config: Config,
        connect: Callable[[str], RemoteTransport],
        *,
        out: Path,
        name: str = "",
        resume: bool = False,
        threads: int | None = None,
    ) -> None:
        """Waits until all clients are online and have accepted the run. `name` identifies the run at the clients."""
        if not config.method_type.is_federated:
            federated = ", ".join(method.name for method in METHODS.values() if method.is_federated)
            raise InputError(f"{config.method} does not run over a network; choose from {federated}")
        super().__init__(config, config.build_strategy(threads), RunFolder(out))
        assert self._folder is not None
        self._final: Mapping[str, Mapping[ClientId, Metrics]] | None = None
        origin = self._folder.read("provenance.json") if self._folder.exists() else {}
        saved = self._open_run(origin, resume)
        unfinished = self.result is not None and self.result.get("missing")
        if unfinished and (out / CHECKPOINT).exists():  # a client still lacks its result
            saved, self.result = self._folder.load_checkpoint(), None
        self.name: str = origin.get("federation") or name or new_name()
        if self.result is not None:
            return
        if origin and saved is None:
            raise InputError(f"{out}: the run has no checkpoint; remove it and start a new one")
        self._transport = connect(self.name)
        self._left_out = self._transport.limits.left_out  # the same object, which grows
        if saved is None:
            self._begin()
        else:
            with parsing(out / CHECKPOINT):
                self._restore(*saved)
                for client, upload in self._transport.latest.items():
                    ids = self._shared.travelling[client]
                    self._strategy.uploads.check(upload, ids, config.build_model().entity_width)
            self._transport.handshake(
                {name: digest(ids, self._shared.travelling[name]) for name, ids in self._shared.ids.items()}
            )
        self._snapshot = self._checkpoint_arrays(), self._checkpoint_fields()
        self.save()

    def _begin(self) -> None:
        transport, folder = self._transport, self._folder
        assert folder is not None
        transport.handshake()
        self._shared = transport.shared
        transport.uploads()
        found = digest(*self._shared.ids.values())
        origin = provenance(found, f"clients of run {self.name}", self.config.seed)
        origin |= {"labels": self.config.labels(), "traits": self.config.traits()}
        origin |= {"clients": list(self._shared.clients), "federation": self.name}
        folder.create(self.config.as_dict(), origin, {})

    def _checkpoint_due(self) -> bool:
        return True  # clients can roll back one round only, so a checkpoint must follow every round

    def _keep_best(self, members: list[ClientId], mix: Mix | None) -> None:
        self._transport.best_round = self._progress.round

    def _history_line(self, done: Round) -> dict[str, Any]:
        self._transport.set_affinity(done.number, done.weights)
        line = super()._history_line(done)
        missing = dict(sorted(self._transport.missing.items()))
        more = {"missing": missing, "suspicious": dict(sorted(self._transport.suspicious.items()))}
        more |= {"left_out": dict(sorted(self._left_out.items()))}
        return line | {name: clients for name, clients in more.items() if clients}

    def _evaluate_best(self, split: Split) -> Mapping[ClientId, Metrics]:
        if self._final is None:
            self._final = self._transport.finish(self._progress.round)
        return self._final[split]

    def _save_result(self, result: dict[str, Any]) -> None:
        assert self._folder is not None
        if self._left_out:
            result["left_out"] = dict(sorted(self._left_out.items()))
        if self._transport.missing:
            result["missing"] = dict(sorted(self._transport.missing.items()))
        other = {n: at for n, at in sorted(self._transport.finished.items()) if at != result["best_round"]}
        if other:  # a client that missed the evaluation of the best round keeps earlier tables
            result["tables_of_round"] = other
        self._folder.finish({}, {}, result, keep_checkpoint=bool(self._transport.missing))

    def _checkpoint_arrays(self) -> Arrays:
        arrays, transport = super()._checkpoint_arrays(), self._transport
        for i, name in enumerate(self._shared.clients):
            arrays[f"ids/{i}"] = self._shared.ids[name]
            for table, rows in transport.latest[name].tables.items():
                arrays |= {f"latest/{i}/{table}/ids": rows.ids, f"latest/{i}/{table}/values": rows.values}
        return arrays

    def _checkpoint_fields(self) -> dict[str, Any]:
        transport, clients = self._transport, self._shared.clients
        return super()._checkpoint_fields() | {
            "clients": list(clients),
            "accepted": [transport.accepted[name] for name in clients],
            "triples": [transport.triples[name] for name in clients],
            "scalars": [dict(transport.latest[name].scalars) for name in clients],
            "best_round": transport.best_round,
            "limits": transport.limits.fields(),
        }

    def _restore(self, arrays: Arrays, fields: dict[str, Any]) -> None:
        super()._restore(arrays, fields)
        clients = fields["clients"]
        shared = Shared({name: arrays[f"ids/{i}"] for i, name in enumerate(clients)})
        transport = self._transport
        self._shared = transport.shared = shared
        transport.latest = {
            name: Upload(_tables(arrays, f"latest/{i}/"), fields["scalars"][i]) for i, name in enumerate(clients)
        }
        transport.accepted = dict(zip(clients, fields["accepted"], strict=True))
        transport.triples = dict(zip(clients, fields["triples"], strict=True))
        transport.best_round = fields["best_round"]
        if "limits" in fields:  # not in checkpoints of earlier versions
            transport.limits.restore(fields["limits"])


def _tables(arrays: Arrays, prefix: str) -> dict[str, Rows]:
    """The tables that were saved under a prefix."""
    names = {name.removeprefix(prefix).rpartition("/")[0] for name in arrays if name.startswith(prefix)}
    return {
        name: Rows(np.asarray(arrays[f"{prefix}{name}/ids"]), np.asarray(arrays[f"{prefix}{name}/values"]))
        for name in sorted(names)
    }
