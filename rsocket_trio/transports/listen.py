"""Transports by address, for servers: `serve_listener`."""

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
from .connection_limit import ConnectionLimit
from .dial import describe_failure
from .origins import normal_origins
from .over_stream import transport_over
from .patient_listener import PatientListener
from .tcp import bound_uri, listen_tcp, socket_addresses
from .tls import TLSStream, check_context, start_tls_server
from .unix import listen_unix
from .websocket_handshake import accept_websocket, refuse_websocket

__all__ = ["serve_listener"]


async def serve_listener(
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

    Each connection has a task, its TLS or WebSocket handshake included. What goes wrong in a
    handshake or in ``handle`` ends that connection and is logged; the server goes on.

    Args:
        uri: Where to listen, a `Uri` or the text of one; port 0 is any free port. A host name may
            mean several addresses.
        handle: Called with a transport that is ready; the transport is closed when it returns.
        ssl_context: The certificate; needed for ``tls`` and ``wss``.
        max_frame_size: A client's frames may be this long, in bytes.
        handshake_timeout: How long a handshake may take, in seconds.
        max_connections: With so many open, further ones are closed at once, on WebSocket with HTTP
            503; or a limit that several listeners share. No limit by default but that of the
            system.
        allowed_origins: WebSocket: the web pages that may connect, e.g. ``https://example.org``;
            others are answered with HTTP 403. Any by default. Clients that are no browsers send no
            ``Origin``, and are let in.
        handler_nursery: Where connections live, if they should outlive the listening.
        task_status: Gets the addresses with their real ports, once they accept connections.

    Raises:
        TypeError: ``uri``, ``max_connections`` or ``allowed_origins`` is nothing of what it may
            be.
        ValueError: The address or an origin is none, or ``ssl_context`` is missing.
        OSError: The address cannot be listened on.

    Checkpoint: always.
    If cancelled: the listeners are closed; connections live on in ``handler_nursery``.
    """
    uri = as_uri(uri)
    check_context(ssl_context)
    if uri.is_encrypted and ssl_context is None:
        raise ValueError(f"{uri} needs an ssl_context with a certificate")
    if not isinstance(max_connections, ConnectionLimit):
        max_connections = ConnectionLimit(max_connections)
    door = _Door(
        uri=uri,
        listener=uri,
        handle=handle,
        ssl_context=ssl_context,
        max_frame_size=max_frame_size,
        handshake_timeout=handshake_timeout,
        limit=max_connections,
        allowed_origins=normal_origins(allowed_origins),
    )
    try:
        bound, listeners = await _listen(uri)
        if not uri.port and uri.scheme != "unix":
            door.listener = bound[0]
        task_status.started(bound)
        patient = [PatientListener(listener, uri) for listener in listeners]
        await trio.serve_listeners(door.serve, patient, handler_nursery=handler_nursery)
    finally:
        logger.settle(all_of_it=True)


async def _listen(uri: Uri) -> tuple[list[Uri], Sequence[trio.abc.Listener[trio.SocketStream]]]:
    """What is bound, and what listens there."""
    if uri.scheme == "unix":
        return [uri], [await listen_unix(uri)]
    listeners = await listen_tcp(uri)
    return [bound_uri(uri, listener) for listener in listeners], listeners


@attrs.define(kw_only=True)
class _Door:
    """What happens to each connection that comes in at an address."""

    uri: Uri
    listener: Uri  # the same, with its port once that is known
    handle: Callable[[FrameTransport], Awaitable[None]]
    ssl_context: ssl.SSLContext | None
    max_frame_size: int
    handshake_timeout: float
    limit: ConnectionLimit
    allowed_origins: frozenset[str] | None

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, from its handshake to its end. `trio.serve_listeners` closes the stream.

        Nothing of what goes wrong with it is raised: that would end the others.
        """
        logger.settle()
        name = self._name(stream)  # Later there may be none to be had.
        try:
            if self.limit.reached:
                await self._turn_away(stream)
                return
            with self.limit.taken():
                transport = await self._shake_hands(stream, name)
                if transport is not None:
                    async with transport:
                        await self.handle(transport)
        except Exception:
            logger.exception("%s: serving %s crashed", self.uri, name)
        except BaseExceptionGroup as group:
            faults, urgent = group.split(Exception)
            if faults is not None:
                logger.exception("%s: serving %s crashed", self.uri, name, exc_info=faults)
            if urgent is not None:
                raise urgent from None

    async def _shake_hands(self, stream: trio.SocketStream, name: str) -> FrameTransport | None:
        """The transport, or ``None`` where none came about; then the log says why."""
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
        why = f"no end of it in {self.handshake_timeout:g} s"
        with trio.move_on_after(self.handshake_timeout):
            if (self.uri.is_encrypted or self.uri.is_websocket) and await _says_nothing(stream):
                # A scanner, or a probe of health: not worth a warning.
                logger.debug("%s: %s connected and went away", self.uri, name)
                return None
            try:
                return await begin()
            except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
                why = describe_failure(error)
        logger.warning("%s: the handshake with %s failed: %s", self.uri, name, why)
        return None

    async def _start_tls(self, stream: trio.SocketStream) -> TLSStream:
        assert self.ssl_context is not None  # looked at by `serve_listener`
        return await start_tls_server(stream, self.ssl_context)

    async def _turn_away(self, stream: trio.SocketStream) -> None:
        """There is no place; WebSocket has a way to say so, before anything is agreed on."""
        logger.warning("%s: a connection more than max_connections was closed", self.uri)
        if not self.uri.is_websocket or self.limit.crowded:
            return
        with self.limit.told(), trio.move_on_after(self.handshake_timeout):
            try:
                carrier: trio.abc.Stream = stream
                if self.uri.is_encrypted:
                    carrier = await self._start_tls(stream)
                await refuse_websocket(carrier, 503, "Too many connections")
            except (ConnectFailed, trio.BrokenResourceError, OSError):
                pass  # Told, or not to be told.

    def _name(self, stream: trio.SocketStream) -> str:
        if self.uri.scheme == "unix":
            return "a peer"
        return socket_addresses(stream)[1] or "a peer that is gone"


async def _says_nothing(stream: trio.SocketStream) -> bool:
    """Wait for the first byte, without reading it; whether there will be none."""
    try:
        return not await stream.socket.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
