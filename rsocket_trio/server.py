"""The server: `serve`, and `serve_transport` for a transport of your own."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from .config import ConnectionConfig
from .connection.connection import Connection
from .connection.establish import receive_setup, refuse
from .connection.resume_options import ResumeOptions
from .connection.resume_server import ServerSession, Sessions
from .errors import (
    ConnectionClosed,
    ConnectionLost,
    RejectedResume,
    RejectedSetup,
    RemoteProtocolError,
    SetupError,
)
from .frames.resume import ResumeFrame
from .frames.setup import SetupFrame
from .lease import LeaseOptions, Source, lease_options
from .requester import Requester
from .responder import Acceptor, Responder, Setup, accept_with
from .transports import serve_listener
from .transports.base import FrameTransport
from .uri import Uri, parse_uri

Handle = Callable[[FrameTransport], Awaitable[None]]

__all__ = ["Server", "ServerStatistics", "serve", "serve_transport"]

logger = logging.getLogger("rsocket_trio")

_DEFAULT_CONFIG: Final = ConnectionConfig()


@attrs.frozen
class ServerStatistics:
    """Numbers about a server.

    Attributes:
        connections: Connections that are set up.
        accepted: Connections that have been set up since the start.
    """

    connections: int
    accepted: int


class Server:
    """A running server; made by `serve`, which gives it to ``task_status``.

    Attributes:
        uris: The addresses it listens on, with the ports they really have.
    """

    def __init__(
        self,
        accepting: trio.CancelScope,
        everything: trio.CancelScope,
        sessions: Sessions | None = None,
    ) -> None:
        self.uris: list[str] = []
        self._sessions = sessions
        self._accepting = accepting
        self._everything = everything
        self._connections: set[Connection] = set()
        self._silent: set[trio.CancelScope] = set()  # dialled, and no SETUP yet
        self._accepted = 0
        self._stopped = trio.Event()

    def statistics(self) -> ServerStatistics:
        """Numbers about this server."""
        return ServerStatistics(connections=len(self._connections), accepted=self._accepted)

    async def aclose(self, *, grace: float = 5.0) -> None:
        """Stop gracefully.

        No new connections are accepted, every peer is told CONNECTION_CLOSE, new requests are
        refused, and the streams in flight may finish. What is not finished after ``grace``
        seconds is cancelled. Returns once everything has ended; `serve` returns then too.

        Args:
            grace: Seconds; 0 cancels at once.

        Checkpoint: always.
        If cancelled: the stop goes on by itself.
        """
        self.stop(grace=grace)
        await self._stopped.wait()

    def stop(self, *, grace: float = 5.0) -> None:
        """Begin what `aclose` does, and do not wait for it. Safe to call again, e.g. with 0."""
        self._accepting.cancel(reason="the server is being stopped")
        self._everything.deadline = min(self._everything.deadline, trio.current_time() + grace)
        for scope in self._silent:
            scope.cancel(reason="the server is being stopped")
        for connection in list(self._connections):
            connection.close_gracefully("the server is being stopped")
        if self._sessions is not None:
            self._sessions.stop()

    @property
    def _stopping(self) -> bool:
        return self._accepting.cancel_called

    def _enter(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._accepted += 1
        if self._stopping:
            connection.close_gracefully("the server is being stopped")

    def _leave(self, connection: Connection) -> None:
        self._connections.discard(connection)


async def serve(
    responder: Responder | Acceptor,
    *uris: str | Uri,
    config: ConnectionConfig = _DEFAULT_CONFIG,
    ssl_context: ssl.SSLContext | None = None,
    resume: ResumeOptions | None = None,
    lease: LeaseOptions | Source | None = None,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until stopped.

    ``await serve(router, "tcp://0.0.0.0:7878")`` runs for ever. With
    ``server = await nursery.start(serve, router, uri)`` the server accepts connections when that
    returns, and ``server`` can tell its addresses and be stopped.

    Args:
        responder: Answers requests, of all connections; or an acceptor function, called once per
            connection, that returns a responder.
        uris: Where to listen: ``tcp://host:port``, ``tls://host:port``, ``unix:///path``,
            ``ws://host:port/path``, ``wss://host:port/path``. Port 0 is any free port.
        config: Times, sizes and limits.
        ssl_context: TLS: needed for ``tls`` and ``wss``.
        resume: Keep the sessions of clients that ask for it over the loss of their connections:
            their streams and handlers go on. ``None`` refuses such clients.
        lease: Grant leases, of this source or with these options, to the clients that ask for
            them, and need theirs for requests to them. Without it such clients are refused
            (UNSUPPORTED_SETUP).
        task_status: Gets the `Server` once every address accepts connections.

    Raises:
        OSError: An address cannot be listened on.
        ValueError: A URI is wrong, there is none, or the TLS context is missing.

    Checkpoint: always.
    If cancelled: at once: handlers are cancelled and connections closed. `Server.aclose` is the
    graceful way.
    """
    if not uris:
        raise ValueError('name at least one address to listen on, e.g. "tcp://127.0.0.1:7878"')
    parsed = [parse_uri(uri) if isinstance(uri, str) else uri for uri in uris]
    leases = lease_options(lease)
    accepting = trio.CancelScope()
    everything = trio.CancelScope()
    sessions = None if resume is None else Sessions(resume)
    server = Server(accepting, everything, sessions)

    async def handle(transport: FrameTransport) -> None:
        await _serve_connection(responder, transport, config, leases, server, sessions)

    refused: OSError | ValueError | None = None
    try:
        with everything:
            async with trio.open_nursery() as connections:
                with accepting:
                    async with trio.open_nursery() as listeners:
                        try:
                            for uri in parsed:
                                bound = await _start_listening(
                                    listeners, uri, handle, config, ssl_context, connections
                                )
                                server.uris += map(str, bound)
                        except (OSError, ValueError) as error:
                            # Kept out of the nurseries, so that it is never grouped.
                            refused = error
                            everything.cancel(reason="an address cannot be listened on")
                        else:
                            task_status.started(server)
    finally:
        server._stopped.set()  # noqa: SLF001 - the class and this function are one thing
    if refused is not None:
        raise refused


