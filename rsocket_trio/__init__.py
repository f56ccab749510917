"""RSocket 1.0 for trio: message protocols with demand, under structured concurrency."""

# Layers: docs/design.md has the table, and tests/rules/test_layers.py checks the imports.

from __future__ import annotations

from ._version import __version__
from .lazy import homes_of, lazily

# `typing` would take half of the time of this module, and until it is imported, Ctrl-C is an
# exception also in our programs: see `rsocket_trio.__main__`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client import SetupSource, connect
    from .codecs import CodecError, Codecs
    from .config import ConnectionConfig, Limits
    from .connection.dialling import Dial
    from .connection.leases import ConnectionLeases
    from .connection.reconnect import Attempt, ConnectionState, Reconnect
    from .connection.resume_options import ClientResume, ServerResume
    from .connection.session_store import MemorySessionStore, ResumableSession, SessionStore
    from .errors import (
        ApplicationError,
        Canceled,
        CircuitOpen,
        ClosedByPeer,
        ConnectFailed,
        ConnectionClosed,
        ConnectionLost,
        CustomError,
        ErrorCode,
        Forbidden,
        FrameTooLong,
        InternalError,
        Invalid,
        InvalidSetup,
        LimitReached,
        LocalProtocolError,
        MalformedFrame,
        MetadataError,
        MetadataTooLarge,
        MissingLease,
        NotConnected,
        ProtocolError,
        Rejected,
        RejectedResume,
        RejectedSetup,
        RemoteProtocolError,
        RSocketError,
        SetupError,
        StreamError,
        StreamIdsExhausted,
        Unauthenticated,
        UnsupportedSetup,
    )
    from .health import Condition, Health
    from .interactions.demand import PayloadStream, StreamStatistics
    from .interactions.payload_body import PayloadBody
    from .interactions.sending import AnyItems
    from .lease import (
        Lease,
        LeaseCallback,
        LeaseGranter,
        LeaseOptions,
        LeaseSource,
        LeaseStatistics,
    )
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
    from .pool import Pool, PoolOptions, connect_pool
    from .protocol.budget import Budget
    from .protocol.circuit import Circuit
    from .protocol.repeats import Hedge, Repeats
    from .protocol.retry import Retry
    from .requester import ConnectionStatistics, Requester
    from .responder import Acceptor, BodyResponder, Responder, ResponderWrapper, ResumeFacts, Setup
    from .resubscribed import resubscribed
    from .routing import (
        DEADLINE_TYPE,
        AccessLog,
        Admitted,
        AnyCall,
        ArgumentDescription,
        Around,
        Authenticate,
        Background,
        BackgroundStatistics,
        Call,
        Caller,
        CallMeter,
        Deadlines,
        DeadlineStatistics,
        DeclaredStream,
        Delivery,
        ErrorMap,
        Interaction,
        Introspection,
        ItemStream,
        MarkStream,
        Middleware,
        OnResume,
        OnSetup,
        Outcome,
        OutgoingCall,
        OutgoingMiddleware,
        Principal,
        Provided,
        RequestFacts,
        Route,
        RouteDescription,
        Router,
        Traffic,
        TypeDescription,
        concurrency_limit,
        declaration,
        fire_and_forget,
        injected,
        open_background,
        rate_limit,
        request_channel,
        request_response,
        request_stream,
        send_deadline,
    )
    from .server import Server, ServerStatistics, serve, serve_transport
    from .sockets.allowed import Allow, Allowed
    from .sockets.goodbyes import ConnectionAge
    from .sockets.peer import Peer
    from .sockets.reloadable import ReloadableContext
    from .statistics import Histogram, Refused, RouteStatistics, WireStatistics
    from .stopping import Stopping
    from .streamed import AnyPayload, StreamedPayload
    from .tracing import Tracing, current_trace
    from .transports.base import FrameTransport, TransportInfo
    from .transports.pages import Page, Pages, health_pages, serve_pages
    from .uri import Uri, parse_uri

