"""Serve one connection from its first frame to its end: `Service`.

`Registry` holds the connections of a server, for statistics and for stopping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial

import attrs
import trio

from .config import ConnectionConfig
from .connection.connection import Connection
from .connection.establish import receive_setup, refuse, send_away
from .connection.resume_server import ServerSession, Sessions
from .errors import (
    ConnectionClosed,
    ConnectionLost,
    ErrorCode,
    RejectedResume,
    RejectedSetup,
    RemoteProtocolError,
    SetupError,
    StreamError,
    addressed,
    setup_refusal,
)
from .frames.resume import ResumeFrame
from .frames.setup import SetupFrame
from .interactions.connection_block import around_connection
from .interactions.isolation import contained, failure_of
from .interactions.leftovers import Watch
from .lease import LeaseOptions
from .log_policy import logger
from .protocol.interaction import Interaction
from .protocol.setup import longest_first_frame
from .reactivesocket.opening import check_speakable, recognise_wire
from .requester import Requester
from .responder import Acceptor, Responder, ResumeFacts, Setup, accept_with
from .sealed import make
from .sockets.goodbyes import Goodbyes
from .sockets.peer import Peer
from .statistics import Refused
from .stopping import STOPPED, Stopping
from .transports.base import FrameTransport, TransportInfo

__all__ = ["Registry", "Service"]

_FAILED = "the acceptor failed"
_TIMED_OUT = "the acceptor did not answer in time"

_RESUME_CODES = (ErrorCode.REJECTED_RESUME, ErrorCode.CONNECTION_ERROR)
"""The codes that refuse a RESUME: for good, or only for now (Protocol.md, "RESUME Frame")."""


class Registry:
    """The connections of a server.

    Attributes:
        connections: The connections that are set up and not over, each with its peer.
        accepted: How many connections have been set up since the start.
        dropped: How many messages without an answer were dropped by connections that are over, by
            interaction.
        refused: How many connections were not served, by `Refused`.
        silent: How many have ended because the peer gave no sign of life.
        resumed: How often a session went on over another connection.
        stopping: The server is stopping, and refuses new connections.
        goodbyes: When the connections are told that they end, also those that wait for an acceptor.
    """

    def __init__(self, goodbyes: Goodbyes) -> None:
        self.goodbyes = goodbyes
        self.connections: dict[Connection, Peer] = {}
        self.accepted = 0
        self.dropped: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.silent = 0
        self.resumed = 0
        self.stopping = False
        self._silent: set[trio.CancelScope] = set()  # connections without a SETUP so far

    def refuse_silent(self) -> None:
        """Tell clients without a SETUP that there is no server any more, also later ones."""
        self.stopping = True
        for scope in self._silent:
            scope.cancel(reason=STOPPED)

    def stop(self) -> None:
        """Tell all connections now that the server stops."""
        self.refuse_silent()
        self.goodbyes.stop()

    @contextmanager
    def entered(self, connection: Connection, peer: Peer) -> Iterator[None]:
        """Register a connection that is set up, for the time of the block."""
        self.connections[connection] = peer
        self.accepted += 1
        try:
            yield
        finally:
            del self.connections[connection]
            self.silent += connection.lifecycle.silent
            self.dropped.update(connection.dropped)

    def dropped_by_all(self, what: Interaction) -> int:
        """Return how many messages of a kind were dropped since the start."""
        now = sum(each.dropped[what] for each in self.connections)
        return self.dropped[what] + now

    @contextmanager
    def until_stopped(self) -> Iterator[trio.CancelScope]:
        """Run the wait for a SETUP in a scope that `stop` cancels, as peers may stay silent."""
        with trio.CancelScope() as scope:
            self._silent.add(scope)
            if self.stopping:
                scope.cancel(reason=STOPPED)
            try:
                yield scope
            finally:
                self._silent.discard(scope)


@attrs.frozen(kw_only=True)
class Service:
    """The settings and state that all connections of a server share.

    Attributes:
        responder: Answers requests, or an acceptor function that chooses the responder.
        config: Times, sizes and limits.
        lease: Leases for the clients that ask for them.
        protocols: The protocols that clients may speak.
        sessions: The sessions kept for resumption; ``None`` if it is not offered.
        registry: The connections of the server.
    """

    responder: Responder | Acceptor
    config: ConnectionConfig
    lease: LeaseOptions | None
    protocols: Collection[str]
    sessions: Sessions | None
    registry: Registry

    async def serve(self, transport: FrameTransport) -> None:
        """Serve one connection to its end. Its errors are logged and not raised.

        It runs in its own task and nursery: an acceptor that leaves a nursery or a cancel scope
        open ends this connection, and not the server.

        Raises:
            TypeError: The server speaks only the draft, and this transport cannot carry it.

        Checkpoint: always.
        If cancelled: handlers are cancelled and the connection is closed.
        """
        if "rsocket" not in self.protocols:
            check_speakable(transport)
        async with transport:
            with contained(transport.info, transport):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._serve, transport)

    async def _serve(self, transport: FrameTransport) -> None:
        session: ServerSession | None = None
        limits = self.config.limits
        longest = longest_first_frame(
            limits.max_setup_size, resume_offered=self.sessions is not None
        )
        watch = Watch()  # an acceptor runs in this task

        async def receive() -> list[bytes]:
            nonlocal transport
            transport.limit_frames(longest)
            transport, frames = await recognise_wire(
                transport, self.protocols, limits.max_frame_size
            )
            transport.limit_frames(longest)  # another one may carry the draft
            return frames or await transport.receive_frames()

        try:
            with self.registry.until_stopped() as stopped:
                frame, frames = await receive_setup(
                    receive,
                    self.config,
                    resume_offered=self.sessions is not None,
                    lease_offered=self.lease is not None,
                    lease_required=self.lease is not None and self.lease.required,
                )
            if stopped.cancelled_caught:
                if "rsocket" in self.protocols or transport.capabilities.translates_frames:
                    # Its SETUP may be on the way, and it shall know that this is no crash.
                    words = STOPPED.encode()
                    await send_away(transport, ErrorCode.CONNECTION_CLOSE, words, self.config)
                return
            if isinstance(frame, ResumeFrame):
                # `receive_setup` refuses a RESUME if resumption is not offered.
                if self.sessions is not None:
                    attachment = await self.sessions.resume(frame, transport, frames)
                    self.registry.resumed += 1
                    await attachment.lost.wait()
                return
            if self.sessions is not None and frame.resume_token is not None:
                session = await self.sessions.begin(frame, frame.resume_token, transport, frames)
            carrier = transport if session is None else session.link
            connection, setup, requester = self._setup(frame, carrier)
            with self.registry.goodbyes.entered(setup.peer):
                accepted = await self._accept(setup, requester)
                if session is not None:
                    session.admit = partial(self._accept_resume, accepted, setup)
                peer = transport.info.peer or transport.info.scheme
                async with around_connection(
                    accepted.connection_block(),
                    peer,
                    self.config.setup_timeout,
                    connection.abandon,
                ):
                    transport.limit_frames(None)
                    connection.open(accepted)
                    await self._run(connection, setup.peer, frame, frames, session)
        except ConnectionLost as error:
            logger.debug("no connection with %s: %s", transport.info.peer, error)
        except (SetupError, RejectedResume, RemoteProtocolError) as error:
            resume = isinstance(error, RejectedResume)
            self.registry.refused[Refused.RESUME if resume else Refused.SETUP] += 1
            logger.info("refused a connection from %s: %s", transport.info.peer, error)
            if session is not None:
                await session.close()  # before `refuse`, which may take a moment
            try:
                await refuse(transport, error, self.config)
            finally:
                error.with_traceback(None)  # an acceptor may raise one object again and again
        finally:
            if session is not None:
                await session.close()
            await watch.leave()

    def _setup(
        self, frame: SetupFrame, transport: FrameTransport
    ) -> tuple[Connection, Setup, Requester]:
        """Make a connection, which is not open yet, and what its acceptor gets."""
        lease = self.lease
        if lease is not None and not (frame.lease or lease.enforced):
            lease = None
        connection = Connection(
            transport, self.config, client=False, lease=lease, announced=frame.lease
        )
        requester = make(Requester, connection, frame.metadata_mime_type, frame.data_mime_type)
        setup = Setup(
            data=frame.data,
            metadata=frame.metadata,
            data_mime_type=frame.data_mime_type,
            metadata_mime_type=frame.metadata_mime_type,
            keepalive_interval=frame.keepalive_interval_ms / 1000,
            max_lifetime=frame.max_lifetime_ms / 1000,
            transport=transport.info,
            stopping=Stopping(connection.lifecycle.drain_begun),
        )
        end, turn = connection.close_gracefully, connection.workload
        setup.peer._serves(end, turn)  # noqa: SLF001 - not for applications
        return connection, setup, requester

    async def _accept(self, setup: Setup, requester: Requester) -> Responder:
        """Call the acceptor for a SETUP.

        Raises:
            SetupError: It refuses, fails or takes too long.
        """
        try:
            # A timeout, as the loss of the client is not noticed: frames are not read yet.
            with trio.move_on_after(self.config.setup_timeout):
                return await accept_with(self.responder, setup, requester)
        except BaseException as error:  # `failure_of` re-raises cancellation and the like
            failure = failure_of(error)
            refusal = setup_refusal(failure)
            if refusal is not None:
                raise refusal from None
            # A failure of the acceptor ends this connection; its text is not sent to the client.
            logger.error("the acceptor failed", exc_info=failure)
            raise RejectedSetup(_FAILED) from failure
        logger.error("the acceptor did not answer within %g s", self.config.setup_timeout)
        raise RejectedSetup(_TIMED_OUT)

    async def _accept_resume(
        self, responder: Responder, setup: Setup, transport: TransportInfo
    ) -> None:
        """Call the session's responder for a RESUME.

        Raises:
            RejectedResume: It refuses, fails or takes too long.
        """
        try:
            with trio.move_on_after(self.config.setup_timeout):
                await responder.accept_resume(ResumeFacts(setup=setup, transport=transport))
                return
        except BaseException as error:  # `failure_of` re-raises cancellation and the like
            failure = failure_of(error)
            refusal = addressed(failure, RejectedResume, StreamError, SetupError)
            if isinstance(refusal, RejectedResume) and refusal.code in _RESUME_CODES:
                raise refusal from None
            if refusal is not None:
                raise RejectedResume(refusal.data) from None
            logger.error("accept_resume failed", exc_info=failure)
            raise RejectedResume(_FAILED) from failure
        logger.error("accept_resume did not answer within %g s", self.config.setup_timeout)
        raise RejectedResume(_TIMED_OUT)

    async def _run(
        self,
        connection: Connection,
        peer: Peer,
        frame: SetupFrame,
        frames: list[bytes],
        session: ServerSession | None,
    ) -> None:
        with self.registry.entered(connection, peer):
            if session is None:
                lifetime = frame.max_lifetime_ms / 1000
                await connection.run(frames, interval=None, max_lifetime=lifetime)
            else:
                try:
                    await session.run(connection)
                finally:
                    self.registry.silent += session.link.silences
        failure = connection.lifecycle.failure
        if isinstance(failure, ConnectionClosed):
            name = connection.transport.info.peer
            logger.debug("the connection to %s is over: %s", name, failure)
