"""Leakage: held-out triples that also occur in training, unchanged or under a duplicate or inverse relation."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.knowledge_graph import SPLITS, Split
from pfedeg.inspection.related_relations import Mask, RelatedPair, RelatedRelations
from pfedeg.inspection.triple_index import Numbers, Triple, TripleIndex, matches

Kind = Literal["same", "duplicate", "inverse", "symmetric"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Leak:
    """Held-out triples of one client that occur in training in one way, at that client or at another."""

    client: ClientId
    split: Split
    kind: Kind
    where: Literal["own", "other"]
    triples: int
    share: float  # of the split
    example: Triple
    train_triple: Triple
    train_client: ClientId


@dataclass(frozen=True)
class Leakage:
    """Related relations and leaks. Reversed triples of symmetric relations are listed, too."""

    relations: tuple[RelatedPair, ...]
    leaks: tuple[Leak, ...]


def leakage(federation: Federation, entity: Shared, relation: Shared) -> Leakage:
    """The leakage in a federation with aligned entities and relations."""
    index = TripleIndex(federation, entity, relation)
    relations = RelatedRelations(index)
    return Leakage(tuple(relations.list_pairs()), tuple(_leaks(index, relations)))


def _leaks(index: TripleIndex, relations: RelatedRelations) -> Iterator[Leak]:
    """By client and split."""
    train = index.train()
    train = train[np.argsort(index.pair[train], kind="stable")]
    train_pair, train_relation = index.pair[train], index.relation[train]
    for client in range(len(index.clients)):
        for split in SPLITS[1:]:
            rows = index.rows[client, split]
            relation, pairs = index.relation[rows], index.pair[rows]
            hits: dict[tuple[Kind, bool], Mask] = {}
            examples: dict[tuple[Kind, bool], tuple[int, int]] = {}
            for reversed_, wanted in ((False, pairs), (True, index.reverse[pairs])):
                for i, j in matches(wanted, train_pair):
                    is_own = index.client[train_relation[j]] == client
                    for kind, fits in _kinds(index, relations, relation[i], train_relation[j], reversed_):
                        for own_client in (True, False):
                            found = np.flatnonzero(fits & (is_own == own_client))
                            if len(found):
                                hits.setdefault((kind, own_client), np.zeros(len(relation), np.bool_))[i[found]] = True
                                examples.setdefault((kind, own_client), (int(i[found[0]]), int(train[j[found[0]]])))
            for kind, own_client in sorted(hits, key=lambda key: (KINDS.index(key[0]), not key[1])):
                yield _leak(index, client, split, kind, own_client, hits[kind, own_client], *examples[kind, own_client])


def _kinds(
    index: TripleIndex, relations: RelatedRelations, a: Numbers, b: Numbers, reversed_: bool
) -> Iterator[tuple[Kind, Mask]]:
    """Masks of each kind of leak, for held-out relations a and training relations b of the same or reversed pairs."""
    if reversed_:
        inverse, symmetric = relations.related("inverse", a, b), relations.symmetric(a, b)
        yield "inverse", inverse & ~symmetric
        yield "symmetric", inverse & symmetric
    else:
        same = index.name[a] == index.name[b]
        yield "same", same
        yield "duplicate", relations.related("duplicate", a, b) & ~same


def _leak(
    index: TripleIndex, client: int, split: Split, kind: Kind, own_client: bool, hit: Mask, held: int, trained: int
) -> Leak:
    source = int(index.client[index.relation[trained]])
    return Leak(
        client=index.clients[client],
        split=split,
        kind=kind,
        where="own" if own_client else "other",
        triples=int(hit.sum()),
        share=float(hit.mean()),
        example=index.triple(client, split, held),
        train_triple=index.triple(source, "train", trained - index.rows[source, "train"].start),
        train_client=index.clients[source],
    )
