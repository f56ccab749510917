"""Transports by address, for servers: `serve_listener`."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from ..config import MAX_FRAME_SIZE
from ..errors import ConnectFailed
from ..uri import Uri, parse_uri
from .base import FrameTransport
from .dial import describe_failure
from .over_stream import transport_over
from .tcp import bound_uri, listen_tcp, socket_addresses
from .tls import TLSStream, start_tls_server
from .unix import listen_unix
from .websocket_handshake import accept_websocket

__all__ = ["serve_listener"]

logger = logging.getLogger("rsocket_trio")


async def serve_listener(
    uri: Uri | str,
    handle: Callable[[FrameTransport], Awaitable[None]],
    *,
    ssl_context: ssl.SSLContext | None = None,
    max_frame_size: int = MAX_FRAME_SIZE,
    handshake_timeout: float = 10.0,
    max_connections: int | None = None,
    handler_nursery: trio.Nursery | None = None,
    task_status: trio.TaskStatus[list[Uri]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen at an address and run ``handle(transport)`` for every connection.

    Each connection has a task, its TLS or WebSocket handshake included. What goes wrong in a
    handshake or in ``handle`` ends that connection and is logged; the server goes on.

    Args:
        uri: Where to listen; port 0 is any free port. A host name may mean several addresses.
        handle: Called with a transport that is ready; the transport is closed when it returns.
        ssl_context: The certificate; needed for ``tls`` and ``wss``.
        max_frame_size: A client's frames may be this long, in bytes.
        handshake_timeout: How long a handshake may take, in seconds.
        max_connections: With so many open, further ones are closed at once; no limit by default
            but that of the system.
        handler_nursery: Where connections live, if they should outlive the listening.
        task_status: Gets the addresses with their real ports, once they accept connections.

    Raises:
        ValueError: The address is none, or ``ssl_context`` is missing.
        OSError: The address cannot be listened on.

    Checkpoint: always.
    If cancelled: the listeners are closed; connections live on in ``handler_nursery``.
    """
    if isinstance(uri, str):
        uri = parse_uri(uri)
    if uri.is_encrypted and ssl_context is None:
        raise ValueError(f"{uri} needs an ssl_context with a certificate")
    connections = 0

    async def start_tls(stream: trio.SocketStream) -> TLSStream:
        assert ssl_context is not None  # looked at above
        return await start_tls_server(stream, ssl_context)

    begin = partial(
        transport_over,
        uri=uri,
        dialled=False,
        start_tls=start_tls,
        shake_hands=partial(accept_websocket, path=uri.path),
        max_frame_size=max_frame_size,
    )

    async def serve_stream(stream: trio.SocketStream) -> None:
        nonlocal connections
        if max_connections is not None and connections >= max_connections:
            logger.warning("%s: a connection more than max_connections was closed", uri)
            return
        connections += 1
        try:
            await _serve_stream(stream, uri, begin, handle, handshake_timeout)
        finally:
            connections -= 1

    if uri.scheme == "unix":
        unix = await listen_unix(uri)
        task_status.started([uri])
        await trio.serve_listeners(serve_stream, [unix], handler_nursery=handler_nursery)
    else:
        listeners = await listen_tcp(uri)
        task_status.started([bound_uri(uri, listener) for listener in listeners])
        await trio.serve_listeners(serve_stream, listeners, handler_nursery=handler_nursery)


async def _serve_stream(
    stream: trio.SocketStream,
    uri: Uri,
    begin: Callable[[trio.SocketStream], Awaitable[FrameTransport]],
    handle: Callable[[FrameTransport], Awaitable[None]],
    handshake_timeout: float,
) -> None:
    """One connection, from its handshake to its end. `trio.serve_listeners` closes the stream."""
    transport: FrameTransport | None = None
    failure = ""
    with trio.move_on_after(handshake_timeout):
        try:
            transport = await begin(stream)
        except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
            failure = describe_failure(error)
    if transport is None:
        why = failure or f"no end of it in {handshake_timeout:g} s"
        peer = socket_addresses(stream)[1] or "a peer that is gone"
        logger.warning("%s: the handshake with %s failed: %s", uri, peer, why)
        return
    try:
        async with transport:
            await handle(transport)
    except Exception:
        # One connection's fault must not end the others; there is nobody else to tell.
        logger.exception("%s: serving %s crashed", uri, transport.info.peer)
    except BaseExceptionGroup as group:
        faults, urgent = group.split(Exception)
        if faults is not None:
            logger.exception("%s: serving %s crashed", uri, transport.info.peer, exc_info=faults)
        if urgent is not None:
            raise urgent from None
