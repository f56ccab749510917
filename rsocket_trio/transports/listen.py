"""Transports by address, for servers: `accept_transports`."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import attrs
import trio

from ..config import MAX_FRAME_SIZE
from ..errors import ConnectFailed
from ..log_policy import logger
from ..uri import Uri, as_uri
from .base import FrameTransport
from .connection_limit import ConnectionCounts, ConnectionLimit, counts_of
from .dial import describe_failure
from .origins import normal_origins
from .over_stream import transport_over
from .patient_listener import PatientListener
from .tcp import bound_uri, listen_tcp, socket_addresses
from .tls import TLSStream, check_context, start_tls_server
from .unix import listen_unix
from .websocket_handshake import accept_websocket, refuse_websocket

__all__ = ["accept_transports"]


async def accept_transports(
    uri: str | Uri,
    handle: Callable[[FrameTransport], Awaitable[None]],
    *,
    ssl_context: ssl.SSLContext | None = None,
    max_frame_size: int = MAX_FRAME_SIZE,
    handshake_timeout: float = 10.0,
    max_connections: int | ConnectionLimit | None = None,
    allowed_origins: Collection[str] | None = None,
    handler_nursery: trio.Nursery | None = None,
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
            others are answered with HTTP 403. By default all may. Clients that are not browsers
            send no ``Origin``, and are let in.
        handler_nursery: The nursery for connections, if they should outlive the listening.
        task_status: Gets the addresses with their real ports, when they accept connections.

    Raises:
        TypeError: ``uri``, ``max_connections`` or ``allowed_origins`` is of a wrong type.
        ValueError: The address or an origin is not valid, or ``ssl_context`` is missing.
        OSError: The address cannot be listened on.

    Checkpoint: always.
    If cancelled: the listeners are closed; connections stay open in ``handler_nursery``.
    """
    uri = as_uri(uri)
    check_context(ssl_context)
    if uri.is_encrypted and ssl_context is None:
        raise ValueError(f"{uri} needs an ssl_context with a certificate")
    counts = counts_of(max_connections)
    handler = _ConnectionHandler(
        uri=uri,
        listener=uri,
        handle=handle,
        ssl_context=ssl_context,
        max_frame_size=max_frame_size,
        handshake_timeout=handshake_timeout,
        counts=counts,
        allowed_origins=normal_origins(allowed_origins),
    )
    try:
        bound, listeners = await _listen(uri)
        if not uri.port and uri.scheme != "unix":
            handler.listener = bound[0]
        task_status.started(bound)
        patient = [PatientListener(listener, uri) for listener in listeners]
        await trio.serve_listeners(handler.serve, patient, handler_nursery=handler_nursery)
    finally:
        logger.settle(all_of_it=True)


async def _listen(uri: Uri) -> tuple[list[Uri], Sequence[trio.abc.Listener[trio.SocketStream]]]:
    """Return the bound addresses and their listeners."""
    if uri.scheme == "unix":
        return [uri], [await listen_unix(uri)]
    listeners = await listen_tcp(uri)
    return [bound_uri(uri, listener) for listener in listeners], listeners


@attrs.define(kw_only=True)
class _ConnectionHandler:
    """The handling of each connection that arrives at one address."""

    uri: Uri
    listener: Uri  # the same, with its port once that is known
    handle: Callable[[FrameTransport], Awaitable[None]]
    ssl_context: ssl.SSLContext | None
    max_frame_size: int
    handshake_timeout: float
    counts: ConnectionCounts
    allowed_origins: frozenset[str] | None

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection from its handshake to its end.

        Errors are logged and not raised, as they would end the other connections.
        `trio.serve_listeners` closes the stream.
        """
        logger.settle()
        name = self._name(stream)  # A closed socket has no address.
        try:
            if self.counts.full:
                await self._refuse_connection(stream)
                return
            with self.counts.count_open():
                transport = await self._shake_hands(stream, name)
                if transport is not None:
                    async with transport:
                        await self.handle(transport)
        except Exception:  # a fault in serving one connection must not end the others
            logger.exception("%s: serving %s crashed", self.uri, name)
        except BaseExceptionGroup as group:
            faults, urgent = group.split(Exception)
            if faults is not None:
                logger.exception("%s: serving %s crashed", self.uri, name, exc_info=faults)
            if urgent is not None:
                raise urgent from None

    async def _shake_hands(self, stream: trio.SocketStream, name: str) -> FrameTransport | None:
        """Return the transport; ``None`` if the handshake failed, which is logged."""
        begin = partial(
            transport_over,
            stream,
            self.uri,
            dialled=False,
            start_tls=self._start_tls,
            shake_hands=partial(
                accept_websocket, path=self.uri.path, allowed_origins=self.allowed_origins
            ),
            max_frame_size=self.max_frame_size,
            listener=str(self.listener),
        )
        why = f"not finished within {self.handshake_timeout:g} s"
        with trio.move_on_after(self.handshake_timeout):
            if (self.uri.is_encrypted or self.uri.is_websocket) and await _sends_nothing(stream):
                # A port scanner or a health check: not worth a warning.
                logger.debug("%s: %s connected and closed without sending", self.uri, name)
                return None
            try:
                return await begin()
            except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
                why = describe_failure(error)
        logger.warning("%s: the handshake with %s failed: %s", self.uri, name, why)
        return None

    async def _start_tls(self, stream: trio.SocketStream) -> TLSStream:
        assert self.ssl_context is not None  # `accept_transports` checks it
        return await start_tls_server(stream, self.ssl_context)

    async def _refuse_connection(self, stream: trio.SocketStream) -> None:
        """Close a connection past the limit, on WebSocket with HTTP 503."""
        logger.warning("%s: closed a connection, as max_connections are open", self.uri)
        if not self.uri.is_websocket or self.counts.full_of_refused:
            return
        with self.counts.count_refused(), trio.move_on_after(self.handshake_timeout):
            try:
                carrier: trio.abc.Stream = stream
                if self.uri.is_encrypted:
                    carrier = await self._start_tls(stream)
                await refuse_websocket(carrier, 503, "Too many connections")
            except (ConnectFailed, trio.BrokenResourceError, OSError):
                pass  # ConnectFailed says that the client was answered; otherwise it is gone.

    def _name(self, stream: trio.SocketStream) -> str:
        if self.uri.scheme == "unix":
            return "a peer"
        return socket_addresses(stream)[1] or "a peer that is gone"


async def _sends_nothing(stream: trio.SocketStream) -> bool:
    """Wait for the first byte without reading it; return whether the stream ends instead."""
    try:
        return not await stream.socket.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
