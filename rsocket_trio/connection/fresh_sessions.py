"""Begin a new session after a lost one: `Succession`, for `ClientResume.fresh_session`.

If the server refuses to resume, the streams of the session are lost, and the requester may go on in
a new session, with a token and a SETUP of its own. The new session keeps nothing of the old one.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from math import inf
from typing import TYPE_CHECKING

import attrs
import trio

from ..errors import ConnectFailed, ConnectionLost
from ..log_policy import logger
from ..protocol.retry import Attempts
from .dialling import Dialled, wait_to_dial
from .resume_client import ClientSession

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["Succession"]


class Succession:
    """The sessions of one client.

    Args:
        first: The first session.
        begin: Makes the connection of a new session, with SETUP queued.

    Attributes:
        ended: Set when the last session has ended.
    """

    def __init__(
        self, first: ClientSession, begin: Callable[[ClientSession], Awaitable[Connection]]
    ) -> None:
        self.ended = trio.Event()
        self._first = first
        self._resume = attrs.evolve(first.resume, token=None)
        self._attempts = Attempts(first.resume.retry, random.random)
        self._dial = first.dial
        self._config = first.config
        self._begin = begin
        self._between = trio.CancelScope()  # the time from one session to the next
        self._current: Connection | None = None
        self._driving = False
        self._closed = False

    async def run(
        self,
        connection: Connection,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the first session, and new ones, until one ends for another reason than a refusal.

        Checkpoint: always.
        If cancelled: as `ClientSession.run`.
        """
        try:
            session = self._first
            await self._drive(session, connection, task_status)
            with self._between:
                while session.refused and not self._closed:
                    successor = await self._run_next()
                    if successor is None:
                        return
                    session = successor
        finally:
            self.ended.set()

    def close(self) -> None:
        """End the present session, and begin no new one."""
        self._closed = True
        self.ended.set()
        if self._current is not None:
            self._current.lifecycle.close()
        if not self._driving:
            self._between.cancel(reason="the client closes")

    async def _drive(
        self,
        session: ClientSession,
        connection: Connection,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        self._current = connection
        self._driving = True
        try:
            await session.run(connection, task_status=task_status)
        finally:
            self._driving = False

    async def _run_next(self) -> ClientSession | None:
        """Begin a new session and run it to its end; ``None`` if no session could begin."""
        lifetime = self._resume.session_lifetime
        end = trio.current_time() + lifetime
        for delay in self._attempts.within(lifetime):
            deadline = await wait_to_dial(delay, end, self._config.setup_timeout)
            if deadline is None:
                break
            with trio.move_on_at(deadline) as attempt:
                try:
                    async with AsyncExitStack() as dialled:
                        try:
                            close_timeout = self._config.close_timeout
                            dialling = Dialled(self._dial, close_timeout=close_timeout)
                            transport = await dialled.enter_async_context(dialling)
                        except ConnectFailed:
                            raise
                        except Exception:  # from the application's dialler
                            logger.exception("the dialler failed, so there is no fresh session")
                            return None
                        attempt.deadline = inf
                        session = ClientSession(self._resume, self._dial, transport, self._config)
                        try:
                            connection = await self._begin(session)
                        except Exception:
                            # The application's acceptor failed; no caller could get its error.
                            logger.exception("the acceptor failed, so there is no fresh session")
                            return None
                        began = trio.current_time()
                        await self._drive(session, connection)
                        if connection.lifecycle.established or self._closed:
                            self._attempts.lost(trio.current_time() - began)
                            return session
                        if not isinstance(connection.lifecycle.failure, ConnectionLost):
                            return session  # its SETUP was refused
                except ConnectFailed as error:
                    logger.debug("no fresh session yet: %s", error)
        return None
