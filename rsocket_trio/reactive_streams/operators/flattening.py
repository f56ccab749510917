"""A publisher for each element: `flat_map`; the elements of several as they come: `merge`.

Nothing is requested before the first demand. Then each of the inner publishers has a queue of its
own, which has room for `PREFETCH` elements: as many are requested ahead. The queues take turns, so
no inner publisher starves another. The source is asked for a new inner publisher when one has ended
and its elements are sent. So at most ``concurrency`` times ``prefetch`` elements wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ..checks import check_element, check_error, check_subscription
from ..demand import Demand
from ..emission import TURN, Emission, own_traceback
from ..interfaces import Publisher, Subscriber, Subscription
from ..iterating import IterablePublisher
from ..sources import from_iterable
from .guarded import (
    below,
    cancel,
    check_count,
    check_function,
    check_publisher,
    drop_upstream,
    request,
)
from .intake import too_many
from .joints import attach
from .operator import Operated, Operator

__all__ = ["CONCURRENCY", "PREFETCH", "flat_map", "merge", "merge_with"]

T = TypeVar("T")
R = TypeVar("R")

CONCURRENCY: Final = 16
"""Inner publishers at a time: enough to hide the waits of most, few enough to be no burden."""

PREFETCH: Final = 32
"""Elements of one inner publisher that wait. A new request is made for a quarter of them."""


def flat_map(
    function: Callable[[T], Publisher[R]],
    concurrency: int = CONCURRENCY,
    *,
    prefetch: int = PREFETCH,
) -> Operator[T, R]:
    """Make an operator that makes a publisher of each element, and sends the elements of all.

    The order is that in which they come; those of one inner publisher stay in their order. The
    first error, of the source, of an inner publisher or of the function, ends it: all others are
    cancelled, and elements that wait are dropped.

    Example::

        pipe(from_iterable(users), ops.flat_map(orders_of, concurrency=4))

    Args:
        function: Called with each element; returns a publisher.
        concurrency: The largest number of inner publishers at a time.
        prefetch: The largest number of elements of one inner publisher that wait.

    Raises:
        ValueError: A number is less than 1.
        TypeError: An argument has the wrong type.
    """
    check_function(function)
    check_count("the concurrency of flat_map()", concurrency)
    check_count("the prefetch of flat_map()", prefetch)

    def operator(source: Publisher[T]) -> Operated[T, R]:
        return Operated(source, partial(_FlatMap, function, concurrency, prefetch))

    return operator


def merge(*publishers: Publisher[T], prefetch: int = PREFETCH) -> IterablePublisher[T]:
    """Make a publisher of the elements of several, in the order in which they come.

    All are subscribed to at once, and asked for elements with the first demand. It completes when
    all are complete; the first error ends it.

    Example::

        merge(clicks, keys)

    Args:
        publishers: The publishers; each may be given more than once.
        prefetch: The largest number of elements of one publisher that wait.

    Raises:
        ValueError: ``prefetch`` is less than 1.
        TypeError: An argument has the wrong type.
    """
    for each in publishers:
        check_publisher(each)
    concurrency = max(1, len(publishers))
    check_count("the prefetch of merge()", prefetch)
    merged = partial(_FlatMap[Any, T], _itself, concurrency, prefetch, at_once=True)
    return Operated(from_iterable(publishers), merged)


def merge_with(*publishers: Publisher[Any], prefetch: int = PREFETCH) -> Operator[Any, Any]:
    """Make an operator that adds the elements of other publishers: see `merge`.

    Raises:
        ValueError: ``prefetch`` is less than 1.
        TypeError: An argument has the wrong type.
    """
    merge(*publishers, prefetch=prefetch)  # Wrong arguments are refused here, not in the pipe.

    def operator(source: Publisher[T]) -> IterablePublisher[T]:
        return merge(source, *publishers, prefetch=prefetch)

    return operator


def _itself(publisher: Publisher[T]) -> Publisher[T]:
    return publisher


class _FlatMap(Emission[R], Generic[T, R]):
    """The subscriber of the source, and the subscription of the downstream."""

    __slots__ = (
        "_at_once",
        "_complete",
        "_concurrency",
        "_function",
        "_inners",
        "_owed",
        "_prefetch",
        "_ready",
        "_subscribed",
        "operators_below",
        "upstream",
        "wanted",
    )

    def __init__(
        self,
        function: Callable[[T], Publisher[R]],
        concurrency: int,
        prefetch: int,
        downstream: Subscriber[R],
        *,
        at_once: bool = False,
    ) -> None:
        super().__init__(downstream)
        self._function: Callable[[T], Publisher[R]] | None = function
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._subscribed = False
        self._complete = False
        self._at_once = at_once  # The source is a list: to ask it costs nothing.
        self.wanted = False  # Whether the downstream has requested anything.
        self.upstream: Subscription | None = None
        self._inners: dict[_Inner[R], None] = {}
        self.operators_below = below(downstream)
        self._owed = 0  # Inner publishers to ask the source for.
        self._ready: deque[_Inner[R]] = deque()  # Those whose queue has elements, in turn.

    # The subscriber of the source.

    def on_subscribe(self, subscription: Subscription, /) -> None:
        check_subscription(subscription)
        if self._subscribed or self._over:
            cancel(subscription)  # rule 2.5
            return
        self._subscribed = True
        self.upstream = subscription
        self.start()
        if self._at_once:
            self._ask(self._concurrency)

    def on_next(self, element: T, /) -> None:
        if element is None:
            check_element(element)
        function = self._function
        if self._over or self._complete or function is None:
            return  # rules 2.8, 1.7
        if not self._subscribed or len(self._inners) >= self._concurrency:
            self.end(too_many())
            return
        try:
            publisher = function(element)
            check_publisher(publisher)
        except Exception as error:  # of the function (rule 1.4)
            self.end(own_traceback(error))
            return
        if not self.active:
            return  # The function has cancelled.
        inner = _Inner(self, self._prefetch)
        self._inners[inner] = None
        attach(publisher, inner)

    def on_error(self, error: Exception, /) -> None:
        check_error(error)
        self.upstream = None
        if not self._complete:  # rule 1.7
            self.end(error)

    def on_complete(self) -> None:
        self.upstream = None
        self._complete = True
        try:
            if self._subscribed:
                self.wake()
            else:  # the source breaks rule 1.9
                self.end()
        except RecursionError:  # for another attempt
            self._complete = False
            raise

    # For the inner publishers.

    def filled(self, inner: _Inner[R]) -> None:
        """The empty queue of an inner publisher has got an element."""
        self._ready.append(inner)
        self.wake()

    def drained(self, inner: _Inner[R]) -> None:
        """An inner publisher has ended, and all its elements are sent: there is room for another.

        The loop asks for it. If it was the last one, the loop ends this.
        """
        self._inners.pop(inner, None)
        self._owed += 1
        self.wake()

    def _ask(self, n: int) -> None:
        if self.upstream is not None and not self._over:
            request(self.upstream, n, self.end)

    # The emission.

    def _requested(self, n: int) -> None:
        if not self.wanted:
            self.wanted = True
            for inner in [*self._inners]:
                inner.begin()
            if not self._at_once:
                self._ask(self._concurrency)

    def _emit(self, subscriber: Subscriber[R], limit: int) -> int:
        sent = 0
        while not self._pause():
            sent += self._send(subscriber, limit - sent)
            owed, self._owed = self._owed, 0
            if self._over or not owed:
                break
            TURN.spent += owed
            self._ask(owed)
        if self._complete and not self._inners:
            self._ended()
        return sent

    def _send(self, subscriber: Subscriber[R], limit: int) -> int:
        ready = self._ready
        on_next = subscriber.on_next
        sent = 0
        while ready and sent < limit:
            inner = ready.popleft()
            queue = inner.queue
            element = queue.popleft()
            if queue:
                ready.append(inner)
            self.demand.take()
            sent += 1
            try:
                on_next(element)
            except Exception as error:  # of the subscriber (rule 2.13)
                self._raised("on_next", error)
                return sent
            if self._over:
                return sent
            inner.was_sent()
        TURN.spent += sent
        return sent

    def end(self, error: Exception | None = None) -> None:
        super().end(error)
        self._let_go()

    def cancel(self) -> None:
        super().cancel()
        self._let_go()

    def _release(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        self._function = None
        self._ready.clear()
        drop_upstream(self)
        for inner in [*self._inners]:
            inner.cancel()
            self._inners.pop(inner, None)


class _Inner(Generic[R]):
    """The subscriber of one inner publisher."""

    __slots__ = (
        "__weakref__",
        "_expected",
        "_over",
        "_owner",
        "_prefetch",
        "_sent",
        "operators_below",
        "queue",
        "upstream",
    )

    def __init__(self, owner: _FlatMap[Any, R], prefetch: int) -> None:
        self._owner: _FlatMap[Any, R] | None = owner
        self.operators_below = owner.operators_below
        self._prefetch = prefetch
        self.upstream: Subscription | None = None
        self._over = False
        self._sent = 0
        self._expected = Demand()
        self.queue: deque[R] = deque()

    def on_subscribe(self, subscription: Subscription, /) -> None:
        check_subscription(subscription)
        if self._owner is None or self._over or self.upstream is not None:
            cancel(subscription)  # rule 2.5
            return
        self.upstream = subscription
        if self._owner.wanted:
            self.begin()

    def begin(self) -> None:
        """Request the first elements: there is demand for some of them."""
        self._ask(self._prefetch)

    def on_next(self, element: R, /) -> None:
        if element is None:
            check_element(element)
        owner = self._owner
        if owner is None or self._over:
            return  # rules 2.8, 1.7
        if not self._expected.outstanding:
            owner.end(too_many())
            return
        self._expected.take()
        self.queue.append(element)
        if len(self.queue) == 1:
            owner.filled(self)

    def on_error(self, error: Exception, /) -> None:
        check_error(error)
        self.upstream = None
        if self._owner is not None and not self._over:  # rule 1.7
            self._owner.end(error)

    def on_complete(self) -> None:
        self.upstream = None
        self._over = True
        if not self.queue:
            try:
                self._drained()
            except RecursionError:  # for another attempt
                self._over = False
                raise

    def was_sent(self) -> None:
        """One of the elements was sent."""
        if not self._over:
            self._sent += 1
            if self._sent * 4 >= self._prefetch:
                sent, self._sent = self._sent, 0
                self._ask(sent)
        elif not self.queue:
            self._drained()

    def cancel(self) -> None:
        self._owner = None
        self.queue.clear()
        drop_upstream(self)

    def _ask(self, n: int) -> None:
        owner = self._owner
        if owner is not None and self.upstream is not None:
            self._expected.add(n)
            request(self.upstream, n, owner.end)

    def _drained(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            try:
                owner.drained(self)
            except RecursionError:  # for another attempt
                self._owner = owner
                raise
