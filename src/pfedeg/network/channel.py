"""What a network has to do for a federation: carry bytes to clients and their replies back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol


class UnreachableError(Exception):
    """The other side does not answer now; it may later."""


class RefusedError(Exception):
    """The other side answers that it does not want this."""


class StrangeError(RefusedError):
    """What came is none of our messages, or too large, or not whole."""


class EndedError(Exception):
    """What this belongs to is no more."""


class Reply(NamedTuple):
    """An answer to the message `to`, or what the network says instead of one."""

    to: str
    body: bytes | None
    error: str = ""


class Seen(NamedTuple):
    """A client as the network sees it."""

    node: int
    online: bool
    since: str  # when it joined; another time than before means that it was away, or started anew


class Request(NamedTuple):
    """A message to a client, and what the network needs to bring the answer back."""

    body: bytes
    handle: Any


class Hub(Protocol):
    """The server's end."""

    def open(self) -> None:
        """Begin; also begin anew, after the network was lost."""

    def close(self) -> None:
        """End."""

    def clients(self) -> Mapping[bytes, Seen]:
        """Who is enrolled, by public key, and how each is seen."""

    def push(self, node: int, body: bytes) -> str:
        """Send to a client; the name by which the reply will be known, or nothing if it cannot be sent now."""

    def pull(self, sent: Iterable[str], most: int) -> Iterator[Reply]:
        """The replies that have come; those of more than `most` bytes are not read."""


class Node(Protocol):
    """A client's end."""

    node: int

    def join(self) -> None:
        """Be there."""

    def leave(self) -> None:
        """Be gone."""

    def close(self) -> None:
        """Let go of the network, which may not be there."""

    def receive(self, most: int) -> Request | None:
        """The next message, if there is one; one of more than `most` bytes is refused."""

    def reply(self, request: Request, body: bytes) -> None:
        """Answer it."""
