"""The only round loop: select, aggregate, exchange, evaluate. Everything else consumes what it yields."""

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from pfedeg import randomness
from pfedeg.graphs.alignment import ClientId, Rows, Shared
from pfedeg.graphs.knowledge_graph import Split
from pfedeg.methods.affinity import Weights
from pfedeg.methods.base import State, Strategy
from pfedeg.training.evaluation import Metrics


class Update(NamedTuple):
    """What a client returns after training."""

    rows: Rows
    loss: float


class Transport(Protocol):
    """Between server and clients: in this process, or over a network."""

    def uploads(self) -> Mapping[ClientId, Rows]:
        """Every client's rows as they are now (before the first round: their start)."""

    def exchange(self, number: int, downloads: Mapping[ClientId, Rows]) -> Mapping[ClientId, Update]:
        """Let the clients that get a download train for one round."""

    def evaluate(
        self, number: int, split: Split, downloads: Mapping[ClientId, Rows] | None
    ) -> Mapping[ClientId, Metrics]:
        """Let all clients evaluate their tables, with the downloads in place if there are any."""


@dataclass(frozen=True, slots=True)
class Round:
    """What happened in one round."""

    number: int
    selected: tuple[ClientId, ...]
    loss: Mapping[ClientId, float]
    metrics: Mapping[ClientId, Metrics] | None  # on validation triples, if this round was evaluated
    weights: Weights | None  # W, clients in the order of Shared.clients
    seconds: float
    bytes_up: int
    bytes_down: int
    state: State  # the strategy's, for checkpoints


def run(
    strategy: Strategy,
    transport: Transport,
    shared: Shared,
    *,
    rounds: int,
    seed: int,
    fraction: float = 1.0,
    eval_every: int = 5,
    evaluate: Literal["after_training", "after_aggregation"] = "after_training",
    done: int = 0,
    state: State | None = None,
    retired: Collection[ClientId] = (),
) -> Iterator[Round]:
    """Rounds done + 1 … rounds. `retired` may grow while this runs: clients in it are selected no more."""
    state = strategy.init(shared) if state is None else state
    latest = dict(transport.uploads())
    for number in range(done + 1, rounds + 1):
        began = time.perf_counter()
        selected = [client for client in select(shared, fraction, seed, number) if client not in retired]
        if not selected:
            return
        state, downloads = strategy.aggregate(state, shared, latest, selected)
        updates = transport.exchange(number, downloads)
        latest |= {client: update.rows for client, update in updates.items()}
        metrics = None
        if number % eval_every == 0 or number == rounds:
            final = None
            if evaluate == "after_aggregation":
                _, final = strategy.aggregate(state, shared, latest, shared.clients)
            metrics = transport.evaluate(number, "valid", final)
        yield Round(
            number=number,
            selected=tuple(selected),
            loss={client: update.loss for client, update in updates.items()},
            metrics=metrics,
            weights=state.get("weights"),
            seconds=time.perf_counter() - began,
            bytes_up=sum(update.rows.nbytes for update in updates.values()),
            bytes_down=sum(rows.nbytes for rows in downloads.values()),
            state=state,
        )


def select(shared: Shared, fraction: float, seed: int, number: int) -> list[ClientId]:
    """max(1, round(F · C)) clients at random, in the order of their names."""
    clients = shared.clients
    order = randomness.permutation(randomness.key("select", seed, number), len(clients))
    return sorted(clients[i] for i in order[: max(1, round(fraction * len(clients)))])
