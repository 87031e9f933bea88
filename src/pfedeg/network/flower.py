# ruff: noqa: E402 (the version is checked, and the environment set, before flwr is imported)
"""Flower's HTTP interfaces as methods with plain arguments. The only file that imports flwr.

We do what Flower's ServerApp and SuperNode do, in one long-lived process each, and never fetch or run an app bundle.
Flower has no public interface for that. What we import, and why (tested with the versions in `flower_install`):

| from | what for | public |
|---|---|---|
| flwr.app | messages and their content: Message, Metadata, RecordDict, ArrayRecord, Array | yes |
| flwr.app.message | a message of a given run; a message without its content, which is sent in pieces | no |
| flwr.common.serde | messages to and from protobuf | no |
| flwr.common.constant, flwr.supercore.constant | how a finished task and a ServerApp's task are called | no |
| flwr.proto.* | the requests of the HTTP interfaces | no |
| flwr.supercore.control | HTTP client of the Control interface: register clients, start a run | no |
| flwr.supercore.runtime | HTTP client of the Runtime interface: the server's messages | no |
| flwr.supernode.fleet_http_client | HTTP client of the Fleet interface: a client's messages | no |
| flwr.supercore.interceptors | headers: version, and the token of the run's task | no |
| flwr.supernode.node_auth_http_interceptor | headers: a client's signature | no |
| flwr.supercore.inflatable.* | cut a message into pieces and put it together again | no |

The public `Grid` and `ClientApp` would serve too, but poll every 3 s, start a process per message and load all of a
message before its size is known.
"""

import io
import json
import os
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pfedeg.network.channel import InvalidMessageError, RefusedError
from pfedeg.network.flower_install import OFFLINE, check_flower_version
from pfedeg.network.http import http_client, translated_errors

check_flower_version()
os.environ.update(OFFLINE)  # flwr reads them on import

from flwr.app import Array, ArrayRecord, Message, Metadata, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import SubStatus
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, StartRunRequest, UnregisterNodeRequest
from flwr.proto.fab_pb2 import Fab
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
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
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

SERVER_NODE = 1  # Flower's number for the SuperLink
HEARTBEAT = 20.0  # seconds between heartbeats; Flower counts a client as offline after twice as long
PIECE_BYTES = 5 << 20  # Flower cuts arrays into pieces of this size
TIMEOUT = 60.0  # seconds for one HTTP request
KEEP_SECONDS = 3600.0  # how long the SuperLink keeps a message
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


class Registered(NamedTuple):
    """A client as the SuperLink lists it."""

    node: int
    key: bytes
    online: bool
    since: str


class Incoming(NamedTuple):
    """A message whose content is still at the SuperLink, in pieces."""

    id: str
    reply_to: str
    run: int
    pieces: list[str]
    error: str  # what the SuperLink reports in place of a response
    message: Any  # Flower's own, to respond to


class Control:
    """The Control interface: who may join, and runs."""

    def __init__(self, address: str, certificate: str) -> None:
        """`address` is host:port, `certificate` the path of the CA's."""
        self._http = _connect(ControlHttpClient, address, certificate)

    def close(self) -> None:
        """Disconnect."""
        self._http.close()

    def register(self, name: str, key: bytes) -> None:
        """Let the owner of a public key join."""
        with translated_errors():
            self._http.RegisterNode(RegisterNodeRequest(public_key=key, name=name))

    def unregister(self, node: int) -> None:
        """Refuse a client from its next request on."""
        with translated_errors():
            self._http.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def registered(self) -> list[Registered]:
        """All clients that may join."""
        with translated_errors():
            found = self._http.ListNodes(ListNodesRequest()).nodes_info
        return [
            Registered(each.node_id, each.public_key, each.status == "online", each.last_activated_at)
            for each in found
            if each.status != "unregistered"
        ]

    def start_run(self) -> int:
        """A new run with an app bundle that holds no code; its number."""
        bundle = io.BytesIO()
        with zipfile.ZipFile(bundle, "w") as archive:
            archive.writestr("pyproject.toml", APP)
        with translated_errors():
            started = self._http.StartRun(StartRunRequest(fab=Fab(content=bundle.getvalue())))
        if not started.run_id:
            raise RefusedError("the SuperLink did not start a run")
        return int(started.run_id)


