"""What a server may know of a federation: who owns which aligned ids, and the rows that travel."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.knowledge_graph import normal
from pfedeg.graphs.triples import Ids

ClientId = str
TOKEN_BYTES = 32  # of an alignment token
Mat = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Embedding rows by aligned id: the only arrays that travel. An absent id means that nothing is known of it."""

    ids: Ids  # sorted
    values: Mat  # (len(ids), width)

    @property
    def nbytes(self) -> int:
        """What it takes on a wire."""
        return self.ids.nbytes + self.values.nbytes


class Ownership(NamedTuple):
    """The owners of every id that travels, id after id: those of the k-th stand at start[k] … start[k + 1] − 1."""

    start: NDArray[np.int64]
    client: Ids  # by its place in `Shared.clients`, ascending within an id
    row: Ids  # which row of that client's upload is this id's


class Shared:
    """All that a server may know of a federation: which client owns which aligned ids. No names, no triples."""

    def __init__(self, ids: Mapping[ClientId, Ids]) -> None:
        """`ids[c][row]` is the aligned id of local row `row` at client c (the paper's permutation P^c)."""
        self.clients: tuple[ClientId, ...] = tuple(sorted(ids))
        self.ids = {client: ids[client] for client in self.clients}

    @cached_property
    def owners(self) -> NDArray[np.int32]:
        """How many clients own each aligned id (the column sums of the paper's existence matrix M)."""
        size = max((int(ids.max()) + 1 for ids in self.ids.values() if len(ids)), default=0)
        count = np.zeros(size, np.int32)
        for ids in self.ids.values():
            count[ids] += 1
        return count

    @cached_property
    def travelling(self) -> Mapping[ClientId, Ids]:
        """The sorted ids of each client that another client owns too: only their rows travel."""
        return {client: np.sort(ids[self.owners[ids] > 1]) for client, ids in self.ids.items()}

    @cached_property
    def ownership(self) -> Ownership:
        """Who owns each id that travels, by counting: as much work and memory as there are rows."""
        number = np.where(self.owners > 1, self.owners, 0).astype(np.int64)
        end = np.cumsum(number)
        free = end - number  # where the next owner of each id goes
        total = int(number.sum())
        client, row = np.empty(total, np.int32), np.empty(total, np.int32)
        for place, ids in enumerate(self.travelling.values()):
            slot = free[ids]
            client[slot], row[slot] = place, np.arange(len(ids))
            free[ids] += 1
        return Ownership(np.append(0, end[number > 0]), client, row)


def token(name: str, secret: bytes) -> bytes:
    """What stands for a name outside of its client: HMAC-SHA256 under a secret of the clients (empty when embedded)."""
    return hmac.digest(secret, normal(name).encode(), "sha256")


def align(tokens: Mapping[ClientId, Any]) -> Shared:
    """Aligned ids: positions in the sorted list of all clients' tokens, each client's in the order of its own."""
    listed = {name: np.ascontiguousarray(part).view(f"V{TOKEN_BYTES}")[:, 0].tolist() for name, part in tokens.items()}
    position = {token: i for i, token in enumerate(sorted(set().union(*listed.values())))}
    return Shared({name: np.array([position[token] for token in part], np.int32) for name, part in listed.items()})


def fingerprint(secret: bytes) -> str:
    """What a party may show of a secret: whether two are equal, and nothing else."""
    return hmac.digest(secret, b"pfedeg: the fingerprint of this secret", "sha256").hex()[:32]
