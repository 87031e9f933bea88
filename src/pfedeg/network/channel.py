"""What a network has to do for a federation: carry requests to clients and their responses back, as bytes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol


class UnreachableError(Exception):
    """The other side does not answer now; it may later."""


class RefusedError(Exception):
    """The other side refused a request."""


class InvalidMessageError(RefusedError):
    """What arrived is not one of our messages, too large, or incomplete."""


class RunEndedError(Exception):
    """The run that this message belongs to has ended."""


class Response(NamedTuple):
    """A response to the request `to`, or why there is none."""

    to: str
    body: bytes | None
    error: str = ""


class ClientStatus(NamedTuple):
    """What the network knows of a client."""

    node: int
    online: bool
    since: str  # when it joined; a new time means that it was offline or restarted


class Request(NamedTuple):
    """A request to a client, and what the network needs to return the response."""

    body: bytes
    handle: Any


class ServerChannel(Protocol):
    """The server's end."""

    def open(self) -> None:
        """Connect; also reconnect, after the network was lost."""

    def close(self) -> None:
        """Disconnect."""

    def clients(self) -> Mapping[bytes, ClientStatus]:
        """The status of every enrolled client, by public key."""

    def push(self, node: int, body: bytes) -> str:
        """Send a request; returns its id, or "" if it cannot be sent now."""

    def pull(self, requests: Iterable[str], limit: int) -> Iterator[Response]:
        """The responses that have arrived; those of more than `limit` bytes are not read."""


class ClientChannel(Protocol):
    """A client's end."""

    @property
    def node(self) -> int:
        """The client's number in the network, once it has joined."""

    def join(self) -> None:
        """Go online."""

    def leave(self) -> None:
        """Go offline and disconnect."""

    def close(self) -> None:
        """Disconnect without a word to the network, which may be unreachable."""

    def receive(self, limit: int) -> Request | None:
        """The next request, if there is one; one of more than `limit` bytes is refused."""

    def respond(self, request: Request, body: bytes) -> None:
        """Send the response to a request."""
