"""Federated methods, one per file: what the server aggregates and what clients do with it."""
