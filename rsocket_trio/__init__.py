"""RSocket 1.0 for trio: message protocols with demand, under structured concurrency."""

# Layers, lowest first. A module imports only from its own or lower layers;
# tests/rules/test_layers.py reads the imports and checks this.
#
#     errors sealed payload streamed config lease uri < frames metadata < protocol
#       < log_text sizes < log_policy os_support < process_lock < sockets < transports
#       < reactivesocket < interactions < connection < tracing arguments < requester responder
#       < service < client server routing codecs < spool logfiles < lumberjack < collector
#       < spark cli testing
#
# No module up to `protocol` imports trio, sockets, time, random, threads or logging. In
# `lumberjack` only the modules of the server do.

from __future__ import annotations

from ._version import __version__
from .client import connect
from .codecs import CodecError, Codecs
from .config import ConnectionConfig, Limits
from .connection.dialling import Dial
from .connection.leases import ConnectionLeases
from .connection.resume_options import ClientResume, ServerResume
from .connection.session_store import MemorySessionStore, ResumableSession, SessionStore
from .errors import (
    ApplicationError,
    Canceled,
    ClosedByPeer,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    CustomError,
    ErrorCode,
    InternalError,
    Invalid,
    InvalidSetup,
    LocalProtocolError,
    MalformedFrame,
    MetadataError,
    MetadataTooLarge,
    MissingLease,
    ProtocolError,
    Rejected,
    RejectedResume,
    RejectedSetup,
    RemoteProtocolError,
    RSocketError,
    SetupError,
    StreamError,
    UnsupportedSetup,
)
from .interactions.demand import PayloadStream, StreamStatistics
from .interactions.payload_body import PayloadBody
from .lease import Lease, LeaseCallback, LeaseGranter, LeaseOptions, LeaseSource, LeaseStatistics
from .metadata import (
    Authentication,
    BearerAuthentication,
    CustomAuthentication,
    Metadata,
    Sampling,
    SimpleAuthentication,
    ZipkinTrace,
)
from .payload import Payload
from .protocol.retry import Retry
from .requester import ConnectionStatistics, Requester
from .responder import Acceptor, BodyResponder, Responder, ResumeFacts, Setup
from .routing import (
    Authenticate,
    Caller,
    Delivery,
    Interaction,
    ItemStream,
    OnResume,
    OnSetup,
    Principal,
    RegisteredRoute,
    RequestFacts,
    Route,
    Router,
)
from .server import Server, ServerStatistics, serve, serve_transport
from .streamed import AnyPayload, StreamedPayload
from .tracing import Tracing, current_trace
from .transports.base import FrameTransport, TransportInfo
from .uri import Uri, parse_uri

__all__ = [
    "Acceptor",
    "AnyPayload",
    "ApplicationError",
    "Authenticate",
    "Authentication",
    "BearerAuthentication",
    "BodyResponder",
    "Caller",
    "Canceled",
    "ClientResume",
    "ClosedByPeer",
    "CodecError",
    "Codecs",
    "ConnectFailed",
    "ConnectionClosed",
    "ConnectionConfig",
    "ConnectionLeases",
    "ConnectionLost",
    "ConnectionStatistics",
    "CustomAuthentication",
    "CustomError",
    "Delivery",
    "Dial",
    "ErrorCode",
    "FrameTransport",
    "Interaction",
    "InternalError",
    "Invalid",
    "InvalidSetup",
    "ItemStream",
    "Lease",
    "LeaseCallback",
    "LeaseGranter",
    "LeaseOptions",
    "LeaseSource",
    "LeaseStatistics",
    "Limits",
    "LocalProtocolError",
    "MalformedFrame",
    "MemorySessionStore",
    "Metadata",
    "MetadataError",
    "MetadataTooLarge",
    "MissingLease",
    "OnResume",
    "OnSetup",
    "Payload",
    "PayloadBody",
    "PayloadStream",
    "Principal",
    "ProtocolError",
    "RSocketError",
    "RegisteredRoute",
    "Rejected",
    "RejectedResume",
    "RejectedSetup",
    "RemoteProtocolError",
    "RequestFacts",
    "Requester",
    "Responder",
    "ResumableSession",
    "ResumeFacts",
    "Retry",
    "Route",
    "Router",
    "Sampling",
    "Server",
    "ServerResume",
    "ServerStatistics",
    "SessionStore",
    "Setup",
    "SetupError",
    "SimpleAuthentication",
    "StreamError",
    "StreamStatistics",
    "StreamedPayload",
    "Tracing",
    "TransportInfo",
    "UnsupportedSetup",
    "Uri",
    "ZipkinTrace",
    "__version__",
    "connect",
    "current_trace",
    "parse_uri",
    "serve",
    "serve_transport",
]
