"""Sessions at a server: `Sessions`, `ServerSession` (Protocol.md, "Resume Operation").

A session lives in the task of the connection whose SETUP began it, also while it has no transport.
If its transport came with a RESUME on another connection, the task of that connection only waits
for the loss of that transport. So a session always ends with the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from ..errors import ErrorCode, RejectedResume, RejectedSetup
from ..frames.resume import ResumeFrame, ResumeOkFrame
from ..log_policy import logger
from ..protocol.resume_log import possible
from ..protocol.setup import MAJOR_VERSION, MINOR_VERSION
from ..sealed import make
from ..sockets.workplace import workplace
from ..stopping import STOPPED
from .link_watch import watch_link
from .resumable_link import Attachment, ResumableLink
from .resume_options import kept_sessions
from .session_store import ResumableSession, session_of

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..frames.setup import SetupFrame
    from ..transports.base import FrameTransport, TransportInfo
    from .connection import Connection
    from .resume_options import ServerResume

__all__ = ["NO_SESSION", "ServerSession", "Sessions"]

NO_SESSION: Final = "there is no such session"
"""The answer to a client that may not resume a session: the same as for an unknown session."""

_STORE_FAILED: Final = "the session store failed"


class ServerSession:
    """One session, from its SETUP to its end.

    Attributes:
        token: Identifies the session.
        link: The transport of its connection.
        handle: Represents the session in the store.
        admit: Called with the transport of each RESUME; raises `RejectedResume` to refuse it.
            ``None`` until the acceptor has accepted the client: before that no RESUME is admitted.
    """

    admit: Callable[[TransportInfo], Awaitable[None]] | None = None

    def __init__(
        self,
        sessions: Sessions,
        token: bytes,
        transport: FrameTransport,
        received: list[bytes],
        max_lifetime: float,
    ) -> None:
        options = sessions.options
        self.link = ResumableLink(
            transport, options.max_retained_size, interval=None, max_lifetime=max_lifetime
        )
        self.token = token
        self.handle = make(ResumableSession, self)
        self._sessions = sessions
        self._lifetime = options.session_lifetime
        self._first = self.link.attach(transport, received=received)

    async def run(self, connection: Connection) -> None:
        """Drive the connection of this session to its end.

        Checkpoint: always.
        If cancelled: as `Connection.run`.
        """
        self.link.retention.bind(connection.outbox)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_link, self.link)
            nursery.start_soon(self._close_first)
            nursery.start_soon(self._expire)
            await connection.run([], interval=None, max_lifetime=inf)
            nursery.cancel_scope.cancel(reason="the session is over")

    async def close(self) -> None:
        """End the session and free its token. Further calls do nothing.

        Checkpoint: as the store does.
        If cancelled: the same; the call of the store has a timeout.
        """
        self.link.fail("the session is over")
        if self._sessions.forget(self):
            await self._sessions.remove(self)

    async def _close_first(self) -> None:
        """Close the transport of the SETUP when it is lost, not only when the session ends."""
        await self._first.lost.wait()
        await trio.aclose_forcefully(self._first.transport)

    async def _expire(self) -> None:
        while True:
            try:
                with trio.move_on_after(self._lifetime) as waiting:
                    attachment = await self.link.wait_attached()
            except trio.BrokenResourceError:
                return  # the session is over for another reason
            if waiting.cancelled_caught:
                self.link.fail(f"the session was not resumed within {self._lifetime:g} s")
            else:
                await attachment.lost.wait()


class Sessions:
    """The sessions of a server.

    Args:
        options: The settings of resumption.
        config: Has the timeouts for calls of the store.
    """

    def __init__(self, options: ServerResume, config: ConnectionConfig) -> None:
        self.options = options
        self._config = config
        self._kept = kept_sessions(options)
        self._live: set[ServerSession] = set()

    async def begin(
        self, setup: SetupFrame, token: bytes, transport: FrameTransport, received: list[bytes]
    ) -> ServerSession:
        """Begin a session for a SETUP that asks for resumption.

        Args:
            setup: The SETUP.
            token: Identifies the session.
            transport: The transport of the SETUP.
            received: The frames right behind the SETUP.

        Returns:
            The session; the caller closes it with `ServerSession.close`.

        Raises:
            RejectedSetup: Its token is too short or in use, there are too many sessions, or the
                store has failed.

        Checkpoint: as the store does.
        If cancelled: there is no session.
        """
        shortest = self.options.min_token_size
        if len(token) < shortest:
            raise RejectedSetup(f"a resume token must have at least {shortest} bytes")
        if len(self._kept) >= self.options.max_sessions:
            raise RejectedSetup("too many resumable sessions")
        session = ServerSession(self, token, transport, received, setup.max_lifetime_ms / 1000)
        self._live.add(session)
        self._kept.add(session)
        try:
            with trio.fail_after(self._config.setup_timeout):
                added = await self.options.store.add(token, session.handle)
        except BaseException as error:  # also if cancelled, the session must be closed
            await session.close()
            if not isinstance(error, Exception):
                raise
            logger.exception(_STORE_FAILED)
            raise RejectedSetup("the session cannot be kept now") from error
        if not added:
            session.link.fail("it was not kept")
            self.forget(session)
            # "Identification Token Handling": not accepted; the specification names no error code.
            raise RejectedSetup("the resume token is in use")
        _tell(token, kept=True)
        return session

    async def resume(
        self, frame: ResumeFrame, transport: FrameTransport, received: list[bytes]
    ) -> Attachment:
        """Let a session go on over ``transport``; ``received`` came right behind its RESUME.

        The newest RESUME wins: a client that comes back knows better than the server whether its
        old connection is dead. The old connection is untouched until the new one is admitted.

        Raises:
            RejectedResume: There is no such session, the client is not admitted to it, it cannot go
                on from these positions, or the store has failed.
            Exception: `ServerSession.admit` has failed.

        Checkpoint: as the store and `ServerSession.admit` do.
        If cancelled: the session stays as it is.
        """
        if (frame.major, frame.minor) != (MAJOR_VERSION, MINOR_VERSION):
            raise RejectedResume(f"version {frame.major}.{frame.minor} is not supported")
        session = await self._find(frame.token)
        if session is None or session.link.closing or session.admit is None:
            raise RejectedResume(NO_SESSION)
        await session.admit(transport.info)
        if session.link.closing:
            raise RejectedResume(NO_SESSION)  # it has ended meanwhile
        link = session.link
        if not possible(
            link.log,
            last_received=frame.last_received_server_position,
            first_available=frame.first_available_client_position,
        ):
            raise RejectedResume("the session cannot be resumed from these positions")
        transport.limit_frames(None)
        return link.attach(
            transport,
            peer_received=frame.last_received_server_position,
            first=[ResumeOkFrame(link.log.received).encode()],
            received=received,
        )

    async def _find(self, token: bytes) -> ServerSession | None:
        try:
            with trio.fail_after(self._config.setup_timeout):
                found: object = await self.options.store.find(token)
        except Exception as error:  # from the application's store
            logger.exception(_STORE_FAILED)
            code = ErrorCode.CONNECTION_ERROR  # tells the client to try again
            raise RejectedResume("the session cannot be found now", code=code) from error
        session = session_of(found)
        if found is not None and (session is None or session.token != token):
            # A store must not give a client the streams of another client.
            logger.error("the session store did not return the session of the token")
            return None
        return session

    def forget(self, session: ServerSession) -> bool:
        """Remove a session that is over; return False if it was removed already."""
        if session not in self._live:
            return False
        self._live.remove(session)
        self._kept.remove(session)
        _tell(session.token, kept=False)
        return True

    async def remove(self, session: ServerSession) -> None:
        """Free the token of a session.

        Checkpoint: as the store does.
        If cancelled: the same; the call of the store has a timeout.
        """
        try:
            with trio.CancelScope(shield=True), trio.fail_after(self._config.close_timeout):
                await self.options.store.remove(session.token, session.handle)
        except Exception:  # from the application's store
            logger.exception(_STORE_FAILED)

    def stop(self) -> None:
        """Let no client resume any more: the server is being stopped."""
        for session in list(self._live):
            session.link.resume_no_more(STOPPED)


def _tell(token: bytes, *, kept: bool) -> None:
    """Tell the parent of a worker process which sessions it has."""
    place = workplace()
    if place is not None:
        place.session(token, kept=kept)
