"""Subscribe to a publisher of the peer, and republish it: `Reflection`, for the fixture."""

from __future__ import annotations

from typing import Final

from ..reactive_streams import IterablePublisher, Subscriber, Subscription
from ..reactive_streams.queued_emission import QueueEmission
from ..rsio import Connection, PublisherError
from .rsio_usage import Usage

__all__ = ["Reflection"]

_ENDLESS: Final = 1 << 62


class Reflection(IterablePublisher[bytes]):
    """Republishes a publisher of the peer."""

    def __init__(
        self,
        connection: Connection,
        usage: Usage,
        arguments: dict[str, str],
        element: bytes | None = None,
    ) -> None:
        self.connection = connection
        self.usage = usage
        self.name = arguments.get("name", "")
        self.prefetch = int(arguments.get("prefetch", 16))
        self.take = int(arguments.get("take", _ENDLESS))
        self.runs = int(arguments.get("cancel", 1))
        self.element = element

    def subscribe(self, subscriber: Subscriber[bytes], /) -> None:
        """See `rsocket_trio.reactive_streams.Publisher.subscribe`."""
        mirror = _Mirror(subscriber, self)
        mirror.start()
        mirror.look()


class _Mirror(QueueEmission[bytes]):
    """One subscription to `Reflection`."""

    __slots__ = ("_old", "_reflection", "_runs", "_upstream")

    def __init__(self, subscriber: Subscriber[bytes], reflection: Reflection) -> None:
        super().__init__(subscriber, on_end=self._stop)
        self._reflection = reflection
        self._runs = reflection.runs
        self._upstream: _Upstream | None = None
        self._old = 0

    def look(self) -> None:
        """Subscribe to the publisher of the peer."""
        if not self.active:
            return
        reflection = self._reflection
        self._old = len(self.queue)
        self._upstream = _Upstream(self, reflection)
        try:
            publisher = reflection.connection.publisher(reflection.name)
        except ValueError as error:
            self.close(PublisherError(str(error)))
            return
        publisher.subscribe(self._upstream)

    def taken(self) -> None:
        """The upstream has had all elements that it should take."""
        self._runs -= 1
        if self._runs > 0:
            self.look()
        else:
            self.close()

    def _emit(self, subscriber: Subscriber[bytes], limit: int) -> int:
        sent = super()._emit(subscriber, limit)
        # An element of an earlier subscription is no reason to request one of this one.
        old = min(self._old, sent)
        self._old -= old
        if sent > old and self._upstream is not None:
            self._upstream.more(sent - old)
        return sent

    def _stop(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.stop()


class _Upstream:
    """A subscription to the publisher of the peer."""

    def __init__(self, mirror: _Mirror, reflection: Reflection) -> None:
        self._mirror = mirror
        self._reflection = reflection
        self._left = reflection.take
        self._subscription: Subscription | None = None
        self._live = True
        self._fixture = f"reflect:{reflection.name}"
        reflection.usage.began(self._fixture)

    def _over(self, *, failed: bool = False) -> bool:
        was, self._live = self._live, False
        if was:
            self._reflection.usage.ended(self._fixture, failed=failed)
        return was

    def more(self, number: int) -> None:
        """Request more elements, if there is a reason."""
        if self._live and self._subscription is not None:
            self._subscription.request(number)

    def stop(self) -> None:
        """Cancel it."""
        if self._over() and self._subscription is not None:
            self._subscription.cancel()

    def on_subscribe(self, subscription: Subscription, /) -> None:
        self._subscription = subscription
        if not self._live:
            subscription.cancel()
        elif self._reflection.prefetch:
            subscription.request(self._reflection.prefetch)

    def on_next(self, element: bytes, /) -> None:
        if not self._live:
            return
        self._left -= 1
        if not self._left:
            self.stop()
        other = self._reflection.element
        self._mirror.push(bytes(element) if other is None else other)
        if not self._left:
            self._mirror.taken()

    def on_error(self, error: Exception, /) -> None:
        if self._over(failed=True):
            self._mirror.close(error)

    def on_complete(self) -> None:
        if self._over():
            self._mirror.close()
