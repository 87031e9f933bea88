"""Import of graphs in RDF and table formats."""
