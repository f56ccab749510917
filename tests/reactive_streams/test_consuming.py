"""`collect`, `for_each` and `to_channel`."""

from __future__ import annotations

from itertools import count

import pytest
import trio
import trio.testing

from rsocket_trio.reactive_streams import collect, failed, for_each, from_iterable, just, to_channel
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from tests.reactive_streams.recording import ByHand


async def test_collect():
    assert await collect(from_iterable(range(300))) == list(range(300))
    assert await collect(from_iterable(count()), limit=100) == list(range(100))
    with pytest.raises(OSError, match="x"):
        await collect(failed(OSError("x")))


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_for_each(asynchronous):
    seen = []

    async def later(element):
        await trio.lowlevel.checkpoint()
        seen.append(element)

    await for_each(from_iterable(count()), later if asynchronous else seen.append, limit=5)
    assert seen == [0, 1, 2, 3, 4]


async def test_for_each_raises_what_the_function_raises():
    publisher = ByHand()

    def fail(element):
        raise KeyError(element)

    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def run():
            with pytest.raises(KeyError):
                await for_each(publisher, fail)

        await trio.testing.wait_all_tasks_blocked()
        publisher.subscriber.on_next(1)
    assert publisher.subscription.cancelled == 1


async def test_a_channel_has_several_readers():
    seen = []

    async def read(channel):
        async with channel:
            async for each in channel:
                seen.append(each)
                await trio.lowlevel.checkpoint()

    async with to_channel(from_iterable(range(100)), 4) as channel:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(read, channel.clone())
    assert sorted(seen) == list(range(100))


async def test_a_channel_requests_its_capacity():
    publisher = ByHand()
    async with to_channel(publisher, 4):
        assert publisher.subscription.requested == [4]
        for number in range(4):
            publisher.subscriber.on_next(number)
        await trio.testing.wait_all_tasks_blocked()
        assert publisher.subscription.requested == [4, 1]
    assert publisher.subscription.cancelled == 1


async def test_elements_of_a_channel_come_before_the_error():
    publisher = ByHand()
    seen = []
    with pytest.raises(KeyError):
        async with to_channel(publisher, 4) as channel:
            publisher.subscriber.on_next(1)
            publisher.subscriber.on_error(KeyError())
            seen = [each async for each in channel]
            seen.append("end")
    assert seen == [1, "end"]


async def test_the_block_raises_its_own_error():
    publisher = ByHand()
    with pytest.raises(OSError, match="mine"):
        async with to_channel(publisher, 4):
            raise OSError("mine")
    assert publisher.subscription.cancelled == 1


async def test_an_error_of_the_block_and_a_cancellation_at_once():
    """The error comes out, alone."""
    caught = None
    with trio.CancelScope() as scope:
        try:
            async with to_channel(ByHand(), 4):
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                raise OSError("mine")
        except OSError as error:
            caught = str(error)
    assert caught == "mine"


async def test_closing_the_channel_cancels():
    publisher = ByHand()
    async with to_channel(publisher, 4) as channel:
        await channel.aclose()
        publisher.subscriber.on_next(1)
        await trio.testing.wait_all_tasks_blocked()
        assert publisher.subscription.cancelled == 1


async def test_a_channel_takes_a_capacity():
    with pytest.raises(ValueError, match="capacity"):
        async with to_channel(just(1), 0):
            pass


async def by_collect(publisher):
    await collect(publisher, limit=5, prefetch=2)


async def by_for_each(publisher):
    async def wait(element):
        await trio.lowlevel.checkpoint()

    await for_each(publisher, wait, limit=5, prefetch=2)


async def by_channel(publisher):
    async with to_channel(publisher, 2) as channel:
        for _ in range(5):
            await channel.receive()


@pytest.mark.parametrize("use", [by_collect, by_for_each, by_channel])
async def test_cancelled_everywhere(use):
    open_now = []

    def source():
        open_now.append(1)
        try:
            yield from count()
        finally:
            open_now.pop()

    async def check():
        assert open_now == []

    assert await cancel_everywhere(lambda: use(from_iterable(source)), check) > 2
