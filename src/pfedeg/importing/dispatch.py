"""All statements of a source, whatever its format."""

from pfedeg.importing import rdf, tables
from pfedeg.importing.graph_builder import Gathered
from pfedeg.importing.sources import RDF, Source


def read(source: Source, into: Gathered) -> None:
    """All statements of a source."""
    if source.format in RDF:
        rdf.read(source, into)
    elif source.format == "parquet":
        tables.read_parquet(source, into)
    else:
        tables.read_text(source, into)
