"""The depth of JSON and of RDF-star's triple terms, checked before a parser that would use the stack sees them."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO

from pfedeg.importing.limits import Limits, exceeded

JSON = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<begun>")', re.DOTALL)
STAR = re.compile(
    rb'"""(?:[^"\\]++|\\.|"(?!""))*+"""|' + rb"'''(?:[^'\\]++|\\.|'(?!''))*+'''|"
    rb'"(?!"")(?:[^"\\\n]++|\\.)*+"|' + rb"'(?!'')(?:[^'\\\n]++|\\.)*+'|"
    rb"<(?!<)[^<>\"\s]*+>|\#[^\n]*+\n|\\[^<>\"'#]|(?P<open><<)|(?P<close>>>)|(?P<begun>[\"'<#\\])",
    re.DOTALL,
)


class Nesting:
    """Follows the brackets in a stream, leaving out those in texts, IRIs and comments."""

    def __init__(self, pattern: re.Pattern[bytes], name: str, limits: Limits) -> None:
        """`pattern` has the groups open, close, and begun: the start of what ends in a later chunk."""
        self._pattern, self._name, self._limits = pattern, name, limits
        self._rest, self._depth = b"", 0

    def feed(self, chunk: bytes) -> None:
        """The next chunk; InputError if the nesting is too deep."""
        data, self._rest = self._rest + chunk, b""
        for found in self._pattern.finditer(data):
            kind = found.lastgroup
            if kind == "open":
                self._depth += 1
                if self._depth > self._limits.max_depth:
                    problem = f"nested deeper than {self._limits.max_depth:,} levels"
                    raise exceeded(self._name, problem, "max_depth")
            elif kind == "close":
                self._depth = max(0, self._depth - 1)
            elif kind == "begun":
                self._rest = data[found.start() :]
                if len(self._rest) > self._limits.max_line:
                    problem = f"a text or comment longer than {self._limits.max_line:,} bytes"
                    raise exceeded(self._name, problem, "max_line")
                return
        self._rest = self._rest or (data[-1:] if data[-1:] in (b"<", b">") else b"")


class StarNesting:
    """Nesting of triple terms, which is looked for only in files that have any: few do."""

    def __init__(
        self, name: str, limits: Limits, reopen: Callable[[], AbstractContextManager[IO[bytes]]] | None
    ) -> None:
        """`reopen` gives the stream from its start once more; without it, all is looked at."""
        self._nesting, self._reopen, self._seen, self._last = Nesting(STAR, name, limits), reopen, 0, b""

    def feed(self, chunk: bytes) -> None:
        """The next chunk; InputError if the nesting is too deep."""
        if self._reopen:
            if b"<<" not in self._last + chunk:
                self._seen, self._last = self._seen + len(chunk), chunk[-1:]
                return
            with self._reopen() as file:
                self._reopen = None
                while self._seen:
                    before = file.read(min(self._seen, 1 << 20))
                    self._seen = self._seen - len(before) if before else 0
                    self._nesting.feed(before)
        self._nesting.feed(chunk)
