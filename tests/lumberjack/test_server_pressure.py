"""Senders that are faster than handlers: what is read, what is held, and who comes next."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.lumberjack import LumberjackConfig, LumberjackLimits, encode_batch, serve
from rsocket_trio.lumberjack.server.room import Room
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to, served, shared
from tests.lumberjack.vectors import ack, window
from tests.waiting import until


class Gate:
    """A handler that waits until it is let through."""

    def __init__(self):
        self.open = trio.Event()
        self.begun = []
        self.running = 0
        self.most = 0

    async def __call__(self, batch):
        self.begun.append(batch.events[0]["n"])
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.open.wait()
        finally:
            self.running -= 1


@pytest.mark.parametrize("waiting", [1, 2, 5])
async def test_what_is_read_ahead(waiting, autojump_clock):
    """While a batch is handled, exactly so many more are read; they are handled in order."""
    gate = Gate()
    of_all = shared(gate, LumberjackConfig(max_waiting_batches=waiting, keepalive_interval=1000))
    async with served(of_all) as one:
        for n in range(1, 11):
            await one.sender.send(full_window(1, n))
            await trio.testing.wait_all_tasks_blocked()
        assert of_all.room.batches == 1 + waiting
        assert gate.begun == [1]
        gate.open.set()
        assert [await one.sender.ack() for _ in range(10)] == [(2, n) for n in range(1, 11)]
        assert gate.begun == list(range(1, 11))
        assert gate.most == 1
        await trio.testing.wait_all_tasks_blocked()
    assert (of_all.room.batches, of_all.room.size) == (0, 0)


async def test_many_small_batches_in_one_read(autojump_clock):
    """The batches of one read wait outside of the room, and no more is read meanwhile."""
    gate = Gate()
    of_all = shared(gate, LumberjackConfig(keepalive_interval=1000))
    async with served(of_all) as one:
        await one.sender.send(b"".join(full_window(1, n) for n in range(1, 501)))
        await trio.testing.wait_all_tasks_blocked()
        assert of_all.room.batches == 3
        gate.open.set()
        assert [await one.sender.ack() for _ in range(500)] == [(2, n) for n in range(1, 501)]


async def test_acks_that_nobody_reads_are_bounded(autojump_clock):
    """A sender that reads no ACK gets no more of its events handled, so the ACKs stay few."""
    handled = []
    config = LumberjackConfig(keepalive_interval=1000, send_timeout=1000)

    async def take(batch):
        handled.extend(event["n"] for event in batch.events)

    async with served(shared(take, config), lockstep=True) as one:
        await one.sender.send(b"".join(full_window(1, n) for n in range(1, 3001)))
        await trio.testing.wait_all_tasks_blocked()
        assert len(handled) * len(ack(1)) < 2 * 4096
        assert [await one.sender.ack() for _ in range(3000)] == [(2, n) for n in range(1, 3001)]
        assert handled == list(range(1, 3001))


async def test_empty_windows_keep_their_place(autojump_clock):
    """A window of 0 is answered behind the batches before it."""
    gate = Gate()
    async with served(shared(gate, LumberjackConfig(keepalive_interval=1000))) as one:
        await one.sender.send(full_window(1, 7) + window(0) + full_window(1, 8) + window(0))
        await one.sender.no_ack_for(10)
        gate.open.set()
        assert [await one.sender.ack() for _ in range(4)] == [(2, 7), (2, 0), (2, 8), (2, 0)]


async def test_a_flooding_sender_is_stopped():
    """A sender that never waits for ACKs is stopped by TCP, and the memory stays bounded."""
    gate = Gate()
    data = encode_batch([b'{"n":1,"pad":"' + b"x" * 10_000 + b'"}'] * 100, compression_level=0)
    sent = 0
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, gate, ADDRESS)
        async with sender_to(server) as sender, trio.open_nursery() as flooding:

            async def flood():
                nonlocal sent
                while True:
                    await sender.send(data)
                    sent += 1

            flooding.start_soon(flood)
            await until(lambda: server.statistics().held_batches == 3)
            await trio.sleep(0.5)
            assert sent < 40  # What the buffers of the system hold.
            statistics = server.statistics()
            assert statistics.held_batches == 3
            assert statistics.held_size < 3.1e6
            flooding.cancel_scope.cancel()
        await server.aclose(grace=0)


@pytest.mark.limits_row("Lumberjack: whole batches, of all senders")
async def test_the_bounds_hold_over_all_connections():
    """Many senders share the room: no more batches than allowed, and each sender gets its turn."""
    config = LumberjackConfig(max_batches=4, keepalive_interval=0.05)
    handled, most = [], 0

    async def handler(batch):
        nonlocal most
        most = max(most, server.statistics().held_batches)
        await trio.sleep(0.002)
        handled.append(batch.events[0]["n"])

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, ADDRESS, config=config))

        async def send(number):
            async with sender_to(server) as sender:
                for _ in range(5):
                    await sender.send(full_window(1, number))
                for _ in range(5):
                    while (ack := await sender.ack()) == (2, 0):
                        pass
                    assert ack == (2, number)

        async with trio.open_nursery() as sending:
            for number in range(1, 21):
                sending.start_soon(send, number)
        await server.aclose()
    assert most == 4
    assert len(handled) == 100
    # The last sender has its first batch handled before the first one has had many.
    firsts = [handled.index(number) for number in range(1, 21)]
    assert max(firsts) < 70
    statistics = server.statistics()
    assert (statistics.held_batches, statistics.held_size, statistics.waiting) == (0, 0, 0)
    assert (statistics.batches, statistics.events, statistics.acknowledged) == (100, 100, 100)
    assert statistics.accepted == 20


async def test_one_sender_with_a_stuck_handler(autojump_clock):
    """It keeps what it holds, and the others share the rest."""

    async def handler(batch):
        if batch.events[0]["n"] == 7:
            await trio.sleep_forever()

    of_all = shared(handler, LumberjackConfig(max_batches=4, keepalive_interval=1000))
    async with served(of_all) as stuck, served(of_all) as other:
        for _ in range(6):
            await stuck.sender.send(full_window(1, 7))
            await trio.testing.wait_all_tasks_blocked()
        assert of_all.room.batches == 3
        for n in range(10, 20):
            await other.sender.send(full_window(1, n))
            assert await other.sender.ack() == (2, n)


async def test_a_batch_larger_than_the_room(autojump_clock):
    """It is handled alone, and the next ones wait for it."""
    gate = Gate()
    config = LumberjackConfig(max_held_size=100, keepalive_interval=1000)
    of_all = shared(gate, config, room=Room(100, 100))
    async with served(of_all) as large, served(of_all) as small:
        await large.sender.send(full_window(50))
        await trio.testing.wait_all_tasks_blocked()
        await small.sender.send(full_window(1, 7))
        await trio.testing.wait_all_tasks_blocked()
        assert gate.begun == [1]
        assert of_all.room.waiting == 1
        gate.open.set()
        assert await large.sender.ack() == (2, 50)
        assert await small.sender.ack() == (2, 7)


async def test_max_connections(caplog):
    """One connection more is closed at once."""

    async def accept(_batch):
        pass

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, accept, ADDRESS, max_connections=1))
        async with sender_to(server) as first:
            await first.send(full_window(1))
            assert await first.ack() == (2, 1)
            async with sender_to(server) as second:
                assert await second.ack() is None
            await first.send(full_window(1))
            assert await first.ack() == (2, 1)
        await server.aclose()
    assert "max_connections" in caplog.text


async def test_bytes_that_are_decoded_in_steps(autojump_clock):
    """Compressed frames that inflate to much are decoded a part at a time; all of it is handled."""
    limits = LumberjackLimits(max_inflated_size=3000)
    seen = 0

    async def handler(batch):
        nonlocal seen
        seen += len(batch)

    data = b"".join(encode_batch([b'{"pad":"%s"}' % (b"x" * 1000)] * 2) for _ in range(50))
    async with served(shared(handler, LumberjackConfig(limits=limits))) as one:
        await one.sender.send(data)
        assert [await one.sender.ack() for _ in range(50)] == [(2, 2)] * 50
    assert seen == 100


async def test_decoding_lets_other_tasks_run():
    """With a hook, a large batch is decoded in steps."""
    turns = 0

    async def handler(batch):
        assert len(batch.events) == 1500
        assert turns > 5

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    of_all = shared(handler, on_poison=print)
    async with trio.open_nursery() as nursery:
        async with served(of_all) as one:
            await one.sender.send(encode_batch([b'{"pad":"%s"}' % (b"x" * 1000)] * 1500))
            nursery.start_soon(turn)
            assert await one.sender.ack() == (2, 1500)
        nursery.cancel_scope.cancel()
