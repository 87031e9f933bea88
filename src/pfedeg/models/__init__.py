"""Embedding models, one per file: equation, gradients and row widths."""
