"""request_stream between two real ends, in both directions."""

from __future__ import annotations

import sys

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    ConnectionConfig,
    CustomError,
    Limits,
    LocalProtocolError,
    Payload,
    Rejected,
    Responder,
)


class Streams(Responder):
    """Answers with an async iterable that a function makes of the request."""

    def __init__(self, make):
        self.make = make

    def request_stream(self, payload):
        return self.make(payload)


async def count(payload):
    """A number of items: the data of the request."""
    for number in range(int(payload.data)):
        yield Payload(b"%d" % number)


async def collect(requester, payload, **options):
    """Return all items of a stream."""
    async with requester.request_stream(payload, **options) as stream:
        return [item async for item in stream]


def numbers(n):
    return [Payload(b"%d" % number) for number in range(n)]


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
@pytest.mark.parametrize("prefetch", [1, 2, 3, 256, None])
async def test_items_arrive_in_order(link, n, prefetch):
    """All items arrive in order, with any window, and no stream is left."""
    async with link(Streams(count)) as here:
        assert await collect(here.requester, Payload(b"%d" % n), prefetch=prefetch) == numbers(n)
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


@pytest.mark.parametrize("config", [ConnectionConfig(), ConnectionConfig(fragment_size=64)])
async def test_items_arrive_as_they_were_sent(link, config):
    """Data and metadata, absent, empty and large, whole and in fragments."""
    items = [Payload(d, m) for d in (b"", b"d" * 200) for m in (None, b"", b"m" * 200)]

    async def repeat(payload):
        assert payload == items[-1]
        for item in items:
            yield item

    async with link(Streams(repeat), config) as here:
        assert await collect(here.requester, items[-1], prefetch=2) == items
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_a_large_item(link):
    """16 MiB in one item of a stream."""
    item = Payload(b"x" * 2**24, b"m")

    async def one(_):
        yield item

    async with link(Streams(one)) as here:
        assert await collect(here.requester, Payload()) == [item]


@pytest.mark.parametrize("metadata", [None, b"m"])
async def test_an_item_that_was_sent_is_free(link, metadata):
    """Nothing keeps it while the handler makes the next one."""
    references = []

    async def two(_):
        data = b"x" * (2**20 + len(references))
        before = sys.getrefcount(data)
        yield Payload(data, metadata)
        references.append(sys.getrefcount(data) - before)
        yield Payload(b"")

    async with link(Streams(two)) as here:
        assert len(await collect(here.requester, Payload())) == 2
    assert references == [0]


@pytest.mark.parametrize("error", [Rejected("no"), CustomError("mine", code=0x301)])
@pytest.mark.parametrize("after", [0, 3])
async def test_errors_come_behind_the_items(link, error, after):
    """Items before the error are delivered; then each read raises the error."""

    async def failing(_):
        for item in numbers(after):
            yield item
        raise error

    async with link(Streams(failing)) as here:
        got = []
        async with here.requester.request_stream(Payload()) as stream:
            with pytest.raises(type(error)) as caught:
                async for item in stream:
                    got.append(item)
            assert (got, caught.value.data) == (numbers(after), error.data)
            with pytest.raises(type(error)):
                await stream.receive()
        here.assert_idle()


async def awaited(_):
    return count(Payload(b"2"))


def channel(_):
    send, receive = trio.open_memory_channel(2)
    with send:
        for item in numbers(2):
            send.send_nowait(item)
    return receive


@pytest.mark.parametrize("make", [awaited, channel], ids=["coroutine", "memory-channel"])
async def test_kinds_of_iterables(link, make):
    """A handler may be a coroutine function, or return any async iterable."""
    async with link(Streams(make)) as here:
        assert await collect(here.requester, Payload()) == numbers(2)


async def raising(_):
    raise ValueError("secret")


def raising_at_once(_):
    raise ValueError("secret")


async def fails_later(_):
    yield Payload(b"0")
    raise ValueError("secret")


async def yields_text(_):
    yield "text"


