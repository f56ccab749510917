"""`ElementInbox`: a subscriber that keeps the elements for one task that reads them.

It requests a window of elements, and more of them whenever a quarter of the window has been read.
So there are never more elements here than the window has (docs/design.md). With a window of 0 its
reader requests them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Final, Generic, NoReturn, TypeVar

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..account import ITEM_COST
from ..entrance import get_ident, gives_way, not_at_home
from ..errors import fresh_copy
from ..log_policy import logger
from ..one_waiter import OneWaiter
from .checks import check_element, check_error, check_subscription
from .errors import TooManyElements
from .interfaces import Subscription
from .unread import ElementCounter, size_of

__all__ = ["ElementInbox"]

AHEAD_SIZE: Final = 64 * 2**10
"""The bytes of elements that are requested ahead of somebody else's demand, judged by the elements
before; one element of any size may be more."""

T = TypeVar("T")

_MEANS_SOMETHING_ELSE: Final = (
    StopAsyncIteration,
    StopIteration,
    trio.EndOfChannel,
    trio.WouldBlock,
)
"""What a reader would take for the end of the stream, or for a reason to try again. Python makes a
RuntimeError of the first two in a generator, for the same reason (PEP 479)."""


class ElementInbox(OneWaiter, Generic[T]):
    """The subscriber of `open_iter`, `iterate` and all that is built on them.

    Args:
        window: The largest number of elements that are requested or unread; 0: `request` alone
            requests.
        limit: The number of elements after which it cancels; ``None`` if there is none.

    Attributes:
        queue: The elements that have arrived and are unread.
        ended: Whether no more elements will arrive.
        closed: Whether the reader wants no more.
        received: The number of elements that have arrived.
        outstanding: The number of elements that are requested and have not arrived.
        account: Counts the unread elements; ``None`` if nobody does. A publisher of a network sets
            it in ``subscribe``, and whoever passes the elements on may do so by `count_with`.
    """

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_batch",
        "_consumed",
        "_early",
        "_element_size",
        "_failure",
        "_fitting",
        "_left",
        "_subscription",
        "_task",
        "_thread",
        "account",
        "closed",
        "ended",
        "outstanding",
        "queue",
        "received",
        "window",
    )

    def __init__(self, window: int, limit: int | None = None) -> None:
        self._task = None
        self.window = window
        self.queue: deque[T] = deque()
        self.ended = False
        self.closed = False
        self.received = 0
        self.outstanding = 0
        self._batch: float = max(window // 4, 1) if window else inf
        self._consumed = 0
        self._ahead: Callable[[], int] | None = None
        self._fitting = 1  # what may be requested at once, with `_ahead`
        self._element_size = ITEM_COST  # of an element of the last request
        self._early = 0  # requested before there was a subscription
        self._left = limit  # what may still be requested
        self._failure: Exception | None = None
        self._subscription: Subscription | None = None
        self.account: ElementCounter | None = None
        self._thread: int | None = None

    # -- Subscriber -------------------------------------------------------------------------

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Request the first window; cancel a second subscription (rule 2.5)."""
        check_subscription(subscription)
        if self._subscription is not None or self.ended or self.closed:
            _cancel(subscription)
            return
        self._subscription = subscription
        self._thread = get_ident()
        early, self._early = self._early, 0
        if self._ahead is None:
            self._request(self.window or early)
        else:
            self._wake()  # The reader requests.

    def on_next(self, element: T, /) -> None:
        """Keep an element for the reader."""
        outstanding = self.outstanding
        if element is None or self.ended or not outstanding:
            check_element(element)
            if not self.ended:  # otherwise it was on its way when we cancelled (rule 2.8)
                self._end(
                    TooManyElements(
                        "the publisher sent an element that was not requested (rule 1.1)"
                    )
                )
            return
        if self.account is not None:
            failure = self.account.add(element)
            if failure is not None:
                self._end(failure)
                return
        self.outstanding = outstanding - 1
        self.received += 1
        self.queue.append(element)
        if self._task is not None:
            self._wake()
        if self._left == 0 and not self.outstanding:
            self._end(None)  # the limit is reached (rule 2.6)

    def on_error(self, error: Exception, /) -> None:
        """End it; the reader gets the error behind the elements."""
        check_error(error)
        self._subscription = None  # rule 2.4
        if isinstance(error, _MEANS_SOMETHING_ELSE):
            failure = RuntimeError(f"the publisher failed with {type(error).__name__}")
            failure.__cause__ = error
            self._end(failure)
        else:
            self._end(error)

    def on_complete(self) -> None:
        """End it behind the elements."""
        self._subscription = None  # rule 2.4
        self._end(None)

    # -- for the reader ---------------------------------------------------------------------

    def follow(self, ahead: Callable[[], int]) -> None:
        """See `ElementStream.follow`. With a window of 0 only `request` requests."""
        if self.window:
            self._ahead = ahead

    def count_with(self, counter: ElementCounter) -> Exception | None:
        """Count what is unread, and what arrives, until `count_no_more`.

        Returns:
            An error if there is too much already; then it is not counted.
        """
        if self.account is not None:
            return None  # a network counts them
        for counted, element in enumerate(self.queue):
            failure = counter.add(element)
            if failure is not None:
                counter.remove_all(islice(self.queue, counted))
                return failure
        self.account = counter
        return None

    def count_no_more(self, counter: ElementCounter) -> None:
        """Undo `count_with`."""
        if self.account is counter:
            self.account = None
            counter.remove_all(self.queue)

    def pop(self) -> T:
        """Take an element from the queue, and request more if it is time."""
        element = self.queue.popleft()
        if self.account is not None:
            self.account.remove(element)
        consumed = self._consumed + 1
        if consumed < self._batch:
            self._consumed = consumed
        else:
            self._consumed = 0
            if not self.ended and self._ahead is None:
                self._request(consumed)
        return element

    def request(self, n: int) -> None:
        """Request ``n`` more elements, with a window of 0."""
        if self.ended or self.closed:
            return
        if self._subscription is None:
            self._early += n
        else:
            self._request(n)

    def check(self) -> None:
        """Raise the error or the end; return if there is an element, or there may still be one."""
        if self.closed:
            raise trio.ClosedResourceError("this iteration was closed here")
        if self.ended and not self.queue:
            if self._failure is not None:
                self._fail(self._failure)
            raise trio.EndOfChannel

    def check_home(self) -> None:
        """Refuse a reader in another thread than the publisher.

        Raises:
            RuntimeError: It is in one.
        """
        if not self.at_home:
            raise not_at_home("this iteration")

    @property
    def at_home(self) -> bool:
        """Whether the caller is in the thread of the publisher, or there is none yet."""
        return self._thread is None or get_ident() == self._thread

    async def wait(self) -> None:
        """Wait until there is an element.

        Raises:
            trio.EndOfChannel: No element will arrive; or the error with which it ended.
            trio.ClosedResourceError: It was closed here.
            trio.BusyResourceError: Another task is waiting.
            RuntimeError: The caller is in another thread than the publisher.

        Checkpoint: always.
        If cancelled: nothing is taken.
        """
        self.check_home()
        if self.queue or self.ended or self.closed:
            await checkpoint()
        while True:
            self.check()
            if self.queue:
                if self._ahead is not None:
                    self._element_size = size_of(self.queue[-1])
                return
            if self._task is not None:
                raise trio.BusyResourceError("another task is reading from this publisher")
            ahead, subscribed = self._ahead, self._subscription is not None
            if ahead is not None and subscribed and not self.outstanding:
                # One at first, as nobody knows how large they are; twice as many each time.
                fitting = max(min(self._fitting, AHEAD_SIZE // self._element_size), 1)
                self._fitting = min(2 * fitting, self.window)
                self._request(max(min(ahead(), fitting), 1))
                continue
            await self._until_woken()
            if not self.queue and gives_way(self._failure):
                await checkpoint_if_cancelled()

    def close(self) -> None:
        """Cancel the subscription, and drop the elements."""
        if self.closed:
            return
        self.closed = True
        self._end(None)
        if self.account is not None:
            self.account.remove_all(self.queue)
        self.queue.clear()
        self._failure = None

    # -- inside -----------------------------------------------------------------------------

    def _request(self, n: int) -> None:
        self.check_home()
        left = self._left
        if left is not None:
            n = min(n, left)
            self._left = left - n
        subscription = self._subscription
        if n and subscription is not None:
            self.outstanding += n
            try:
                subscription.request(n)
            except Exception as error:  # a publisher that breaks rule 3.16
                self._end(error)

    def _end(self, failure: Exception | None) -> None:
        """No more elements will arrive; cancel the subscription if it is still ours."""
        subscription, self._subscription = self._subscription, None
        if not self.ended:
            self.ended = True
            self._failure = failure
        if subscription is not None:
            _cancel(subscription)
        self._wake()

    def _fail(self, failure: Exception) -> NoReturn:
        # A raised error refers to the frames of its reader. The inbox keeps a copy without them
        # for the next call, so that there is no reference cycle.
        self._failure = fresh_copy(failure)
        try:
            raise failure
        finally:
            del failure


def _cancel(subscription: Subscription) -> None:
    try:
        subscription.cancel()
    except Exception as error:  # a publisher that breaks rule 3.15
        logger.error("a publisher raised from cancel()", exc_info=error)