__all__ = [
    "DEADLINE_TYPE",
    "Acceptor",
    "AccessLog",
    "Admitted",
    "Allow",
    "Allowed",
    "AnyCall",
    "AnyItems",
    "AnyPayload",
    "ApplicationError",
    "ArgumentDescription",
    "Around",
    "Attempt",
    "Authenticate",
    "Authentication",
    "Background",
    "BackgroundStatistics",
    "BearerAuthentication",
    "BodyResponder",
    "Budget",
    "Call",
    "CallMeter",
    "Caller",
    "Canceled",
    "Circuit",
    "CircuitOpen",
    "ClientResume",
    "ClosedByPeer",
    "CodecError",
    "Codecs",
    "Condition",
    "ConnectFailed",
    "ConnectionAge",
    "ConnectionClosed",
    "ConnectionConfig",
    "ConnectionLeases",
    "ConnectionLost",
    "ConnectionState",
    "ConnectionStatistics",
    "CustomAuthentication",
    "CustomError",
    "DeadlineStatistics",
    "Deadlines",
    "DeclaredStream",
    "Delivery",
    "Dial",
    "ErrorCode",
    "ErrorMap",
    "Forbidden",
    "FrameTooLong",
    "FrameTransport",
    "Health",
    "Hedge",
    "Histogram",
    "Interaction",
    "InternalError",
    "Introspection",
    "Invalid",
    "InvalidSetup",
    "ItemStream",
    "Lease",
    "LeaseCallback",
    "LeaseGranter",
    "LeaseOptions",
    "LeaseSource",
    "LeaseStatistics",
    "LimitReached",
    "Limits",
    "LocalProtocolError",
    "MalformedFrame",
    "MarkStream",
    "MemorySessionStore",
    "Metadata",
    "MetadataError",
    "MetadataTooLarge",
    "Middleware",
    "MissingLease",
    "NotConnected",
    "OnResume",
    "OnSetup",
    "Outcome",
    "OutgoingCall",
    "OutgoingMiddleware",
    "Page",
    "Pages",
    "Payload",
    "PayloadBody",
    "PayloadStream",
    "Peer",
    "Pool",
    "PoolOptions",
    "Principal",
    "ProtocolError",
    "Provided",
    "RSocketError",
    "Reconnect",
    "Refused",
    "Rejected",
    "RejectedResume",
    "RejectedSetup",
    "ReloadableContext",
    "RemoteProtocolError",
    "Repeats",
    "RequestFacts",
    "Requester",
    "Responder",
    "ResponderWrapper",
    "ResumableSession",
    "ResumeFacts",
    "Retry",
    "Route",
    "RouteDescription",
    "RouteStatistics",
    "Router",
    "Sampling",
    "Server",
    "ServerResume",
    "ServerStatistics",
    "SessionStore",
    "Setup",
    "SetupError",
    "SetupSource",
    "SimpleAuthentication",
    "Stopping",
    "StreamError",
    "StreamIdsExhausted",
    "StreamStatistics",
    "StreamedPayload",
    "Tracing",
    "Traffic",
    "TransportInfo",
    "TypeDescription",
    "Unauthenticated",
    "UnsupportedSetup",
    "Uri",
    "WireStatistics",
    "ZipkinTrace",
    "__version__",
    "concurrency_limit",
    "connect",
    "connect_pool",
    "current_trace",
    "declaration",
    "fire_and_forget",
    "health_pages",
    "injected",
    "open_background",
    "parse_uri",
    "rate_limit",
    "request_channel",
    "request_response",
    "request_stream",
    "resubscribed",
    "send_deadline",
    "serve",
    "serve_pages",
    "serve_transport",
]

_HOMES = homes_of(
    {
        "client": "SetupSource connect",
        "codecs": "CodecError Codecs",
        "config": "ConnectionConfig Limits",
        "connection.dialling": "Dial",
        "connection.leases": "ConnectionLeases",
        "connection.reconnect": "Attempt ConnectionState Reconnect",
        "connection.resume_options": "ClientResume ServerResume",
        "connection.session_store": "MemorySessionStore ResumableSession SessionStore",
        "errors": (
            "ApplicationError Canceled CircuitOpen ClosedByPeer ConnectFailed ConnectionClosed "
            "ConnectionLost CustomError ErrorCode Forbidden FrameTooLong InternalError Invalid "
            "InvalidSetup LimitReached LocalProtocolError MalformedFrame MetadataError "
            "MetadataTooLarge MissingLease NotConnected ProtocolError Rejected RejectedResume "
            "RejectedSetup RemoteProtocolError RSocketError SetupError StreamError "
            "StreamIdsExhausted Unauthenticated UnsupportedSetup"
        ),
        "health": "Condition Health",
        "interactions.demand": "PayloadStream StreamStatistics",
        "interactions.payload_body": "PayloadBody",
        "interactions.sending": "AnyItems",
        "lease": "Lease LeaseCallback LeaseGranter LeaseOptions LeaseSource LeaseStatistics",
        "metadata": (
            "Authentication BearerAuthentication CustomAuthentication Metadata Sampling "
            "SimpleAuthentication ZipkinTrace"
        ),
        "payload": "Payload",
        "pool": "Pool PoolOptions connect_pool",
        "protocol.budget": "Budget",
        "protocol.circuit": "Circuit",
        "protocol.repeats": "Hedge Repeats",
        "protocol.retry": "Retry",
        "requester": "ConnectionStatistics Requester",
        "resubscribed": "resubscribed",
        "responder": "Acceptor BodyResponder Responder ResponderWrapper ResumeFacts Setup",
        "routing": (
            "DEADLINE_TYPE AccessLog Admitted AnyCall ArgumentDescription Around Authenticate "
            "Background BackgroundStatistics Call CallMeter Caller DeadlineStatistics Deadlines "
            "DeclaredStream Delivery ErrorMap Interaction Introspection ItemStream MarkStream "
            "Middleware OnResume OnSetup Outcome OutgoingCall OutgoingMiddleware Principal "
            "Provided RequestFacts Route RouteDescription Router Traffic TypeDescription "
            "concurrency_limit declaration fire_and_forget injected open_background rate_limit "
            "request_channel request_response request_stream send_deadline"
        ),
        "server": "Server ServerStatistics serve serve_transport",
        "statistics": "Histogram Refused RouteStatistics WireStatistics",
        "stopping": "Stopping",
        "sockets.allowed": "Allow Allowed",
        "sockets.peer": "Peer",
        "sockets.goodbyes": "ConnectionAge",
        "sockets.reloadable": "ReloadableContext",
        "streamed": "AnyPayload StreamedPayload",
        "tracing": "Tracing current_trace",
        "transports.base": "FrameTransport TransportInfo",
        "transports.pages": "Page Pages health_pages serve_pages",
        "uri": "Uri parse_uri",
    }
)
"""The module of each public name. It is imported when the name is used first: the help of
``rsocket-trio``, ``decode`` and the reader of a spool need no sockets, so they start faster."""

if not TYPE_CHECKING:  # A type checker would think that the package has every name.
    __getattr__, __dir__ = lazily(globals(), _HOMES)
