"""The sessions of a client that connects again and again: `Succession`, for `Reconnect`.

A session has its own dial, SETUP and, with resumption, token; it takes nothing over from the one
before. `Succession` makes the next one when the present one is over, or takes no new requests:

    how a session ends                                  and then
    lost, without resumption or not resumed             the next session
    CONNECTION_CLOSE of the server                      the next session: the streams of the old
                                                        one may finish meanwhile
    CONNECTION_ERROR, or the peer broke the protocol    the next session
    stream ids nearly used up                           as for CONNECTION_CLOSE
    SETUP refused                                       another attempt, or none: `is_final`
    no connection, no answer to the SETUP               another attempt
    the application's own code failed                   none: it would fail again
    closed here                                         none

Each session runs in a task of its own, up to its end. One more task, which is `Succession.run`,
waits for the end of the present session and makes the attempts. Requests begin on a session once
the server has accepted it; until then they wait (`rsocket_trio.connection.patient_requests`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from ..entrance import Home
from ..errors import ConnectFailed, ConnectionClosed, RejectedSetup, SetupError
from ..interactions.connection_block import NotEntered, run_within
from ..interactions.isolation import parted
from ..log_policy import logger
from ..protocol.retry import Attempts
from .dialling import Dialled
from .establish import wait_accepted
from .lifecycle import Phase
from .reconnect import Attempt, ConnectionState, is_final
from .resume_client import ClientSession

if TYPE_CHECKING:
    from ..config import ConnectionConfig
    from ..payload import Payload
    from ..transports.base import FrameTransport
    from .connection import Connection
    from .dialling import Dial
    from .patient_requests import Place
    from .reconnect import Reconnect
    from .resume_options import ClientResume

__all__ = ["Beginning", "Succession"]

_MAX_SESSIONS: Final = 8
"""Sessions of one client at a time: the present one, and those on which streams still finish. While
there are as many, no other is begun: a server that accepts each session only to announce its end
could else make a client keep any number of them."""


class Beginning(Protocol):
    """How the sessions of one client begin.

    Attributes:
        renewable: Whether a function of the application makes the SETUP.
    """

    renewable: bool

    async def setup(self, attempt: Attempt) -> Payload:
        """Return the payload of the SETUP.

        Raises:
            ConnectFailed: There is none now.
            Exception: Any other error of the application's function.
        """

    async def begin(
        self, carrier: FrameTransport, setup: Payload, token: bytes | None
    ) -> tuple[Connection, AbstractAsyncContextManager[None] | None]:
        """Return a connection with its SETUP queued, and the application's block around it."""

    def adopt(self, connection: Connection) -> None:
        """Let new requests begin on a connection, which the server has accepted."""


class _Tenure:
    """One session: an attempt at first, and then, perhaps, the present session.

    Attributes:
        attempt: What is known before it.
        resume: How it is resumed; ``None`` if it is not.
        ready: Set when its connection runs, or there is none.
        failure: Why there is no session.
        final: Whether no other may follow: the application's own code has failed.
        patience: Around the whole of it; it has a deadline until it is ready.
        connection: Its connection, once there is one.
        session: The same, if it can be resumed.
        block: The block of the application around it.
        began: When the server had accepted it, by trio's clock.
        leaving: Set when another session is to follow, or the connection is over.
    """

    def __init__(self, attempt: Attempt, resume: ClientResume | None) -> None:
        self.attempt = attempt
        self.resume = resume
        self.ready = trio.Event()
        self.failure: Exception | None = None
        self.final = False
        self.patience = trio.CancelScope()
        self.connection: Connection | None = None
        self.session: ClientSession | None = None
        self.block: AbstractAsyncContextManager[None] | None = None
        self.began = 0.0
        self.leaving = trio.Event()

    def none(self, error: Exception, *, final: bool) -> None:
        """Take note that there is no session; only the first reason counts."""
        if self.failure is None:
            self.failure = error
            self.final = final

    # -- as `Place`: with one target, there is nothing to choose by what becomes of requests -----

    @property
    def over(self) -> bool:
        """Whether no requests begin there any more."""
        return self.connection is None or self.connection.lifecycle.phase is not Phase.OPEN

    def answered(self) -> None:
        """Do nothing."""

    def failed(self, error: BaseException) -> None:
        """Do nothing."""

    def left(self, *, well: bool = False) -> None:
        """Do nothing."""


