"""Influence: how an answer changes when another client's share of the last mix is taken back, to first order.

A client's tables E are those after the last mix and the training that followed it. In that mix its uploaded row U_i[e]
became U_i[e] + Σ_j s_ij[e] (U_j[e] − U_i[e]). Taking back the share of client j gives E[e] − s_ij[e] (U_j[e] − U_i[e])
for every entity e that both have; all else, also what training changed after the mix, stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pfedeg.errors import InputError, named_failure
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.graphs.knowledge_graph import Side, Split
from pfedeg.methods.base import Shares, Strategy
from pfedeg.models.base import Mat
from pfedeg.training.last_mix import Change, Mix
from pfedeg.training.link_prediction import Answerer
from pfedeg.training.saved_run import Run


@dataclass(frozen=True)
class Influence:
    """An answer without another client's share of the last mix."""

    without: ClientId | None  # None: without all other clients together
    rank: int
    score: float
    rank_change: int  # compared with the answer as it is; above 0: the share makes the answer better
    score_change: float  # below 0: the share makes the answer better
    head_share: float | None  # the other client's share in the head's row; None if it is not known
    tail_share: float | None


class UnknownInfluenceError(Exception):
    """Why the influence of other clients cannot be computed."""


class InfluenceMeasure:
    """Measures the influence of other clients on a client's answers."""

    def __init__(self, run: Run, client: ClientId) -> None:
        """Of a finished run. `unknown` says what cannot be measured, and why; it is empty otherwise."""
        self._run, self._client, self.unknown = run, client, ""
        self._changes: Mapping[ClientId | None, Change] = {}
        self._shares: Mapping[ClientId, Mapping[int, float]] = {}
        self._answerers: dict[tuple[Side, ClientId | None], Answerer] = {}
        try:
            self._changes, self._shares = _find_changes(run, client)
        except UnknownInfluenceError as reason:
            self.unknown = str(reason)
        if set(self._changes) == {None}:
            self.unknown = "a client over a network is not told who contributed; all other clients are taken together"

    def measure(
        self, side: Side, question: tuple[int, int], entities: Sequence[int], hidden: Sequence[Split]
    ) -> list[list[Influence]]:
        """The influences on each of these answers: what supports it most first, all others together last."""
        if not self._changes or not entities:
            return [[] for _ in entities]
        now = self._answerer(side, "").standing(question, entities, hidden)
        found: list[list[Influence]] = [[] for _ in entities]
        for other in self._changes:
            then = self._answerer(side, other).standing(question, entities, hidden)
            for place, (entity, before, after) in enumerate(zip(entities, now, then, strict=True)):
                ends = (question[0], entity) if side == "tail" else (entity, question[0])
                known = None if other is None else self._shares.get(other)
                shares = [None if known is None else known.get(end, 0.0) for end in ends]
                changes = after[0] - before[0], after[1] - before[1]
                found[place].append(Influence(other, *after, *changes, *shares))
        return [sorted(each, key=lambda one: (one.without is None, one.score_change)) for each in found]

    def _answerer(self, side: Side, other: ClientId | None) -> Answerer:
        """An answerer without another client's share; with "" the one that has all shares."""
        if (side, other) not in self._answerers:
            if other == "":
                self._answerers[side, other] = self._run.answerer(self._client, side)
            else:
                tables = self._run.tables(self._client).copy()
                change = self._changes[other]
                tables.entity[change.rows] -= change.values
                self._answerers[side, other] = self._answerer(side, "").with_tables(tables)
        return self._answerers[side, other]


