"""Begin a new session after one that ends: `Succession`, for `ClientResume.fresh_session`.

A session that is over, and one on which no new request may begin (the server stops), is followed by
a session with a token and a SETUP of its own, which keeps nothing of the old one. The requester
goes on with the new one. What still runs on the old one may finish there:

    how a session ends                                  and then
    lost, and not resumed in time or in attempts        the next session
    lost, and RESUME refused                            the next session
    CONNECTION_CLOSE of the server                      the next session, at once: the streams of
                                                        the old one may finish meanwhile
    CONNECTION_ERROR, or the peer broke the protocol    the next session
    stream ids nearly used up                           as for CONNECTION_CLOSE
    SETUP refused                                       none: the server would refuse it again
    the dialler or the acceptor of the client failed    none: it would fail again
    closed here                                         none

Only `Retry.max_attempts` limits the attempts to begin the next session.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from math import inf
from typing import TYPE_CHECKING, Final

import attrs
import trio

from ..errors import ConnectFailed, SetupError
from ..log_policy import logger
from ..protocol.retry import Attempts
from .dialling import Dialled, wait_to_dial
from .lifecycle import Phase
from .resume_client import ClientSession

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["Succession"]

_MAX_SESSIONS: Final = 8
"""Sessions of one client at a time: the present one, and those on which streams still finish. While
there are as many, no other is begun: a server that accepts each session only to announce its end
could else make a client keep any number of them."""


class _Tenure:
    """A session while new requests begin on it.

    Attributes:
        session: The session.
        connection: Its connection.
        began: When it began, by trio's clock.
        leaving: Set when another session is to follow, or the connection is over.
    """

    def __init__(self, session: ClientSession, connection: Connection) -> None:
        self.session = session
        self.connection = connection
        self.began = trio.current_time()
        self.leaving = trio.Event()
        lifecycle = connection.lifecycle
        lifecycle.on_drain.append(lambda _error: self.leaving.set())
        lifecycle.on_end.append(lambda _error, _last_words: self.leaving.set())
        connection.table.ids.on_nearly_used_up = self.leaving.set
        if lifecycle.phase is not Phase.OPEN:
            self.leaving.set()


class Succession:
    """The sessions of one client.

    Args:
        first: The first session.
        begin: Makes the connection of a new session, with SETUP queued, and lets the requester go
            on with it.

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
        self._between = trio.CancelScope()  # the waits for the next session
        self._tenure: _Tenure  # the present one, once `run` has begun
        self._places = trio.CapacityLimiter(_MAX_SESSIONS)
        self._running: set[Connection] = set()
        self._closed = False

    async def run(
        self,
        connection: Connection,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the first session, and new ones, until one ends that no other may follow.

        Checkpoint: always.
        If cancelled: as `ClientSession.run`.
        """
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._run_first, connection)
                task_status.started()
                with self._between:
                    while await self._is_followed():
                        present = self._tenure
                        await nursery.start(self._run_next)
                        if self._tenure is present:
                            break
                        # What runs on it may finish, unless it is over already.
                        present.connection.close_gracefully("a new session follows")
        finally:
            self.ended.set()

    def close(self) -> None:
        """End all sessions, and begin no new one."""
        self._closed = True
        self.ended.set()
        for connection in list(self._running):
            connection.lifecycle.close()
        self._between.cancel(reason="the client closes")

    async def _is_followed(self) -> bool:
        """Wait until another session is to follow; return whether one may."""
        if not self._resume.fresh_session:
            return False
        tenure = self._tenure
        await tenure.leaving.wait()
        lifecycle = tenure.connection.lifecycle
        if lifecycle.established:
            self._attempts.lost(trio.current_time() - tenure.began)
        elif tenure.session is self._first and self._config.confirm_setup:
            return False  # `connect` raises the reason
        return not isinstance(lifecycle.failure, SetupError) and not tenure.session.dialler_failed

    async def _run_first(
        self,
        connection: Connection,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async with self._places:
            await self._drive(self._first, connection, task_status)

    async def _run_next(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Begin a new session, which is `_tenure` then, and run it to its end."""
        failure: object = "each was lost at once"
        async with self._places:
            for delay in self._attempts.within(inf):
                deadline = await wait_to_dial(delay, inf, self._config.setup_timeout)
                with trio.move_on_at(inf if deadline is None else deadline) as attempt:
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
                                break
                            attempt.deadline = inf
                            resume = self._resume
                            session = ClientSession(resume, self._dial, transport, self._config)
                            try:
                                connection = await self._begin(session)
                            except Exception:
                                # The application's acceptor failed; no caller could get its error.
                                logger.exception(
                                    "the acceptor failed, so there is no fresh session"
                                )
                                break
                            await self._drive(session, connection, task_status)
                            return
                    except ConnectFailed as error:
                        failure = error
                        logger.debug("no fresh session yet: %s", error)
                if attempt.cancelled_caught:
                    failure = f"no connection within {self._config.setup_timeout:g} s"
            else:
                attempts = self._resume.retry.max_attempts
                text = "there is no fresh session after %s attempts (Retry.max_attempts): %s"
                logger.warning(text, attempts, failure)
        task_status.started()

    async def _drive(
        self, session: ClientSession, connection: Connection, task_status: trio.TaskStatus[None]
    ) -> None:
        self._tenure = _Tenure(session, connection)
        self._running.add(connection)
        if self._closed:
            connection.lifecycle.close()
        try:
            await session.run(connection, task_status=task_status)
        finally:
            self._running.discard(connection)
