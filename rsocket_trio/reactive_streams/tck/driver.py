"""Plays the publisher for a subscriber under test, signal by signal, and records what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..interfaces import Publisher, Subscriber, Subscription
from .steps import watched

__all__ = ["Capture", "Driver", "ManualSubscription"]


class ManualSubscription(Subscription):
    """Records the requests and cancels of the subscriber under test.

    Attributes:
        requests: The arguments of request, in order.
        cancels: How often cancel was called.
        late_requests: Those requests that came after the end, outside of the terminal signal.
        inside: The calls that were made while on_complete or on_error was running.
    """

    def __init__(self, on_request: Callable[[], None] | None = None) -> None:
        self.requests: list[Any] = []
        self.cancels = 0
        self.late_requests: list[Any] = []
        self.inside: list[str] = []
        self.ending = False
        self.ended = False
        self._on_request = on_request

    def request(self, n: int, /) -> None:
        """Record it."""
        self.requests.append(n)
        if self.ending:
            self.inside.append(f"request({n!r})")
        elif self.ended:
            self.late_requests.append(n)
        elif self._on_request is not None:
            self._on_request()

    def cancel(self) -> None:
        """Record it."""
        self.cancels += 1
        if self.ending:
            self.inside.append("cancel()")

    @property
    def demand(self) -> int:
        """The sum of the valid requests."""
        return sum(n for n in self.requests if isinstance(n, int) and n > 0)


class Capture(Publisher[Any]):
    """A publisher that only keeps its subscriber, so that a driver can play with it.

    Attributes:
        subscriber: Who has subscribed.
        subscribes: How often subscribe was called.
        during_end: How often it was called while on_complete or on_error was running.
    """

    def __init__(self) -> None:
        self.subscriber: Subscriber[Any] | None = None
        self.subscribes = 0
        self.during_end = 0
        self.ending = False

    def subscribe(self, subscriber: Subscriber[Any], /) -> None:
        """Keep the subscriber."""
        self.subscribes += 1
        if self.ending:
            self.during_end += 1
        elif self.subscriber is None:
            self.subscriber = subscriber


class Driver:
    """Signals one subscriber.

    Attributes:
        subscriber: The subscriber under test.
        subscription: Its subscription.
        sent: How many elements it was given.
        raised: (signal, exception) of each signal that did not return normally.
    """

    def __init__(
        self, subscriber: Subscriber[Any], publisher: Capture, element: Callable[[int], Any]
    ) -> None:
        self.subscriber = subscriber
        self.subscription = ManualSubscription()
        self.sent = 0
        self.raised: list[tuple[str, Exception]] = []
        self._publisher = publisher
        self._element = element

    def on_subscribe(self) -> None:
        """Signal it."""
        self._signal("on_subscribe", self.subscription)

    def on_next(self) -> None:
        """Signal the next element, whether it was requested or not."""
        self.sent += 1
        self._signal("on_next", self._element(self.sent - 1))

    def on_complete(self) -> None:
        """Signal it."""
        self._end("on_complete")

    def on_error(self, error: Exception) -> None:
        """Signal it."""
        self._end("on_error", error)

    @property
    def owed(self) -> int:
        """How many elements may be signalled now."""
        subscription = self.subscription
        if subscription.cancels or subscription.ended:
            return 0
        return subscription.demand - self.sent

    @property
    def resubscribed(self) -> int:
        """How often a terminal signal called subscribe."""
        return self._publisher.during_end

    def _end(self, signal: str, *arguments: Any) -> None:
        watching = (self.subscription, self._publisher)
        self.subscription.ended = True
        for each in watching:
            each.ending = True
        try:
            self._signal(signal, *arguments)
        finally:
            for each in watching:
                each.ending = False

    def _signal(self, name: str, *arguments: Any) -> None:
        try:
            getattr(self.subscriber, name)(*arguments)
        except Exception as error:  # any kind: rule 2.13 is judged by what is recorded
            self.raised.append((name, error))


watched(Driver._signal.__code__, "name")  # noqa: SLF001 - of this module
