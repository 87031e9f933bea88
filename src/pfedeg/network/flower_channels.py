"""The server's and a client's channel over the SuperLink: heartbeats, reconnects, messages that arrive in pieces."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pfedeg.network.channel import (
    ClientStatus,
    InvalidMessageError,
    RefusedError,
    Request,
    Response,
    RunEndedError,
    UnreachableError,
)
from pfedeg.network.flower import HEARTBEAT, PIECE_BYTES, TIMEOUT, Control, Fleet, Incoming, Runtime, read_body
from pfedeg.network.operations.certificates import identity

FAILURES = (UnreachableError, RefusedError, RunEndedError)
SPARE = 64 << 10  # bytes that Flower adds to a message


class FlowerServerChannel:
    """`ServerChannel` over the SuperLink at `address`; also says who may join."""

    def __init__(self, address: str, certificate: str) -> None:
        """`certificate` is the path of the CA's. Does not connect yet."""
        self._address, self._certificate = address, certificate
        self._control = Control(address, certificate)
        self._runtime: Runtime | None = None
        self._stop = threading.Event()
        self._arriving: dict[str, _Arriving] = {}  # by the request that is responded to

    def close(self) -> None:
        """End the run, if there is one, and disconnect."""
        self._stop.set()
        if self._runtime is not None:
            with suppress(*FAILURES):
                self._runtime.finish()
            self._runtime.close()
            self._runtime = None
        self._control.close()

    def register(self, name: str, public: Any) -> None:
        """Let the owner of a public key join."""
        self._control.register(name, identity(public))

    def unregister(self, public: Any) -> None:
        """Refuse the owner of a public key from its next request on."""
        key = identity(public)
        for client in self._control.registered():
            if client.key == key:
                self._control.unregister(client.node)

    def clients(self) -> Mapping[bytes, ClientStatus]:
        """The status of every registered client, by public key."""
        return {
            client.key: ClientStatus(client.node, client.online, client.since) for client in self._control.registered()
        }

    def open(self) -> None:
        """Start a run at the SuperLink, for this process to carry out."""
        self._stop.set()
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None
        self._runtime = Runtime(self._address, self._certificate, self._control.start_run())
        self._arriving.clear()
        self._stop = _start_heartbeat(self._runtime.heartbeat)

    def push(self, node: int, body: bytes) -> str:
        """Send a request to a client; its id, or "" if it cannot be sent."""
        assert self._runtime is not None
        return self._runtime.push(node, body)

    def pull(self, requests: Iterable[str], limit: int) -> Iterator[Response]:
        """The responses that have arrived; one of more than `limit` bytes is not read."""
        assert self._runtime is not None
        runtime = self._runtime
        awaited = [name for name in requests if name not in self._arriving]
        for incoming in runtime.pull(awaited) if awaited else []:
            if incoming.error:
                yield Response(incoming.reply_to, None, incoming.error)
            else:
                self._arriving[incoming.reply_to] = _Arriving(incoming, runtime, limit)
        for request, arriving in list(self._arriving.items()):
            try:
                body = arriving.read()
                if body is None:
                    continue
                runtime.confirm(arriving.incoming)
            except RefusedError as error:
                del self._arriving[request]
                with suppress(*FAILURES):  # the SuperLink need not keep it
                    runtime.confirm(arriving.incoming)
                yield Response(request, None, str(error))
                continue
            del self._arriving[request]
            yield Response(request, body)


class FlowerClientChannel:
    """`ClientChannel` to the SuperLink behind the server's proxy."""

    def __init__(self, address: str, certificate: str, key: Any, node: int = 0) -> None:
        """`key` is the client's private key; `node` the number that it had before. Does not connect yet."""
        self._public = identity(key.public_key())
        self._fleet = Fleet(address, certificate, key, node)
        self._stop = threading.Event()
        self._arriving: list[_Arriving] = []

    @property
    def node(self) -> int:
        """The number of this client at the SuperLink."""
        return self._fleet.node

    def join(self) -> None:
        """Go online."""
        if self.node:  # a client that was killed counts as online for a while, and could not join
            with suppress(RefusedError, RunEndedError):
                self._fleet.deactivate()
        self._fleet.activate(self._public)
        self._stop = _start_heartbeat(self._fleet.heartbeat)

    def leave(self) -> None:
        """Go offline and disconnect."""
        self._stop.set()
        with suppress(*FAILURES):
            self._fleet.deactivate()
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._stop.set()
        self._fleet.close()

    def receive(self, limit: int) -> Request | None:
        """The next request, if there is one; one of more than `limit` bytes is refused."""
        self._arriving += [_Arriving(incoming, self._fleet, limit) for incoming in self._fleet.pull()]
        for arriving in list(self._arriving):  # an incomplete one must not delay the others
            try:
                body = arriving.read()
                if body is None:
                    continue
                self._fleet.confirm(arriving.incoming)
            except RunEndedError:
                self._arriving.remove(arriving)
                continue
            except InvalidMessageError:
                self._arriving.remove(arriving)
                raise
            self._arriving.remove(arriving)
            return Request(body, arriving.incoming)
        return None

    def respond(self, request: Request, body: bytes) -> None:
        """Send the response to a request."""
        self._fleet.push(request.handle, body)


class _Arriving:
    """A message whose pieces arrive one by one; no more than `limit` bytes of it are read."""

    def __init__(self, incoming: Incoming, source: Runtime | Fleet, limit: int) -> None:
        self.incoming, self._source, self._limit = incoming, source, limit
        self._missing = list(incoming.pieces)
        self._pieces: dict[str, bytes] = {}
        self._size, self._deadline = 0, time.monotonic() + TIMEOUT

    def read(self) -> bytes | None:
        """The body, once all pieces have arrived."""
        if len(self._missing) > 8 + self._limit // PIECE_BYTES:
            raise InvalidMessageError(f"a message of {len(self._missing)} pieces; the limit is {self._limit:,} bytes")
        while self._missing:
            piece = self._source.fetch_piece(self.incoming, self._missing[-1])
            if piece is None:
                if time.monotonic() > self._deadline:
                    raise InvalidMessageError("an incomplete message")
                return None
            self._size += len(piece)
            if self._size > self._limit + SPARE:
                raise InvalidMessageError(f"a message of more than {self._limit:,} bytes")
            self._pieces[self._missing.pop()] = piece
            self._deadline = time.monotonic() + TIMEOUT
        return read_body(self.incoming, self._pieces, self._limit)


def _start_heartbeat(beat: Callable[[], None]) -> threading.Event:
    """Send heartbeats in the background until the event is set; failures show in the next request."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(HEARTBEAT * 0.8):
            with suppress(*FAILURES, RuntimeError):  # RuntimeError: the connection was just closed
                beat()

    threading.Thread(target=repeat, daemon=True).start()
    return stop