class Succession:
    """The sessions of one client.

    Args:
        options: When to dial, and how requests wait.
        resume: How sessions are resumed, where the server offers that.
        dial: Makes transports.
        config: The settings of the connections.
        beginning: Makes the connections, and lets the requester go on with them.

    Attributes:
        options: As above.
        home: Its thread.
        ended: Set when the last session has ended.
        failure: Why there is no session now, as far as is known; then, why none follows.
        changed: Set, and replaced by another event, when `state` or `usable` may have changed.
        on_change: Called then, before that.
    """

    def __init__(
        self,
        options: Reconnect,
        resume: ClientResume | None,
        dial: Dial,
        config: ConnectionConfig,
        beginning: Beginning,
    ) -> None:
        self.options = options
        self.home = Home()
        self.ended = trio.Event()
        self.failure: Exception | None = None
        self.changed = trio.Event()
        self.on_change: Callable[[], None] | None = None
        self._resume = resume
        self._offers = resume is not None  # whether the next attempt offers to be resumed
        self._dial = dial
        self._config = config
        self._beginning = beginning
        self._attempts = Attempts(options.retry, random.random, spread=options.spread)
        self._tried = Attempt(number=0)  # what is known of the attempts since the last session
        self._between = trio.CancelScope()  # the waits for the next session
        self._trying: _Tenure | None = None
        self._present: _Tenure | None = None
        self._places = trio.CapacityLimiter(_MAX_SESSIONS)
        self._running: set[Connection] = set()

    # -- for the requester ------------------------------------------------------------------

    @property
    def usable(self) -> Connection | None:
        """The connection on which new requests begin; ``None`` if there is none now."""
        present = self._present
        return None if present is None or present.over else present.connection

    def begin(self, other_than: Place | None) -> Place | None:
        """See `Places.begin`."""
        present = self._present
        return None if present is None or present.over or present is other_than else present

    def goes_elsewhere(self, place: Place) -> bool:
        """See `Places.goes_elsewhere`."""
        return place.over or place is not self._present

    def hopeless(self) -> str:
        """See `Places.hopeless`."""
        return "none will follow" if self.ended.is_set() else ""

    def leases(self) -> None:
        """See `Places.leases`: requests wait for one on the connection."""

    @property
    def state(self) -> ConnectionState:
        """Where the client stands."""
        if self.ended.is_set():
            return ConnectionState.CLOSED
        connection = None if self._present is None else self._present.connection
        if connection is not None and connection.lifecycle.failure is None:
            draining = connection.lifecycle.draining
            return ConnectionState.DRAINING if draining else ConnectionState.CONNECTED
        begins = self._present is None and self.failure is None
        tries = begins or self._trying is not None
        return ConnectionState.CONNECTING if tries else ConnectionState.WAITING

    def close(self) -> None:
        """End all sessions, and begin no new one."""
        if not self.ended.is_set():
            self.failure = None
            self.ended.set()
        for connection in list(self._running):
            connection.lifecycle.close()
        self._stop_trying("the client closes")

    def retire(self, reason: str, grace: float) -> None:
        """Begin no new session, and let what is open finish. `run` returns then.

        Args:
            reason: For the peer, and for what does not finish.
            grace: How long that may take, in seconds.
        """
        deadline = trio.current_time() + grace
        for connection in list(self._running):
            connection.close_gracefully(reason, deadline, error=ConnectionClosed(reason))
        self._stop_trying(reason)

    def _stop_trying(self, reason: str) -> None:
        if self._trying is not None:
            self._trying.patience.cancel(reason=reason)
        self._between.cancel(reason=reason)
        self._change()

    # -- the sessions -----------------------------------------------------------------------

    async def run(
        self,
        *,
        task_status: trio.TaskStatus[Exception | None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Make one session after the other, until no other may follow.

        Args:
            task_status: Started once the server has accepted the first session, or with the reason
                why there is none.

        Checkpoint: always.
        If cancelled: as `Connection.run`.
        """
        try:
            async with trio.open_nursery() as nursery:
                with self._between:
                    failure = await self._begin_next(nursery)
                    task_status.started(failure)
                    if failure is None:
                        while failure is None:
                            failure = await self._follow(nursery)
                        made = self._tried.number
                        after = f", after {made} attempts" if made else ""
                        logger.warning("no other session follows%s: %s", after, failure)
                    self.failure = failure
                    self.ended.set()
                    self._change()
        finally:
            self.ended.set()
            self._change()

    async def _follow(self, nursery: trio.Nursery) -> Exception | None:
        """Wait until another session is to follow the present one, and begin it.

        Returns:
            Why there is none.
        """
        present = self._present
        assert present is not None
        assert present.connection is not None
        await present.leaving.wait()
        lifecycle = present.connection.lifecycle
        error = lifecycle.failure or lifecycle.announced
        self.failure = error
        if lifecycle.established:
            self._tried = Attempt(number=0)
            self._attempts.lost(trio.current_time() - present.began)
        elif isinstance(error, SetupError) and self._refused(error, present):
            return error
        if present.session is not None and present.session.dialler_failed:
            return error
        if isinstance(error, trio.ClosedResourceError) and not self.ended.is_set():
            return error  # its own block has ended it
        failure = await self._begin_next(nursery)
        if failure is None:
            # What runs on it may finish, unless it is over already.
            text = "a new session follows"
            present.connection.close_gracefully(text, error=ConnectionClosed(f"{text} this one"))
        return failure

    async def _begin_next(self, nursery: trio.Nursery) -> Exception | None:
        """Try until there is a present session that the server has accepted.

        Returns:
            Why there is none.
        """
        said = ""
        for delay in self._attempts.within(inf):
            if self._present is not None or self._tried.number:
                self._change()
                await trio.sleep(delay)
            self._tried = attrs.evolve(self._tried, number=self._tried.number + 1)
            tenure = _Tenure(self._tried, self._resume if self._offers else None)
            await self._places.acquire_on_behalf_of(tenure)
            await self._try(tenure, nursery)
            error = tenure.failure
            if error is None:
                return None
            self.failure = error
            if tenure.final or (isinstance(error, SetupError) and self._refused(error, tenure)):
                return error
            text = str(error)
            shown = "as before" if text == said else text
            logger.info("no session yet, after attempt %d: %s", tenure.attempt.number, shown)
            said = text
        return self.failure

    def _refused(self, refusal: SetupError, tenure: _Tenure) -> bool:
        """Take note of a refusal of the server; return whether it is final."""
        self._tried = attrs.evolve(self._tried, refusal=refusal)
        if isinstance(refusal, RejectedSetup):
            # A server without resumption answers like this too (Protocol.md, "Resume Operation"),
            # so every other attempt does without.
            self._offers = self._resume is not None and tenure.resume is None
        return is_final(refusal, tenure.attempt, renewable=self._beginning.renewable)

    async def _try(self, tenure: _Tenure, nursery: trio.Nursery) -> None:
        """Let a session begin, and be the present one unless it fails."""
        self._trying = tenure
        self._change()
        try:
            nursery.start_soon(self._run, tenure)
            await tenure.ready.wait()
            connection = tenure.connection
            if tenure.failure is None and self._config.confirm_setup:
                assert connection is not None
                try:
                    await wait_accepted(connection)
                except (SetupError, ConnectionClosed, ConnectFailed) as error:
                    tenure.none(error, final=False)
                except trio.ClosedResourceError as error:  # its own block has ended it
                    tenure.none(error, final=True)
        except trio.Cancelled:
            tenure.patience.cancel(reason="no session is wanted any more")
            raise
        finally:
            self._trying = None
        if tenure.failure is not None:
            return
        assert connection is not None
        tenure.began = trio.current_time()
        self._offers = self._resume is not None
        if self._resume is not None:
            self._resume = attrs.evolve(self._resume, token=None)
        self._watch(tenure, connection)
        self.failure = None
        self._present = tenure
        self._beginning.adopt(connection)
        self._change()

    def _watch(self, tenure: _Tenure, connection: Connection) -> None:
        def leave() -> None:
            tenure.leaving.set()
            self._change()

        lifecycle = connection.lifecycle
        lifecycle.on_drain.append(lambda _error: leave())
        lifecycle.on_end.append(lambda _error, _last_words: leave())
        connection.table.ids.on_nearly_used_up = leave
        if lifecycle.phase is not Phase.OPEN:
            leave()

    async def _run(self, tenure: _Tenure) -> None:
        """Run a session to its end, if it begins."""
        tenure.patience.deadline = trio.current_time() + self._config.setup_timeout
        try:
            with tenure.patience:
                async with AsyncExitStack() as dialled:
                    await self._begin(tenure, dialled)
                    tenure.patience.deadline = inf
                    if tenure.failure is None:
                        await self._drive(tenure)
            if tenure.patience.cancelled_caught:
                text = f"no connection within {self._config.setup_timeout:g} s"
                tenure.none(ConnectFailed(text), final=False)
        finally:
            tenure.ready.set()
            self._places.release_on_behalf_of(tenure)

    async def _begin(self, tenure: _Tenure, dialled: AsyncExitStack) -> None:
        """Call the application's functions, which may fail in any way, and make a connection."""
        config = self._config
        try:
            setup = await self._beginning.setup(tenure.attempt)
            dialling = Dialled(self._dial, close_timeout=config.close_timeout)
            transport = await dialled.enter_async_context(dialling)
            if tenure.resume is not None:
                session = ClientSession(tenure.resume, self._dial, transport, config)
                tenure.session = session
                begun = self._beginning.begin(session.link, setup, session.token)
            else:
                begun = self._beginning.begin(transport, setup, None)
            tenure.connection, tenure.block = await begun
        except BaseException as error:  # from the application's code
            _, failure = parted(error)
            if failure is None:
                raise
            final = not isinstance(failure, ConnectFailed)
            if final and self._present is not None:
                logger.exception("what the application gave to begin a session has failed")
            tenure.none(failure, final=final)

    async def _drive(self, tenure: _Tenure) -> None:
        connection, session, config = tenure.connection, tenure.session, self._config
        assert connection is not None

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            tenure.ready.set()
            if session is not None:
                await session.run(connection, task_status=task_status)
            else:
                await connection.run_as_client(task_status=task_status)

        self._running.add(connection)
        if self.ended.is_set():
            connection.lifecycle.close()
        info = connection.transport.info
        try:
            peer = info.peer or info.scheme
            await run_within(tenure.block, peer, config.setup_timeout, connection.abandon, run)
        except NotEntered as error:
            tenure.none(error.error, final=True)
        finally:
            self._running.discard(connection)

    def _change(self) -> None:
        if self.on_change is not None:
            self.on_change()
        changed, self.changed = self.changed, trio.Event()
        changed.set()
