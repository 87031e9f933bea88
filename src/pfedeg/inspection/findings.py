"""Everything that is found in a federation, and hints at what will limit training."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.inspection.client_sizes import Sizes, sizes
from pfedeg.inspection.leakage import Leakage, leakage
from pfedeg.inspection.overlap import Overlap, overlap
from pfedeg.inspection.spelling_variants import LookAlikes, look_alikes
from pfedeg.text import plural

FEW = 100  # training triples below which a client can hardly learn


@dataclass(frozen=True)
class Hint:
    """Something to look at before training."""

    kind: Literal[
        "one client",
        "shares nothing",
        "few triples",
        "one relation",
        "no valid triples",
        "no test triples",
        "look-alikes",
    ]
    client: ClientId | None
    text: str


@dataclass(frozen=True)
class Findings:
    """All that the data alone tell."""

    clients: dict[ClientId, Sizes]
    overlap: Overlap
    leakage: Leakage
    look_alikes: LookAlikes
    hints: tuple[Hint, ...]


def inspect(federation: Federation, entity: Shared | None = None, relation: Shared | None = None) -> Findings:
    """Look at a federation; its aligned entities and relations may be given where they are known already."""
    entity, relation = entity or federation.shared(), relation or federation.shared("relation")
    clients = {client: sizes(graph) for client, graph in federation.graphs.items()}
    common, alike = overlap(federation, entity, relation), look_alikes(federation)
    hints = tuple(_hints(clients, common, alike))
    return Findings(clients, common, leakage(federation, entity, relation), alike, hints)


def _hints(clients: dict[ClientId, Sizes], common: Overlap, alike: LookAlikes) -> Iterator[Hint]:
    if len(clients) == 1:
        yield Hint("one client", None, "there is nobody to learn from: federated methods gain nothing over single")
    for client, row in zip(common.clients, common.entities, strict=True):
        if len(clients) > 1 and sum(row) == clients[client].entities:
            yield Hint("shares nothing", client, "shares no entity with any other client: it learns from nobody")
    for client, size in clients.items():
        if size.train < FEW:
            yield Hint(
                "few triples", client, f"only {plural(size.train, 'training triple')}: hardly enough to learn from"
            )
        if size.relations == 1:
            yield Hint("one relation", client, "one relation only: little to learn beyond who occurs in it")
        if not size.valid:
            yield Hint("no valid triples", client, "no valid triples: it has no say in when training stops")
        if not size.test:
            yield Hint("no test triples", client, "no test triples: it is not evaluated at the end")
    if alike.number:
        kinds = ", ".join(f"{many:,} by {kind}" for kind, many in alike.differ_in.items())
        entities = plural(alike.number, "entity")
        yield Hint("look-alikes", None, f"{entities} spelled differently by different clients ({kinds}) will not align")
