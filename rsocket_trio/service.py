"""What a server does with one connection, from its first frame to its end: `Service`.

And which connections it has: `Registry`, for statistics and for stopping.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterator
from contextlib import contextmanager

import attrs
import trio

from .config import ConnectionConfig
from .connection.connection import Connection
from .connection.establish import receive_setup, refuse
from .connection.resume_server import ServerSession, Sessions
from .errors import (
    ConnectionClosed,
    ConnectionLost,
    RejectedResume,
    RejectedSetup,
    RemoteProtocolError,
    SetupError,
    sole,
)
from .frames.resume import ResumeFrame
from .frames.setup import SetupFrame
from .lease import LeaseOptions
from .reactivesocket.opening import Opening
from .requester import Requester
from .responder import Acceptor, Responder, Setup, accept_with
from .transports.base import FrameTransport

__all__ = ["Registry", "Service"]

logger = logging.getLogger("rsocket_trio")

_STOPPED = "the server is being stopped"


class Registry:
    """The connections of a server.

    Attributes:
        connections: Those that are set up.
        accepted: How many have been set up since the start.
        stopping: No new ones are wanted.
    """

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.stopping = False
        self._silent: set[trio.CancelScope] = set()  # dialled, and no SETUP yet

    def stop(self) -> None:
        """Close all connections gracefully, and those that come yet at once."""
        self.stopping = True
        for scope in self._silent:
            scope.cancel(reason=_STOPPED)
        for connection in list(self.connections):
            connection.close_gracefully(_STOPPED)

    @contextmanager
    def entered(self, connection: Connection) -> Iterator[None]:
        """Around the life of a connection that is set up."""
        self.connections.add(connection)
        self.accepted += 1
        if self.stopping:
            connection.close_gracefully(_STOPPED)
        try:
            yield
        finally:
            self.connections.discard(connection)

    @contextmanager
    def until_stopped(self) -> Iterator[trio.CancelScope]:
        """Around the wait for a SETUP: a peer that says nothing does not delay a stop."""
        with trio.CancelScope() as scope:
            self._silent.add(scope)
            if self.stopping:
                scope.cancel(reason=_STOPPED)
            try:
                yield scope
            finally:
                self._silent.discard(scope)


@attrs.frozen(kw_only=True)
class Service:
    """What every connection of a server is served with.

    Attributes:
        responder: Answers requests, or decides who does.
        config: Times, sizes and limits.
        lease: Leases for the clients that ask for them.
        protocols: What clients may speak.
        sessions: Those kept for resumption, where that is offered.
        registry: Where connections are entered.
    """

    responder: Responder | Acceptor
    config: ConnectionConfig
    lease: LeaseOptions | None
    protocols: Collection[str]
    sessions: Sessions | None
    registry: Registry

    async def serve(self, transport: FrameTransport) -> None:
        """Serve one connection to its end; nothing of what goes wrong with it is raised.

        Checkpoint: always.
        If cancelled: handlers are cancelled and the connection is closed.
        """
        session: ServerSession | None = None
        opening = Opening(transport, self.protocols, self.config.limits.max_frame_size)
        async with transport:
            try:
                with self.registry.until_stopped() as stopped:
                    frame, frames = await receive_setup(
                        opening,
                        self.config,
                        resume_offered=self.sessions is not None,
                        lease_offered=self.lease is not None,
                    )
                transport = opening.chosen
                if stopped.cancelled_caught:
                    return
                if isinstance(frame, ResumeFrame):
                    # Only a server that offers resumption lets one through.
                    if self.sessions is not None:
                        await self.sessions.resume(frame, transport, frames).lost.wait()
                    return
                if self.sessions is not None and frame.resume_token is not None:
                    session = self.sessions.begin(frame, frame.resume_token, transport, frames)
                carrier = transport if session is None else session.link
                connection, accepted = await self._accept(frame, carrier)
                connection.open(accepted)
                await self._run(connection, frame, frames, session)
            except ConnectionLost as error:
                logger.debug("no connection with %s: %s", transport.info.peer, error)
            except (SetupError, RejectedResume, RemoteProtocolError) as error:
                logger.info("refused a connection from %s: %s", transport.info.peer, error)
                if session is not None:
                    session.end()  # the telling may take a moment
                await refuse(opening.chosen, error, self.config)
            finally:
                if session is not None:
                    session.end()

    async def _accept(
        self, frame: SetupFrame, transport: FrameTransport
    ) -> tuple[Connection, Responder]:
        """Ask the acceptor.

        Raises:
            SetupError: It refuses, or it failed.
        """
        connection = Connection(
            transport, self.config, client=False, lease=self.lease if frame.lease else None
        )
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
            # A client that has gone would not be noticed: nobody reads yet.
            with trio.move_on_after(self.config.setup_timeout):
                return connection, await accept_with(self.responder, setup, requester)
        except Exception as error:
            alone = sole(error)
            if isinstance(alone, SetupError):
                raise alone from None
            # A fault of the acceptor's costs this connection, and its text stays here.
            logger.exception("the acceptor failed")
            raise RejectedSetup("the acceptor failed") from error
        logger.error("the acceptor did not answer within %g s", self.config.setup_timeout)
        raise RejectedSetup("the acceptor did not answer in time")

    async def _run(
        self,
        connection: Connection,
        frame: SetupFrame,
        frames: list[bytes],
        session: ServerSession | None,
    ) -> None:
        with self.registry.entered(connection):
            if session is None:
                lifetime = frame.max_lifetime_ms / 1000
                await _contained(
                    connection, connection.run(frames, interval=None, max_lifetime=lifetime)
                )
            else:
                await _contained(connection, session.run(connection))


async def _contained(connection: Connection, run: Awaitable[None]) -> None:
    """One connection's fault must not end the others."""
    peer = connection.transport.info.peer
    try:
        await run
    except BaseExceptionGroup as group:
        _, urgent = group.split(Exception)
        if urgent is not None:
            raise  # Cancelled, KeyboardInterrupt: let them be
        logger.exception("the connection to %s crashed; please report this", peer)
    else:
        failure = connection.failure
        if isinstance(failure, ConnectionClosed):
            logger.debug("the connection to %s is over: %s", peer, failure)