class _Messages:
    """What the Runtime and the Fleet interface have in common: messages are sent and fetched piece by piece."""

    def __init__(self, http: Any, node: int) -> None:
        self._http, self.node = http, node

    def close(self) -> None:
        """Disconnect."""
        self._http.close()

    def fetch_piece(self, incoming: Incoming, piece: str) -> bytes | None:
        """A piece of a message; None if it has not arrived yet."""
        request = PullObjectRequest(node=Node(node_id=self.node), run_id=incoming.run, object_id=piece)
        with translated_errors():
            found = self._http.PullObject(request)
        if not found.object_found:
            raise InvalidMessageError("an incomplete message")
        return bytes(found.object_content) if found.object_available else None

    def confirm(self, incoming: Incoming) -> None:
        """Let the SuperLink forget a message."""
        node = Node(node_id=self.node)
        with translated_errors():
            self._http.ConfirmMessageReceived(
                ConfirmMessageReceivedRequest(node=node, run_id=incoming.run, message_object_id=incoming.id)
            )

    def _push(self, message: Message, request: type, **more: Any) -> Any:
        """Send a message and all its pieces; what the SuperLink replied."""
        run = message.metadata.run_id
        with translated_errors(), no_object_id_recompute():
            message.metadata.__dict__["_message_id"] = message.object_id
            tree, objects = get_object_tree(message), get_all_nested_objects(message)
            bare = message_to_proto(remove_content_from_message(message))
            stored = self._http.PushMessages(request(messages_list=[bare], message_object_trees=[tree], **more))
            for name in stored.objects_to_push:
                piece = {"object_id": name, "object_content": objects[name].deflate()}
                node = Node(node_id=self.node)
                self._http.PushObject(PushObjectRequest(node=node, run_id=run, session_id=stored.session_id, **piece))
        return stored

    def _incoming(self, response: Any) -> list[Incoming]:
        trees = list(response.message_object_trees)
        missing = [None] * (len(response.messages_list) - len(trees))
        return [_read_incoming(*each) for each in zip(response.messages_list, trees + missing, strict=False)]


def _read_incoming(proto: Any, tree: Any) -> Incoming:
    """A message; with an error if it is none of ours: one bad message must not hide the others."""
    about = proto.metadata
    found = Incoming(about.message_id, about.reply_to_message_id, about.run_id, [], "not a message of ours", None)
    try:
        return found._replace(
            pieces=[each.object_id for each in iterate_object_tree(tree)],
            error=(proto.error.reason[:500] or "no response") if proto.HasField("error") else "",
            message=message_from_proto(proto),
        )
    except Exception:  # Flower fails in many ways on bytes that it did not write
        return found


class Runtime(_Messages):
    """The Runtime interface: the server's messages within one run."""

    def __init__(self, address: str, certificate: str, run: int) -> None:
        """Take over the task that carries out the run, which Flower would give to a ServerApp."""
        waiting = _connect(RuntimeHttpClient, address, certificate)
        try:
            with translated_errors():
                for _ in range(100):
                    task = waiting.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
                    if task.token and task.task.run_id == run:
                        break
                    time.sleep(0.05)
                else:
                    raise RefusedError("the SuperLink did not hand out the run's task; is another run waiting?")
        finally:
            waiting.close()
        token = RuntimeTokenHttpInterceptor(token=task.token)
        super().__init__(_connect(RuntimeHttpClient, address, certificate, token), SERVER_NODE)
        self._run = run
        with translated_errors():
            self._http.PullTaskInput(PullTaskInputRequest())

    def heartbeat(self) -> None:
        """Tell the SuperLink that this process is alive."""
        with translated_errors():
            self._http.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    def finish(self) -> None:
        """End the run."""
        with translated_errors():
            self._http.PushTaskOutput(PushTaskOutputRequest(sub_status=SubStatus.COMPLETED))

    def push(self, node: int, body: bytes) -> str:
        """Send a request to a client; its id, or "" if the SuperLink did not take it."""
        metadata = Metadata(
            run_id=self._run,
            message_id="",
            src_node_id=SERVER_NODE,
            dst_node_id=node,
            reply_to_message_id="",
            group_id="",
            created_at=time.time(),
            ttl=KEEP_SECONDS,
            message_type="query",
        )
        message = make_message(metadata=metadata, content=_content(body))
        stored, sent = self._push(message, PushAppMessagesRequest), message.metadata.message_id
        return sent if list(stored.message_ids) == [sent] else ""

    def pull(self, requests: Iterable[str]) -> list[Incoming]:
        """The responses that have arrived."""
        with translated_errors():
            return self._incoming(self._http.PullMessages(PullAppMessagesRequest(message_ids=requests)))


