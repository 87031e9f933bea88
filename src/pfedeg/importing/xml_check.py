"""Checks an RDF/XML stream before the parser sees it: well-formed up to its end, and within the limits."""

import re
from typing import Any
from xml.parsers import expat

from pfedeg.importing.limits import Limits, exceeded

AMPLIFIED = 43  # expat's XML_ERROR_AMPLIFICATION_LIMIT_BREACH
REFERENCE = re.compile(r"[&%]([^;&%\s]+);")


class XmlCheck:
    """Feed it every chunk, then the parser."""

    def __init__(self, name: str, limits: Limits) -> None:
        """`name` of the file for messages."""
        self._name, self._limits, self._depth, self._fed = name, limits, 0, 0
        self._entities: dict[str, int] = {}  # length of the text for which they stand
        self._ended = False
        self._expat = expat.ParserCreate()
        self._expat.EntityDeclHandler = self._declare
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self.error: tuple[int, str] | None = None  # line and reason

    def feed(self, chunk: bytes) -> None:
        """The next chunk; an empty one is the end. InputError if a limit is exceeded."""
        if self.error is not None or self._ended:
            return
        self._ended = not chunk
        self._fed += len(chunk)
        try:
            self._expat.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            self.error = error.lineno, f"not well-formed XML ({reason})"
            if error.code == AMPLIFIED:
                raise exceeded(self._where(), f"entities make it too long ({reason})", "max_expansion") from None
        except (LookupError, ValueError) as error:
            self.error = 1, f"not readable XML ({error})"
        else:
            if self._fed - self._expat.CurrentByteIndex > self._limits.max_line + len(chunk):
                problem = f"a tag or comment longer than {self._limits.max_line:,} bytes"
                raise exceeded(self._where(), problem, "max_line")

    def _where(self) -> str:
        return f"{self._name}, line {self._expat.CurrentLineNumber}"

    def _declare(self, name: str, parameter: Any, value: str | None, *external: Any) -> None:
        parts = REFERENCE.findall(value or "")
        self._entities.setdefault(name, len(value or "") + sum(self._entities.get(part, 0) for part in parts))
        if self._entities[name] > self._limits.max_expansion:
            problem = f"the entity {name[:40]!r} stands for more than {self._limits.max_expansion:,} characters"
            raise exceeded(self._where(), problem, "max_expansion")

    def _start(self, name: str, attributes: Any) -> None:
        self._depth += 1
        if self._depth > self._limits.max_depth:
            problem = f"nested deeper than {self._limits.max_depth:,} levels"
            raise exceeded(self._where(), problem, "max_depth")

    def _end(self, name: str) -> None:
        self._depth -= 1
