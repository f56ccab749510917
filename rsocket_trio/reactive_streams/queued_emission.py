"""Subscriptions whose elements are pushed, by a task or by a publisher: `QueueEmission`, `Seat`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from .emission import Emission
from .interfaces import Subscriber

__all__ = ["QueueEmission", "Seat"]

T = TypeVar("T")


class QueueEmission(Emission[T]):
    """Sends the elements that are pushed, as they are requested; the others wait in a queue.

    The queue has no limit of its own. Who pushes keeps it short: it pushes only what is requested,
    or looks at `queue`.

    Args:
        subscriber: Gets the signals.
        on_request: Called with each new demand, before anything is sent for it. It may push.
        on_end: Called once, when the subscription is over for whatever reason. At the latest then
            it drops its references.

    Attributes:
        queue: The elements that are pushed and not sent. Who pushes may change it, and calls `wake`
            if there is more to send.
    """

    __slots__ = ("_closing", "_failure", "_on_end", "_on_request", "queue")

    def __init__(
        self,
        subscriber: Subscriber[T],
        *,
        on_request: Callable[[int], object] | None = None,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(subscriber)
        self._on_request = on_request
        self._on_end = on_end
        self._closing = False
        self._failure: Exception | None = None
        self.queue: deque[T] = deque()

    def push(self, element: T) -> None:
        """Send an element, as soon as it is requested. After the end this does nothing."""
        if self._over or self._closing:
            return
        self.queue.append(element)
        if self.demand.outstanding:
            self.wake()

    def close(self, error: Exception | None = None) -> None:
        """End it behind the elements of the queue; `end` drops them instead.

        Args:
            error: The reason for ``on_error``; ``on_complete`` without one.
        """
        if self._over or self._closing:
            return
        self._closing = True
        self._failure = error
        self.wake()

    def _requested(self, n: int) -> None:
        if self._on_request is not None:
            self._on_request(n)

    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        queue = self.queue
        take = self.demand.take
        on_next = subscriber.on_next
        sent = 0
        while queue and sent < limit:
            take()
            sent += 1
            try:
                on_next(queue.popleft())
            except Exception as error:  # of the subscriber (rule 2.13)
                self._raised("on_next", error)
                return sent
            if self._over:
                return sent
        if self._closing and not queue:
            self._ended(self._failure)
        return sent

    def _release(self) -> None:
        on_end, self._on_end = self._on_end, None
        self._on_request = None
        self._failure = None
        self.queue.clear()
        if on_end is not None:
            on_end()


class Seat(QueueEmission[T]):
    """A queue whose owner hears of the end at once: ``on_end`` does not wait for a running signal.

    So a subscriber that cancels within a signal has cancelled the source too, when cancel returns.
    """

    __slots__ = ()

    def end(self, error: Exception | None = None) -> None:
        """End it, without the elements of the queue. The owner hears of it before this returns."""
        super().end(error)
        self._leave()

    def cancel(self) -> None:
        """Want no more. The owner hears of it before this returns."""
        super().cancel()
        self._leave()

    def _leave(self) -> None:
        self._on_request = None
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()
