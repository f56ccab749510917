"""Transports by address, for servers: `accept_transports`, and its parts for other wires."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import trio

from ..config import MAX_FRAME_SIZE
from ..sockets.allowed import Allowed
from ..sockets.connection_limit import ConnectionCounts, ConnectionLimit, counts_of
from ..sockets.listen import Arrivals, listen_for
from ..sockets.tls import check_context
from ..uri import Uri, as_uri, schemes_with
from .base import FrameTransport
from .origins import Origins, normal_origins
from .over_stream import transport_over
from .pages import Pages, check_pages
from .websocket_handshake import Endpoint, refuse_websocket

__all__ = ["accept_transports", "arrivals_at", "check_web_options"]


async def accept_transports(
    uri: str | Uri,
    handle: Callable[[FrameTransport], Awaitable[None]],
    *,
    ssl_context: ssl.SSLContext | None = None,
    max_frame_size: int = MAX_FRAME_SIZE,
    handshake_timeout: float = 10.0,
    max_connections: int | ConnectionLimit | None = None,
    allowed_origins: Collection[str] | None = None,
    allow: Allowed | None = None,
    pages: Pages | None = None,
    reuse_port: bool = False,
    handler_nursery: trio.Nursery | None = None,
    drain_nursery: trio.Nursery | None = None,
    task_status: trio.TaskStatus[list[Uri]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen at an address and run ``handle(transport)`` for every connection.

    Each connection has its own task, also for its TLS or WebSocket handshake. An error in a
    handshake or in ``handle`` ends that connection and is logged; the server goes on.

    Args:
        uri: Where to listen, a `Uri` or the text of one; port 0 is any free port. A host name may
            have several addresses.
        handle: Called with a transport that is ready; the transport is closed when it returns.
        ssl_context: The certificate; needed for ``tls`` and ``wss``.
        max_frame_size: A client's frames may be this long, in bytes.
        handshake_timeout: How long a handshake may take, in seconds.
        max_connections: The connections that may be open at once; further ones are closed at once,
            on WebSocket with HTTP 503. Or a `ConnectionLimit` that several listeners share. By
            default only the system limits them.
        allowed_origins: WebSocket: the web pages that may connect, e.g. ``https://example.org``;
            others are answered with HTTP 403. By default only those of the server's own host may;
            ``["*"]`` lets all in. Clients that are not browsers send no ``Origin``, and are let in.
        allow: Whom to let in, asked before the handshake of WebSocket: an
            `rsocket_trio.sockets.allowed.Allow`, or a function of the `TransportInfo`. By default
            all.
        pages: WebSocket: pages for requests of HTTP, such as health checks. They are there also
            while ``drain_nursery`` goes on behind the listening.
        reuse_port: Whether other processes may listen on the same port of TCP.
        handler_nursery: The nursery for connections, if they should outlive the listening.
        drain_nursery: See ``rsocket_trio.sockets.listen.listen_for``.
        task_status: Gets the addresses with their real ports, when they accept connections.

    Raises:
        TypeError: ``uri``, ``max_connections``, ``allowed_origins`` or ``pages`` is of a wrong
            type.
        ValueError: The address, an origin or the path is not valid, or ``ssl_context`` is missing.
        OSError: The address cannot be listened on.

    Checkpoint: always.
    If cancelled: the listeners are closed; connections stay open in ``handler_nursery``.
    """
    uri = as_uri(uri)
    check_context(ssl_context, server_side=True)
    if pages is not None:
        check_pages(pages)
    arrivals = arrivals_at(
        uri,
        partial(transport_over, max_frame_size=max_frame_size),
        handle,
        ssl_context=ssl_context,
        handshake_timeout=handshake_timeout,
        counts=counts_of(max_connections),
        allowed_origins=normal_origins(allowed_origins),
        allow=allow,
        pages=pages,
        reuse_port=reuse_port,
    )
    await listen_for(
        arrivals,
        uri,
        handler_nursery=handler_nursery,
        drain_nursery=drain_nursery,
        task_status=task_status,
    )


def arrivals_at(
    uri: Uri,
    make: Callable[..., Awaitable[FrameTransport]],
    handle: Callable[[FrameTransport], Awaitable[None]],
    *,
    ssl_context: ssl.SSLContext | None,
    handshake_timeout: float,
    counts: ConnectionCounts,
    allowed_origins: Origins = None,
    allow: Allowed | None = None,
    pages: Pages | None = None,
    reuse_port: bool = False,
) -> Arrivals[FrameTransport]:
    """Return how connections that arrive at an address are handled, on every wire of transports.

    Args:
        uri: The address.
        make: Makes the transport, as `transport_over` with all but its first three arguments.
        handle: Serves a connection.
        ssl_context: The certificate.
        handshake_timeout: How long handshakes may take, in seconds.
        counts: Counts the open connections.
        allowed_origins: WebSocket: the web pages that may connect.
        allow: Whom to let in; ``None`` lets all in.
        pages: WebSocket: pages for requests of HTTP.
        reuse_port: Whether other processes may listen on the same port of TCP.
    """
    endpoint = Endpoint(path=uri.path, allowed_origins=allowed_origins, pages=pages or {})
    return Arrivals(
        shake_hands=partial(make, uri=uri, shake_hands=endpoint.accept),
        handle=handle,
        ssl_context=ssl_context,
        handshake_timeout=handshake_timeout,
        counts=counts,
        has_handshake=uri.is_websocket,
        allow=allow,
        refuse=partial(refuse_websocket, endpoint) if uri.is_websocket else None,
        drains=uri.is_websocket and bool(pages),
        reuse_port=reuse_port,
    )


def check_web_options(uris: Sequence[Uri], allowed_origins: Collection[str] | None) -> Origins:
    """Check the options of a server that only WebSocket has a use for; return the normal origins.

    Raises:
        TypeError: One is of a wrong type.
        ValueError: One is not valid, or no address is one of WebSocket.
    """
    origins = normal_origins(allowed_origins)
    if origins is not None and not any(uri.is_websocket for uri in uris):
        schemes = schemes_with(uris[0], lambda each: each.is_websocket)
        raise ValueError(
            f"allowed_origins is given, but no address is {schemes}: add one, or leave it out"
        )
    return origins
