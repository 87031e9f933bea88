"""Messages between server and clients: kinds and fields, packing and signing, checks.

A message consists of fields (JSON) and arrays in one safetensors blob, preceded by the sender's signature.
docs/deployment.md lists every message and field. Everything received is checked here before it is used.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from pfedeg.checked_files import Arrays
from pfedeg.graphs.alignment import Rows
from pfedeg.graphs.triples import Ids
from pfedeg.methods.exchange import Contents, Download, Upload
from pfedeg.training.evaluation import Metrics

PROTOCOL = 2
KINDS = ("hello", "begin", "train", "evaluate", "finish", "refusal")
MOST_FIELD_BYTES = 4 << 20
LARGEST = 1 << 40  # upper bound for numbers of triples, entities and rounds


class ProtocolError(Exception):
    """A message is invalid; the text says why."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message: `fields` are JSON, `arrays` are sent as they are."""

    kind: str
    fields: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A text field."""
        value: str = self._field(name, str)
        return value

    def integer(self, name: str, least: int = 0) -> int:
        """A field that holds an integer."""
        value: int = self._field(name, int)
        if isinstance(value, bool) or not least <= value < LARGEST:
            raise ProtocolError(f"{self.kind}: {name} is {str(value)[:80]}")
        return value

    def loss(self) -> float:
        """The field `loss`."""
        value = self._field("loss", float)
        if not isfinite(value):
            raise ProtocolError(f"{self.kind}: loss is {value}")
        return float(value)

    def _field(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if not isinstance(value, kind):
            raise ProtocolError(f"{self.kind}: {name} is missing or not a {kind.__name__}")
        return value

    def array(self, name: str, dtype: type, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """An array of the given type and shape; None stands for any length."""
        found = self.arrays.get(name)
        if found is None or found.dtype != dtype or found.ndim != len(shape):
            raise ProtocolError(f"{self.kind}: {name} is missing or not a {len(shape)}-d array of {dtype.__name__}")
        if any(want is not None and want != have for want, have in zip(shape, found.shape, strict=True)):
            raise ProtocolError(f"{self.kind}: {name} has shape {found.shape}, not {shape}")
        return found


def pack(message: Message, sign: Callable[[bytes], bytes]) -> bytes:
    """A message as bytes, signed."""
    fields = json.dumps({"kind": message.kind, **message.fields}, ensure_ascii=False, allow_nan=False)
    body = save({name: np.ascontiguousarray(a) for name, a in message.arrays.items()}, {"fields": fields})
    signature = sign(body)
    return len(signature).to_bytes(2, "big") + signature + body


def split(raw: bytes) -> tuple[bytes, bytes]:
    """Signature and body of a packed message."""
    length = int.from_bytes(raw[:2], "big")
    if not 0 < length <= 512 or len(raw) < 2 + length + 8:
        raise ProtocolError("not a message")
    return raw[2 : 2 + length], raw[2 + length :]


def unpack(body: bytes) -> Message:
    """The message in a body whose signature has been checked."""
    header = int.from_bytes(body[:8], "little")
    if header > MOST_FIELD_BYTES or header > len(body):
        raise ProtocolError("not a message")
    try:
        described = json.loads(body[8 : 8 + header])
        fields = json.loads(described["__metadata__"]["fields"])
        kind = fields.pop("kind")
        json.dumps(fields, ensure_ascii=False).encode()  # text that is not valid Unicode would fail later
        arrays = load(body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise ProtocolError(f"not a message ({type(error).__name__})") from None
    if kind not in KINDS:
        raise ProtocolError(f"unknown kind of message {str(kind)[:80]!r}")
    return Message(kind, fields, dict(arrays))


def pack_contents(contents: Upload) -> tuple[Arrays, dict[str, Any]]:
    """An upload or a download as arrays and fields: `TABLE/ids`, `TABLE/values`, and `scalars`."""
    arrays: Arrays = {}
    for name, rows in contents.tables.items():
        arrays |= {f"{name}/ids": rows.ids, f"{name}/values": rows.values}
    return arrays, {"scalars": dict(contents.scalars)} if contents.scalars else {}


def read_contents(message: Message, contents: Contents, shared: Ids, width: int) -> Upload:
    """A received upload or download, checked against what the method declares."""
    tables = {}
    for name in {name.rpartition("/")[0] for name in message.arrays}:
        ids, values = message.arrays.get(f"{name}/ids"), message.arrays.get(f"{name}/values")
        if ids is None or values is None:
            raise ProtocolError(f"{message.kind}: table {name[:80]!r} without ids or values")
        tables[name] = Rows(ids, values)
    scalars = message.fields.get("scalars", {})
    if not isinstance(scalars, dict):
        raise ProtocolError(f"{message.kind}: scalars are not an object")
    found = Upload(tables, scalars)
    try:
        contents.check(found, shared, width)
    except (ValueError, ArithmeticError) as error:
        raise ProtocolError(f"{message.kind}: {str(error)[:300]}") from None
    return Upload(tables, {name: float(value) for name, value in scalars.items()})


def as_download(message: Upload) -> Download:
    """The same contents as a download."""
    return Download(message.tables, message.scalars)


def check_change(before: Rows, after: Rows, limit: float) -> None:
    """Refuse rows that changed more than training can change them; `before` may lack some of the ids."""
    place = np.searchsorted(after.ids, before.ids)
    change = np.abs(after.values[place] - before.values).max(initial=0.0)
    if not change <= limit:
        raise ProtocolError(f"a number changed by {change:.3g}; training changes it by {limit:.3g} at most")


def metrics_fields(metrics: Metrics) -> dict[str, Any]:
    """Metrics as fields; without triples only their number."""
    return metrics.as_dict() | {"triples": metrics.triples}


def read_metrics(fields: Any, kind: str) -> Metrics:
    """Received metrics, checked."""
    try:
        triples = fields["triples"]
        values = [fields[name] for name in Metrics(0.0, (0.0, 0.0, 0.0), 1).as_dict()]
    except (KeyError, TypeError):
        raise ProtocolError(f"{kind}: metrics are missing") from None
    if not isinstance(triples, int) or isinstance(triples, bool) or not 0 <= triples < LARGEST:
        raise ProtocolError(f"{kind}: metrics of {str(triples)[:80]} triples")
    if not triples:
        return Metrics.of(np.zeros(0))
    if not all(isinstance(value, float | int) and 0 <= value <= 1 for value in values):
        raise ProtocolError(f"{kind}: metrics out of range")
    mrr, *hits = (float(value) for value in values)
    return Metrics(mrr, (hits[0], hits[1], hits[2]), triples)
