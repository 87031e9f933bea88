"""Knowledge graphs and federations: triples, files, splits, and the alignment of entities between clients."""
