"""Statements from RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, streamed by pyoxigraph."""

from codecs import BOM_UTF8
from collections.abc import Iterable
from typing import IO, Any, cast
from xml.parsers import expat

from pfedeg.errors import InputError
from pfedeg.importing.graph_builder import STEP, Gathered
from pfedeg.importing.sources import Passing, Source

FORMATS = {"nt": "N_TRIPLES", "nq": "N_QUADS", "ttl": "TURTLE", "trig": "TRIG", "rdf": "RDF_XML", "jsonld": "JSON_LD"}
LINES = ("nt", "nq")  # a line is a statement
PIECE = 1 << 20  # bytes of lines that are parsed at a time
BASE = "file:///"  # relative names are told apart from absolute ones, and stay as short as they were


def read(source: Source, into: Gathered) -> None:
    """Every statement of a source; graph names are not looked at."""
    into.begin(source)
    with source.open() as file:
        try:
            if file.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
                file.read(len(BOM_UTF8))
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

    form = _Form()
    if source.format == "rdf":
        file = cast(IO[bytes], Passing(file, form.look))
    parser = parse(file, getattr(RdfFormat, FORMATS[source.format]), base_iri=BASE)
    try:
        _take(parser, into)
    except SyntaxError as error:
        reason = _reason(error)
        if "LoadDocumentCallback" in reason:
            hint = "nothing is fetched from elsewhere; put the context itself into the file"
            raise InputError(f"{source.name}: its @context is a link, and {hint}") from None
        into.broken(form.broken[0] if form.broken else error.lineno, reason, lasting=True)
    if form.broken:  # the parser takes half a file for a whole one
        into.broken(*form.broken, lasting=True)
    into.prefixes |= {iri: name for name, iri in parser.prefixes.items()}


def _reason(error: SyntaxError) -> str:
    reason = str(error.args[0] if error.args else error)
    return reason.partition(": ")[2] if reason.startswith("Parser error") else reason


class _Form:
    """Whether XML that passes is well formed up to its end."""

    def __init__(self) -> None:
        self._expat = expat.ParserCreate()
        self.broken: tuple[int, str] | None = None  # line and reason

    def look(self, piece: bytes) -> None:
        """The next piece of it; an empty one is the end."""
        if self.broken is None:
            try:
                self._expat.Parse(piece, not piece)
            except expat.ExpatError as error:
                self.broken = error.lineno, f"not well-formed XML ({expat.ErrorString(error.code)})"


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
