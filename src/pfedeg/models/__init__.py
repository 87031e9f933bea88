"""Embedding models, one per file: equation, gradients, table widths."""