def _find_changes(run: Run, client: ClientId) -> tuple[dict[ClientId | None, Change], dict[ClientId, dict[int, float]]]:
    """What the last mix took from each other client, and from all together; and each one's share per entity."""
    if run.custom_strategy:  # the saved method is not the one that mixed
        raise UnknownInfluenceError(f"a strategy of your own, {run.custom_strategy}, does not say who contributed")
    config, label = run.config, run.label("method")
    if not config.method_type.is_federated:
        raise UnknownInfluenceError(f"{label} exchanges nothing")
    strategy = config.build_strategy()
    if not strategy.absorb.replace and config.evaluate != "after_aggregation":
        raise UnknownInfluenceError(
            f"with {label}, clients do not start from what they receive; they are only pulled towards it"
        )
    received, saved = run.received(client), run.mix()
    if received is not None:
        return {None: received}, {}
    if saved is None:
        raise UnknownInfluenceError(
            "the run has no last mix (mix.safetensors): an earlier version made it; train again"
        )
    mix, shared = saved
    if client not in mix.learners:
        raise UnknownInfluenceError(
            f"{client} did not take part in the last mix, that of round {mix.round} (fraction is below 1)"
        )
    width = run.built_model.entity_width
    sent = [upload.tables.get("entity") for upload in mix.uploads.values()]
    if any(rows is None or rows.values.shape[1] != width for rows in sent):
        raise UnknownInfluenceError(f"with {label}, clients do not send their entity rows")
    shares = read_shares(strategy, mix, shared, client)
    if shares is None:
        raise UnknownInfluenceError(f"{label} does not say who contributed: its Strategy has no method `shares`")
    rows = _local_rows(shared, client)
    changes: dict[ClientId | None, Change] = {}
    for other, share in shares.items():
        difference = taken(mix, shared, client, other, share)
        if len(difference.ids):
            places = np.searchsorted(shared.travelling[client], difference.ids)
            changes[other] = Change(rows[places], difference.values)
    if not changes:
        raise UnknownInfluenceError(f"no other client had a share in what {client} received in the last mix")
    if len(changes) > 1:
        total = np.zeros_like(run.tables(client).entity)
        for change in list(changes.values()):
            total[change.rows] += change.values
        changes[None] = Change(rows, total[rows])
    numbers = rows.tolist()
    return changes, {other: dict(zip(numbers, share.tolist(), strict=True)) for other, share in shares.items()}


def read_shares(strategy: Strategy, mix: Mix, shared: Shared, client: ClientId) -> dict[ClientId, Shares] | None:
    """The shares that a method declares, checked; None if it declares none."""
    name = f"{type(strategy).__name__}.shares"
    with named_failure(name):
        found = strategy.shares(mix.state, shared, mix.uploads, client)
    if found is None:
        return None
    size, checked = len(shared.travelling[client]), {}
    for other, values in found.items():
        share = np.asarray(values, np.float64)
        if other not in shared.clients or other == client:
            raise InputError(f"{name}: {other!r} is not another client")
        if share.shape != (size,) or not np.isfinite(share).all():
            raise InputError(f"{name}: the shares of {other!r} are not {size:,} finite numbers, one per shared entity")
        if share[~shared.owned(client, other)].any():
            raise InputError(f"{name}: {other!r} has a share in entities that it does not have")
        checked[other] = share
    return checked


def taken(mix: Mix, shared: Shared, client: ClientId, other: ClientId, share: Shares) -> Rows:
    """s_ij[e] (U_j[e] − U_i[e]) for the entities e in which the other client has a share and both sent a row."""
    mine, theirs = mix.uploads[client].tables["entity"], mix.uploads[other].tables["entity"]
    ids = shared.travelling[client]
    used = (share != 0) & np.isin(ids, mine.ids) & np.isin(ids, theirs.ids)
    ids = ids[used]
    difference: Mat = theirs.values[np.searchsorted(theirs.ids, ids)] - mine.values[np.searchsorted(mine.ids, ids)]
    return Rows(ids, share[used, None].astype(np.float32) * difference)


def _local_rows(shared: Shared, client: ClientId) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The row in the client's entity table of each of its shared ids."""
    order = np.argsort(shared.ids[client])
    return order[np.searchsorted(shared.ids[client][order], shared.travelling[client])].astype(np.int32)
