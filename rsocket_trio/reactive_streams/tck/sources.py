"""A small synchronous publisher, which feeds processors. It uses nothing else of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index
from typing import Any

from ..interfaces import Subscriber, Subscription
from .trials import SignalledError

__all__ = ["Source"]


class Source:
    """Gives ``n`` elements to each subscriber, then completes or fails."""

    def __init__(self, n: int, element: Callable[[int], Any], *, fails: bool = False) -> None:
        self._n = n
        self._element = element
        self._fails = fails

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Begin with the first element."""
        if subscriber is None:
            raise TypeError("the subscriber is None (rule 1.9)")
        elements = map(self._element, range(self._n))
        subscription = _SourceSubscription(subscriber, elements, fails=self._fails)
        try:
            subscriber.on_subscribe(subscription)
        except Exception:  # of any kind: such a subscriber counts as cancelled (rule 2.13)
            subscription.cancel()
        subscription.start()


class _SourceSubscription(Subscription):
    def __init__(
        self, subscriber: Subscriber[Any], elements: Iterator[Any], *, fails: bool
    ) -> None:
        self._subscriber: Subscriber[Any] | None = subscriber
        self._elements = elements
        self._fails = fails
        self._next = next(elements, None)
        self._demand = 0
        self._running = True

    def start(self) -> None:
        self._running = False
        self._drain()

    def request(self, n: int, /) -> None:
        try:
            n = index(n)
        except TypeError as error:
            self._end(error)
            return
        if n <= 0:
            self._end(ValueError(f"request({n}): not positive (rule 3.9)"))
            return
        self._demand += n
        self._drain()

    def cancel(self) -> None:
        self._subscriber = None

    def _drain(self) -> None:
        if self._running:
            return
        self._running = True
        while (subscriber := self._subscriber) is not None:
            if self._next is None:
                self._end(SignalledError("the source fails") if self._fails else None)
            elif self._demand:
                self._demand -= 1
                element, self._next = self._next, next(self._elements, None)
                try:
                    subscriber.on_next(element)
                except Exception:  # of any kind, as above
                    self.cancel()
            else:
                break
        self._running = False

    def _end(self, error: Exception | None) -> None:
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is None:
            return
        try:
            if error is None:
                subscriber.on_complete()
            else:
                subscriber.on_error(error)
        except Exception:  # of any kind: it is cancelled already
            return
