"""Sources of every kind of iterator, and how a generator gets a cancellation."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    ConnectionConfig,
    Limits,
    Payload,
    Responder,
    StreamedPayload,
)
from rsocket_trio.testing.in_memory import connected_pair


class Streams(Responder):
    def __init__(self, make):
        self.make = make

    def request_stream(self, payload):
        return self.make()


class Bare:
    """An async iterator without `aclose` and `athrow`."""

    def __init__(self, n):
        self.left = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return Payload(b"x")


async def test_an_iterator_that_cannot_be_closed(link):
    """It is iterated, and not closed when the stream is cancelled."""
    async with link(Streams(lambda: Bare(10**9))) as here:
        async with here.requester.request_stream(prefetch=2) as items:
            await items.receive()
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()
        async with here.requester.request_stream(prefetch=2) as items:
            assert len([await items.receive() for _ in range(100)]) == 100


async def test_a_cancellation_happens_at_the_yield(link):
    """A generator that waits for credit sees Cancelled where it yields."""
    log = []

    async def watching():
        try:
            while True:
                yield Payload(b"x")
        except trio.Cancelled:
            log.append("cancelled")
            raise

    async with link(Streams(watching)) as here:
        async with here.requester.request_stream(prefetch=1):
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["cancelled"]
        here.assert_idle()


async def test_a_generators_own_deadline(link, autojump_clock):
    """A cancel scope around the yield ends only that generator."""

    async def limited():
        with trio.move_on_after(3):
            while True:
                yield Payload(b"x")

    async with link(Streams(limited)) as here:
        begin = trio.current_time()
        async with here.requester.request_stream(prefetch=1) as items:
            await trio.sleep(5)
            assert len([item async for item in items]) == 1
        assert trio.current_time() - begin == 5
        here.assert_idle()


async def test_a_generator_that_suppresses_an_error(link, caplog):
    """It loses the item that the error was about, and the stream ends."""

    async def stubborn():
        while True:
            with suppress(AttributeError):
                yield "no payload"

    async with link(Streams(stubborn)) as here:
        async with here.requester.request_stream() as items:
            with pytest.raises(ApplicationError):
                await items.receive()
        here.assert_idle()


async def test_a_nursery_around_the_yield(link):
    """A generator with a yield in a nursery is closed without a failure."""

    async def in_a_nursery():
        async with trio.open_nursery():
            while True:
                yield Payload(b"x")

    async with link(
        Streams(in_a_nursery), ConnectionConfig(limits=Limits(max_outbox_size=1))
    ) as here:
        for prefetch in (1, 100):
            async with here.requester.request_stream(prefetch=prefetch) as items:
                await items.receive()
            await trio.testing.wait_all_tasks_blocked()
            here.assert_idle()


@pytest.mark.parametrize("kind", ["response", "stream", "fnf", "streamed", "channel"])
async def test_a_generator_that_was_sent_already_is_refused(kind):
    """It is not an empty one: the caller gets an error, and no frame is sent."""

    class Echo(Responder):
        async def request_response(self, payload):
            received.append(payload)
            return payload

        async def request_stream(self, payload):
            received.append(payload)
            yield payload

        async def fire_and_forget(self, payload):
            received.append(payload)

        async def request_channel(self, payload, payloads):
            async for item in payloads:
                received.append(item)
                yield item

    async def chunks():
        yield b"chunk"

    async def source():
        yield Payload(b"chunk")

    async def send():
        if kind == "response":
            await requester.request_response(payload)
        elif kind == "fnf":
            await requester.fire_and_forget(payload)
        elif kind == "streamed":
            async with requester.request_response_streamed(payload) as body:
                async for _ in body:
                    pass
        else:
            opened = (
                requester.request_stream(payload)
                if kind == "stream"
                else requester.request_channel(items)
            )
            async with opened as answers:
                async for _ in answers:
                    pass

    received = []
    payload, items = StreamedPayload(chunks()), source()
    async with connected_pair(Echo()) as requester:
        await send()
        with pytest.raises(RuntimeError, match="iterated already"):
            await send()
        await trio.testing.wait_all_tasks_blocked()
        assert received == [Payload(b"chunk")]
        assert requester.statistics().open_streams == 0
