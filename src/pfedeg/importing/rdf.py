"""Statements from RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, streamed by pyoxigraph."""

from typing import Any

from pfedeg.errors import InputError
from pfedeg.importing.gather import STEP, Gathered
from pfedeg.importing.sources import Source

FORMATS = {"nt": "N_TRIPLES", "nq": "N_QUADS", "ttl": "TURTLE", "trig": "TRIG", "rdf": "RDF_XML", "jsonld": "JSON_LD"}
RECOVERS = ("nt", "nq", "ttl", "trig")  # after an error, the parser finds the next statement
BASE = "file:///"  # relative names are told apart from absolute ones, and stay as short as they were


def read(source: Source, into: Gathered) -> None:
    """Every statement of a source; graph names are not looked at."""
    from pyoxigraph import RdfFormat, parse

    into.begin(source)
    with source.open() as file:
        parser = parse(file, getattr(RdfFormat, FORMATS[source.format]), base_iri=BASE)
        done = False
        while not done:
            try:
                _statements(parser, into)
                done = True
            except SyntaxError as error:
                reason = str(error.args[0] if error.args else error)
                if "LoadDocumentCallback" in reason:
                    hint = "nothing is fetched from elsewhere; put the context itself into the file"
                    raise InputError(f"{source.name}: its @context is a link, and {hint}") from None
                told = reason.partition(": ")[2] if reason.startswith("Parser error at") else reason
                into.broken(error.lineno, told, source.format not in RECOVERS)
            except (OSError, ValueError) as error:
                raise InputError(f"{source.name}: cannot be read: {error}") from None
    into.prefixes |= {iri: name for name, iri in parser.prefixes.items()}


def _statements(parser: Any, into: Gathered) -> None:
    from pyoxigraph import BlankNode, Literal, NamedNode

    keeps_blank = into.choices.blank == "keep"
    heads, relations, tails = into.pending
    for subject, predicate, value, _ in parser:
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
            into.drop("blank nodes")
        else:
            head = into.blank(subject.value) if kinds[0] is BlankNode else subject.value
            if kinds[1] is Literal:
                into.literal(head, predicate.value, value.value, value.datatype.value, value.language)
            else:
                into.triple(head, predicate.value, into.blank(value.value) if kinds[1] is BlankNode else value.value)