async def _start_listening(listeners: trio.Nursery, uri: Uri, *args: object) -> list[Uri]:
    """Listen at one address; what goes wrong names it.

    Raises:
        OSError: It cannot be listened on.
        ValueError: The TLS context is missing.
    """
    try:
        bound: list[Uri] = await listeners.start(_listen, uri, *args)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(error.errno, f"cannot listen on {uri}: {reason}") from error
    return bound


async def _listen(
    uri: Uri,
    handle: Handle,
    config: ConnectionConfig,
    ssl_context: ssl.SSLContext | None,
    connections: trio.Nursery,
    *,
    task_status: trio.TaskStatus[list[Uri]] = trio.TASK_STATUS_IGNORED,
) -> None:
    await serve_listener(
        uri,
        handle,
        ssl_context=ssl_context,
        max_frame_size=config.limits.max_frame_size,
        handshake_timeout=config.setup_timeout,
        handler_nursery=connections,
        task_status=task_status,
    )


async def serve_transport(
    responder: Responder | Acceptor,
    transport: FrameTransport,
    *,
    config: ConnectionConfig = _DEFAULT_CONFIG,
    resume: ResumeOptions | None = None,
    lease: LeaseOptions | Source | None = None,
) -> None:
    """Serve one connection over a transport you bring, to its end.

    E.g. a connection of your own trio-websocket server:
    ``await serve_transport(router, WebSocketTransport(ws))``. What goes wrong with the peer ends
    the connection and is logged; nothing of it is raised.

    Args:
        responder: As for `serve`.
        transport: Closed at the end.
        config: Times, sizes and limits.
        resume: As for `serve`. A session may be resumed by any call with the same options; it
            lives in the call that began it, and ends with that.
        lease: As for `serve`.

    Checkpoint: always.
    If cancelled: handlers are cancelled and the connection is closed.
    """
    sessions = None if resume is None else Sessions(resume)
    await _serve_connection(responder, transport, config, lease_options(lease), None, sessions)


