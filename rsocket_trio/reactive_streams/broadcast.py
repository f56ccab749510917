"""One source for many subscribers, as fast as the slowest of them: `Broadcast`.

Each subscriber has a seat: its demand, and a queue. An element goes to all seats at once. It is
requested from the source when all seats have room for it: demand that no element in the queue or
on its way will use, and no more than `capacity`. So a queue has at most ``capacity`` elements, and
has elements without demand only if its subscriber came when they were on their way.

To come, to leave and to request take the same time however many seats there are, taken over many
calls: all seats are looked at once for each request to the source. Those that had no room then are
in a list, and as long as the last of them has none, there is nothing to request.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeVar

from .checks import check_element, check_error, check_subscriber, check_subscription
from .demand import Demand
from .errors import TooManyElements
from .interfaces import Subscriber, Subscription
from .iterating import IterablePublisher, check_prefetch
from .operators.guarded import cancel, drop_upstream, request
from .operators.joints import BEHIND_PROCESSORS, jointed
from .queued_emission import Seat

__all__ = ["Broadcast"]

T = TypeVar("T")

CAPACITY: Final = 64
"""Elements that are requested from the source and have not been sent to all subscribers."""


class Broadcast(IterablePublisher[T]):
    """Hands on what it gets to all its subscribers: multicast, as a `Processor`.

    A subscriber gets the elements that come after it has subscribed. The slowest one decides: no
    element is lost, and none is requested that one of them has no demand for. A subscriber that
    cancels or raises leaves, and the others go on. An error goes to all at once; a completion comes
    behind the elements that wait. Who subscribes after the end gets only the end.

    Example::

        shared = Broadcast()
        shared.subscribe(first)
        shared.subscribe(second)
        source.subscribe(shared)

    Args:
        capacity: The largest number of elements that are requested and not sent to all.
        auto_cancel: Whether to cancel the source when the last subscriber leaves. Otherwise it
            waits for the next subscriber, and requests nothing.

    Raises:
        ValueError: The capacity is less than 1.
        TypeError: The capacity is not an integer.
    """

    operators_below: Final = BEHIND_PROCESSORS

    def __init__(self, capacity: int = CAPACITY, *, auto_cancel: bool = True) -> None:
        check_prefetch(capacity, "capacity")
        self._capacity = capacity
        self._auto_cancel = auto_cancel
        self._seats: dict[_Seat[T], None] = {}  # in the order of their coming
        self._all: tuple[_Seat[T], ...] | None = ()  # The same, or None: they have changed.
        self._full: list[_Seat[T]] = []  # Those that had no room when we last looked.
        self._sending = False
        self._subscribed = False  # There was an on_subscribe.
        self._over = False
        self._end: Exception | None = None
        self.upstream: Subscription | None = None
        self._expected = Demand()

    # The publisher.

    def subscribe(self, subscriber: Subscriber[T], /) -> None:
        """Add a subscriber.

        Raises:
            TypeError: ``subscriber`` is ``None`` or no subscriber (rule 1.9).
        """
        check_subscriber(subscriber)
        if self._over:
            Seat(subscriber).start_ended(self._end)
            return
        seat = _Seat(jointed(subscriber), self)
        seat.start()
        # One that cancels or raises in on_subscribe has never been one of them.
        if seat.active:
            self._join(seat)

    @property
    def subscribers(self) -> int:
        """The number of subscribers."""
        return len(self._seats)

    # The subscriber.

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Take the source."""
        check_subscription(subscription)
        if self._subscribed or self._over:
            cancel(subscription)  # rule 2.5
            return
        self._subscribed = True
        self.upstream = subscription
        self.refill()

    def on_next(self, element: T, /) -> None:
        """Hand on an element to all."""
        if element is None:
            check_element(element)
        if self._over:
            return  # rule 2.8
        if not self._expected.outstanding:
            self._finish(
                TooManyElements("the source sent more elements than were requested (rule 1.1)")
            )
            return
        seats = self._all
        if seats is None:
            seats = self._all = tuple(self._seats)
        # Until all have it, it counts as on its way, and what they request meanwhile is looked at
        # once, for all of them.
        before, self._sending = self._sending, True
        try:
            for seat in seats:
                seat.push(element)
        finally:
            self._sending = before
        self._expected.take()
        self.refill()

    def on_error(self, error: Exception, /) -> None:
        """Hand on the error to all at once (rule 4.2)."""
        check_error(error)
        self.upstream = None
        self._finish(error)

    def on_complete(self) -> None:
        """Hand on the completion to all, behind the elements that wait."""
        self.upstream = None
        self._finish(None)

    # For the seats.

    def refill(self, _n: int = 0) -> None:
        """Request from the source what all subscribers have room for.

        Args:
            _n: What one of them has requested: not needed here.
        """
        upstream = self.upstream
        if upstream is None or self._sending:
            return
        # A request for each element would be slow, so it waits until half of the room is free.
        needed = max(1, self._expected.outstanding)
        full = self._full
        while full:
            if full[-1] in self._seats and self._room(full[-1]) < needed:
                return
            full.pop()
        rooms = [(self._room(seat), seat) for seat in self._seats]
        full += [seat for room, seat in rooms if room < needed]
        if rooms and not full:
            least = min(room for room, _ in rooms)
            self._expected.add(least)
            request(upstream, least, self._finish)

    def leave(self, seat: _Seat[T]) -> None:
        """A subscriber has left."""
        if seat not in self._seats:
            return
        del self._seats[seat]
        self._all = None
        if self._seats or not self._auto_cancel:
            self.refill()
        else:
            self._over = True
            drop_upstream(self)

    def _join(self, seat: _Seat[T]) -> None:
        if self._over:
            seat.end(self._end)
        else:
            self._seats[seat] = None
            self._all = None
            self.refill()

    def _room(self, seat: _Seat[T]) -> int:
        here = len(seat.queue) + self._expected.outstanding
        return min(seat.demand.outstanding, self._capacity) - here

    def _finish(self, error: Exception | None) -> None:
        """End it for all: an error at once, the completion behind what waits."""
        if self._over:
            return
        self._over = True
        self._end = error
        seats, self._seats = self._seats, {}
        self._all = ()
        self._full = []
        drop_upstream(self)
        for seat in seats:
            if error is None:
                seat.close()
            else:
                seat.end(error)


class _Seat(Seat[T]):
    """The subscription of one subscriber."""

    __slots__ = ()

    def __init__(self, subscriber: Subscriber[T], broadcast: Broadcast[T]) -> None:
        leave = partial(broadcast.leave, self)
        super().__init__(subscriber, on_request=broadcast.refill, on_end=leave)

    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        sent = 0
        while sent < limit and self.queue and not self._over:
            sent += super()._emit(subscriber, limit - sent)
            refill = self._on_request
            if refill is not None and not self._over:
                refill(0)  # A synchronous source fills the queue here.
        if not self._over:
            super()._emit(subscriber, 0)  # Has it been closed?
        return sent
