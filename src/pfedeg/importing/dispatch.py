"""Read a source with the reader of its format."""

from pfedeg.importing import rdf, tables
from pfedeg.importing.graph_builder import GraphBuilder
from pfedeg.importing.sources import RDF, Source


def read(source: Source, builder: GraphBuilder) -> None:
    """Add all statements of a source to the builder."""
    if source.format in RDF:
        rdf.read(source, builder)
    elif source.format == "parquet":
        tables.read_parquet(source, builder)
    else:
        tables.read_text(source, builder)
