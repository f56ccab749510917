"""RSocket 1.0 for trio: message protocols with demand, under structured concurrency."""

# Layers, lowest first. A module imports only from its own or lower layers; tests/test_layers.py
# reads the imports and holds the code to it.
#
#     errors payload streamed config lease uri < frames metadata < protocol < transports
#       < reactivesocket < interactions < connection < tracing arguments < requester
#       responder < service < client server routing codecs < cli testing
#
# Through `protocol` nothing imports trio, sockets, time, random, threads or logging.

from __future__ import annotations

from ._version import __version__
from .client import connect
from .codecs import CodecError, Codecs
from .config import ConnectionConfig, Limits
from .connection.leases import ConnectionLeases
from .connection.resume_options import Resume, ResumeOptions, SessionStore
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
from .interactions.body import PayloadBody
from .interactions.demand import PayloadStream, StreamStatistics
from .lease import Lease, LeaseOptions, LeaseSource, LeaseStatistics
from .metadata import (
    BearerAuthentication,
    Metadata,
    Sampling,
    SimpleAuthentication,
    ZipkinTracing,
)
from .payload import NO_PAYLOAD, Payload
from .protocol.retry import Retry
from .requester import ConnectionStatistics, Requester
from .responder import Acceptor, Responder, Setup
from .routing import Caller, ItemStream, Principal, RequestFacts, Route, Router, constant_time_equal
from .server import Server, ServerStatistics, serve, serve_transport
from .streamed import StreamedPayload
from .tracing import Tracing, current_trace
from .transports.base import FrameTransport, TransportInfo

__all__ = [
    "NO_PAYLOAD",
    "Acceptor",
    "ApplicationError",
    "BearerAuthentication",
    "Caller",
    "Canceled",
    "ClosedByPeer",
    "CodecError",
    "Codecs",
    "ConnectFailed",
    "ConnectionClosed",
    "ConnectionConfig",
    "ConnectionLeases",
    "ConnectionLost",
    "ConnectionStatistics",
    "CustomError",
    "ErrorCode",
    "FrameTransport",
    "InternalError",
    "Invalid",
    "InvalidSetup",
    "ItemStream",
    "Lease",
    "LeaseOptions",
    "LeaseSource",
    "LeaseStatistics",
    "Limits",
    "LocalProtocolError",
    "MalformedFrame",
    "Metadata",
    "MetadataError",
    "MissingLease",
    "Payload",
    "PayloadBody",
    "PayloadStream",
    "Principal",
    "ProtocolError",
    "RSocketError",
    "Rejected",
    "RejectedResume",
    "RejectedSetup",
    "RemoteProtocolError",
    "RequestFacts",
    "Requester",
    "Responder",
    "Resume",
    "ResumeOptions",
    "Retry",
    "Route",
    "Router",
    "Sampling",
    "Server",
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
    "ZipkinTracing",
    "__version__",
    "connect",
    "constant_time_equal",
    "current_trace",
    "serve",
    "serve_transport",
]
