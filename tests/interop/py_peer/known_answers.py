"""The answers every peer of the interoperability tests gives, on rsocket-py.

A test knows them beforehand, whichever stack it talks to; ``../js/known_answers.js`` gives the
same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import Subscriber
from reactivestreams.subscription import Subscription
from rsocket.helpers import create_error_future, create_response
from rsocket.lease import LeasePublisher, SingleLeasePublisher
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler


def lease_publisher(lease: str) -> LeasePublisher:
    """Grants ``N/SECONDS`` once per connection."""
    number, _, seconds = lease.partition("/")
    return SingleLeasePublisher(int(number), timedelta(seconds=int(seconds)))


class ItemPublisher(Publisher, Subscription):
    """Publishes items, never more than requested."""

    def __init__(
        self,
        items: Iterable[bytes],
        *,
        complete: bool = True,
        on_request: Callable[[int], None] = lambda n: None,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> None:
        self._items = iter(items)
        self._complete = complete
        self._on_request = on_request
        self._on_cancel = on_cancel
        self._ended = False
        # One item is read ahead, so that completion needs no further demand.
        self._next = next(self._items, None)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self._on_request(n)
        while not self._ended and n and self._next is not None:
            n -= 1
            item, self._next = self._next, next(self._items, None)
            self._subscriber.on_next(Payload(item))
        if not self._ended and self._next is None and self._complete:
            self._ended = True
            self._subscriber.on_complete()

    def cancel(self) -> None:
        self._ended = True
        self._on_cancel()


class Echo(Publisher, Subscriber, Subscription):
    """Echoes the items of a channel: demand for the echo is demand for the source."""

    def __init__(self, first: Payload) -> None:
        self._first: Payload | None = first
        self._completed = False

    def subscribe(self, subscriber: Subscriber) -> None:
        self._requester = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            self._requester.on_next(first)
            n -= 1
        if n:
            self._source.request(n)

    def cancel(self) -> None:
        self._source.cancel()

    def on_subscribe(self, subscription: Subscription) -> None:
        self._source = subscription

    def on_next(self, value: Payload, is_complete: bool = False) -> None:
        self._requester.on_next(value)
        if is_complete:
            self.on_complete()

    def on_complete(self) -> None:
        # rsocket-py calls this twice if the request frame itself has COMPLETE.
        if not self._completed:
            self._completed = True
            self._requester.on_complete()

    def on_error(self, exception: Exception) -> None:
        """The requester failed: there is no subscriber left."""


class KnownAnswers(BaseRequestHandler):
    """One object per connection."""

    def __init__(self, on_close: Callable[[], None] = lambda: None) -> None:
        self._last_fire_and_forget = b""
        self._last_push = b""
        self._on_close = on_close

    async def request_response(self, payload: Payload) -> asyncio.Future[Payload]:
        data = payload.data or b""
        if data.startswith(b"error:"):
            return create_error_future(RuntimeError(data.removeprefix(b"error:").decode()))
        match data:
            case b"never":
                return asyncio.get_running_loop().create_future()
            case b"empty":
                return create_response()
            case b"last-fnf":
                return create_response(self._last_fire_and_forget)
            case b"last-push":
                return create_response(self._last_push)
            case _:
                return create_response(payload.data, payload.metadata)

    async def request_fire_and_forget(self, payload: Payload) -> None:
        self._last_fire_and_forget = payload.data or b""

    async def on_metadata_push(self, payload: Payload) -> None:
        self._last_push = payload.metadata or b""

    async def request_stream(self, payload: Payload) -> Publisher:
        return ItemPublisher(str(i).encode() for i in range(int(payload.data)))

    async def request_channel(self, payload: Payload) -> tuple[Publisher, Subscriber]:
        echo = Echo(payload)
        return echo, echo

    async def on_close(self, rsocket: object, exception: Exception | None = None) -> None:
        self._on_close()
