"""Peers that cause many answers and read none: what waits for them is bounded."""

from __future__ import annotations

import gc
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionClosed, rsio
from rsocket_trio.reactive_streams import collect, from_iterable, never
from rsocket_trio.rsio.connection.publication import Publication
from rsocket_trio.rsio.wire.messages import (
    Cancel,
    ClientHello,
    Extension,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    Request,
    Subscribe,
    encode,
)
from tests.rsio.engine_scenes import Stranger, numbers
from tests.rsio.test_hostile_peers import settle
from tests.waiting import until


@pytest.mark.limits_row("rsio: subscriptions and cancels whose answers are not read")
async def test_a_flood_of_subscriptions_and_cancels_ends_the_connection():
    """Answers that the peer does not read are bounded, and another connection is not harmed."""
    target = {"never": never(), "count": from_iterable(numbers(10))}
    ours, theirs = trio.testing.memory_stream_pair()
    # The socket to the flooder takes nothing.
    lockstep, server_end = trio.testing.lockstep_stream_pair()
    flood = b"".join(
        encode(Subscribe("never", number % 7, 1)) + encode(Cancel(number % 7))
        for number in range(10_000)
    )
    sent = 0
    failures = []

    async def watch(connection):
        with trio.CancelScope(shield=True):
            failures.append(await connection.wait_closed())

    async with trio.open_nursery() as nursery:
        config = rsio.RsioConfig(max_control_size=100_000, max_unsent_control_size=300_000)
        serve = partial(rsio.serve_stream, target, config=config, on_connection=watch)
        nursery.start_soon(serve, server_end)
        nursery.start_soon(rsio.serve_stream, target, theirs)

        async def send():
            nonlocal sent
            await lockstep.send_all(encode(ClientHello(0)))
            for at in range(0, len(flood), 1000):
                await lockstep.send_all(flood[at : at + 1000])
                sent = at

        nursery.start_soon(send)
        async with rsio.connect(ours) as connection:
            await until(lambda: failures)
            assert 20_000 < sent < len(flood) - 2000
            assert await collect(connection.publisher("count")) == numbers(10)
        nursery.cancel_scope.cancel()
    assert type(failures[0]) is ConnectionClosed
    assert "octets of answers are unsent" in str(failures[0])
    assert "RsioConfig.max_unsent_control_size is 300000" in str(failures[0])


async def test_a_peer_that_reads_late_gets_its_answers_and_a_reason(autojump_clock):
    lockstep, server_end = trio.testing.lockstep_stream_pair()
    config = rsio.RsioConfig(max_control_size=1000, max_unsent_control_size=2000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(rsio.serve_stream, {}, server_end, config=config))
        stranger = Stranger(lockstep)
        await stranger.send(ClientHello(0), *[Subscribe("nobody", each) for each in range(10)])
        await settle()
        await stranger.send(*[Cancel(each) for each in range(10)] * 3)
        for _ in range(4):
            await stranger.send(*[Subscribe("nobody", each) for each in range(10)])
            await stranger.send(*[Cancel(each) for each in range(10)])
        assert (await stranger.next(Goodbye)).reason.endswith("octets of answers were not read")
        await stranger.send(Goodbye(""))
        assert await stranger.next() is None


async def test_subscriptions_begin_when_the_peer_has_read():
    """No resolver runs for a peer that reads no answers; what it asks for meanwhile is kept."""
    lockstep, server_end = trio.testing.lockstep_stream_pair()
    config = rsio.RsioConfig(max_control_size=1000)
    found = []

    def find(name, _connection):
        found.append(name)
        return from_iterable(numbers(3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(rsio.serve_stream, find, server_end, config=config))
        stranger = Stranger(lockstep)
        await stranger.send(ClientHello(0), *[Subscribe(f"{each}", each) for each in range(200)])
        await settle()
        assert len(found) < 50
        await stranger.send(Request(198, 2), Cancel(199), Request(197, 0))
        await settle()
        assert len(found) < 50
        ended = {}
        while len(ended) < 3:
            message = await stranger.next()
            if isinstance(message, OnComplete | OnError | OnNext):
                ended.setdefault(message.subscriber, message)
        await settle()
        assert found == [f"{each}" for each in range(199) if each != 197]
        assert ended[198] == OnNext(198, b"0")
        assert ended[199] == OnComplete(199)
        assert "3.9" in ended[197].error
        nursery.cancel_scope.cancel()


async def flood(serve, hello, burst, look=lambda: None):
    """Send until the server ends the connection; return how many bursts it took.

    No answer is read. The bursts behind the end are not counted: they are read for as long as the
    server waits for a goodbye, so their number is that of the machine.
    """
    ours, theirs = trio.testing.lockstep_stream_pair()
    ends = []
    sent = 0

    async def watch(connection):
        with trio.CancelScope(shield=True):
            ends.append(await connection.wait_closed())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve, stream=theirs, on_connection=watch))
        with suppress(trio.BrokenResourceError):
            await ours.send_all(encode(hello))
            while sent < 5000 and not ends:
                await ours.send_all(burst)
                sent += 1
                look()
        nursery.cancel_scope.cancel()
    assert "octets of answers are unsent" in str(ends[0])
    return sent


@pytest.mark.parametrize("name", ["ready", "empty", "unknown"])
async def test_ended_streams_that_wait_for_a_write_are_bounded(name):
    """A stream costs a thousand octets, its subscribe and its answers together a dozen."""
    target = {"ready": from_iterable([b"a"] * 1000), "empty": from_iterable([])}
    config = rsio.RsioConfig(max_unsent_control_size=2**20)
    counts = []

    def look():
        if len(counts) < 50:
            counts.append(sum(isinstance(each, Publication) for each in gc.get_objects()))

    burst = 100 * (encode(Subscribe(name, 3, 100)) + encode(Cancel(3)))
    sent = await flood(
        partial(rsio.serve_stream, target, config=config), ClientHello(0), burst, look
    )
    assert 50 < sent < 200
    assert max(counts) < 10


async def test_a_flood_of_pings_ends_the_connection():
    serve = partial(rsio.serve_stream, {}, extensions=[rsio.Ping()])
    burst = 100 * encode(Extension(0x40, b"x" * 60))
    assert 300 < await flood(serve, ClientHello(0, (1,)), burst) < 400
