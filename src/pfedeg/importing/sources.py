"""Where triples come from: files, folders and standard input, packed or not, and what is in them."""

import hashlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pfedeg.errors import InputError

RDF = ("nt", "nq", "ttl", "trig", "rdf", "jsonld")
FORMATS = (*RDF, "tsv", "csv", "parquet", "fede")
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
PACKED = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst"}
UNLIKE = {"rdf": ("nt", "nq", "ttl", "trig", "jsonld", "tsv", "csv"), "nt": ("rdf", "jsonld", "tsv", "csv")}
STRANGE = {  # what some files turn out to be
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save it as CSV",
    b"\xfd7zXZ": "packed by xz; unpack it, or pack it by gzip, bzip2 or zstd",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF",
}


@dataclass
class Source:
    """A file (or standard input) in one of FORMATS; what is read of it is counted, and its content hashed."""

    path: Path | None  # None is standard input
    format: str
    packed: str | None  # gz, bz2, zst
    head: bytes = b""  # of standard input, which cannot be read twice
    seen: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return str(self.path) if self.path else "standard input"

    @property
    def size(self) -> int:
        """Its bytes as they lie on the disk; 0 if not known."""
        return self.path.stat().st_size if self.path else 0

    def open(self) -> io.BufferedReader:
        """Its content, unpacked."""
        try:
            raw: IO[bytes] = self.path.open("rb") if self.path else sys.stdin.buffer
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from None
        counted: Any = Passing(raw, self._count, self.head)
        if self.packed:
            import pyarrow as pa

            counted = pa.input_stream(io.BufferedReader(counted, 1 << 20), compression=PACKED[self.packed])
        return io.BufferedReader(Passing(counted, self.digest.update), 1 << 20)

    def _count(self, piece: bytes) -> None:
        self.seen += len(piece)


class Passing(io.RawIOBase):
    """Reads from a file, and shows to somebody what passes; what was read of it before comes first."""

    def __init__(self, file: Any, show: Callable[[bytes], None], before: bytes = b"") -> None:
        """`show` is called with every piece, and at the end with an empty one."""
        self._file, self._show, self._before = file, show, before

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._before[: len(buffer)] or self._file.read(len(buffer))
        self._before = self._before[len(piece) :]
        buffer[: len(piece)] = piece
        self._show(piece)
        return len(piece)

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()
        super().close()


def find(paths: Sequence[str], format: str | None = None) -> list[Source]:
    """The sources that paths name: files, all files of a folder that can be read, "-" for standard input."""
    found: list[Source] = []
    for text in paths:
        path = Path(text)
        if text == "-":
            head = sys.stdin.buffer.read(4096)
            found.append(Source(None, *_kind("standard input", head, None, format), head))
        elif path.is_dir():
            files = [file for file in _files(path) if _suffix(file)[0] in SUFFIXES]
            if not files:
                known = ", ".join(f".{name}" for name in SUFFIXES)
                raise InputError(f"{path}: no file in it ends with one of {known} (also .gz, .bz2, .zst)")
            found += [_source(file, format) for file in files]
        elif path.exists():
            found.append(_source(path, format))
        else:
            raise InputError(f"{path}: no such file or folder")
    return found


def _files(folder: Path) -> list[Path]:
    """All files below a folder that are not hidden."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}")

    files = []
    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(place, name) for name in sorted(names) if not name.startswith(".")]
    return files


def _source(path: Path, format: str | None) -> Source:
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return Source(path, *_kind(str(path), head, SUFFIXES.get(_suffix(path)[0]), format))


def _kind(name: str, head: bytes, named: str | None, given: str | None) -> tuple[str, str | None]:
    """What a source holds, by what is given, its name or its looks, and how it is packed."""
    packed = _magic(head)
    inner = _unpacked(head, packed)
    if not inner.strip():
        raise InputError(f"{name}: empty")
    looks = _sniff(inner)
    strange = next((what for magic, what in STRANGE.items() if inner.startswith(magic)), None)
    if strange:
        raise InputError(f"{name}: is {strange}")
    chosen = given or named or looks or _unknown(name)
    if (looks == "parquet") != (chosen == "parquet"):
        what = "a Parquet file" if chosen == "parquet" else f"{chosen}, but a Parquet file"
        raise InputError(f"{name}: is not {what}; rename it, or say what it is by --format")
    if given is None and looks in ("rdf", "nt") and chosen in UNLIKE[looks]:
        raise InputError(f"{name}: looks like {looks}, not {chosen}; rename it, or say what it is by --format {looks}")
    return chosen, packed


def _suffix(path: Path) -> tuple[str, str | None]:
    """The ending that tells the format, and the one that tells how it is packed."""
    parts = [part.lower() for part in path.name.split(".")[1:]]
    packed = parts.pop() if parts and parts[-1] in PACKED else None
    return (parts[-1] if parts else ""), packed


def _magic(head: bytes) -> str | None:
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


def _unpacked(head: bytes, packed: str | None) -> bytes:
    """The beginning of what is packed, as far as it can be told."""
    if not packed:
        return head
    import pyarrow as pa

    stream, parts = pa.input_stream(pa.BufferReader(head), compression=PACKED[packed]), []
    try:
        while piece := stream.read(256):
            parts.append(piece)
    except (OSError, pa.ArrowException):  # the end of the piece is cut
        pass
    return b"".join(parts) or b"?"


def _sniff(head: bytes) -> str | None:
    """What a text is by its looks, where no name tells."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    first = text.split("\n", 1)[0]
    looks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("parquet", lambda: head.startswith(b"PAR1")),
        ("rdf", lambda: text.startswith(("<?xml", "<rdf:RDF"))),
        ("jsonld", lambda: text.startswith(("{", "["))),
        ("ttl", lambda: text.lower().startswith(("@prefix", "@base", "prefix ", "base "))),
        ("nt", lambda: first.startswith(("<", "_:")) and first.rstrip().endswith(".")),
        ("tsv", lambda: first.count("\t") >= 2),
        ("csv", lambda: any(first.count(sign) >= 2 for sign in ",;|")),
    )
    return next((name for name, fits in looks if fits()), None)


def _unknown(name: str) -> str:
    raise InputError(f"{name}: it is not clear what is in it; say so by --format {'|'.join(FORMATS)}")
