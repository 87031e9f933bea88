"""Statements from RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, streamed by pyoxigraph."""

import io
from collections.abc import Iterable
from typing import IO, Any, cast
from xml.parsers import expat

from pfedeg.errors import InputError
from pfedeg.importing.gather import STEP, Gathered
from pfedeg.importing.sources import Source

FORMATS = {"nt": "N_TRIPLES", "nq": "N_QUADS", "ttl": "TURTLE", "trig": "TRIG", "rdf": "RDF_XML", "jsonld": "JSON_LD"}
LINES = ("nt", "nq")  # a line is a statement
PIECE = 1 << 20  # bytes of lines that are parsed at a time
BASE = "file:///"  # relative names are told apart from absolute ones, and stay as short as they were


def read(source: Source, into: Gathered) -> None:
    """Every statement of a source; graph names are not looked at."""
    into.begin(source)
    with source.open() as file:
        try:
            if source.format in LINES:
                _read_lines(source, file, into)
            else:
                _read_whole(source, file, into)
        except (OSError, ValueError) as error:
            raise InputError(f"{source.name}: cannot be read: {error}") from None


def _read_lines(source: Source, file: IO[bytes], into: Gathered) -> None:
    """Many lines at a time; if one of them is broken, one by one."""
    from pyoxigraph import RdfFormat, parse

    format, number = getattr(RdfFormat, FORMATS[source.format]), 0
    while lines := file.readlines(PIECE):
        try:
            _take(list(parse(b"".join(lines), format)), into)
        except SyntaxError:
            for place, line in enumerate(lines, number + 1):
                try:
                    _take(list(parse(line, format)), into)
                except SyntaxError as error:
                    into.broken(place, _reason(error))
        number += len(lines)


def _read_whole(source: Source, file: IO[bytes], into: Gathered) -> None:
    """Statement by statement; after an error nothing more, since what follows could be misread."""
    from pyoxigraph import RdfFormat, parse

    form = _Form(file) if source.format == "rdf" else None
    parser = parse(cast(IO[bytes], form or file), getattr(RdfFormat, FORMATS[source.format]), base_iri=BASE)
    try:
        _take(parser, into)
    except SyntaxError as error:
        reason = _reason(error)
        if "LoadDocumentCallback" in reason:
            hint = "nothing is fetched from elsewhere; put the context itself into the file"
            raise InputError(f"{source.name}: its @context is a link, and {hint}") from None
        line = form.broken_at()[0] if form else error.lineno
        into.broken(line, reason, lasting=True)
    if form and (line := form.broken_at()[0]) is not None:  # the parser takes half a file for a whole one
        into.broken(line, form.broken_at()[1], lasting=True)
    into.prefixes |= {iri: name for name, iri in parser.prefixes.items()}


def _reason(error: SyntaxError) -> str:
    reason = str(error.args[0] if error.args else error)
    return reason.partition(": ")[2] if reason.startswith("Parser error") else reason


class _Form(io.RawIOBase):
    """XML that passes, and whether it is well formed up to its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._expat = file, expat.ParserCreate()
        self._error: tuple[int, str] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        self._look(piece, not piece)
        return len(piece)

    def _look(self, piece: bytes, is_end: bool) -> None:
        if self._error is None:
            try:
                self._expat.Parse(piece, is_end)
            except expat.ExpatError as error:
                self._error = error.lineno, f"not well-formed XML ({expat.ErrorString(error.code)})"

    def broken_at(self) -> tuple[int | None, str]:
        """The line and the reason, if it is not well formed."""
        return self._error or (None, "")


def _take(statements: Iterable[Any], into: Gathered) -> None:
    from pyoxigraph import BlankNode, Literal, NamedNode

    keeps_blank = into.choices.blank == "keep"
    heads, relations, tails = into.pending
    for subject, predicate, value, _ in statements:
        kinds = type(subject), type(value)
        if kinds == (NamedNode, NamedNode):  # nearly all: no call for each
            heads.append(subject.value)
            relations.append(predicate.value)
            tails.append(value.value)
            if len(heads) == STEP:
                into.settle()
        elif not {*kinds} <= {NamedNode, BlankNode, Literal}:
            into.drop("statements about statements")
        elif BlankNode in kinds and not keeps_blank:
            into.drop("statements with blank nodes")
        else:
            head = into.blank(subject.value) if kinds[0] is BlankNode else subject.value
            if kinds[1] is Literal:
                into.literal(head, predicate.value, value.value, value.datatype.value, value.language)
            else:
                into.triple(head, predicate.value, into.blank(value.value) if kinds[1] is BlankNode else value.value)
