"""Sessions at a server: `Sessions`, `ServerSession` (Protocol.md, "Resume Operation").

A session lives in the task of the connection whose SETUP began it, also while it has no
transport, and while its transport came with a RESUME on another connection, whose task then only
waits for the loss of that transport. So it ends with the server, whatever happens.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import trio

from ..errors import RejectedResume, RejectedSetup
from ..frames.resume import ResumeFrame, ResumeOkFrame
from ..protocol.resume_log import possible
from ..protocol.setup import MAJOR_VERSION, MINOR_VERSION
from .resumable_link import Attachment, ResumableLink

if TYPE_CHECKING:
    from ..frames.setup import SetupFrame
    from ..transports.base import FrameTransport
    from .connection import Connection
    from .resume_options import ResumeOptions

__all__ = ["ServerSession", "Sessions"]


class ServerSession:
    """One session, from its SETUP to its end.

    Attributes:
        link: What its connection runs on.
    """

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
        self._sessions = sessions
        self._token = token
        self._lifetime = options.session_lifetime
        self._first = self.link.attach(transport, received=received)

    async def run(self, connection: Connection) -> None:
        """Drive the connection of this session to its end.

        Checkpoint: always.
        If cancelled: as `Connection.run`.
        """
        self.link.retention.bind(connection.outbox)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.link.watch)
            nursery.start_soon(self._close_first)
            nursery.start_soon(self._expire)
            await connection.run([], interval=None, max_lifetime=inf)
            nursery.cancel_scope.cancel(reason="the session is over")

    def end(self) -> None:
        """Forget the session; its token means nothing any more. Once is enough."""
        self.link.fail("the session is over")
        self._sessions.forget(self, self._token)

    async def _close_first(self) -> None:
        """The transport of the SETUP is closed when it is lost, not when the session ends."""
        await self._first.lost.wait()
        await trio.aclose_forcefully(self._first.transport)

    async def _expire(self) -> None:
        while True:
            try:
                with trio.move_on_after(self._lifetime) as waiting:
                    attachment = await self.link.wait_attached()
            except trio.BrokenResourceError:
                return  # over, for another reason
            if waiting.cancelled_caught:
                self.link.fail(f"the session was not resumed within {self._lifetime:g} s")
            else:
                await attachment.lost.wait()


class Sessions:
    """The sessions of a server."""

    def __init__(self, options: ResumeOptions) -> None:
        self.options = options
        self._live: set[ServerSession] = set()

    def begin(
        self, setup: SetupFrame, token: bytes, transport: FrameTransport, received: list[bytes]
    ) -> ServerSession:
        """A SETUP that asks for resumption, and what came right behind it: `ServerSession.end` it.

        Raises:
            RejectedSetup: Its token is in use, or there are too many sessions.
        """
        store = self.options.store
        if store.get(token) is not None:
            # "Identification Token Handling": not accepted; the code is left open.
            raise RejectedSetup("the resume token is in use")
        if len(store) >= self.options.max_sessions:
            raise RejectedSetup("too many resumable sessions")
        session = ServerSession(self, token, transport, received, setup.max_lifetime_ms / 1000)
        store.put(token, session)
        self._live.add(session)
        return session

    def resume(
        self, frame: ResumeFrame, transport: FrameTransport, received: list[bytes]
    ) -> Attachment:
        """A RESUME, and what came right behind it: its session goes on over ``transport``.

        The newest RESUME wins: a client that comes back knows better than the server whether its
        old connection is dead.

        Raises:
            RejectedResume: There is no such session, or it cannot go on from there.
        """
        if (frame.major, frame.minor) != (MAJOR_VERSION, MINOR_VERSION):
            raise RejectedResume(f"version {frame.major}.{frame.minor} is not supported")
        session = self.options.store.get(frame.token)
        if session is None or session.link.closing:
            raise RejectedResume("there is no such session")
        link = session.link
        if not possible(
            link.log,
            last_received=frame.last_received_server_position,
            first_available=frame.first_available_client_position,
        ):
            raise RejectedResume("the session cannot be resumed from these positions")
        return link.attach(
            transport,
            peer_received=frame.last_received_server_position,
            first=[ResumeOkFrame(link.log.received).encode()],
            received=received,
        )

    def forget(self, session: ServerSession, token: bytes) -> None:
        """A session is over."""
        if session in self._live:
            self._live.remove(session)
            self.options.store.remove(token)

    def stop(self) -> None:
        """The server is being stopped: nobody can come back any more."""
        for session in list(self._live):
            session.link.closing = True
            if session.link.attachment is None:
                session.link.fail("the server is being stopped")
