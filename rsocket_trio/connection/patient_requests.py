"""Requests of a client that connects again, or of a pool: they wait, and some are repeated.

`PatientRequests` is around each request of the requester, inside of the application's middleware. A
request that finds no session waits in its caller's task, before anything is sent. What happened to
a request that failed is in its error, as a fact:

    nothing was sent, as the session was over         it waits for the next session, and goes there
    the peer says that it has not processed it        it is repeated elsewhere, once
    it may have been processed                        the caller gets the error; with
                                                      ``idempotent`` it is repeated elsewhere, once

Each of the last two happens once to a request, in any order. For a client with one target
"elsewhere" is its next session. So an answer of a session that goes on is the caller's, whatever it
says: a peer that is too busy is not asked again at once. In a pool it is another target.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
from ..interactions.block import Reopened
from ..interactions.demand import PayloadStream
from ..protocol.interaction import Interaction

if TYPE_CHECKING:
    from ..entrance import Home
    from ..lease import LeaseOptions
    from ..metadata.builder import Metadata
    from .reconnect import Reconnect

__all__ = ["PatientRequests", "Place", "Places", "Request"]

T = TypeVar("T")


class Request:
    """One request on its way through what is around the requester, up to its last try.

    Attributes:
        interaction: The interaction.
        route: The route that the caller gave.
        metadata: The metadata that the caller gave, or middleware.
        idempotent: Whether the peer may process it twice; ``None``: what it sends can be taken
            from its source only once, so it is sent once. What repeats it first decides for all.
        last: Where its last try was made: another one prefers another place.
        refused: Whether it was repeated as a peer had not processed it.
        lost: Whether it was repeated as it might have been processed.
    """

    __slots__ = ("idempotent", "interaction", "last", "lost", "metadata", "refused", "route")

    def __init__(
        self,
        interaction: Interaction,
        route: str | None,
        metadata: Metadata | None,
        idempotent: bool | None = False,
    ) -> None:
        self.interaction = interaction
        self.route = route
        self.metadata = metadata
        self.idempotent = idempotent
        self.last: Place | None = None
        self.refused = False
        self.lost = False


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

    def leases(self) -> LeaseOptions | None:
        """Return how requests wait for a lease, if that is what is lacking; else ``None``."""


class PatientRequests:
    """Waits before requests, and repeats them.

    Args:
        places: Where they begin.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._queue: dict[trio.Event, None] = {}  # first tries, in the order in which they came
        self.waiting = 0

    async def answer(self, request: Request, send: Callable[[Metadata | None], Awaitable[T]]) -> T:
        """Send a request when there is a session, and wait for what ``send`` waits for.

        Args:
            request: The request.
            send: Sends it on the present session.

        Raises:
            NotConnected: There is no session, and the request may not wait for one (longer).
            MissingLease: As that, but for a lease.
            Exception: The error of the request.

        Checkpoint: as ``send``; also if there is no session.
        If cancelled: as ``send``; nothing is sent while it waits.
        """
        tries = _Tries(self, request)
        while True:
            place = tries.begin() or await tries.wait()
            try:
                answer = await send(request.metadata)
            except BaseException as error:  # a place judges cancellations, too
                tries.failed(error)
                if not isinstance(error, RSocketError) or not tries.may_follow(error):
                    raise
            else:
                place.answered()
                place.left()
                return answer

    @asynccontextmanager
    async def opened(
        self,
        request: Request,
        open_: Callable[[Metadata | None], AbstractAsyncContextManager[T]],
    ) -> AsyncIterator[T]:
        """Open a stream when there is a session, and again before its first item.

        A channel is not opened again: what its source has given is gone.

        The arguments are those of `answer`.
        """
        tries = _Tries(self, request)
        async with Reopened() as streams:

            async def open_one() -> T:
                while True:
                    place = tries.begin() or await tries.wait()
                    try:
                        stream = await streams.enter(open_(request.metadata), place.left)
                    except BaseException as error:  # a place judges cancellations, too
                        tries.failed(error)
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
            repeatable = request.interaction is Interaction.REQUEST_STREAM
            payloads = stream if isinstance(stream, PayloadStream) else None
            if payloads is not None:
                repeatable = repeatable and payloads._replaceable  # noqa: SLF001 - for this class
                payloads._tells(tries.begun)  # noqa: SLF001 - as above
                payloads._opens_again(open_again)  # noqa: SLF001 - as above
            elif request.interaction is Interaction.REQUEST_RESPONSE:
                tries.answered()
            try:
                yield stream
            finally:
                tries.left(well=payloads is not None and payloads._answered)  # noqa: SLF001 - too

    def begin(self, other_than: Place | None) -> Place | None:
        """As `Places.begin`, but nobody overtakes those that wait."""
        if other_than is None and self._queue:
            return None
        return self._places.begin(other_than)

    def goes_elsewhere(self, place: Place) -> bool:
        """See `Places.goes_elsewhere`."""
        return self._places.goes_elsewhere(place)

    async def wait_for(self, *, other_than: Place | None) -> Place:
        """Wait for a place where a request begins; first tries are served as they came.

        Args:
            other_than: A place where it has failed. It may begin there too if no place had a lease.

        Raises:
            NotConnected: There is none, and this may not wait (longer).
            MissingLease: As that, but there is no lease.
            trio.ClosedResourceError: The client was closed.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        places = self._places
        options = places.options
        places.home.check("this requester")
        leases = places.leases()
        limit, name = options.max_waiting, "Reconnect"
        if leases is not None and leases.max_waiting < limit:
            limit, name = leases.max_waiting, "LeaseOptions"
        if self.waiting >= limit:
            why = f"{self.waiting} requests wait for one ({name}.max_waiting)"
        else:
            why = f"this request waits for {options.wait:g} s at most (Reconnect.wait)"
            mine = trio.Event()
            turn = mine if self._queue and other_than is None else places.changed
            if other_than is None:
                self._queue[mine] = None
            self.waiting += 1
            try:
                with trio.move_on_after(options.wait):
                    while not (hopeless := places.hopeless()):
                        await turn.wait()
                        place = places.begin(other_than)
                        if place is None and leases is not None:
                            place = places.begin(None)
                        if place is not None:
                            return place
                        turn = places.changed
                    why = hopeless
            finally:
                self.waiting -= 1
                self._queue.pop(mine, None)
                for following in self._queue:
                    following.set()  # it is the first one now
                    break
        await trio.lowlevel.checkpoint()
        raise self._error(why)

    def _error(self, why: str) -> Exception:
        """Return the error of a request that does not wait any more."""
        places = self._places
        failure = places.failure
        if places.ended.is_set() and failure is None:
            return trio.ClosedResourceError("the connection was closed here")
        if places.leases() is not None:
            return MissingLease(f"no target has a lease for a request now, and {why}")
        error = NotConnected(f"there is no connection, and {why}")
        if failure is not None:
            error.args = (f"{error}: {failure}",)
            error.__cause__ = failure
        return error


class _Tries:
    """The tries of one request.

    Args:
        requests: Waits for sessions.
        request: The request.

    Attributes:
        owed: Whether another try follows. It stays so if the task that makes it is cancelled, e.g.
            by the timeout of a reader who comes again.
    """

    __slots__ = ("_failed_on", "_left", "_place", "_request", "_requests", "owed")

    def __init__(self, requests: PatientRequests, request: Request) -> None:
        self._requests = requests
        self._request = request
        self._place: Place | None = None
        self.owed = False
        self._failed_on: Place | None = None
        self._left: RSocketError | None = None  # with which a try ended that may have left

    def begin(self) -> Place | None:
        """Return the place of the next try, another one than the last failed on, if there is one.

        Of all other places the one of the last try is the last choice.
        """
        request, failed_on, place = self._request, self._failed_on, None
        if request.last is not None and failed_on is None:
            place = self._requests.begin(request.last)
        if place is None:
            place = self._requests.begin(failed_on)
        if place is not None:
            self._place = request.last = place
        return place

    async def wait(self) -> Place:
        """Wait for that place."""
        try:
            place = await self._requests.wait_for(other_than=self._failed_on)
        except (NotConnected, MissingLease) as error:
            if self._left is None:
                raise
            raise self._left from error
        self._place = self._request.last = place
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
        request, place = self._request, self._place
        if request.idempotent is None:
            return False
        assert place is not None
        if not error.sent and (place.over or isinstance(error, StreamIdsExhausted)):
            return True
        refused = error.unprocessed and (error.sent or isinstance(error, MissingLease))
        left = self._left
        if left is not None:
            error.sent = error.sent or left.sent
            error.unprocessed = error.unprocessed and left.unprocessed
        if not self._requests.goes_elsewhere(place):
            return False
        unanswered = isinstance(error, ConnectionClosed | Canceled)
        if refused and not request.refused:
            request.refused = True
        elif request.idempotent and unanswered and not request.lost:
            request.lost = True
        else:
            return False
        self._left = error
        return True
