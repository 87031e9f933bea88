"""Held-out triples that training sees: as they are, or under a relation that says the same or the reverse."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, Split
from pfedeg.inspection.facts import Facts, Numbers, Triple, meet
from pfedeg.inspection.related_relations import Kin, Mask, Relations

Kind = Literal["same", "duplicate", "inverse", "symmetric"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Leak:
    """Held-out triples of one client that stand in train in some way, its own or another client's."""

    client: ClientId
    split: Split
    kind: Kind
    where: Literal["own", "other"]
    triples: int
    share: float  # of the split
    example: Triple
    stands_as: Triple
    stands_at: ClientId


@dataclass(frozen=True)
class Leakage:
    """What is found in a federation. A reverse triple under a symmetric relation is worth noting rather than a leak."""

    relations: tuple[Kin, ...]
    leaks: tuple[Leak, ...]


def leakage(federation: Federation, entity: Shared, relation: Shared) -> Leakage:
    """Of a federation whose entities and relations are aligned."""
    facts = Facts(federation, entity, relation)
    relations = Relations(facts)
    return Leakage(tuple(relations.told()), tuple(_leaks(facts, relations)))


def _leaks(facts: Facts, relations: Relations) -> Iterator[Leak]:
    """Client by client, split by split."""
    train = facts.train()
    train = train[np.argsort(facts.pair[train], kind="stable")]
    pair, theirs = facts.pair[train], facts.relation[train]
    for place in range(len(facts.clients)):
        for split in SPLITS[1:]:
            rows = facts.rows[place, split]
            mine, met = facts.relation[rows], facts.pair[rows]
            hits: dict[tuple[Kind, bool], Mask] = {}
            examples: dict[tuple[Kind, bool], tuple[int, int]] = {}
            for backward, wanted in ((False, met), (True, facts.reverse[met])):
                for i, j in meet(wanted, pair):
                    own = facts.client[theirs[j]] == place
                    for kind, fits in _kinds(facts, relations, mine[i], theirs[j], backward):
                        for home in (True, False):
                            at = np.flatnonzero(fits & (own == home))
                            if len(at):
                                hits.setdefault((kind, home), np.zeros(len(mine), np.bool_))[i[at]] = True
                                examples.setdefault((kind, home), (int(i[at[0]]), int(train[j[at[0]]])))
            for kind, home in sorted(hits, key=lambda key: (KINDS.index(key[0]), not key[1])):
                yield _leak(facts, place, split, kind, home, hits[kind, home], *examples[kind, home])


def _kinds(facts: Facts, relations: Relations, a: Numbers, b: Numbers, backward: bool) -> Iterator[tuple[Kind, Mask]]:
    """Where the held-out relations a and the trained ones b between the same pairs, or reverse ones, say the same."""
    if backward:
        inverse, symmetric = relations.alike("inverse", a, b), relations.symmetric(a, b)
        yield "inverse", inverse & ~symmetric
        yield "symmetric", inverse & symmetric
    else:
        same = facts.name[a] == facts.name[b]
        yield "same", same
        yield "duplicate", relations.alike("duplicate", a, b) & ~same


def _leak(facts: Facts, place: int, split: Split, kind: Kind, home: bool, hit: Mask, held: int, trained: int) -> Leak:
    source = int(facts.client[facts.relation[trained]])
    return Leak(
        client=facts.clients[place],
        split=split,
        kind=kind,
        where="own" if home else "other",
        triples=int(hit.sum()),
        share=float(hit.mean()),
        example=facts.triple(place, split, held),
        stands_as=facts.triple(source, "train", trained - facts.rows[source, "train"].start),
        stands_at=facts.clients[source],
    )
