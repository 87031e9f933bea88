"""Flower as the engine: carries bytes between a server and its clients. The only file that imports flwr.

The server's half (`Hub`) is what Flower calls a ServerApp, the client's half (`Node`) what it calls a SuperNode; both
speak to a real SuperLink. Neither asks for nor runs the app bundle that Flower ships: the code is what each party has
installed. Both live as long as the run, so that no process is started and nothing is imported for a message.
"""

import io
import json
import os
import ssl
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # before flwr looks
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

import httpx
from flwr.app import ArrayRecord, Message, Metadata, RecordDict
from flwr.app.message import Array, make_message, remove_content_from_message
from flwr.common.constant import SubStatus
from flwr.common.serde import message_from_proto, message_to_proto, run_from_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.fab_pb2 import Fab
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node as NodeProto
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_body,
    get_object_head_values_from_object_content,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from pfedeg.network.channel import EndedError, RefusedError, Reply, Request, Seen, StrangeError, UnreachableError

SERVER_NODE = 1  # Flower's number for the SuperLink
HEARTBEAT = 20.0  # seconds between signs of life; after twice as long without one, Flower takes a client for gone
PIECE = 5 << 20  # Flower cuts arrays into pieces of so many bytes
TIMEOUT = 60.0  # seconds for one request
KEEP = 3600.0  # seconds for which the SuperLink keeps a message
APP = """[project]
name = "pfedeg"
version = "0.1.0"
[tool.flwr.app]
publisher = "pfedeg"
[tool.flwr.app.components]
serverapp = "pfedeg:installed"
clientapp = "pfedeg:installed"
[tool.flwr.app.config]
"""


class Hub:
    """The server's side: who may join, and one run of messages. `address` is the SuperLink's own, on loopback."""

    def __init__(self, address: str, certificate: str) -> None:
        """`certificate` is the path of the CA's."""
        self._address, self._certificate = address, certificate
        self._control = _client(ControlHttpClient, address, certificate)
        self._runtime: RuntimeHttpClient | None = None
        self._run = 0
        self._stop = threading.Event()
        self._arriving: dict[str, _Arriving] = {}

    def close(self) -> None:
        """End the run, if there is one, and let go of the connections."""
        self._stop.set()
        if self._runtime is not None:
            with suppress(UnreachableError, RefusedError, EndedError), _errors():
                self._runtime.PushTaskOutput(PushTaskOutputRequest(sub_status=SubStatus.COMPLETED))
            self._runtime.close()
            self._runtime = None
        self._control.close()

    def register(self, name: str, public: Any) -> None:
        """Let the owner of a key join."""
        with _errors():
            self._control.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(public), name=name))

    def unregister(self, public: Any) -> None:
        """Refuse the owner of a key from now on."""
        key = public_key_to_bytes(public)
        with _errors():
            for info in self._control.ListNodes(ListNodesRequest()).nodes_info:
                if info.public_key == key and info.status != "unregistered":
                    self._control.UnregisterNode(UnregisterNodeRequest(node_id=info.node_id))

    def clients(self) -> Mapping[bytes, Seen]:
        """Every registered key, as bytes, and how its owner is seen."""
        with _errors():
            infos = self._control.ListNodes(ListNodesRequest()).nodes_info
        return {
            info.public_key: Seen(info.node_id, info.status == "online", info.last_activated_at)
            for info in infos
            if info.status != "unregistered"
        }

    def open(self) -> None:
        """Begin a run: the SuperLink makes it, and this process is what carries it out."""
        self._stop.set()
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None
        bundle = io.BytesIO()
        with zipfile.ZipFile(bundle, "w") as archive:
            archive.writestr("pyproject.toml", APP)
        with _errors():
            started = self._control.StartRun(StartRunRequest(fab=Fab(content=bundle.getvalue())))
            if not started.run_id:
                raise RefusedError("the SuperLink did not start a run")
            with closing(_client(RuntimeHttpClient, self._address, self._certificate)) as asked:
                for _ in range(100):
                    task = asked.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
                    if task.token and task.task.run_id == started.run_id:
                        break
                    time.sleep(0.05)
                else:
                    raise RefusedError("the SuperLink did not hand out the run's task; is another run waiting?")
            token = RuntimeTokenHttpInterceptor(token=task.token)
            self._runtime = _client(RuntimeHttpClient, self._address, self._certificate, token)
            given = self._runtime.PullTaskInput(PullTaskInputRequest())
        self._run = run_from_proto(given.run).run_id
        self._arriving.clear()
        self._stop = threading.Event()
        threading.Thread(target=_beat, args=(self._heartbeat, self._stop), daemon=True).start()

    def _heartbeat(self) -> None:
        if self._runtime is not None:
            self._runtime.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    def push(self, node: int, body: bytes) -> str:
        """Send a message to a client; the name by which the reply will be known, or nothing if it cannot be sent."""
        assert self._runtime is not None
        runtime = self._runtime
        metadata = Metadata(
            run_id=self._run,
            message_id="",
            src_node_id=SERVER_NODE,
            dst_node_id=node,
            reply_to_message_id="",
            group_id="",
            created_at=time.time(),
            ttl=KEEP,
            message_type="query",
        )
        message = make_message(metadata=metadata, content=_content(body))
        with _errors(), no_object_id_recompute():
            message.metadata.__dict__["_message_id"] = message.object_id
            tree, objects = get_object_tree(message), get_all_nested_objects(message)
            bare = message_to_proto(remove_content_from_message(message))
            stored = runtime.PushMessages(PushAppMessagesRequest(messages_list=[bare], message_object_trees=[tree]))
            for name in stored.objects_to_push:
                piece = objects[name].deflate()
                runtime.PushObject(
                    PushObjectRequest(
                        node=NodeProto(node_id=SERVER_NODE),
                        run_id=self._run,
                        object_id=name,
                        object_content=piece,
                        session_id=stored.session_id,
                    )
                )
        if list(stored.message_ids) != [message.metadata.message_id]:
            return ""
        return message.metadata.message_id

    def pull(self, sent: Iterable[str], most: int) -> Iterator[Reply]:
        """The replies that have come; one of more than `most` bytes is not read."""
        assert self._runtime is not None
        runtime, node = self._runtime, NodeProto(node_id=SERVER_NODE)
        asked = [name for name in sent if name not in self._arriving]
        fresh: list[tuple[Any, Any]] = []
        if asked:
            with _errors():
                response = runtime.PullMessages(PullAppMessagesRequest(message_ids=asked))
            fresh = list(zip(response.messages_list, response.message_object_trees, strict=True))
        for proto, tree in fresh:
            name, to = proto.metadata.message_id, proto.metadata.reply_to_message_id
            if proto.HasField("error"):
                yield Reply(to, None, proto.error.reason[:500] or "no answer")
                continue
            self._arriving[to] = _Arriving(name, runtime.PullObject, node, self._run, tree, most)
        for to, arriving in list(self._arriving.items()):
            try:
                with _errors():
                    body = arriving.look()
                    if body is None:
                        continue
                    runtime.ConfirmMessageReceived(
                        ConfirmMessageReceivedRequest(node=node, run_id=self._run, message_object_id=arriving.name)
                    )
            except RefusedError as error:
                del self._arriving[to]
                with suppress(UnreachableError, RefusedError, EndedError), _errors():  # it need not be kept
                    runtime.ConfirmMessageReceived(
                        ConfirmMessageReceivedRequest(node=node, run_id=self._run, message_object_id=arriving.name)
                    )
                yield Reply(to, None, str(error))
                continue
            del self._arriving[to]
            yield Reply(to, body)