class Fleet(_Messages):
    """The Fleet interface: a client's messages."""

    def __init__(self, address: str, certificate: str, key: Any, node: int) -> None:
        """`key` is the client's private key, `node` the number that it had before, or 0."""
        super().__init__(
            _connect(FleetHttpClient, address, certificate, NodeAuthHttpInterceptor(key, key.public_key())), node
        )

    def activate(self, public: bytes) -> None:
        """Go online."""
        with translated_errors():
            found = self._http.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT))
        self.node = found.node_id

    def deactivate(self) -> None:
        """Go offline."""
        with translated_errors():
            self._http.DeactivateNode(DeactivateNodeRequest(node_id=self.node))

    def heartbeat(self) -> None:
        """Tell the SuperLink that this client is alive."""
        node = Node(node_id=self.node)
        with translated_errors():
            self._http.SendNodeHeartbeat(SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT))

    def pull(self) -> list[Incoming]:
        """The requests that have arrived."""
        with translated_errors():
            return self._incoming(self._http.PullMessages(PullMessagesRequest(node=Node(node_id=self.node))))

    def push(self, to: Incoming, body: bytes) -> None:
        """Send the response to a request."""
        message = Message(_content(body), reply_to=to.message)
        self._push(message, PushMessagesRequest, node=Node(node_id=self.node), clientapp_runtime_list=[0.0])


def read_body(incoming: Incoming, pieces: Mapping[str, bytes], limit: int) -> bytes:
    """The bytes in a message of ours, from its pieces."""
    try:
        _check_arrays(pieces, limit)
        message: Any = inflate_object_from_contents(incoming.id, dict(pieces))
        body = message.content["body"]["body"].data
    except InvalidMessageError:
        raise
    except Exception as error:  # Flower fails in many ways on bytes that it did not write
        raise InvalidMessageError(f"not a message of ours ({type(error).__name__})") from None
    if not isinstance(body, bytes) or len(body) > limit:
        raise InvalidMessageError("not a message of ours")
    return body


def _check_arrays(pieces: Mapping[str, bytes], limit: int) -> None:
    """Refuse an array that repeats one piece until it is too large."""
    for content in pieces.values():
        kind, children, _ = get_object_head_values_from_object_content(content)
        if kind == Array.__qualname__:
            listed: Sequence[int] = json.loads(get_object_body(content, Array))["arraychunk_ids"]
            if sum(len(pieces[children[place]]) for place in listed) > limit + (64 << 10):
                raise InvalidMessageError(f"a message of more than {limit:,} bytes")


def _content(body: bytes) -> RecordDict:
    return RecordDict({"body": ArrayRecord({"body": Array("uint8", (len(body),), "bytes", body)})})


def _connect(kind: Any, address: str, certificate: str, *more: Any) -> Any:
    version = RuntimeVersionHttpInterceptor(component_name="pfedeg")
    with open(certificate, "rb") as authority:
        client = kind.from_server_address(address, False, authority.read(), interceptors=[version, *more])
    client._client.close()
    client._client = http_client(certificate, TIMEOUT)  # Flower's own would use a proxy from the environment
    return client
