"""Knowledge graphs and federations: files, splits, alignment."""
