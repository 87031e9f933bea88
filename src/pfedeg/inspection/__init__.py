"""A look at a federation before training: sizes, overlap, leakage, names that do not align, cost."""
