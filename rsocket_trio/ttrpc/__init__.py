"""ttrpc, the protocol by which containerd speaks with its shims and plugins: client and server.

`serve` serves a `Service`, and `connect` gives a `Client`. Messages are bytes, or objects of any
class with ``SerializeToString`` and ``FromString``, as protobuf generates them.

The modules, in reading order:

- ``wire``: the protocol without I/O: frames, and the messages around those of an application
- ``addresses``: the addresses, such as ``ttrpc+unix:///run/app.sock``
- ``errors``: the errors of calls, one class for each status code
- ``codec``: messages to bytes and back
- ``methods``: the methods of services
- ``metadata``: the metadata of a call
- ``config``: settings and limits
- ``inbox``: the messages that have arrived on a stream
- ``reader``: reads frames and dispatches them, for both ends
- ``carrier``: frames over a byte stream
- ``client``: `connect`, and the calls of a connection
- ``server``: `serve`, services, and the calls of a connection
- ``mux``: several streams over one, for NRI
- ``routed``: serves a `rsocket_trio.Router`
- ``descriptors``: services and messages of descriptor sets, with the extra ``ttrpc``
- ``comments``: the comments of .proto files
- ``codegen``: the plugin of protoc, ``protoc-gen-trio-ttrpc``
- ``extras``: imports protobuf, with an error that says how to install it
"""

from __future__ import annotations

from ..sockets.adopt import OpenSocket, adopt
from ..sockets.allowed import Allow, Allowed
from ..sockets.byte_stream import ByteStream
from ..sockets.socket_facts import PeerCredentials
from .addresses import ttrpc_uri
from .carrier import OpenStream
from .client.calls import OutgoingCall, OutgoingMiddleware
from .client.client import Client, ClientStatistics, check_client, connect
from .client.streams import BidiStream, ClientStream
from .codec import BYTES, EMPTY, MessageCodec, codec_for
from .config import TtrpcConfig, TtrpcLimits
from .errors import (
    Aborted,
    AlreadyExists,
    CallCancelled,
    CallError,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    StatusCode,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from .inbox import MessageStream, ReplyStream
from .metadata import Metadata, MetadataLike
from .methods import Method, MethodKind
from .mux import PLUGIN_SERVICE, RUNTIME_SERVICE, MultiplexedStream, Trunk, multiplexed
from .server.call import Call, Middleware
from .server.server import Served, TtrpcServer, TtrpcStatistics, serve, serve_stream
from .server.service import Service, ServiceBase
from .wire.envelopes import AnyMessage, Status

__all__ = [
    "BYTES",
    "EMPTY",
    "PLUGIN_SERVICE",
    "RUNTIME_SERVICE",
    "Aborted",
    "Allow",
    "Allowed",
    "AlreadyExists",
    "AnyMessage",
    "BidiStream",
    "ByteStream",
    "Call",
    "CallCancelled",
    "CallError",
    "Client",
    "ClientStatistics",
    "ClientStream",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "MessageCodec",
    "MessageStream",
    "Metadata",
    "MetadataLike",
    "Method",
    "MethodKind",
    "Middleware",
    "MultiplexedStream",
    "NotFound",
    "OpenSocket",
    "OpenStream",
    "OutOfRange",
    "OutgoingCall",
    "OutgoingMiddleware",
    "PeerCredentials",
    "PermissionDenied",
    "ReplyStream",
    "ResourceExhausted",
    "Served",
    "Service",
    "ServiceBase",
    "Status",
    "StatusCode",
    "Trunk",
    "TtrpcConfig",
    "TtrpcLimits",
    "TtrpcServer",
    "TtrpcStatistics",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "adopt",
    "check_client",
    "codec_for",
    "connect",
    "multiplexed",
    "serve",
    "serve_stream",
    "ttrpc_uri",
]
