"""Limits of an import, so that a small file cannot ask for much memory or time; each can be set by an option."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import IO, Any

from pfedeg.errors import InputError

STATM = "/proc/self/statm"
FREELY = 16 << 20  # decompressed bytes below which the expansion is not checked
GB = 1e9


@dataclass(frozen=True)
class Limits:
    """What a file may ask for; the names are those of the options of `pfedeg import`."""

    max_line: int = 16_000_000  # bytes of a line; of a text, tag or comment in Turtle, JSON-LD and RDF/XML
    max_name: int = 65_536  # characters of a name
    max_depth: int = 256  # levels of nesting
    max_expansion: int = 1000  # decompressed bytes per byte of the file; characters of an XML entity
    max_memory: int = 0  # GB; 0: three quarters of the machine's memory

    @property
    def memory(self) -> float:
        """Bytes of memory that the import may use."""
        if self.max_memory:
            return self.max_memory * GB
        return 0.75 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 64 * GB

    def check_memory(self, name: str, more: int = 0) -> None:
        """Raise InputError if this process uses more memory than allowed, or would with so many bytes more."""
        if most_used() + more > self.memory and memory_used() + more > self.memory:
            raise exceeded(name, f"its import needs more than {self.memory / GB:.3g} GB of memory", "max_memory")


RANGES = {  # least and most
    "max_line": (1000, 1 << 30),
    "max_name": (100, 1 << 30),
    "max_depth": (1, 1000),  # the parsers of JSON-LD and RDF-star use the stack
    "max_expansion": (10, 1_000_000),
    "max_memory": (0, 1_000_000),
}


def check_limits(options: Any) -> None:
    """Raise InputError if a limit is not a whole number in its range."""
    for each in fields(Limits):
        value, (least, most) = getattr(options, each.name), RANGES[each.name]
        if type(value) is not int or not least <= value <= most:
            raise InputError(f"{each.name}: {value!r:.80} is out of range; it must be {least:,} to {most:,}")


def exceeded(where: str, problem: str, limit: str) -> InputError:
    """The error for a file that exceeds a limit."""
    return InputError(f"{where}: {problem}; if the file is trusted, --{limit.replace('_', '-')} allows more")


def memory_used() -> int:
    """The resident memory of this process in bytes; on other systems than Linux the most that it ever was."""
    try:
        with open(STATM, "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return most_used()


def most_used() -> int:
    """The most memory that this process ever used, which is quick to ask; 0 on Windows."""
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def lines(file: IO[Any], name: str, limit: int) -> Iterator[Any]:
    """The lines of a file; InputError for one that is longer than the limit."""
    number = 0
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise exceeded(f"{name}, line {number}", f"longer than {limit:,} bytes", "max_line")
        yield line