class Node:
    """A client's side. `key` is its private key; `node` is what the SuperLink called it before, if it did."""

    def __init__(self, address: str, certificate: str, key: Any, node: int = 0) -> None:
        """Does not speak yet."""
        self._key, self.node = key, node
        self._fleet = _client(FleetHttpClient, address, certificate, NodeAuthHttpInterceptor(key, key.public_key()))
        self._stop = threading.Event()
        self._coming: list[tuple[Any, _Arriving]] = []

    def join(self) -> None:
        """Tell the SuperLink that this client is there."""
        public = public_key_to_bytes(self._key.public_key())
        if self.node:  # else it would be refused while the SuperLink waits for signs of life of an earlier process
            with suppress(RefusedError, EndedError), _errors():
                self._fleet.DeactivateNode(DeactivateNodeRequest(node_id=self.node))
        with _errors():
            answer = self._fleet.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT))
        self.node = answer.node_id
        self._stop = threading.Event()
        threading.Thread(target=_beat, args=(self._heartbeat, self._stop), daemon=True).start()

    def leave(self) -> None:
        """Tell the SuperLink that this client goes."""
        self._stop.set()
        with suppress(UnreachableError, RefusedError, EndedError), _errors():
            self._fleet.DeactivateNode(DeactivateNodeRequest(node_id=self.node))
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._stop.set()
        self._fleet.close()

    def _heartbeat(self) -> None:
        node = NodeProto(node_id=self.node)
        self._fleet.SendNodeHeartbeat(SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT))

    def receive(self, most: int) -> Request | None:
        """The next message, if there is one; one of more than `most` bytes is refused."""
        node = NodeProto(node_id=self.node)
        with _errors():
            response = self._fleet.PullMessages(PullMessagesRequest(node=node))
        for proto, tree in zip(response.messages_list, response.message_object_trees, strict=True):
            message = message_from_proto(proto)
            run, name = message.metadata.run_id, message.metadata.message_id
            self._coming.append((message, _Arriving(name, self._fleet.PullObject, node, run, tree, most)))
        for coming in list(self._coming):  # one that does not come whole must not keep back the others
            message, arriving = coming
            try:
                with _errors():
                    body = arriving.look()
                    if body is None:
                        continue
                    self._fleet.ConfirmMessageReceived(
                        ConfirmMessageReceivedRequest(
                            node=node, run_id=message.metadata.run_id, message_object_id=arriving.name
                        )
                    )
            except EndedError:
                self._coming.remove(coming)
                continue
            except StrangeError:
                self._coming.remove(coming)
                raise
            self._coming.remove(coming)
            return Request(body, message)
        return None

    def reply(self, request: Request, body: bytes) -> None:
        """Answer a message."""
        node = NodeProto(node_id=self.node)
        reply = Message(_content(body), reply_to=request.handle)
        with _errors(), no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
            bare = message_to_proto(remove_content_from_message(reply))
            stored = self._fleet.PushMessages(
                PushMessagesRequest(
                    node=node, messages_list=[bare], message_object_trees=[tree], clientapp_runtime_list=[0.0]
                )
            )
            for name in stored.objects_to_push:
                self._fleet.PushObject(
                    PushObjectRequest(
                        node=node,
                        run_id=reply.metadata.run_id,
                        object_id=name,
                        object_content=objects[name].deflate(),
                        session_id=stored.session_id,
                    )
                )


