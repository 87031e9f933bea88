"""The only round loop: select, aggregate, exchange, evaluate; it yields a `Round` each time."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from pfedeg import randomness
from pfedeg.errors import InputError, named_failure
from pfedeg.graphs.alignment import ClientId, Shared
from pfedeg.graphs.knowledge_graph import Split
from pfedeg.methods.base import State, Strategy, Weights
from pfedeg.methods.exchange import Download, Upload
from pfedeg.methods.robust import Robust, robust_uploads
from pfedeg.training.evaluation import Metrics
from pfedeg.training.last_mix import Mix


class Update(NamedTuple):
    """What a client returns after training."""

    upload: Upload
    loss: float


class Transport(Protocol):
    """The connection of the server to its clients: in this process, or over a network."""

    def uploads(self) -> Mapping[ClientId, Upload]:
        """Every client's current upload; before the first round, from its initial tables."""

    def exchange(self, number: int, downloads: Mapping[ClientId, Download]) -> Mapping[ClientId, Update]:
        """Send downloads and let these clients train for one round."""

    def evaluate(
        self, number: int, split: Split, downloads: Mapping[ClientId, Download] | None
    ) -> Mapping[ClientId, Metrics]:
        """Let all clients evaluate their tables, with downloads in place if given."""


@dataclass(frozen=True, slots=True)
class Round:
    """What happened in round `number`: the mean `loss` of every client that was `selected`, `seconds`, and traffic.

    `metrics` of all clients on validation triples are there if the round was evaluated. `weights` is the relation graph
    W of the method, `bytes_up` and `bytes_down` is what clients sent and received, `state` that of the strategy.
    `mix` is the last mix in the evaluated tables, for explanations; users see None.
    """

    number: int
    selected: tuple[ClientId, ...]
    loss: Mapping[ClientId, float]
    metrics: Mapping[ClientId, Metrics] | None  # on validation triples; None if not evaluated
    weights: Weights | None  # W, clients in the order of Shared.clients
    seconds: float
    bytes_up: int
    bytes_down: int
    state: State  # of the strategy, for checkpoints
    mix: Mix | None = None


def run(
    strategy: Strategy,
    transport: Transport,
    shared: Shared,
    *,
    width: int,
    rounds: int,
    seed: int,
    fraction: float = 1.0,
    eval_every: int = 5,
    evaluate: Literal["after_training", "after_aggregation"] = "after_training",
    done: int = 0,
    state: State | None = None,
    retired: Collection[ClientId] = (),
    robust: Robust = "none",
    left_out: Collection[ClientId] = (),
) -> Iterator[Round]:
    """Run rounds done + 1 … rounds. The caller may add clients to `retired` meanwhile: they are no longer selected.

    `width` is the number of real numbers per entity, `robust` how uploads are freed from outlying numbers. Clients that
    are `left_out`, which may also grow meanwhile, are not selected either, and the others learn nothing from them.
    """
    state = init(strategy, shared) if state is None else state
    latest = dict(transport.uploads())
    for number in range(done + 1, rounds + 1):
        began = time.perf_counter()
        selected = [client for client in select(shared, fraction, seed, number, left_out) if client not in retired]
        if not selected:
            return
        mixed = robust_uploads(latest, robust, left_out)
        state, downloads = aggregate(strategy, state, shared, mixed, selected, width)
        mix = Mix(number, tuple(selected), dict(mixed), state)
        updates = transport.exchange(number, downloads)
        latest |= {client: update.upload for client, update in updates.items()}
        metrics = None
        if number % eval_every == 0 or number == rounds:
            final = None
            if evaluate == "after_aggregation":
                mixed = robust_uploads(latest, robust, left_out)
                after, final = aggregate(strategy, state, shared, mixed, shared.clients, width)
                mix = Mix(number, shared.clients, dict(mixed), after)
            metrics = transport.evaluate(number, "valid", final)
        yield Round(
            number=number,
            selected=tuple(selected),
            loss={client: update.loss for client, update in updates.items()},
            metrics=metrics,
            weights=_relation_graph(strategy, state, len(shared.clients)),
            seconds=time.perf_counter() - began,
            bytes_up=sum(update.upload.nbytes for update in updates.values()),
            bytes_down=sum(download.nbytes for download in downloads.values()),
            state=state,
            mix=mix,
        )


def init(strategy: Strategy, shared: Shared) -> State:
    """`Strategy.init`, with its result checked."""
    name = f"{type(strategy).__name__}.init"
    with named_failure(name):
        state = strategy.init(shared)
    if not isinstance(state, Mapping):
        raise InputError(f"{name}: expected the state as a mapping, not {type(state).__name__}")
    _check_state(name, state)
    return state


def aggregate(
    strategy: Strategy,
    state: State,
    shared: Shared,
    latest: Mapping[ClientId, Upload],
    selected: Sequence[ClientId],
    width: int,
) -> tuple[State, dict[ClientId, Download]]:
    """`Strategy.aggregate`, with its result checked."""
    name = f"{type(strategy).__name__}.aggregate"
    with named_failure(name):
        result = strategy.aggregate(state, shared, latest, selected)
    if not (isinstance(result, tuple) and len(result) == 2 and all(isinstance(part, Mapping) for part in result)):
        raise InputError(f"{name}: expected the state and the downloads, both as mappings")
    state, downloads = result
    _check_state(name, state)
    found = {}
    for client in selected:
        text = f"{name}: the download of client {client!r}"
        if client not in downloads:
            raise InputError(f"{text} is missing; every selected client needs one")
        try:
            ids = shared.travelling[client]
            strategy.downloads.check(downloads[client], ids, width)
        except ValueError as error:
            raise InputError(f"{text} is invalid: {error}") from None
        found[client] = downloads[client]
    return state, found


def _check_state(name: str, state: State) -> None:
    """Refuse a state that a checkpoint cannot store."""
    for key, value in state.items():
        if not isinstance(key, str):
            raise InputError(f"{name}: state {key!r}: its name is not a text")
        if not isinstance(value, np.ndarray):
            raise InputError(f"{name}: state {key!r} is a {type(value).__name__}, not an array")
        if value.dtype.kind not in "biuf":
            raise InputError(f"{name}: state {key!r} is an array of {value.dtype}, not of numbers")


def _relation_graph(strategy: Strategy, state: State, clients: int) -> Weights | None:
    """`Strategy.relation_graph`, with its result checked."""
    name = f"{type(strategy).__name__}.relation_graph"
    with named_failure(name):
        weights = strategy.relation_graph(state)
    if weights is None:
        return None
    if not isinstance(weights, np.ndarray) or weights.shape != (clients, clients) or weights.dtype.kind != "f":
        found = getattr(weights, "shape", type(weights).__name__)
        raise InputError(f"{name}: expected an array of floats of shape {(clients, clients)}, not {found}")
    if not np.isfinite(weights).all():
        raise InputError(f"{name}: weights that are not finite")
    return weights


def select(
    shared: Shared, fraction: float, seed: int, number: int, left_out: Collection[ClientId] = ()
) -> list[ClientId]:
    """Select max(1, round(F · C)) of the C clients that are not left out, at random, sorted by name."""
    order = randomness.permutation(randomness.key("select", seed, number), len(shared.clients))
    clients = [shared.clients[i] for i in order if shared.clients[i] not in left_out]
    return sorted(clients[: max(1, round(fraction * len(clients)))])
