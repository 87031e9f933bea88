"""Statements from RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, streamed by pyoxigraph."""

from typing import TYPE_CHECKING

from pfedeg.errors import InputError
from pfedeg.importing.sources import Source

if TYPE_CHECKING:
    from pfedeg.importing.gather import Gathered

FORMATS = {"nt": "N_TRIPLES", "nq": "N_QUADS", "ttl": "TURTLE", "trig": "TRIG", "rdf": "RDF_XML", "jsonld": "JSON_LD"}
RECOVERS = ("nt", "nq", "ttl", "trig")  # after an error, the parser finds the next statement
BASE = "file:///"  # relative names are told apart from absolute ones, and stay as short as they were


def read(source: Source, into: "Gathered") -> None:
    """Every statement of a source; graph names are not looked at."""
    from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, parse

    parser = parse(source.open(), getattr(RdfFormat, FORMATS[source.format]), base_iri=BASE)
    into.begin(source)
    keeps_blank = into.choices.blank == "keep"
    while True:
        try:
            for statement in parser:
                subject, relation, value = statement.subject, statement.predicate.value, statement.object
                kinds = type(subject), type(value)
                if kinds == (NamedNode, NamedNode):
                    into.triple(subject.value, relation, value.value)
                elif not {*kinds} <= {NamedNode, BlankNode, Literal}:
                    into.drop("statements about statements")
                elif BlankNode in kinds and not keeps_blank:
                    into.drop("blank nodes")
                else:
                    head = into.blank(subject.value) if kinds[0] is BlankNode else subject.value
                    if kinds[1] is Literal:
                        into.literal(head, relation, value.value, value.datatype.value, value.language)
                    else:
                        tail = into.blank(value.value) if kinds[1] is BlankNode else value.value
                        into.triple(head, relation, tail)
            break
        except SyntaxError as error:
            reason = str(error.args[0] if error.args else error)
            if "LoadDocumentCallback" in reason:
                raise InputError(
                    f"{source.name}: its @context is a link, and nothing is fetched from elsewhere; "
                    "put the context itself into the file"
                ) from None
            into.broken(error.lineno, reason.partition(": ")[2] or reason)
            if source.format not in RECOVERS:
                raise InputError(
                    f"{source.name}, line {error.lineno}: {reason}; nothing can be read after that"
                ) from None
        except (OSError, ValueError) as error:
            raise InputError(f"{source.name}: cannot be read: {error}") from None
    into.prefixes |= {iri: name for name, iri in parser.prefixes.items()}
