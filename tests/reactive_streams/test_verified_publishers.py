"""Streams of a connection, sources that are read once, and readers that cancel keep all rules.

Beside test_verified.py, which verifies publishers and readers in their plain form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import trio

from rsocket_trio import ApplicationError, Payload, Router
from rsocket_trio.reactive_streams import (
    collect,
    empty,
    failed,
    for_each,
    from_iterable,
    open_iter,
    stream_publisher,
)
from rsocket_trio.reactive_streams.tck import (
    PublisherVerification,
    SignalledError,
    SubscriberVerification,
    verify_publisher,
    verify_subscriber,
)
from rsocket_trio.testing import connected_pair

router = Router()


@router.request_stream("numbers")
async def numbers(request: Payload) -> AsyncIterator[Payload]:
    for number in range(int(request.data)):
        yield Payload(b"%d" % number)


@router.request_stream("failing")
async def failing(request: Payload) -> AsyncIterator[Payload]:
    for number in range(int(request.data)):
        yield Payload(b"%d" % number)
    raise ApplicationError("the stream fails")


class TestStreamOfConnection(PublisherVerification):
    """Each subscriber opens a stream of its own, over one connection in memory."""

    def resource(self):
        return connected_pair(router)

    def publisher(self, n, nursery, resource, route="numbers"):
        request = Payload(b"%d" % n)
        return stream_publisher(lambda: resource.request_stream(request, route=route), nursery)

    def failing(self, n, nursery, resource):
        return self.publisher(n, nursery, resource, "failing")


def then_fail(n):
    yield from range(n)
    raise OSError("the source fails")


TestFromIterator = verify_publisher(
    lambda n: from_iterable(iter(range(n))),
    failing=lambda n: from_iterable(then_fail(n)),
    subscribers="one",
)
TestEmpty = verify_publisher(lambda _: empty(), max_elements=0)
TestFailed = verify_publisher(
    lambda _: failed(OSError("it fails")),
    failing=lambda _: failed(OSError("it fails")),
    max_elements=0,
    completes=False,
)


async def _read(publisher, scope: trio.CancelScope, limit: int | None) -> None:
    with scope, suppress(SignalledError):
        async with open_iter(publisher, prefetch=8, limit=limit) as elements:
            async for _ in elements:
                pass


class TestOpenIterThatIsLeft(SubscriberVerification):
    """Whoever leaves the block of `open_iter` cancels."""

    def subscriber(self, publisher, nursery):
        self.scope = trio.CancelScope()
        nursery.start_soon(_read, publisher, self.scope, None)

    def limited(self, n, publisher, nursery):
        nursery.start_soon(_read, publisher, trio.CancelScope(), n)

    def trigger_cancel(self, _subscriber) -> None:
        self.scope.cancel()


TestLimitedCollect = verify_subscriber(
    lambda publisher, nursery: nursery.start_soon(collect, publisher),
    limited=lambda n, publisher, nursery: nursery.start_soon(partial(collect, publisher, limit=n)),
)
TestLimitedForEach = verify_subscriber(
    lambda publisher, nursery: nursery.start_soon(for_each, publisher, id),
    limited=lambda n, publisher, nursery: nursery.start_soon(
        partial(for_each, publisher, id, limit=n)
    ),
)
