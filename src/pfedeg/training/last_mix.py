"""The last mix of a run: what each client gave and took before the tables that the run keeps, to explain answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.checked_files import Arrays
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.graphs.triples import Ids
from pfedeg.methods.base import State
from pfedeg.methods.exchange import Contents, Upload
from pfedeg.models.base import Mat, Tables


@dataclass(frozen=True)
class Mix:
    """An aggregation: the uploads that went in, the server's state after it, and who received its result."""

    round: int
    learners: tuple[ClientId, ...]
    uploads: Mapping[ClientId, Upload]
    state: State

    def arrays(self) -> Arrays:
        """All arrays by name; clients by number, since their names may contain anything."""
        found: Arrays = {f"state/{name}": np.asarray(array) for name, array in self.state.items()}
        for i, upload in enumerate(self.uploads.values()):
            for name, rows in upload.tables.items():
                found |= {f"upload/{i}/{name}/ids": rows.ids, f"upload/{i}/{name}/values": rows.values}
        return found

    def fields(self) -> dict[str, Any]:
        """The rest, as JSON."""
        scalars = {name: dict(upload.scalars) for name, upload in self.uploads.items()}
        return {"round": self.round, "learners": list(self.learners), "scalars": scalars}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], fields: Mapping[str, Any]) -> "Mix":
        """The inverse of `arrays` and `fields`."""
        uploads = {}
        for i, (client, scalars) in enumerate(fields["scalars"].items()):
            start, end = f"upload/{i}/", "/values"
            tables = [name[len(start) : -len(end)] for name in arrays if name.startswith(start) and name.endswith(end)]
            rows = {name: Rows(arrays[f"{start}{name}/ids"], arrays[f"{start}{name}{end}"]) for name in tables}
            uploads[client] = Upload(rows, scalars)
        state = {name.removeprefix("state/"): array for name, array in arrays.items() if name.startswith("state/")}
        return cls(int(fields["round"]), tuple(fields["learners"]), uploads, state)


class SavedMix(NamedTuple):
    """The last mix in a run folder, and the aligned ids that it refers to."""

    mix: Mix
    shared: Shared


def pack_mix(mix: Mix, shared: Shared) -> tuple[Arrays, dict[str, str]]:
    """The arrays and the metadata of mix.safetensors."""
    aligned = {f"aligned/{i}": shared.ids[name] for i, name in enumerate(mix.uploads)}
    return mix.arrays() | aligned, {"about": json.dumps(mix.fields())}


def unpack_mix(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> SavedMix:
    """The inverse of `pack_mix`."""
    mix = Mix.of(arrays, json.loads(metadata["about"]))
    return SavedMix(mix, Shared({name: arrays[f"aligned/{i}"] for i, name in enumerate(mix.uploads)}))


class Change(NamedTuple):
    """Rows of a client's entity table, and what a download added to them."""

    rows: Ids
    values: Mat

    def arrays(self) -> Arrays:
        """Both arrays by name."""
        return {"changed/rows": self.rows, "changed/values": self.values}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "Change | None":
        """The inverse of `arrays`; None if they are not among these arrays."""
        if "changed/rows" not in arrays:
            return None
        return cls(arrays["changed/rows"], arrays["changed/values"])


def check_change(change: Change, tables: Tables) -> None:
    """Raise ValueError unless a change from a file names rows of these tables, and has finite values for them."""
    rows, values = change
    if rows.dtype != np.int32 or rows.ndim != 1 or (rows < 0).any() or (rows >= len(tables.entity)).any():
        raise ValueError("changed/rows are not rows of the table")
    if values.dtype != np.float32 or values.shape != (len(rows), tables.entity.shape[1]):
        raise ValueError(f"changed/values are {values.dtype} {values.shape}, which do not fit the table")
    if not np.isfinite(values).all():
        raise ValueError("changed/values has values that are not finite")


def check_mix(mix: Mix, contents: Contents, shared: Shared, width: int) -> None:
    """Raise ValueError unless a mix from a file has the clients of the run, and uploads as the method declares them."""
    if set(mix.uploads) != set(shared.clients) or not set(mix.learners) <= set(shared.clients):
        raise ValueError("its clients are not those of the run")
    for name, upload in mix.uploads.items():
        contents.check(upload, shared.travelling[name], width)
