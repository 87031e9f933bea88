"""Files that carry a checksum, written with it and checked on reading: JSON, lines of JSON, and arrays (safetensors).

The checksum is the SHA-256 of the file, or of the line, with 64 zeros in place of the checksum. Files of earlier
versions have none and are read as they are.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pfedeg.errors import InputError
from pfedeg.files import write_bytes

Arrays = dict[str, NDArray[Any]]
FIELD = "sha256"
NONE = "0" * 64
IN_HEADER = re.compile(rb'"sha256":"([^"]{64})"')
AT_END = re.compile(rb'"([^"]{6})": "([^"]{64})"\s*}\s*$')  # the last field of a JSON object
LINE = re.compile(rb'"sha256": "[^"]{64}"\s*}')
BLOCK = 1 << 20  # bytes
MISMATCH = "the checksum does not match: the file was changed after it was written"


def json_bytes(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    """A JSON object and a line break as bytes, with a checksum as its last field."""
    text = json.dumps({**content, FIELD: NONE}, indent=indent, ensure_ascii=False, allow_nan=False)
    raw = f"{text}\n".encode()
    at = raw.rindex(NONE.encode())
    return raw[:at] + hashlib.sha256(raw).hexdigest().encode() + raw[at + len(NONE) :]


def parse_json(raw: bytes) -> dict[str, Any]:
    """The JSON object in `json_bytes` without the checksum; ValueError if it is none, or was changed."""
    try:
        content = json.loads(raw.decode())
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    if has_checksum(raw):
        at = raw.rindex(b'"', 0, raw.rindex(b'"')) + 1
        whole = raw[:at] + NONE.encode() + raw[at + len(NONE) :]
        if content.pop(FIELD, None) != hashlib.sha256(whole).hexdigest():
            raise ValueError(MISMATCH)
    return content


def has_checksum(raw: bytes) -> bool:
    """Whether JSON ends with a checksum, even if a letter of the field's name was changed."""
    found = AT_END.search(raw)
    return found is not None and sum(a != b for a, b in zip(found[1], FIELD.encode(), strict=True)) <= 1


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file with a checksum, atomically."""
    write_bytes(path, json_bytes(content, indent=2))


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file without its checksum; InputError if it is damaged."""
    try:
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error})") from None


def is_complete(line: bytes) -> bool:
    """Whether a line without a line break is complete apart from that: it has its checksum."""
    return bool(LINE.search(line))


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Turn an exception that unexpected content causes into an InputError that names the file."""
    try:
        yield
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        text = f"no {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path}: damaged ({text})") from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file with a checksum in its metadata, atomically; equal content gives equal files."""
    raw = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {**metadata, FIELD: NONE})
    start = _header_end(raw)
    header = json.loads(raw[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))  # safetensors writes it in any order
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    head, data = len(text).to_bytes(8, "little") + text, memoryview(raw)[start:]
    found = IN_HEADER.search(head)
    assert found is not None
    digest = hashlib.sha256(head)
    digest.update(data)
    write_bytes(path, head[: found.start(1)] + digest.hexdigest().encode() + head[found.end(1) :], data)


def read_arrays(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Arrays and metadata of a safetensors file, without its checksum; InputError if it is damaged."""
    if not path.exists():
        raise InputError(f"{path}: missing; is the run finished and completely copied?")
    try:
        if arrays_checksum(path) is False:
            raise InputError(f"{path}: damaged ({MISMATCH})")
        with safe_open(path, "numpy") as file:
            names = file.keys()  # the open file itself is not iterable
            metadata = {name: text for name, text in (file.metadata() or {}).items() if name != FIELD}
            return {name: file.get_tensor(name) for name in names}, metadata
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: damaged ({error})") from None


def arrays_checksum(path: Path) -> bool | None:
    """Whether a safetensors file fits its checksum; None if it has none."""
    with open(path, "rb") as file:
        size = path.stat().st_size
        head = file.read(8)
        head += file.read(max(0, min(_header_end(head), size) - 8))
        found = IN_HEADER.search(head)
        if found is None:
            return None
        digest = hashlib.sha256(head[: found.start(1)] + NONE.encode() + head[found.end(1) :])
        while block := file.read(BLOCK):
            digest.update(block)
    return found[1] == digest.hexdigest().encode()


def _header_end(raw: bytes) -> int:
    """Where the header of a safetensors file ends."""
    return 8 + int.from_bytes(raw[:8], "little")
