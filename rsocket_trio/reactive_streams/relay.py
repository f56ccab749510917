"""A processor for one subscriber: `Relay`; operators as processors: `as_processor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from .checks import check_element, check_error, check_subscriber, check_subscription
from .demand import Demand
from .errors import AlreadySubscribed, TooManyElements
from .interfaces import Processor, Publisher, Subscriber, Subscription
from .iterating import IterablePublisher
from .operators.guarded import cancel, check_publisher, drop_upstream, request
from .operators.joints import BEHIND_PROCESSORS, jointed
from .queued_emission import Seat

__all__ = ["Relay", "as_processor"]

T = TypeVar("T")
R = TypeVar("R")


class Relay(IterablePublisher[T]):
    """Hands on what it gets to one subscriber: the identity, as a `Processor`.

    It may be subscribed to before or after it subscribes. It requests what its subscriber requests,
    and no more, so it holds no elements that nobody has asked for. If its subscriber cancels, so
    does it. An end that comes before the subscriber waits for it. A second subscriber gets
    `AlreadySubscribed`, as does every later one.
    """

    operators_below: Final = BEHIND_PROCESSORS

    def __init__(self) -> None:
        self._seat: Seat[T] | None = None
        self._subscribed = False  # There was an on_subscribe.
        self._over = False
        self._end: Exception | None = None
        self.upstream: Subscription | None = None
        self._expected = Demand()

    # The publisher.

    def subscribe(self, subscriber: Subscriber[T], /) -> None:
        """Take the one subscriber.

        Raises:
            TypeError: ``subscriber`` is ``None`` or no subscriber (rule 1.9).
        """
        check_subscriber(subscriber)
        if self._seat is not None:
            Seat(subscriber).start_ended(AlreadySubscribed("a relay has one subscriber"))
            return
        seat = Seat(jointed(subscriber), on_request=self.requested, on_end=self.left)
        self._seat = seat
        if self._over:
            seat.start_ended(self._end)
            self._end = None
        else:
            seat.start()

    # The subscriber.

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Take the source; request from it what has been requested here."""
        check_subscription(subscription)
        if self._subscribed or self._over:
            cancel(subscription)  # rule 2.5
            return
        self._subscribed = True
        self.upstream = subscription
        if self._seat is not None and self._seat.demand.outstanding:
            self.requested(self._seat.demand.outstanding)

    def on_next(self, element: T, /) -> None:
        """Hand on an element."""
        if element is None:
            check_element(element)
        if self._over or self._seat is None:
            return  # rule 2.8
        if not self._expected.outstanding:
            self._seat.end(
                TooManyElements("the source sent more elements than were requested (rule 1.1)")
            )
            return
        self._expected.take()
        self._seat.push(element)

    def on_error(self, error: Exception, /) -> None:
        """Hand on the error at once (rule 4.2)."""
        check_error(error)
        self._ended(error)

    def on_complete(self) -> None:
        """Hand on the completion."""
        self._ended(None)

    def _ended(self, error: Exception | None) -> None:
        if self._over:
            return
        self._over = True
        self.upstream = None
        if self._seat is None:
            self._end = error
        elif error is None:
            self._seat.close()
        else:
            self._seat.end(error)

    # For the subscription.

    def requested(self, n: int) -> None:
        """Request as many elements from the source, if it is there."""
        if self.upstream is not None:
            self._expected.add(n)
            request(self.upstream, n, self._ended)

    def left(self) -> None:
        """The subscription is over: so is this."""
        self._over = True
        drop_upstream(self)


class _Operated(IterablePublisher[R], Generic[T, R]):
    """An operator as a processor: a relay in front of it."""

    operators_below: Final = BEHIND_PROCESSORS

    def __init__(self, operator: Callable[[Publisher[T]], Publisher[R]]) -> None:
        self._front: Relay[T] = Relay()
        self._back = operator(self._front)
        check_publisher(self._back)

    def subscribe(self, subscriber: Subscriber[R], /) -> None:
        check_subscriber(subscriber)
        self._back.subscribe(subscriber)

    def on_subscribe(self, subscription: Subscription, /) -> None:
        self._front.on_subscribe(subscription)

    def on_next(self, element: T, /) -> None:
        self._front.on_next(element)

    def on_error(self, error: Exception, /) -> None:
        self._front.on_error(error)

    def on_complete(self) -> None:
        self._front.on_complete()


def as_processor(operator: Callable[[Publisher[T]], Publisher[R]]) -> Processor[T, R]:
    """Make a processor of an operator. It has one subscriber, as a `Relay`.

    Example::

        doubled = as_processor(ops.map(lambda number: 2 * number))
        from_iterable(range(3)).subscribe(doubled)
        async with open_iter(doubled) as numbers: ...  # 0, 2, 4

    Args:
        operator: An operator, or several as one: ``lambda source: pipe(source, ...)``.

    Raises:
        TypeError: The operator does not return a publisher.
    """
    return _Operated(operator)
