"""Handlers that do odd things with their batch or with their cancellation."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import ConnectionLost
from rsocket_trio.lumberjack import LumberjackConfig, serve
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to, served, shared

QUIET = LumberjackConfig(keepalive_interval=1000)


async def test_another_task_acknowledges(autojump_clock):
    """A task that outlives the handler may acknowledge parts meanwhile; never backwards."""
    batches, results = [], []

    async def handler(batch):
        batches.append(batch)
        await trio.sleep(10)

    async with served(shared(handler, QUIET)) as one, trio.open_nursery() as nursery:

        async def acknowledge():
            await trio.sleep(1)
            for n in (3, 1, 2, 4, 0):
                await batches[0].ack(n)
                results.append(batches[0].acknowledged)
            await trio.sleep(20)
            for n in (1, 5):  # All is acknowledged by now.
                await batches[0].ack(n)
                results.append(batches[0].acknowledged)

        nursery.start_soon(acknowledge)
        await one.sender.send(full_window(5))
        assert [await one.sender.ack() for _ in range(3)] == [(2, 3), (2, 4), (2, 5)]
        await one.sender.no_ack_for(100)
    assert results == [3, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize("change", [list.clear, list.pop, lambda raw: raw.append(b"2")])
async def test_the_list_of_events_is_changed(autojump_clock, change):
    """The sender has sent five events, whatever the handler makes of its list of them."""

    async def handler(batch):
        change(batch.raw)
        assert len(batch) == 5

    async with served(shared(handler, QUIET)) as one:
        for _ in range(2):
            await one.sender.send(full_window(5))
            assert await one.sender.ack() == (2, 5)


async def test_a_thread_acknowledges():
    """By `trio.from_thread.run`."""

    async def handler(batch):
        def work():
            for n in range(1, len(batch) + 1):
                trio.from_thread.run(batch.ack, n)
            return batch.acknowledged

        assert await trio.to_thread.run_sync(work) == 5

    async with served(shared(handler, QUIET)) as one:
        await one.sender.send(full_window(5))
        assert [await one.sender.ack() for _ in range(5)] == [(2, n) for n in range(1, 6)]


async def test_an_ack_after_the_sender_is_gone():
    """It raises, and acknowledges nothing, also much later and from any task."""
    kept = []

    async def handler(batch):
        kept.append(batch)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(full_window(3))
            while not kept:
                await trio.sleep(0.01)
        while server.statistics().connections:
            await trio.sleep(0.01)
        for n in (1, 3):
            with pytest.raises(ConnectionLost, match="the connection of this batch is over"):
                await kept[0].ack(n)
        await kept[0].ack(0)
        assert kept[0].acknowledged == 0
        await server.aclose()


async def swallow():
    while True:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return


@pytest.mark.parametrize("end", ["the sender leaves", "the grace is over"])
async def test_a_handler_that_swallows_its_cancellation(end, caplog):
    """It has returned, which is its promise: the ACK leaves if the sender is still there."""
    begun, ended = trio.Event(), trio.Event()
    acks = []

    async def handler(_batch):
        begun.set()
        await swallow()
        ended.set()

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(full_window(3))
            await begun.wait()
            if end == "the grace is over":
                await server.aclose(grace=0.01)
                acks = await sender.acks_until_end()
        with trio.fail_after(30):
            await ended.wait()
            while server.statistics().connections:
                await trio.sleep(0.01)
        await server.aclose()
    assert acks == ([] if end == "the sender leaves" else [(2, 3)])
    assert server.statistics().held_batches == 0
    assert "crashed" not in caplog.text


async def test_a_handler_that_never_returns_harms_only_its_sender(autojump_clock):
    """Its sender gets keep-alives, and others are served."""

    async def handler(batch):
        if batch.events[0]["n"] == 1:
            await trio.sleep_forever()

    of_all = shared(handler, LumberjackConfig(keepalive_interval=5))
    async with served(of_all) as stuck, served(of_all) as other:
        await stuck.sender.send(full_window(2) * 10)
        for n in range(5, 50):
            await other.sender.send(full_window(1, n))
            assert await other.sender.ack() == (2, n)
        assert [await stuck.sender.ack() for _ in range(100)] == [(2, 0)] * 100
        assert trio.current_time() == pytest.approx(500)
        stuck.scope.cancel()
        await stuck.over.wait()
    assert (of_all.room.batches, of_all.intake.size) == (0, 0)
