"""The inspection of a federation, with hints about what will limit training."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.inspection.client_sizes import ClientSize, client_size
from pfedeg.inspection.leakage import Leakage, leakage
from pfedeg.inspection.name_mending import Mend, find_mends, map_names
from pfedeg.inspection.overlap import Overlap, overlap
from pfedeg.inspection.spelling_variants import Difference, SpellingVariants, find_groups, find_variants
from pfedeg.text import plural

FEW = 100  # training triples below which a client hardly learns


@dataclass(frozen=True)
class Hint:
    """Something to check before training."""

    kind: Literal[
        "one client",
        "shares nothing",
        "few triples",
        "one relation",
        "no valid triples",
        "no test triples",
        "spelling variants",
        "two spellings",
    ]
    client: ClientId | None
    text: str


@dataclass(frozen=True)
class Inspection:
    """All results that need no training: sizes of `clients`, `overlap`, `leakage`, `spelling_variants` and `hints`.

    `mends` are ways to let more names align.
    """

    clients: dict[ClientId, ClientSize]
    overlap: Overlap
    leakage: Leakage
    spelling_variants: SpellingVariants
    mends: tuple[Mend, ...]
    hints: tuple[Hint, ...]


def inspect_federation(
    federation: Federation, entity: Shared | None = None, relation: Shared | None = None
) -> Inspection:
    """Inspect a federation; pass its aligned entities and relations if they are already known."""
    entity, relation = entity or federation.shared(), relation or federation.shared("relation")
    clients = {client: client_size(graph) for client, graph in federation.graphs.items()}
    common, groups = overlap(federation, entity, relation), find_groups(federation)
    variants = find_variants(groups)
    mends = find_mends(federation, map_names(federation, groups)) if variants.number else ()
    hints = tuple(_hints(clients, common, variants))
    return Inspection(clients, common, leakage(federation, entity, relation), variants, mends, hints)


def _hints(clients: dict[ClientId, ClientSize], common: Overlap, variants: SpellingVariants) -> Iterator[Hint]:
    if len(clients) == 1:
        yield Hint("one client", None, "no other client to learn from: federated methods gain nothing over single")
    for client, row in zip(common.clients, common.entities, strict=True):
        if len(clients) > 1 and sum(row) == clients[client].entities:
            yield Hint("shares nothing", client, "shares no entity with other clients and cannot learn from them")
    for client, size in clients.items():
        if size.train < FEW:
            yield Hint(
                "few triples", client, f"only {plural(size.train, 'training triple')}: hardly enough to learn from"
            )
        if size.relations == 1:
            yield Hint("one relation", client, "only one relation: little can be learned")
        if not size.valid:
            yield Hint("no valid triples", client, "no valid triples: early stopping ignores this client")
        if not size.test:
            yield Hint("no test triples", client, "no test triples: no final evaluation of this client")
    if variants.number:
        entities = plural(variants.number, "entity")
        kinds = _kinds(variants.differences)
        text = f"{entities} seemingly named differently by different clients will not align ({kinds})"
        yield Hint("spelling variants", None, text)
    for client in clients:
        own = [variant for variant in variants.inside if variant.first_client == client]
        if own:
            counts = Counter(variant.difference for variant in own)
            text = f"{plural(len(own), 'entity')} may have two names inside this client ({_kinds(counts)})"
            yield Hint("two spellings", client, text)


def _kinds(differences: Mapping[Difference, int]) -> str:
    return ", ".join(f"{kind}: {count:,}" for kind, count in differences.items())
