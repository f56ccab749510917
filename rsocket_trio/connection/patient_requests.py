"""Requests of a client that connects again: they wait for a session, and some are repeated.

`PatientRequests` is around each request of the requester, inside of the application's middleware. A
request that finds no session waits in its caller's task, before anything is sent. What happened to
a request that failed is in its error, as a fact:

    nothing was sent                                  it waits for the next session, and goes there
    the peer says that it has not processed it, and   it is repeated on the next session, once
    its session takes no new requests any more
    it may have been processed                        the caller gets the error; with
                                                      ``idempotent`` it is repeated, once

An answer of a session that goes on is the caller's, whatever it says: a peer that is too busy is
not asked again at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from ..errors import Canceled, ConnectionClosed, NotConnected, RSocketError, StreamIdsExhausted
from ..interactions.demand import PayloadStream
from ..protocol.interaction import Interaction

if TYPE_CHECKING:
    from ..metadata.builder import Metadata
    from .connection import Connection
    from .succession import Succession

__all__ = ["PatientRequests"]

T = TypeVar("T")


class PatientRequests:
    """Waits before requests, and repeats them.

    Args:
        succession: The sessions.
    """

    def __init__(self, succession: Succession) -> None:
        self._succession = succession
        self._waiting = 0

    async def answer(
        self,
        interaction: Interaction,
        route: str | None,
        metadata: Metadata | None,
        send: Callable[[Metadata | None], Awaitable[T]],
        *,
        idempotent: bool | None = False,
    ) -> T:
        """Send a request when there is a session, and wait for what ``send`` waits for.

        Args:
            interaction: The interaction.
            route: The route.
            metadata: The metadata that the caller gave.
            send: Sends the request on the present session.
            idempotent: Whether the peer may process it twice; ``None``: what it sends can be taken
                from its source only once, so it is sent once.

        Raises:
            NotConnected: There is no session, and the request may not wait for one (longer).
            Exception: The error of the request.

        Checkpoint: as ``send``; also if there is no session.
        If cancelled: as ``send``; nothing is sent while it waits.
        """
        tries = _Tries(self, idempotent=idempotent)
        while True:
            await tries.next()
            try:
                return await send(metadata)
            except RSocketError as error:
                if not tries.may_follow(error):
                    raise

    async def send(
        self,
        interaction: Interaction,
        route: str | None,
        metadata: Metadata | None,
        send: Callable[[Metadata | None], Awaitable[object]],
        *,
        idempotent: bool | None = False,
    ) -> None:
        """Send a request that has no answer when there is a session.

        Checkpoint: as `answer`.
        If cancelled: as `answer`.
        """
        await self.answer(interaction, route, metadata, send, idempotent=idempotent)

    @asynccontextmanager
    async def opened(
        self,
        interaction: Interaction,
        route: str | None,
        metadata: Metadata | None,
        open_: Callable[[Metadata | None], AbstractAsyncContextManager[T]],
        *,
        idempotent: bool | None = False,
    ) -> AsyncIterator[T]:
        """Open a stream when there is a session, and again before its first item.

        A channel is not opened again: what its source has given is gone.

        The arguments are those of `answer`.
        """
        tries = _Tries(self, idempotent=idempotent)
        async with AsyncExitStack() as opened:

            async def open_one() -> T:
                while True:
                    await tries.next()
                    try:
                        stream = await opened.enter_async_context(open_(metadata))
                    except RSocketError as error:
                        if not tries.may_follow(error):
                            raise
                    else:
                        tries.owed = False
                        return stream

            async def open_again(error: RSocketError) -> Any:
                return await open_one() if tries.owed or tries.may_follow(error) else None

            stream = await open_one()
            if interaction is Interaction.REQUEST_STREAM and isinstance(stream, PayloadStream):
                stream._opens_again(open_again)  # noqa: SLF001 - only for this class
            yield stream

    @property
    def usable(self) -> Connection | None:
        """The connection on which requests begin now."""
        return self._succession.usable

    async def wait_for(self, *, other_than: Connection | None) -> Connection:
        """Wait for a connection on which requests begin.

        Args:
            other_than: A connection of which is known that they do not.

        Raises:
            NotConnected: There is none, and this may not wait (longer).
            trio.ClosedResourceError: The client was closed.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        succession = self._succession
        options = succession.options
        succession.home.check("this requester")
        if self._waiting >= options.max_waiting:
            why = f"{self._waiting} requests wait for one (Reconnect.max_waiting)"
        else:
            why = f"this request waits for {options.wait:g} s at most (Reconnect.wait)"
            self._waiting += 1
            try:
                with trio.move_on_after(options.wait):
                    while not succession.ended.is_set():
                        await succession.changed.wait()
                        usable = succession.usable
                        if usable is not None and usable is not other_than:
                            return usable
            finally:
                self._waiting -= 1
        await trio.lowlevel.checkpoint()
        raise self._error(why)

    def _error(self, why: str) -> Exception:
        """Return the error of a request that does not wait any more."""
        failure = self._succession.failure
        if self._succession.ended.is_set():
            if failure is None:
                return trio.ClosedResourceError("the connection was closed here")
            why = "none will follow"
        error = NotConnected(f"there is no connection, and {why}")
        if failure is not None:
            error.args = (f"{error}: {failure}",)
            error.__cause__ = failure
        return error


class _Tries:
    """The tries of one request.

    Args:
        requests: Waits for sessions.
        idempotent: Whether the peer may process it twice, see `PatientRequests.answer`.

    Attributes:
        owed: Whether another try follows. It stays so if the task that makes it is cancelled, e.g.
            by the timeout of a reader who comes again.
    """

    def __init__(self, requests: PatientRequests, *, idempotent: bool | None) -> None:
        self._requests = requests
        self._idempotent = idempotent
        self._connection: Connection | None = None
        self.owed = False
        self._failed_on: Connection | None = None
        self._left: RSocketError | None = None  # with which a try ended that may have left

    async def next(self) -> None:
        """Wait until there is a session for the next try, another one than the last failed on."""
        usable = self._requests.usable
        if usable is None or usable is self._failed_on:
            try:
                usable = await self._requests.wait_for(other_than=self._failed_on)
            except NotConnected as error:
                if self._left is None:
                    raise
                raise self._left from error
        self._connection = usable

    def may_follow(self, error: RSocketError) -> bool:
        """Return whether another try follows the one that has failed with ``error``.

        If not, ``error`` says what is true of all tries.
        """
        self.owed = self._may_follow(error)
        if self.owed:
            self._failed_on = self._connection
        return self.owed

    def _may_follow(self, error: RSocketError) -> bool:
        if self._idempotent is None:
            return False
        left = self._left
        gone = self._requests.usable is not self._connection
        if not error.sent and (gone or isinstance(error, StreamIdsExhausted)):
            return True
        if left is not None:
            error.sent = True
            error.unprocessed = error.unprocessed and left.unprocessed
            return False
        unanswered = isinstance(error, ConnectionClosed | Canceled)
        if gone and (error.unprocessed or (self._idempotent and unanswered)):
            self._left = error
            return True
        return False
