"""How often each fixture of `rsocket_trio.testing.rsio_peer` is used: `Usage`, `counted`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..reactive_streams import IterablePublisher, Publisher, Subscriber, Subscription

__all__ = ["Usage", "counted"]


class Usage:
    """Numbers of subscriptions, by fixture."""

    def __init__(self) -> None:
        self._current: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def began(self, fixture: str) -> None:
        """Count a subscription."""
        self._current[fixture] += 1
        self._total[fixture] += 1

    def ended(self, fixture: str, *, failed: bool = False) -> None:
        """Count the end of a subscription."""
        self._current[fixture] -= 1
        self._failed[fixture] += failed

    def numbers(self, fixture: str) -> bytes:
        """Return what ``subscribers`` says about a fixture; about all for ""."""
        counters = (self._current, self._total, self._failed)
        numbers = (each[fixture] if fixture else each.total() for each in counters)
        return " ".join(map(str, numbers)).encode()


def counted(publisher: Any, fixture: str, usage: Usage) -> Publisher[bytes]:
    """Return the publisher, with its subscriptions counted."""
    size = getattr(publisher, "element_size", 0)
    return (
        _CountedBlocks(publisher, fixture, usage, size)
        if size
        else _Counted(publisher, fixture, usage)
    )


class _Counted(IterablePublisher[bytes]):
    """A publisher whose subscriptions are counted."""

    def __init__(self, publisher: Any, fixture: str, usage: Usage) -> None:
        self._publisher = publisher
        self._fixture = fixture
        self._usage = usage

    def subscribe(self, subscriber: Subscriber[bytes], /) -> None:
        """See `rsocket_trio.reactive_streams.Publisher.subscribe`."""
        self._publisher.subscribe(_Counter(subscriber, self._fixture, self._usage))


class _CountedBlocks(_Counted):
    """The same for elements of one size."""

    def __init__(self, publisher: Any, fixture: str, usage: Usage, size: int) -> None:
        super().__init__(publisher, fixture, usage)
        self.element_size = size

    def subscribe_packed(self, subscriber: Subscriber[bytes], /) -> None:
        """See `rsocket_trio.rsio.FixedSizePublisher.subscribe_packed`."""
        self._publisher.subscribe_packed(_Counter(subscriber, self._fixture, self._usage))


class _Counter:
    """Hands on the signals of one subscription, and counts its begin and its end."""

    def __init__(self, subscriber: Subscriber[bytes], fixture: str, usage: Usage) -> None:
        self._subscriber = subscriber
        self._fixture = fixture
        self._usage = usage
        self._subscription: Subscription | None = None
        self._live = True
        usage.began(fixture)

    def _over(self, *, failed: bool = False) -> None:
        if self._live:
            self._live = False
            self._usage.ended(self._fixture, failed=failed)

    def on_subscribe(self, subscription: Subscription, /) -> None:
        self._subscription = subscription
        self._subscriber.on_subscribe(self)

    def on_next(self, element: bytes, /) -> None:
        self._subscriber.on_next(element)

    def on_error(self, error: Exception, /) -> None:
        self._over(failed=True)
        self._subscriber.on_error(error)

    def on_complete(self) -> None:
        self._over()
        self._subscriber.on_complete()

    def request(self, n: int, /) -> None:
        if self._subscription is not None:
            self._subscription.request(n)

    def cancel(self) -> None:
        self._over()
        if self._subscription is not None:
            self._subscription.cancel()
