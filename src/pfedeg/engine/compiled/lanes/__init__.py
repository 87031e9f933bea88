"""The operations that compiled code is made of: to import these modules is to register them for each model."""

from pfedeg.engine.compiled.lanes import distances, products, queries

__all__ = ["distances", "products", "queries"]
