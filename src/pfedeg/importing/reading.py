"""All statements of a source, whatever its format."""

from pfedeg.importing import delimited, rdf
from pfedeg.importing.gather import Gathered
from pfedeg.importing.sources import RDF, Source


def read(source: Source, into: Gathered) -> None:
    """All statements of a source."""
    if source.format in RDF:
        rdf.read(source, into)
    elif source.format == "parquet":
        delimited.read_parquet(source, into)
    else:
        delimited.read_text(source, into)