@pytest.mark.parametrize(
    "make",
    [lambda _: [Payload()], lambda _: None, raising, raising_at_once, fails_later, yields_text],
    ids=["list", "None", "raising", "raising-at-once", "fails-later", "yields-text"],
)
async def test_unexpected_failures_are_not_sent(link, make, caplog):
    """A wrong result or a failure ends one stream; the peer gets a plain error."""
    async with link(Streams(make)) as here:
        with pytest.raises(ApplicationError) as caught:
            await collect(here.requester, Payload())
        assert caught.value.message == "the handler failed"
        here.assert_idle()
    assert "a handler failed" in caplog.text


@pytest.mark.parametrize("prefetch", [1, 4, 5, 100])
async def test_a_producer_keeps_to_the_window(link, prefetch):
    """Without a reader, a producer is asked for at most one item more than the window."""
    made = []

    async def endless(_):
        while True:
            made.append(1)
            yield Payload(b"x")

    async with link(Streams(endless)) as here:
        async with here.requester.request_stream(Payload(), prefetch=prefetch) as stream:
            await trio.testing.wait_all_tasks_blocked()
            assert stream.statistics().unread == prefetch
            assert len(made) == prefetch + 1
            consumed = -(-prefetch // 4)
            for _ in range(consumed - 1):
                stream.receive_nowait()
            await trio.testing.wait_all_tasks_blocked()
            assert len(made) == prefetch + 1
            stream.receive_nowait()
            await trio.testing.wait_all_tasks_blocked()
            assert len(made) == prefetch + 1 + consumed
            assert stream.statistics().peak_unread == prefetch
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_manual_demand(link):
    """With prefetch=0 exactly the granted items come."""
    async with link(Streams(count)) as here:
        async with here.requester.request_stream(
            Payload(b"10"), prefetch=0, initial_request_n=2
        ) as stream:
            await trio.testing.wait_all_tasks_blocked()
            assert await stream.receive_many() == numbers(2)
            with pytest.raises(trio.WouldBlock):
                stream.receive_nowait()
            stream.request_n(3)
            await trio.testing.wait_all_tasks_blocked()
            assert await stream.receive_many(2) == numbers(4)[2:]
            assert await stream.receive_many() == numbers(5)[4:]
            stream.request_n(100)
            assert [item async for item in stream] == numbers(10)[5:]
            stream.request_n(1)  # This is too late to have an effect, and not an error.
        here.assert_idle()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prefetch": -1}, "prefetch must be 0 to 100"),
        ({"prefetch": 101}, "prefetch must be 0 to 100"),
        ({"prefetch": 1, "initial_request_n": 1}, "needs prefetch=0"),
        ({"prefetch": 0, "initial_request_n": 0}, "initial_request_n must be 1 to 100"),
        ({"prefetch": 0, "initial_request_n": 101}, "initial_request_n must be 1 to 100"),
    ],
)
async def test_invalid_demand_is_refused(link, options, text):
    """Windows beyond Limits.max_prefetch and invalid values are refused before a frame leaves."""
    config = ConnectionConfig(limits=Limits(max_prefetch=100))
    async with link(Streams(count), config) as here:
        with pytest.raises(LocalProtocolError, match=text):
            here.requester.request_stream(Payload(b"1"), **options)
        assert await collect(here.requester, Payload(b"3"), prefetch=100) == numbers(3)
        assert await collect(here.requester, Payload(b"300")) == numbers(300)
        here.assert_idle()


async def test_leaving_early_closes_the_generator(link):
    """Leaving the block is CANCEL there: the generator's finally runs in the handler's task."""
    tasks = []

    async def endless(_):
        tasks.append(trio.lowlevel.current_task())
        try:
            while True:
                yield Payload(b"x")
        finally:
            tasks.append(trio.lowlevel.current_task())

    async with link(Streams(endless)) as here:
        async with here.requester.request_stream(Payload(), prefetch=4) as stream:
            await stream.receive()
        await trio.testing.wait_all_tasks_blocked()
        assert len(tasks) == 2
        assert tasks[0] is tasks[1]
        here.assert_idle()


async def test_a_request_that_waits_for_room(link):
    """A stream can be opened with a large request through a small outbox."""
    config = ConnectionConfig(fragment_size=64, limits=Limits(max_outbox_size=64))

    async def size(payload):
        yield Payload(b"%d" % len(payload.data))

    async with link(Streams(size), config) as here:
        (item,) = await collect(here.requester, Payload(b"x" * 10**5))
        assert item == Payload(b"100000")
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()
