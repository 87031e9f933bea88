"""What a server may know of a federation: which client owns which aligned ids, and the rows that clients exchange."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfedeg.graphs.triples import Ids, normal

ClientId = str
TOKEN_BYTES = 32
Mat = NDArray[np.float32]
Tokens = NDArray[np.uint8]  # (n, TOKEN_BYTES)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Embedding rows, `values[i]` of the aligned id `ids[i]`; `ids` are sorted int32, `values` float32.

    An id that is absent has no row; it is not a row of zeros.
    """

    ids: Ids  # sorted
    values: Mat  # (len(ids), width)

    def __eq__(self, other: object) -> bool:
        """Whether ids and values are equal."""
        if not isinstance(other, Rows):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # arrays may change

    @property
    def nbytes(self) -> int:
        """The size of a message with these rows."""
        return self.ids.nbytes + self.values.nbytes


class Ownership(NamedTuple):
    """The owners of every shared id, id after id: those of the k-th are at start[k] … start[k + 1] − 1."""

    start: NDArray[np.int64]
    client: Ids  # position in `Shared.clients`, ascending within an id
    row: Ids  # the row of this id in that client's upload


class Shared:
    """All that a server may know of a federation: which client owns which aligned ids. No names, no triples."""

    def __init__(self, ids: Mapping[ClientId, Ids]) -> None:
        """`ids[c][row]` is the aligned id of local row `row` at client c (the paper's permutation P^c)."""
        self.clients: tuple[ClientId, ...] = tuple(sorted(ids))
        self.ids = {client: ids[client] for client in self.clients}

    @cached_property
    def owners(self) -> NDArray[np.int32]:
        """The number of clients that own each aligned id (the column sums of the paper's existence matrix M)."""
        size = max((int(ids.max()) + 1 for ids in self.ids.values() if len(ids)), default=0)
        count = np.zeros(size, np.int32)
        for ids in self.ids.values():
            count[ids] += 1
        return count

    @cached_property
    def travelling(self) -> Mapping[ClientId, Ids]:
        """The sorted ids that a client shares with at least one other client: only their rows are exchanged."""
        return {client: np.sort(ids[self.owners[ids] > 1]) for client, ids in self.ids.items()}

    def owned(self, client: ClientId, other: ClientId) -> NDArray[np.bool_]:
        """Which of the shared ids of a `client` the `other` has, too."""
        return np.isin(self.travelling[client], self.travelling[other], assume_unique=True)

    @cached_property
    def ownership(self) -> Ownership:
        """The owners of each shared id, by counting: time and memory are linear in the number of rows."""
        number = np.where(self.owners > 1, self.owners, 0).astype(np.int64)
        end = np.cumsum(number)
        free = end - number  # where the next owner of each id goes
        total = int(number.sum())
        client, row = np.empty(total, np.int32), np.empty(total, np.int32)
        for position, ids in enumerate(self.travelling.values()):
            slot = free[ids]
            client[slot], row[slot] = position, np.arange(len(ids))
            free[ids] += 1
        return Ownership(np.append(0, end[number > 0]), client, row)


def token(name: str, secret: bytes) -> bytes:
    """The alignment token of a name: HMAC-SHA256 with the clients' common secret (empty within one process)."""
    return hmac.digest(secret, normal(name).encode(), "sha256")


def pack_tokens(tokens: Sequence[bytes]) -> Tokens:
    """Tokens as an array."""
    return np.frombuffer(b"".join(tokens), np.uint8).reshape(-1, TOKEN_BYTES)


def align(tokens: Mapping[ClientId, Tokens]) -> Shared:
    """Aligned ids: positions in the sorted list of all clients' tokens, in the order of each client's own tokens."""
    listed = {name: np.ascontiguousarray(part).view(f"V{TOKEN_BYTES}")[:, 0].tolist() for name, part in tokens.items()}
    position = {token: i for i, token in enumerate(sorted(set().union(*listed.values())))}
    return Shared({name: np.array([position[token] for token in part], np.int32) for name, part in listed.items()})


def fingerprint(secret: bytes) -> str:
    """A fingerprint of a secret, safe to publish: it shows whether two secrets are equal and nothing else."""
    return hmac.digest(secret, b"pfedeg: the fingerprint of this secret", "sha256").hex()[:32]
