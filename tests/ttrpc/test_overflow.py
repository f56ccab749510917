"""Streams that are not read, on either side: they fail or pause, and others go on.

The modules `rsocket_trio.ttrpc.inbox` and `rsocket_trio.ttrpc.reader`.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.ttrpc import (
    Method,
    MethodKind,
    ResourceExhausted,
    StatusCode,
    TtrpcConfig,
    TtrpcLimits,
)
from tests.ttrpc.scenes import (
    CHAT,
    COUNT,
    ECHO,
    SERVICE,
    answer,
    client_of_stranger,
    data,
    end,
    opening,
    request,
    stranger_to,
    things,
)

BOTH = pytest.mark.parametrize("over", ["memory", "socket"])
SMALL = TtrpcLimits(max_stream_size=1000)
FAIL = TtrpcConfig(limits=SMALL, overflow_patience=2)
PAUSE = TtrpcConfig(limits=SMALL, overflow="pause")
MESSAGE = bytes(100)  # six fit, as each counts 64 bytes more


class Slow:
    """A method whose handler begins to read when the gate opens, or after some time."""

    def __init__(self, delay: float = float("inf")):
        self.gate = trio.Event()
        self.delay = delay
        self.received = 0
        self.service = things()
        self.service.add(Method.raw(SERVICE, "Slow", MethodKind.CLIENT_STREAM), self.slow)

    async def slow(self, messages):
        with trio.move_on_after(self.delay):
            await self.gate.wait()
        received = 0
        async for _ in messages:
            received += 1
        self.received += received
        return b"%d" % received


# -- a server -----------------------------------------------------------------------------------


@BOTH
async def test_a_stream_that_is_not_read_fails(over, autojump_clock):
    """With RESOURCE_EXHAUSTED, after its time; its handler is cancelled, and others go on."""
    slow = Slow()
    async with stranger_to(slow.service, config=FAIL, over=over) as stranger:
        begun = trio.current_time()
        await stranger.send(opening(1, "Slow"), *[data(1, MESSAGE)] * 7, request(3, payload=b"x"))
        frames = [await stranger.frame(), await stranger.frame()]
        assert [(each.stream_id, each.code) for each in frames] == [
            (1, StatusCode.RESOURCE_EXHAUSTED),
            (3, 0),
        ]
        assert "faster than they are received" in frames[0].status.message
        assert trio.current_time() - begun == pytest.approx(2)
        assert slow.received == 0
        await stranger.send(data(1, MESSAGE), end(1))
        assert await stranger.ask(5) == b"alive?"


@BOTH
async def test_a_reader_that_catches_up_does_not_fail(over, autojump_clock):
    """A thousand messages in one write are no fault of their sender."""
    slow = Slow(delay=1)
    async with stranger_to(slow.service, config=FAIL, over=over) as stranger:
        await stranger.send(opening(1, "Slow"), *[data(1, MESSAGE)] * 1000, end(1))
        await trio.sleep(3)
        assert (await stranger.frame()).payload == b"1000"


@BOTH
async def test_a_reader_that_is_too_slow_fails(over, autojump_clock):
    """A message now and then is not enough: the other calls would wait each time, without end."""
    service = things()

    async def sip(messages):
        async for _ in messages:
            await trio.sleep(1.5)

    service.add(Method.raw(SERVICE, "Sip", MethodKind.CLIENT_STREAM), sip)
    limits = TtrpcLimits(max_stream_size=100 * 164)  # a 32nd part of it is three messages
    config = TtrpcConfig(limits=limits, overflow_patience=2)
    async with stranger_to(service, config=config, over=over) as stranger:
        begun = trio.current_time()
        await stranger.send(opening(1, "Sip"), *[data(1, MESSAGE)] * 200, request(3, payload=b"x"))
        frames = [await stranger.frame(), await stranger.frame()]
        assert [(each.stream_id, each.code) for each in frames] == [
            (1, StatusCode.RESOURCE_EXHAUSTED),
            (3, 0),
        ]
        assert trio.current_time() - begun == pytest.approx(2)


@BOTH
async def test_a_reader_that_is_quick_enough_does_not_fail(over, autojump_clock):
    """A 32nd part of the limit in each time is enough, however long the whole takes."""
    service = things()

    async def read(messages):
        received = 0
        async for _ in messages:
            received += 1
            await trio.sleep(0.3)
        return b"%d" % received

    service.add(Method.raw(SERVICE, "Read", MethodKind.CLIENT_STREAM), read)
    limits = TtrpcLimits(max_stream_size=100 * 164)
    config = TtrpcConfig(limits=limits, overflow_patience=2)
    async with stranger_to(service, config=config, over=over) as stranger:
        await stranger.send(opening(1, "Read"), *[data(1, MESSAGE)] * 500, end(1))
        await trio.sleep(200)
        assert (await stranger.frame()).payload == b"500"


@BOTH
async def test_a_stream_may_pause_the_connection(over, autojump_clock):
    """By choice: nothing fails, however long it takes, and the other calls wait."""
    slow = Slow()
    async with stranger_to(slow.service, config=PAUSE, over=over) as stranger:
        await stranger.send(opening(1, "Slow"), *[data(1, MESSAGE)] * 50, end(1))
        await stranger.send(request(3, payload=b"x"))
        await trio.sleep(1000)
        assert await stranger.drain() == []
        slow.gate.set()
        frames = await stranger.drain()
        assert sorted((each.stream_id, each.payload) for each in frames) == [(1, b"50"), (3, b"x")]


@BOTH
async def test_a_slow_stream_beside_quick_ones(over, autojump_clock):
    """The quick ones get all their messages, and only the slow one fails."""
    slow = Slow()
    async with stranger_to(slow.service, config=FAIL, over=over) as stranger:
        await stranger.send(opening(1, "Slow"), opening(3), opening(5, "Chat"))
        for _ in range(20):
            await stranger.send(data(1, MESSAGE), data(3, b"j"), data(5, b"c"))
        await stranger.send(end(3), end(5))
        await trio.sleep(10)
        frames = await stranger.drain()
        assert next(each for each in frames if each.stream_id == 3).payload == b"j" * 20
        assert [each.body for each in frames if each.stream_id == 5] == [b"C"] * 20 + [b""]
        (failed,) = [each for each in frames if each.stream_id == 1]
        assert failed.code == StatusCode.RESOURCE_EXHAUSTED


async def test_one_message_of_any_size_fits(autojump_clock):
    """Also one that is longer than the limit of a stream, and the first of a REQUEST."""
    slow = Slow()
    async with stranger_to(slow.service, config=FAIL) as stranger:
        await stranger.send(opening(1, "Slow", payload=bytes(5000)), end(1))
        await stranger.send(opening(3, "Slow"), data(3, bytes(5000)), end(3))
        await stranger.send(request(5, payload=b"x"))
        assert (await stranger.frame()).payload == b"x"  # nothing has paused
        await trio.sleep(100)
        assert await stranger.drain() == []
        slow.gate.set()
        assert [each.payload for each in await stranger.drain()] == [b"1", b"1"]


@pytest.mark.parametrize("overflow", ["fail", "pause"])
async def test_all_streams_together_are_limited(overflow, autojump_clock):
    """The one with the most unread bytes fails, or all wait until something is received."""
    limits = TtrpcLimits(max_stream_size=10_000, max_unread_size=2000)
    config = TtrpcConfig(limits=limits, overflow=overflow, overflow_patience=2)
    slow = Slow()
    async with stranger_to(slow.service, config=config) as stranger:
        await stranger.send(opening(1, "Slow"), opening(3, "Slow"), opening(5))
        await stranger.send(*[data(1, MESSAGE)] * 10, *[data(3, MESSAGE)] * 3)
        await stranger.send(*[data(5, b"quick")] * 10, end(5))
        await trio.sleep(1)
        assert await stranger.drain() == []
        await trio.sleep(10)
        frames = {each.stream_id: each for each in await stranger.drain()}
        if overflow == "fail":
            assert frames.keys() == {1, 5}
            assert frames[1].code == StatusCode.RESOURCE_EXHAUSTED
        else:
            assert frames == {}
            slow.gate.set()
            frames = {each.stream_id: each for each in await stranger.drain()}
        assert frames[5].payload == b"quick" * 10


async def test_requests_of_streams_count_as_unread(autojump_clock):
    """The payloads of REQUESTs cannot fill the memory, although no DATA has come."""
    limits = TtrpcLimits(max_unread_size=5000)
    config = TtrpcConfig(limits=limits)
    slow = Slow()
    async with stranger_to(slow.service, config=config) as stranger:
        for stream_id in range(1, 41, 2):
            await stranger.send(opening(stream_id, "Slow", payload=bytes(1000)))
        await trio.sleep(100)
        failed = [each.code for each in await stranger.drain()]
        assert len(failed) >= 15
        assert set(failed) == {StatusCode.RESOURCE_EXHAUSTED}


async def test_metadata_of_streams_count_as_requests():
    limits = TtrpcLimits(max_requests_size=5000)
    slow = Slow()
    async with stranger_to(slow.service, config=TtrpcConfig(limits=limits)) as stranger:
        for stream_id in range(1, 41, 2):
            await stranger.send(opening(stream_id, "Slow", metadata=(("k", "v" * 1000),)))
        assert len(await stranger.drain()) == 16


@BOTH
async def test_a_call_that_ends_while_it_is_held(over, autojump_clock):
    """The reading goes on at once: an inbox that nobody wants needs no room."""
    gate = trio.Event()

    async def first(messages):
        await gate.wait()
        return b"done"

    service = things()
    service.add(Method.raw(SERVICE, "First", MethodKind.CLIENT_STREAM), first)
    async with stranger_to(service, config=PAUSE, over=over) as stranger:
        await stranger.send(opening(1, "First"), *[data(1, MESSAGE)] * 20, request(3, payload=b"x"))
        await trio.sleep(100)
        assert await stranger.drain() == []
        gate.set()
        frames = await stranger.drain()
        assert [(each.stream_id, each.payload) for each in frames] == [(1, b"done"), (3, b"x")]


@BOTH
async def test_a_deadline_ends_a_call_that_is_held(over, autojump_clock):
    slow = Slow()
    async with stranger_to(slow.service, config=PAUSE, over=over) as stranger:
        await stranger.send(opening(1, "Slow", timeout=5 * 10**9), *[data(1, MESSAGE)] * 20)
        await stranger.send(request(3, payload=b"x"))
        await trio.sleep(4)
        assert await stranger.drain() == []
        await trio.sleep(2)
        assert [each.code for each in await stranger.drain()] == [4, 0]


@BOTH
@pytest.mark.parametrize("config", [FAIL, PAUSE], ids=["fail", "pause"])
async def test_the_peer_closes_while_a_stream_is_held(config, over, autojump_clock):
    """What it has sent before is dispatched first; then the connection ends."""
    slow = Slow(delay=1)
    async with stranger_to(slow.service, config=config, over=over) as stranger:
        await stranger.send(opening(1, "Slow"), *[data(1, MESSAGE)] * 50, end(1))
        await stranger.send(request(3, payload=b"x"))
        await stranger.end_sending()
        frames = await stranger.until_end()
        assert sorted((each.stream_id, each.payload) for each in frames) == [(1, b"50"), (3, b"x")]


@BOTH
async def test_handlers_wait_while_a_stream_is_held(over, autojump_clock):
    """The crew hands the rest of a read over in the middle of it, again and again."""
    service = things()
    beside = []

    async def waits(request):
        beside.append(request)
        await trio.sleep(0.1)
        return request

    async def slow(messages):
        count = 0
        async for _ in messages:
            count += 1
            await trio.sleep(0.01)
        return b"%d" % count

    service.add(Method.raw(SERVICE, "Waits"), waits)
    service.add(Method.raw(SERVICE, "Slow", MethodKind.CLIENT_STREAM), slow)
    async with stranger_to(service, config=FAIL, over=over) as stranger:
        frames = [opening(1, "Slow")]
        ids = range(3, 403, 2)
        for stream_id in ids:
            frames += [data(1, MESSAGE), request(stream_id, "Waits", b"%d" % stream_id)]
        await stranger.send(*frames, end(1))
        await trio.sleep(100)
        got = {each.stream_id: each.payload for each in await stranger.drain()}
        assert got == {1: b"200"} | {each: b"%d" % each for each in ids}


# -- a client -----------------------------------------------------------------------------------


@BOTH
async def test_a_client_whose_stream_is_not_read(over, autojump_clock):
    """It fails, and what has arrived is dropped, so that others have room; other calls go on."""
    async with (
        client_of_stranger(config=FAIL, over=over) as (client, stranger),
        client.server_stream(COUNT, b"") as replies,
        trio.open_nursery() as nursery,
    ):
        await stranger.drain()
        await stranger.send(*[data(1, MESSAGE)] * 20, answer(3, b"quick"))
        begun = trio.current_time()

        async def ask():
            assert await client.unary(ECHO, b"") == b"quick"
            assert trio.current_time() - begun == pytest.approx(2)

        nursery.start_soon(ask)
        await trio.sleep(10)
        assert client.statistics().unread_size == 0
        with pytest.raises(ResourceExhausted, match="faster than they are received"):
            await replies.receive()


@BOTH
async def test_a_client_may_pause(over, autojump_clock):
    async with (
        client_of_stranger(config=PAUSE, over=over) as (client, stranger),
        client.server_stream(COUNT, b"") as replies,
    ):
        await stranger.drain()
        await stranger.send(*[data(1, MESSAGE)] * 100, end(1))
        await trio.sleep(1000)
        assert len([each async for each in replies]) == 100


async def test_the_server_is_told_that_an_overflowing_call_sends_no_more(autojump_clock):
    """Else its handler would wait for messages for ever."""
    async with (
        client_of_stranger(config=FAIL) as (client, stranger),
        client.bidi_stream(CHAT) as call,
    ):
        await stranger.drain()
        await stranger.send(*[data(1, MESSAGE)] * 20)
        await trio.sleep(10)
        (told,) = await stranger.drain()
        assert (told.stream_id, told.flags) == (1, 0x05)
        with pytest.raises(ResourceExhausted):
            await call.send(b"x")


async def test_a_client_that_leaves_a_stream_that_is_held(autojump_clock):
    """The reading goes on."""
    async with client_of_stranger(config=PAUSE) as (client, stranger):
        async with client.server_stream(COUNT, b""):
            await stranger.drain()
            await stranger.send(*[data(1, MESSAGE)] * 100, answer(3, b"x"))
            await trio.sleep(10)
        await stranger.send(answer(3, b"x"))
        assert await client.unary(ECHO, b"") == b"x"


async def test_all_streams_of_a_client_together_are_limited(autojump_clock):
    limits = TtrpcLimits(max_unread_size=2000)
    config = TtrpcConfig(limits=limits, overflow_patience=2)
    async with (
        client_of_stranger(config=config) as (client, stranger),
        client.server_stream(COUNT, b"") as slow,
        client.server_stream(COUNT, b"") as less,
        client.server_stream(COUNT, b"") as quick,
    ):
        await stranger.drain()
        await stranger.send(*[data(1, MESSAGE)] * 10, *[data(3, MESSAGE)] * 3)
        await stranger.send(*[data(5, MESSAGE)] * 10, end(5), end(3))
        assert len([each async for each in quick]) == 10
        assert len([each async for each in less]) == 3
        with pytest.raises(ResourceExhausted):
            [each async for each in slow]
