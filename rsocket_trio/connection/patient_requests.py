"""Requests of a client that connects again, or of a pool: they wait, and some are repeated.

`PatientRequests` is around each request of the requester, inside of the application's middleware. A
request that finds no session waits in its caller's task, before anything is sent. What happened to
a request that failed is in its error, as a fact:

    nothing was sent, as the session was over         it waits for the next session, and goes there
    the peer says that it has not processed it        it is repeated elsewhere, once
    it may have been processed                        the caller gets the error; with
                                                      ``idempotent`` it is repeated elsewhere, once

For a client with one target "elsewhere" is its next session. So an answer of a session that goes on
is the caller's, whatever it says: a peer that is too busy is not asked again at once. In a pool it
is another target.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from ..errors import (
    Canceled,
    ConnectionClosed,
    MissingLease,
    NotConnected,
    RSocketError,
    StreamIdsExhausted,
)
from ..interactions.demand import PayloadStream
from ..protocol.interaction import Interaction

if TYPE_CHECKING:
    from ..entrance import Home
    from ..metadata.builder import Metadata
    from .reconnect import Reconnect

__all__ = ["PatientRequests", "Place", "Places"]

T = TypeVar("T")


class Place(Protocol):
    """Where one try of a request is made: a session.

    It learns what becomes of the try; a pool chooses by that.
    """

    @property
    def over(self) -> bool:
        """Whether no requests begin there any more."""

    def answered(self) -> None:
        """Take note of the response, or of the first item of a stream."""

    def failed(self, error: BaseException) -> None:
        """Take note of an error in place of that."""

    def left(self, *, well: bool = False) -> None:
        """Take note of the end of the try. It comes last, and may come twice.

        Args:
            well: Whether the peer has answered, if neither of the above was told.
        """


class Places(Protocol):
    """Where requests begin: the sessions of one client, or those of all targets of a pool.

    Attributes:
        options: How requests wait.
        home: The thread.
        ended: Set when there will be no place any more.
        changed: Set, and replaced by another event, when there may be one.
    """

    options: Reconnect
    home: Home
    ended: trio.Event
    changed: trio.Event

    @property
    def failure(self) -> Exception | None:
        """Why there is no place, as far as is known."""

    def begin(self, other_than: Place | None) -> Place | None:
        """Choose a place. What the caller sends before its next checkpoint is sent there.

        Args:
            other_than: Where another try of the request has failed.

        Returns:
            The place; ``None`` if there is none now. Its `Place.left` has to follow.
        """

    def goes_elsewhere(self, place: Place) -> bool:
        """Return whether a request that has failed at a place would go to another one now."""

    def hopeless(self) -> str:
        """Return why no place is to be expected, so that no request waits; else no text."""


class PatientRequests:
    """Waits before requests, and repeats them.

    Args:
        places: Where they begin.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._waiting = 0

    async def answer(
        self,
        interaction: Interaction,
        route: str | None,
        metadata: Metadata | None,
        send: Callable[[Metadata | None], Awaitable[T]],
        *,
        idempotent: bool | None = False,
        tried: list[Place] | None = None,
    ) -> T:
        """Send a request when there is a session, and wait for what ``send`` waits for.

        Args:
            interaction: The interaction.
            route: The route.
            metadata: The metadata that the caller gave.
            send: Sends the request on the present session.
            idempotent: Whether the peer may process it twice; ``None``: what it sends can be taken
                from its source only once, so it is sent once.
            tried: Where the request was or is sent as well. It goes elsewhere if there is another
                place, and is added.

        Raises:
            NotConnected: There is no session, and the request may not wait for one (longer).
            Exception: The error of the request.

        Checkpoint: as ``send``; also if there is no session.
        If cancelled: as ``send``; nothing is sent while it waits.
        """
        tries = _Tries(self, idempotent, tried)
        while True:
            place = await tries.next()
            try:
                answer = await send(metadata)
            except BaseException as error:  # a place judges cancellations, too
                place.failed(error)
                place.left()
                if not isinstance(error, RSocketError) or not tries.may_follow(error):
                    raise
            else:
                place.answered()
                place.left()
                return answer

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
        tried: list[Place] | None = None,
    ) -> AsyncIterator[T]:
        """Open a stream when there is a session, and again before its first item.

        A channel is not opened again: what its source has given is gone.

        The arguments are those of `answer`.
        """
        tries = _Tries(self, idempotent, tried)
        async with AsyncExitStack() as opened:

            async def open_one() -> T:
                while True:
                    place = await tries.next()
                    opened.callback(place.left)  # beyond the end of its stream
                    try:
                        stream = await opened.enter_async_context(open_(metadata))
                    except BaseException as error:  # a place judges cancellations, too
                        place.failed(error)
                        place.left()
                        if not isinstance(error, RSocketError) or not tries.may_follow(error):
                            raise
                    else:
                        tries.owed = False
                        return stream

            async def open_again(error: RSocketError) -> Any:
                if not tries.owed:
                    tries.failed(error)
                    if not repeatable or not tries.may_follow(error):
                        return None
                return await open_one()

            stream = await open_one()
            repeatable = interaction is Interaction.REQUEST_STREAM
            if isinstance(stream, PayloadStream):
                repeatable = repeatable and stream._replaceable  # noqa: SLF001 - for this class
                stream._tells(tries.begun)  # noqa: SLF001 - as above
                stream._opens_again(open_again)  # noqa: SLF001 - as above
                opened.callback(lambda: tries.left(well=stream._answered))  # noqa: SLF001 - too
            elif interaction is Interaction.REQUEST_RESPONSE:
                tries.answered()
            yield stream

    def begin(self, other_than: Place | None) -> Place | None:
        """See `Places.begin`."""
        return self._places.begin(other_than)

    def goes_elsewhere(self, place: Place) -> bool:
        """See `Places.goes_elsewhere`."""
        return self._places.goes_elsewhere(place)

    async def wait_for(self, *, other_than: Place | None) -> Place:
        """Wait for a place where a request begins.

        Args:
            other_than: A place where it has failed.

        Raises:
            NotConnected: There is none, and this may not wait (longer).
            trio.ClosedResourceError: The client was closed.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        places = self._places
        options = places.options
        places.home.check("this requester")
        if self._waiting >= options.max_waiting:
            why = f"{self._waiting} requests wait for one (Reconnect.max_waiting)"
        else:
            why = f"this request waits for {options.wait:g} s at most (Reconnect.wait)"
            self._waiting += 1
            try:
                with trio.move_on_after(options.wait):
                    while not (hopeless := places.hopeless()):
                        await places.changed.wait()
                        place = places.begin(other_than)
                        if place is not None:
                            return place
                    why = hopeless
            finally:
                self._waiting -= 1
        await trio.lowlevel.checkpoint()
        raise self._error(why)

    def _error(self, why: str) -> Exception:
        """Return the error of a request that does not wait any more."""
        failure = self._places.failure
        if self._places.ended.is_set() and failure is None:
            return trio.ClosedResourceError("the connection was closed here")
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
        tried: See there.

    Attributes:
        owed: Whether another try follows. It stays so if the task that makes it is cancelled, e.g.
            by the timeout of a reader who comes again.
    """

    def __init__(
        self, requests: PatientRequests, idempotent: bool | None, tried: list[Place] | None
    ) -> None:
        self._requests = requests
        self._idempotent = idempotent
        self._tried = tried
        self._place: Place | None = None
        self.owed = False
        self._failed_on: Place | None = None
        self._left: RSocketError | None = None  # with which a try ended that may have left

    async def next(self) -> Place:
        """Wait until there is a place for the next try, another one than the last failed on."""
        failed_on, tried = self._failed_on, self._tried
        place = None
        if tried and failed_on is None:
            place = self._requests.begin(tried[-1])
        if place is None:
            place = self._requests.begin(failed_on)
        if place is None:
            try:
                place = await self._requests.wait_for(other_than=self._failed_on)
            except NotConnected as error:
                if self._left is None:
                    raise
                raise self._left from error
        self._place = place
        if tried is not None:
            tried.append(place)
        return place

    def begun(self, waited: bool) -> None:
        """Tell the place of the present try of its first item, if it is known how long it took."""
        if waited:
            self.answered()

    def answered(self) -> None:
        """Tell the place of the present try of its first item."""
        assert self._place is not None
        self._place.answered()

    def failed(self, error: BaseException) -> None:
        """Tell the place of the present try of its error, and of its end."""
        assert self._place is not None
        self._place.failed(error)
        self._place.left()

    def left(self, *, well: bool) -> None:
        """Tell the place of the present try of its end."""
        assert self._place is not None
        self._place.left(well=well)

    def may_follow(self, error: RSocketError) -> bool:
        """Return whether another try follows the one that has failed with ``error``.

        If not, ``error`` says what is true of all tries.
        """
        self.owed = self._may_follow(error)
        if self.owed:
            self._failed_on = self._place
        return self.owed

    def _may_follow(self, error: RSocketError) -> bool:
        if self._idempotent is None:
            return False
        assert self._place is not None
        left = self._left
        if not error.sent and (self._place.over or isinstance(error, StreamIdsExhausted)):
            return True
        if left is not None:
            error.sent = error.sent or left.sent
            error.unprocessed = error.unprocessed and left.unprocessed
            return False
        if not self._requests.goes_elsewhere(self._place):
            return False
        refused = error.unprocessed and (error.sent or isinstance(error, MissingLease))
        unanswered = isinstance(error, ConnectionClosed | Canceled)
        if refused or (self._idempotent and unanswered):
            self._left = error
            return True
        return False
