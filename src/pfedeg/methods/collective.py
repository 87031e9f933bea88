"""Collective: one model on all clients' triples, as if the data could be pooled."""

from pfedeg.methods.base import Method
from pfedeg.methods.single import EPOCHS, Alone

METHOD = Method(
    name="collective",
    label="Collective",
    summary="one model on all triples; needs pooled data",
    build=lambda settings, threads: Alone(),
    trains="pooled",
    role="baseline",
    defaults=EPOCHS,
    color="#7f7f7f",
)
