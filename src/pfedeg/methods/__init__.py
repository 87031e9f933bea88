"""Federated methods, one per file: aggregation on the server and its use by clients."""