async def _serve_connection(
    responder: Responder | Acceptor,
    transport: FrameTransport,
    config: ConnectionConfig,
    lease: LeaseOptions | None,
    server: Server | None,
    sessions: Sessions | None,
) -> None:
    session: ServerSession | None = None
    async with transport:
        try:
            with _until_stopped(server) as stopped:
                frame, frames = await receive_setup(
                    transport,
                    config,
                    resume_offered=sessions is not None,
                    lease_offered=lease is not None,
                )
            if stopped.cancelled_caught:
                return
            if isinstance(frame, ResumeFrame):
                # Only a server that offers resumption lets one through.
                if sessions is not None:
                    await sessions.resume(frame, transport, frames).lost.wait()
                return
            if sessions is not None and frame.resume_token is not None:
                session = sessions.begin(frame, frame.resume_token, transport, frames)
            carrier = transport if session is None else session.link
            connection, accepted = await _accept(responder, frame, carrier, config, lease)
            await _serve_accepted(connection, accepted, frame, frames, server, session)
        except ConnectionLost as error:
            logger.debug("no connection with %s: %s", transport.info.peer, error)
        except (SetupError, RejectedResume, RemoteProtocolError) as error:
            logger.info("refused a connection from %s: %s", transport.info.peer, error)
            if session is not None:
                session.end()  # the telling may take a moment
            await refuse(transport, error, config)
        finally:
            if session is not None:
                session.end()


async def _serve_accepted(
    connection: Connection,
    accepted: Responder,
    frame: SetupFrame,
    frames: list[bytes],
    server: Server | None,
    session: ServerSession | None,
) -> None:
    connection.open(accepted)
    if server is not None:
        server._enter(connection)  # noqa: SLF001 - the class and this function are one thing
    try:
        if session is None:
            run = connection.run(frames, interval=None, max_lifetime=frame.max_lifetime_ms / 1000)
        else:
            run = session.run(connection)
        await _run(connection, run)
    finally:
        if server is not None:
            server._leave(connection)  # noqa: SLF001 - likewise


@contextmanager
def _until_stopped(server: Server | None) -> Iterator[trio.CancelScope]:
    """Around the wait for a SETUP: a peer that says nothing does not delay `Server.aclose`."""
    with trio.CancelScope() as scope:
        if server is None:
            yield scope
            return
        server._silent.add(scope)  # noqa: SLF001 - the class and this function are one thing
        if server._stopping:  # noqa: SLF001 - likewise
            scope.cancel(reason="the server is being stopped")
        try:
            yield scope
        finally:
            server._silent.discard(scope)  # noqa: SLF001 - likewise


async def _accept(
    responder: Responder | Acceptor,
    frame: SetupFrame,
    transport: FrameTransport,
    config: ConnectionConfig,
    lease: LeaseOptions | None,
) -> tuple[Connection, Responder]:
    """Ask the acceptor.

    Raises:
        SetupError: It refuses, or it failed.
    """
    connection = Connection(transport, config, client=False, lease=lease if frame.lease else None)
    requester = Requester(connection, frame.metadata_mime_type, frame.data_mime_type)
    setup = Setup(
        data=frame.data,
        metadata=frame.metadata,
        data_mime_type=frame.data_mime_type,
        metadata_mime_type=frame.metadata_mime_type,
        keepalive_interval=frame.keepalive_interval_ms / 1000,
        max_lifetime=frame.max_lifetime_ms / 1000,
        transport=transport.info,
    )
    try:
        return connection, await accept_with(responder, setup, requester)
    except SetupError:
        raise
    except Exception as error:
        # A fault of the acceptor's costs this connection, and its text stays here.
        logger.exception("the acceptor failed")
        raise RejectedSetup("the acceptor failed") from error


async def _run(connection: Connection, run: Awaitable[None]) -> None:
    peer = connection.transport.info.peer
    try:
        await run
    except BaseExceptionGroup as group:
        _, urgent = group.split(Exception)
        if urgent is not None:
            raise  # Cancelled, KeyboardInterrupt: let them be
        # One connection's fault must not end the others.
        logger.exception("the connection to %s crashed; please report this", peer)
    else:
        failure = connection.failure
        if isinstance(failure, ConnectionClosed):
            logger.debug("the connection to %s is over: %s", peer, failure)
