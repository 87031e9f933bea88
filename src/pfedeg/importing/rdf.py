"""Readers of RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, streamed by pyoxigraph."""

from codecs import BOM_UTF8
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from io import BufferedReader
from itertools import islice
from typing import IO, Any, cast

from pfedeg.errors import InputError
from pfedeg.importing.graph_builder import CHUNK, GraphBuilder
from pfedeg.importing.limits import lines
from pfedeg.importing.nesting import JSON, STAR, Nesting, StarNesting
from pfedeg.importing.sources import Source, Tee
from pfedeg.importing.xml_check import XmlCheck

FORMATS = {"nt": "N_TRIPLES", "nq": "N_QUADS", "ttl": "TURTLE", "trig": "TRIG", "rdf": "RDF_XML", "jsonld": "JSON_LD"}
LINE_FORMATS = ("nt", "nq")  # one statement per line
LINES = 1 << 13  # lines that are parsed at a time
STEP, XML_STEP = 1 << 13, 1 << 15  # bytes that are checked before the parser sees them
BASE = "file:///"  # resolves relative IRIs without making them much longer


def read(source: Source, builder: GraphBuilder) -> None:
    """Add every statement of a source; graph names are ignored."""
    builder.start_source(source)
    with source.open() as file:
        try:
            if file.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
                file.read(len(BOM_UTF8))
            if source.format in LINE_FORMATS:
                _read_lines(source, file, builder)
            else:
                _read_whole(source, file, builder)
        except (OSError, ValueError) as error:
            raise InputError(f"{source.name}: cannot be read: {error}") from None


def _read_lines(source: Source, file: IO[bytes], builder: GraphBuilder) -> None:
    """Parse many lines at a time; one by one if one of them is invalid."""
    from pyoxigraph import RdfFormat, parse

    format, number = getattr(RdfFormat, FORMATS[source.format]), 0
    each = lines(file, source.name, source.limits.max_line)
    while some := list(islice(each, LINES)):
        for place, line in enumerate(some, number + 1):
            if line.count(b"<<") > source.limits.max_depth:
                Nesting(STAR, f"{source.name}, line {place}", source.limits).feed(line)
        try:
            _add(list(parse(b"".join(some), format)), builder)
        except SyntaxError:
            for place, line in enumerate(some, number + 1):
                try:
                    _add(list(parse(line, format)), builder)
                except SyntaxError as error:
                    builder.reject(place, _reason(error))
        number += len(some)


def _read_whole(source: Source, file: IO[bytes], builder: GraphBuilder) -> None:
    """Parse statement by statement and stop at the first error: what follows it could be misread."""
    from pyoxigraph import RdfFormat, parse

    xml = XmlCheck(source.name, source.limits)
    again = replace(source, digest=sha256(), bytes_read=0).open if source.path else None
    check = {"rdf": xml.feed, "jsonld": Nesting(JSON, source.name, source.limits).feed}.get(
        source.format, StarNesting(source.name, source.limits, again).feed
    )

    def follow(chunk: bytes) -> None:
        if xml.error and chunk:
            builder.reject(*xml.error, fatal=True)
        source.limits.check_memory(source.name)
        check(chunk)

    file = BufferedReader(Tee(file, follow), XML_STEP if source.format == "rdf" else STEP)
    parser = parse(cast(IO[bytes], file), getattr(RdfFormat, FORMATS[source.format]), base_iri=BASE)
    try:
        _add(parser, builder)
    except SyntaxError as error:
        reason = _reason(error)
        if "LoadDocumentCallback" in reason:
            hint = "contexts are not downloaded; copy the context into the file"
            raise InputError(f"{source.name}: the @context is a link; {hint}") from None
        builder.reject(xml.error[0] if xml.error else error.lineno, reason, fatal=True)
    except MemoryError:  # of the parser's buffer, which no option enlarges
        raise InputError(f"{source.name}: a text, name or comment is longer than 16 MB") from None
    if xml.error:  # pyoxigraph accepts a truncated file
        builder.reject(*xml.error, fatal=True)
    builder.prefixes |= {iri: name for name, iri in parser.prefixes.items()}


def _reason(error: SyntaxError) -> str:
    reason = str(error.args[0] if error.args else error)
    return reason.partition(": ")[2] if reason.startswith("Parser error") else reason


def _add(statements: Iterable[Any], builder: GraphBuilder) -> None:
    from pyoxigraph import BlankNode, Literal, NamedNode

    keeps_blank = builder.options.blank == "keep"
    heads, relations, tails = builder.pending
    for subject, predicate, value, _ in statements:
        kinds = type(subject), type(value)
        if kinds == (NamedNode, NamedNode):  # the usual case, without a call per triple
            heads.append(subject.value)
            relations.append(predicate.value)
            tails.append(value.value)
            if len(heads) == CHUNK:
                builder.flush()
        elif not {*kinds} <= {NamedNode, BlankNode, Literal}:
            builder.drop("quoted triples")
        elif BlankNode in kinds and not keeps_blank:
            builder.drop("statements with blank nodes")
        else:
            head = builder.blank(subject.value) if kinds[0] is BlankNode else subject.value
            if kinds[1] is Literal:
                builder.literal(head, predicate.value, value.value, value.datatype.value, value.language)
            else:
                builder.triple(
                    head, predicate.value, builder.blank(value.value) if kinds[1] is BlankNode else value.value
                )
