"""A session at a client: `ClientSession` (Protocol.md, "Resume Operation").

While the session has no transport, a task dials again, by the schedule of the application, and
offers to resume. The answer of the server decides:

    RESUME_OK, position still in our log      the link goes on
    RESUME_OK, with another position          CONNECTION_ERROR; the session is over
    ERROR[CONNECTION_ERROR], or no answer     the next attempt, within the session lifetime
    any other ERROR                           `RejectedResume`, and no other attempt

A dialler that makes no connection counts as an attempt too. A dialler that fails in another way
(`connection/dialling.py`) ends the session: it would fail again. Another session may follow a
session that is over: `rsocket_trio.connection.succession`.
"""

from __future__ import annotations

import random
import secrets
from contextlib import AsyncExitStack
from math import inf
from typing import TYPE_CHECKING

import trio

from ..errors import (
    ConnectFailed,
    ConnectionLost,
    ErrorCode,
    MalformedFrame,
    RejectedResume,
    RemoteProtocolError,
    outcome_of_ours,
)
from ..frames.error import ErrorFrame, encode_error
from ..frames.resume import ResumeFrame, ResumeOkFrame
from ..frames.union import decode
from ..log_policy import logger
from ..protocol.retry import Attempts
from ..protocol.setup import MAJOR_VERSION, MINOR_VERSION
from ..transports.dial import NO_CONNECTION
from .dialling import Dialled, wait_to_dial
from .link_watch import watch_link
from .resumable_link import Attachment, ResumableLink

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..transports.base import FrameTransport
    from .connection import Connection
    from .dialling import Dial
    from .resume_options import ClientResume

__all__ = ["ClientSession"]


class ClientSession:
    """One session, from its SETUP to its end.

    Attributes:
        token: Identifies the session.
        link: The transport of its connection.
        resume: The settings of resumption.
        dial: Makes transports.
        config: The settings of its connection.
        dialler_failed: Whether a fault of the dialler has ended it.
    """

    def __init__(
        self, resume: ClientResume, dial: Dial, transport: FrameTransport, config: ConnectionConfig
    ) -> None:
        self.token = secrets.token_bytes(16) if resume.token is None else resume.token
        self.link = ResumableLink(
            transport,
            resume.max_retained_size,
            interval=config.keepalive_interval,
            max_lifetime=config.max_lifetime,
        )
        self.dialler_failed = False
        self.resume = resume
        self.dial = dial
        self.config = config
        self._attempts = Attempts(resume.retry, random.random)
        self._first = self.link.attach(transport)

    async def run(
        self,
        connection: Connection,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Drive the connection of this session to its end.

        Checkpoint: always.
        If cancelled: as `Connection.run`.
        """
        self.link.retention.bind(connection.outbox)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_link, self.link)
            nursery.start_soon(self._keep_attached, connection)
            await connection.run([], interval=None, max_lifetime=inf, task_status=task_status)
            nursery.cancel_scope.cancel(reason="the session is over")

    async def _keep_attached(self, connection: Connection) -> None:
        link = self.link
        await self._first.lost.wait()
        await trio.aclose_forcefully(self._first.transport)
        if not connection.lifecycle.established:
            # The server does not keep a session before it has accepted the SETUP.
            when = "the connection broke before the server had accepted the SETUP"
            link.fail(f"{when}: {self._first.reason}")
        while link.failure is None:
            await self._resume_in_time(connection)

    async def _resume_in_time(self, connection: Connection) -> None:
        """Try until the session goes on; return when its transport is lost again."""
        link = self.link
        lifetime = self.resume.session_lifetime
        end = trio.current_time() + lifetime
        failure: Exception | None = None
        for delay in self._attempts.within(lifetime):
            deadline = await wait_to_dial(delay, end, self.config.setup_timeout)
            if link.failure is not None:
                return
            if deadline is None:
                link.fail(f"the session was not resumed within {lifetime:g} s", failure)
                return
            with trio.move_on_at(deadline) as attempt:
                try:
                    async with AsyncExitStack() as dialled:
                        try:
                            dialling = Dialled(self.dial, close_timeout=self.config.close_timeout)
                            transport = await dialled.enter_async_context(dialling)
                        except ConnectFailed:
                            raise
                        except Exception as error:  # from the application's dialler
                            logger.exception("the dialler failed, so the session is not resumed")
                            self.dialler_failed = True
                            link.fail("the dialler failed", error)
                            return
                        attachment = await self._offer(transport, connection)
                        attempt.deadline = inf
                        if attachment is not None:
                            began = trio.current_time()
                            await attachment.lost.wait()
                            self._attempts.lost(trio.current_time() - began)
                            await trio.aclose_forcefully(transport)
                        return
                except (ConnectFailed, ConnectionLost, RemoteProtocolError) as error:
                    failure = error
                except NO_CONNECTION as error:
                    failure = error  # the dialler broke or closed the transport
        attempts = self.resume.retry.max_attempts
        link.fail(
            f"the session was not resumed in {attempts} attempts (Retry.max_attempts)", failure
        )

    async def _offer(self, transport: FrameTransport, connection: Connection) -> Attachment | None:
        """Send RESUME and wait for the answer.

        Returns:
            The attachment over which the session goes on; ``None`` if the session is over.

        Raises:
            ConnectionLost: There was no answer, or CONNECTION_ERROR: try again.
            RemoteProtocolError: The answer is malformed or of a wrong type: try again.
            trio.BrokenResourceError: The transport broke: try again.
        """
        log = self.link.log
        resume = ResumeFrame(
            MAJOR_VERSION, MINOR_VERSION, self.token, log.received, log.first_retained
        )
        await transport.send_frames([resume.encode()])
        frames = await transport.receive_frames()
        if not frames:
            raise ConnectionLost("the server closed the connection instead of resuming")
        try:
            answer = decode(frames[0])
        except MalformedFrame as error:
            raise RemoteProtocolError(f"the answer to RESUME is malformed: {error}") from error
        if isinstance(answer, ErrorFrame) and not answer.stream_id:
            if answer.code == ErrorCode.CONNECTION_ERROR:
                raise ConnectionLost("the server did not resume, for now")
            self._refused(
                outcome_of_ours(RejectedResume(answer.data, code=answer.code)), connection
            )
            return None
        if not isinstance(answer, ResumeOkFrame) or answer.stream_id:
            raise RemoteProtocolError(f"{answer.frame_type.name} is not an answer to RESUME")
        position = answer.last_received_client_position
        if not log.can_replay_from(position):
            reason = "frames that the server has not received are not retained any more"
            last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, reason.encode())
            try:
                await transport.send_frames([last_words])
            finally:
                self.link.fail(reason)  # also if this transport is broken already
            return None
        return self.link.attach(transport, peer_received=position, received=frames[1:])

    def _refused(self, error: RejectedResume, connection: Connection) -> None:
        connection.lifecycle.end(error)
        self.link.fail(str(error))
