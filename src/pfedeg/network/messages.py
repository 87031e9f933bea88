"""What server and clients say to each other: kinds of messages, how they are packed and signed, how they are checked.

A message is facts (JSON) and arrays, in one safetensors blob with its author's signature before it. docs/deployment.md
lists every message and field. Whatever comes from the other side is checked here before it is used.
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

from pfedeg.graphs.alignment import Rows
from pfedeg.graphs.triples import Ids
from pfedeg.methods.exchange import Contents, Download, Upload
from pfedeg.training.evaluation import Metrics
from pfedeg.training.run_folder import Arrays

PROTOCOL = 2
KINDS = ("hello", "begin", "train", "evaluate", "finish", "refusal")
FACTS = 4 << 20  # bytes of facts at most
LARGEST = 1 << 40  # no number of triples, entities or rounds is larger


class ProtocolError(Exception):
    """A message that cannot be accepted, and why."""


@dataclass(frozen=True, slots=True)
class Note:
    """A message: `facts` are JSON; `arrays` are those that travel."""

    kind: str
    facts: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A fact that is a text."""
        value: str = self._fact(name, str)
        return value

    def number(self, name: str, least: int = 0) -> int:
        """A fact that is a whole number."""
        value: int = self._fact(name, int)
        if isinstance(value, bool) or not least <= value < LARGEST:
            raise ProtocolError(f"{self.kind}: {name} is {str(value)[:80]}")
        return value

    def loss(self) -> float:
        """The fact `loss`."""
        value = self._fact("loss", float)
        if not isfinite(value):
            raise ProtocolError(f"{self.kind}: loss is {value}")
        return float(value)

    def _fact(self, name: str, kind: type) -> Any:
        value = self.facts.get(name)
        if not isinstance(value, kind):
            raise ProtocolError(f"{self.kind}: {name} is missing or not a {kind.__name__}")
        return value

    def array(self, name: str, dtype: type, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """An array of the kind and shape that are expected; None stands for any length."""
        found = self.arrays.get(name)
        if found is None or found.dtype != dtype or found.ndim != len(shape):
            raise ProtocolError(f"{self.kind}: {name} is missing or not a {len(shape)}-d array of {dtype.__name__}")
        if any(want is not None and want != have for want, have in zip(shape, found.shape, strict=True)):
            raise ProtocolError(f"{self.kind}: {name} has shape {found.shape}, not {shape}")
        return found


def pack(note: Note, sign: Callable[[bytes], bytes]) -> bytes:
    """A message as signed bytes."""
    facts = json.dumps({"kind": note.kind, **note.facts}, ensure_ascii=False, allow_nan=False)
    body = save({name: np.ascontiguousarray(a) for name, a in note.arrays.items()}, {"facts": facts})
    signature = sign(body)
    return len(signature).to_bytes(2, "big") + signature + body


def split(raw: bytes) -> tuple[bytes, bytes]:
    """Signature and body of packed bytes."""
    length = int.from_bytes(raw[:2], "big")
    if not 0 < length <= 512 or len(raw) < 2 + length + 8:
        raise ProtocolError("not a message")
    return raw[2 : 2 + length], raw[2 + length :]


def unpack(body: bytes) -> Note:
    """The message in a body whose signature has been checked."""
    header = int.from_bytes(body[:8], "little")
    if header > FACTS or header > len(body):
        raise ProtocolError("not a message")
    try:
        described = json.loads(body[8 : 8 + header])
        facts = json.loads(described["__metadata__"]["facts"])
        kind = facts.pop("kind")
        json.dumps(facts, ensure_ascii=False).encode()  # text that cannot be written would fail later
        arrays = load(body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise ProtocolError(f"not a message ({type(error).__name__})") from None
    if kind not in KINDS:
        raise ProtocolError(f"unknown kind of message {str(kind)[:80]!r}")
    return Note(kind, facts, dict(arrays))


def pack_contents(message: Upload) -> tuple[Arrays, dict[str, Any]]:
    """An upload or a download as arrays and facts: `TABLE/ids`, `TABLE/values`, and `scalars`."""
    arrays: Arrays = {}
    for name, rows in message.tables.items():
        arrays |= {f"{name}/ids": rows.ids, f"{name}/values": rows.values}
    return arrays, {"scalars": dict(message.scalars)} if message.scalars else {}


def read_contents(note: Note, contents: Contents, shared: Ids, width: int) -> Upload:
    """What somebody else has sent, as the method declares it: tables, ids, shapes, finite numbers."""
    tables = {}
    for name in {name.rpartition("/")[0] for name in note.arrays}:
        ids, values = note.arrays.get(f"{name}/ids"), note.arrays.get(f"{name}/values")
        if ids is None or values is None:
            raise ProtocolError(f"{note.kind}: table {name[:80]!r} without ids or values")
        tables[name] = Rows(ids, values)
    scalars = note.facts.get("scalars", {})
    if not isinstance(scalars, dict):
        raise ProtocolError(f"{note.kind}: scalars are not an object")
    found = Upload(tables, scalars)
    try:
        contents.check(found, shared, width)
    except (ValueError, ArithmeticError) as error:
        raise ProtocolError(f"{note.kind}: {str(error)[:300]}") from None
    return Upload(tables, {name: float(value) for name, value in scalars.items()})


def as_download(message: Upload) -> Download:
    """The same contents as a download."""
    return Download(message.tables, message.scalars)


def check_change(before: Rows, after: Rows, most: float) -> None:
    """Refuse rows that have moved further than training can move them; `before` may have rows of some ids only."""
    place = np.searchsorted(after.ids, before.ids)
    change = np.abs(after.values[place] - before.values).max(initial=0.0)
    if not change <= most:
        raise ProtocolError(f"a number changed by {change:.3g}; training can change it by {most:.3g} at most")


def metrics_facts(metrics: Metrics) -> dict[str, Any]:
    """Metrics as facts; of no triples, there are none."""
    return metrics.as_dict() | {"triples": metrics.triples}


def read_metrics(facts: Any, kind: str) -> Metrics:
    """Metrics that somebody else has sent."""
    try:
        triples = facts["triples"]
        values = [facts[name] for name in Metrics(0.0, (0.0, 0.0, 0.0), 1).as_dict()]
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
