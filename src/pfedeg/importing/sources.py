"""Import sources: files, folders and standard input, their formats and compression."""

import hashlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pfedeg.errors import InputError
from pfedeg.importing.limits import FREELY, Limits, exceeded

RDF = ("nt", "nq", "ttl", "trig", "rdf", "jsonld")
FORMATS = (*RDF, "tsv", "csv", "parquet", "fede")
FEDERATIONS = ("fede",)  # of which a file has all clients
SUFFIXES = {
    **{name: name for name in FORMATS if name != "fede"},
    "ntriples": "nt",
    "nquads": "nq",
    "turtle": "ttl",
    "owl": "rdf",
    "xml": "rdf",
    "json": "jsonld",
    "txt": "tsv",
    "pkl": "fede",
    "pickle": "fede",
    "pq": "parquet",
}
DETECTED = 1 << 16  # decompressed bytes by which the format is detected
COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst"}
CONFLICTS = {  # detected format: formats that cannot be meant
    "rdf": ("nt", "nq", "ttl", "trig", "jsonld", "tsv", "csv"),
    "nt": ("rdf", "jsonld", "tsv", "csv"),
}
UNSUPPORTED = {  # by the first bytes
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save it as CSV",
    b"\xfd7zXZ": "an xz-compressed file; decompress it, or use gzip, bzip2 or zstd",
    b"\x89PNG": "a PNG image",
    b"%PDF": "a PDF file",
}


@dataclass
class Source:
    """A file or standard input in one of FORMATS. Reading counts its bytes and hashes its content."""

    path: Path | None  # None is standard input
    format: str
    compression: str | None  # gz, bz2, zst
    head: bytes = b""  # the bytes of standard input that were read to detect the format
    bytes_read: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    limits: Limits = field(default_factory=Limits)

    @property
    def name(self) -> str:
        """The name for messages."""
        return str(self.path) if self.path else "standard input"

    @property
    def size(self) -> int:
        """The file size in bytes; 0 for standard input."""
        return self.path.stat().st_size if self.path else 0

    def open(self) -> io.BufferedReader:
        """The decompressed content."""
        try:
            raw: IO[bytes] = self.path.open("rb") if self.path else sys.stdin.buffer
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from None
        counted: Any = Tee(raw, self._count, self.head)
        if self.compression:
            import pyarrow as pa

            counted = pa.input_stream(io.BufferedReader(counted, 1 << 20), compression=COMPRESSIONS[self.compression])
        expanded = 0

        def follow(chunk: bytes) -> None:
            nonlocal expanded
            expanded += len(chunk)
            if expanded > FREELY and expanded > self.limits.max_expansion * self.bytes_read:
                problem = f"expands to more than {self.limits.max_expansion:,} times its size"
                raise exceeded(self.name, problem, "max_expansion")
            self.limits.check_memory(self.name)
            self.digest.update(chunk)

        return io.BufferedReader(Tee(counted, follow), 1 << 20)

    def _count(self, chunk: bytes) -> None:
        self.bytes_read += len(chunk)


class Tee(io.RawIOBase):
    """Reads from a file and passes every chunk to a callback as well."""

    def __init__(self, file: Any, callback: Callable[[bytes], None], before: bytes = b"") -> None:
        """`before` comes first, then the file. At the end, the callback gets an empty chunk."""
        self._file, self._callback, self._before = file, callback, before

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._before[: len(buffer)] or self._file.read(len(buffer))
        self._before = self._before[len(chunk) :]
        buffer[: len(chunk)] = chunk
        self._callback(chunk)
        return len(chunk)

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()
        super().close()


def find_sources(paths: Sequence[str], format: str | None = None) -> list[Source]:
    """The sources at these paths: files, all files of a known type in a folder, or "-" for standard input."""
    found: list[Source] = []
    for text in paths:
        path = Path(text)
        if text == "-":
            head = sys.stdin.buffer.read(4096)
            found.append(Source(None, *_detect("standard input", head, None, format), head))
        elif path.is_dir():
            files = [file for file in _files(path) if _suffix(file)[0] in SUFFIXES]
            if not files:
                known = ", ".join(f".{name}" for name in SUFFIXES)
                raise InputError(f"{path}: no file with a known extension: {known} (also with .gz, .bz2, .zst)")
            found += [_source(file, format) for file in files]
        elif path.exists():
            found.append(_source(path, format))
        else:
            raise InputError(f"{path}: no such file or folder")
    return found


def _files(folder: Path) -> list[Path]:
    """All files below a folder, without hidden ones."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}")

    files = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(parent, name) for name in sorted(names) if not name.startswith(".")]
    return files


def _source(path: Path, format: str | None) -> Source:
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return Source(path, *_detect(str(path), head, SUFFIXES.get(_suffix(path)[0]), format))


def _detect(name: str, head: bytes, by_extension: str | None, given: str | None) -> tuple[str, str | None]:
    """The format and compression of a source: the given format, else that of the extension, else detected."""
    compression = _compression(head)
    inner = _decompressed(head, compression)
    if not inner.strip():
        raise InputError(f"{name}: empty")
    detected = _detect_text(inner)
    unsupported = next((what for magic, what in UNSUPPORTED.items() if inner.startswith(magic)), None)
    if unsupported:
        raise InputError(f"{name}: cannot import {unsupported}")
    chosen = given or by_extension or detected or _refuse(name)
    if (detected == "parquet") != (chosen == "parquet"):
        problem = "not a Parquet file" if chosen == "parquet" else f"a Parquet file, not {chosen}"
        raise InputError(f"{name}: {problem}; rename it, or give its --format")
    if given is None and detected in ("rdf", "nt") and chosen in CONFLICTS[detected]:
        raise InputError(f"{name}: looks like {detected}, not {chosen}; rename it, or add --format {detected}")
    return chosen, compression


def _suffix(path: Path) -> tuple[str, str | None]:
    """The extensions of the format and of the compression."""
    parts = [part.lower() for part in path.name.split(".")[1:]]
    compression = parts.pop() if parts and parts[-1] in COMPRESSIONS else None
    return (parts[-1] if parts else ""), compression


def _compression(head: bytes) -> str | None:
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def _decompressed(head: bytes, compression: str | None) -> bytes:
    """As much of the beginning as can be decompressed."""
    if not compression:
        return head
    import pyarrow as pa

    stream, parts = pa.input_stream(pa.BufferReader(head), compression=COMPRESSIONS[compression]), list[bytes]()
    try:
        while len(parts) < DETECTED // 256 and (chunk := stream.read(256)):
            parts.append(chunk)
    except (OSError, pa.ArrowException):  # the input ends in the middle of a block
        pass
    return b"".join(parts) or b"?"


def _detect_text(head: bytes) -> str | None:
    """The format of uncompressed content."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    first = text.split("\n", 1)[0]
    tests: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("parquet", lambda: head.startswith(b"PAR1")),
        ("rdf", lambda: text.startswith(("<?xml", "<rdf:RDF"))),
        ("jsonld", lambda: text.startswith(("{", "["))),
        ("ttl", lambda: text.lower().startswith(("@prefix", "@base", "prefix ", "base "))),
        ("nt", lambda: first.startswith(("<", "_:")) and first.rstrip().endswith(".")),
        ("tsv", lambda: first.count("\t") >= 2),
        ("csv", lambda: any(first.count(sign) >= 2 for sign in ",;|")),
    )
    return next((name for name, matches in tests if matches()), None)


def _refuse(name: str) -> str:
    raise InputError(f"{name}: unknown format; add --format {'|'.join(FORMATS)}")