def _client(kind: Any, address: str, certificate: str, *more: Any) -> Any:
    version = RuntimeVersionHttpInterceptor(component_name="pfedeg")
    authority = Path(certificate).read_bytes()
    client = kind.from_server_address(address, False, authority, interceptors=[version, *more])
    client._client.close()
    client._client = httpx.Client(  # goes to the server itself: by no proxy of the environment, by no redirection
        verify=ssl.create_default_context(cafile=certificate),
        timeout=httpx.Timeout(TIMEOUT, connect=10.0),
        follow_redirects=False,
        trust_env=False,
    )
    return client


def _content(body: bytes) -> RecordDict:
    return RecordDict({"body": ArrayRecord({"body": Array("uint8", (len(body),), "bytes", body)})})


class _Arriving:
    """A message whose pieces come one after the other; no more than `most` bytes of it are taken."""

    def __init__(self, name: str, pull: Callable[[Any], Any], node: NodeProto, run: int, tree: Any, most: int) -> None:
        self.name, self._pull, self._node, self._run, self._most = name, pull, node, run, most
        self._missing = [each.object_id for each in iterate_object_tree(tree)]
        self._pieces: dict[str, bytes] = {}
        self._size, self._until = 0, time.monotonic() + TIMEOUT

    def look(self) -> bytes | None:
        """The body, once it is there."""
        if len(self._missing) > 8 + self._most // PIECE:
            raise StrangeError(f"a message of {len(self._missing)} pieces; {self._most:,} bytes are the most")
        while self._missing:
            piece = self._pull(PullObjectRequest(node=self._node, run_id=self._run, object_id=self._missing[-1]))
            if not piece.object_available:
                if not piece.object_found or time.monotonic() > self._until:
                    raise StrangeError("a message that did not come whole")
                return None
            self._size += len(piece.object_content)
            if self._size > self._most + (64 << 10):
                raise StrangeError(f"a message of more than {self._most:,} bytes")
            self._pieces[self._missing.pop()] = piece.object_content
            self._until = time.monotonic() + TIMEOUT
        try:
            self._check_arrays()
            message: Any = inflate_object_from_contents(self.name, self._pieces)
            body = message.content["body"]["body"].data
        except StrangeError:
            raise
        except Exception as error:  # whatever Flower makes of bytes that somebody else has sent
            raise StrangeError(f"a message that is not ours ({type(error).__name__})") from None
        if not isinstance(body, bytes) or len(body) > self._most:
            raise StrangeError("a message that is not ours")
        return body

    def _check_arrays(self) -> None:
        """Refuse an array that says to be the same piece many times over."""
        for content in self._pieces.values():
            kind, children, _ = get_object_head_values_from_object_content(content)
            if kind == Array.__qualname__:
                listed = json.loads(get_object_body(content, Array))["arraychunk_ids"]
                if sum(len(self._pieces[children[place]]) for place in listed) > self._most + (64 << 10):
                    raise StrangeError(f"a message of more than {self._most:,} bytes")


def _beat(beat: Callable[[], None], stop: threading.Event) -> None:
    """Signs of life, until told to stop; failures are for others to notice."""
    while not stop.wait(HEARTBEAT * 0.8):
        with suppress(UnreachableError, RefusedError, EndedError, RuntimeError), _errors():  # the last: just closed
            beat()


def _words(response: httpx.Response) -> str:
    """What an answer says is wrong, without what is around it."""
    try:
        return str(response.json()["detail"])[:200]
    except (ValueError, KeyError, TypeError):
        return response.reason_phrase


@contextmanager
def _errors() -> Iterator[None]:
    """What goes wrong between here and there, in the words of this module."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        text = f"{code} {_words(error.response)}"
        if code >= 500:
            raise UnreachableError(text) from None
        if code == 403:
            raise EndedError(text) from None
        raise RefusedError(text) from None
    except (httpx.TransportError, OSError) as error:
        raise UnreachableError(f"{type(error).__name__}: {error}") from None
    except ValueError as error:  # an answer that Flower cannot read
        raise UnreachableError(f"{type(error).__name__}: {error}") from None
    except SystemExit as error:  # flwr leaves the process on incompatible versions
        if not error.code:
            raise
        raise RefusedError(f"Flower on the other side is of an incompatible version ({error})") from None
