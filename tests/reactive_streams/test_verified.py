"""The publishers and subscribers of `rsocket_trio.reactive_streams` pass the conformance kit."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from functools import partial

import trio

from rsocket_trio.reactive_streams import (
    collect,
    failed,
    for_each,
    from_async_iterable,
    from_channel,
    from_iterable,
    iterate,
    just,
    open_iter,
    stream_publisher,
    to_channel,
)
from rsocket_trio.reactive_streams.inbox import ElementInbox
from rsocket_trio.reactive_streams.tck import SubscriberVerification, verify_publisher


class SourceError(Exception):
    pass


def then_fail(n):
    yield from range(n)
    raise SourceError("the source fails")


async def later(n, error=None):
    for number in range(n):
        await trio.lowlevel.checkpoint()
        yield number
    if error is not None:
        raise error


@asynccontextmanager
async def opened(n, error=None):
    iterator = later(n, error)
    try:
        yield iterator
    finally:
        await iterator.aclose()


def channel(n, nursery):
    send, receive = trio.open_memory_channel(n)
    with send:
        for number in range(n):
            send.send_nowait(number)
    return from_channel(receive, nursery)


TestFromIterable = verify_publisher(
    lambda n: from_iterable(range(n)),
    failing=lambda n: from_iterable(partial(then_fail, n)) if n else failed(SourceError("at once")),
)
TestFromGenerators = verify_publisher(
    lambda n: from_iterable(lambda: (number for number in range(n))),
    failing=lambda n: from_iterable(partial(then_fail, n)),
)
TestJust = verify_publisher(lambda n: just(*range(n)), max_elements=1000)
TestFromAsyncIterable = verify_publisher(
    lambda n, nursery: from_async_iterable(lambda: later(n), nursery),
    failing=lambda n, nursery: from_async_iterable(lambda: later(n, SourceError("fails")), nursery),
)
TestStreamPublisher = verify_publisher(
    lambda n, nursery: stream_publisher(lambda: opened(n), nursery),
    failing=lambda n, nursery: stream_publisher(lambda: opened(n, SourceError("fails")), nursery),
)
TestFromChannel = verify_publisher(channel, subscribers="one", max_elements=10_000)


class TestElementInbox(SubscriberVerification):
    """The subscriber of everything that reads a publisher, with nobody who reads."""

    def subscriber(self):
        return ElementInbox(4)

    def limited(self, n):
        return ElementInbox(64, limit=n)

    def trigger_cancel(self, subscriber):
        subscriber.close()


class TestManualInbox(TestElementInbox):
    """Its reader requests."""

    def subscriber(self):
        return ElementInbox(0)

    def trigger_request(self, subscriber, n):
        subscriber.request(n)


def reading(use):
    """A verification of what a task does with the publisher that the kit gives it."""

    class Reading(SubscriberVerification):
        def subscriber(self, publisher, nursery):
            async def run():
                with suppress(Exception):  # the errors that the kit signals are raised here
                    await use(publisher)

            nursery.start_soon(run)

    return Reading


async def by_open_iter(publisher):
    async with open_iter(publisher, 8) as elements:
        async for _ in elements:
            pass


async def by_iterate(publisher):
    async for _ in iterate(publisher, 8):
        pass


async def by_channel(publisher):
    async with to_channel(publisher, 8) as receive:
        async for _ in receive:
            pass


TestOpenIter = reading(by_open_iter)
TestIterate = reading(by_iterate)
TestToChannel = reading(by_channel)
TestCollect = reading(collect)
TestForEach = reading(lambda publisher: for_each(publisher, int))
