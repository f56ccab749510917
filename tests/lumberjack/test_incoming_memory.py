"""The memory of what all connections have read: its bound, the queue, and the turn."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from functools import partial
from math import inf

import pytest
import trio
import trio.testing

from rsocket_trio.lumberjack import LumberjackConfig, encode_batch, serve
from rsocket_trio.lumberjack.server.bytes_in import TimedReader
from rsocket_trio.lumberjack.server.incoming_memory import IncomingMemory, ShareOfIncoming
from rsocket_trio.lumberjack.server.turns import ShareOfTurns, Turns
from rsocket_trio.lumberjack.wire.batches import held_size
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to, served, shared
from tests.lumberjack.vectors import compressed, event, window
from tests.waiting import until

KIB = 2**10
MIB = 2**20


def unexpected():
    raise AssertionError("evicted")


class Connections:
    """Shares that enter in tasks of their own."""

    def __init__(self, nursery, intake):
        self.nursery = nursery
        self.intake = intake
        self.entered = []

    async def enter(self, share):
        async def run():
            await share.enter()
            self.entered.append(share)

        self.nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()


def shares_of(intake, count, size=0):
    """Shares that hold so much each: with 65 KiB, they wait."""
    shares = [ShareOfIncoming(intake, unexpected) for _ in range(count)]
    for share in shares:
        share.hold(size, 0)
    return shares


@pytest.fixture
async def reading():
    """What reads one connection: its memory, the end of its sender, and the reader."""
    intake = IncomingMemory(100 * MIB, 30)
    share = ShareOfIncoming(intake, unexpected)
    ours, theirs = trio.testing.memory_stream_pair()
    turns = ShareOfTurns(Turns())
    config = LumberjackConfig()
    reader = TimedReader(ours, config, share, turns, owes=lambda: False, pauses=lambda: None)
    return intake, theirs, reader


async def test_the_begin_of_the_next_batch_does_not_prolong_a_turn(nursery):
    """It came with the end of the batch that the turn was for."""
    intake = IncomingMemory(100 * KIB, 30)
    shares_of(intake, 1, 200 * KIB)
    first, second = shares_of(intake, 2, 40 * KIB)
    connections = Connections(nursery, intake)
    await connections.enter(first)
    await connections.enter(second)
    first.hold(65 * KIB, 0)
    await trio.testing.wait_all_tasks_blocked()
    assert connections.entered == [first]
    first.hold(60 * KIB, 0)
    await trio.testing.wait_all_tasks_blocked()
    assert connections.entered == [first, second]


async def test_a_batch_that_silence_completes_is_held_until_it_is_delivered(
    reading, autojump_clock
):
    """As one that its window completes."""
    intake, sender, reader = reading
    await sender.send_all(full_window(2) + event(3))
    for count in (2, 1):
        (batch,) = await reader.read()
        assert len(batch) == count
        before = intake.size
        reader.delivered(held_size(batch))
        assert before - intake.size == held_size(batch)
    assert intake.size == 0


async def test_others_run_between_the_steps_of_much_work(reading):
    """Although nothing has to wait for bytes, for memory or for a turn of the loop."""
    _, sender, reader = reading
    large = b'"%s"' % bytes(MIB).replace(b"\0", b"x")
    await sender.send_all(compressed(window(3), *(event(n, large) for n in (1, 2, 3))))
    found, steps = [], 0
    while not found:
        with trio.testing.assert_checkpoints():
            found = await reader.read()
        steps += 1
    assert [len(batch) for batch in found] == [3]
    assert steps > 1


async def test_below_the_bound_nobody_waits():
    intake = IncomingMemory(1000, 30)
    one, two = shares_of(intake, 2)
    for share in (one, two, one, two):
        await share.enter()
        share.hold(share.size + 200, 0)
    assert (intake.size, intake.waiting) == (800, 0)
    one.close()
    one.close()
    assert intake.size == 400


async def test_one_at_a_time_goes_past_the_bound(autojump_clock):
    """The turn ends when the connection holds no more than before; then the next one has it."""
    intake = IncomingMemory(100 * KIB, 30)
    async with trio.open_nursery() as nursery:
        scene = Connections(nursery, intake)
        one, two, three = shares_of(intake, 3, 65 * KIB)
        for share in (one, two, three):
            await scene.enter(share)
        assert (scene.entered, intake.waiting) == ([one], 2)
        one.hold(70 * KIB, 0)
        for _ in range(3):  # Its turn lasts, so it does not wait.
            await one.enter()
            one.hold(one.size + MIB, 0)
        assert one.deadline == trio.current_time() + 30
        assert scene.entered == [one]
        one.hold(10 * KIB, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert (scene.entered, one.deadline) == ([one, two], inf)
        two.hold(70 * KIB, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert scene.entered == [one, two]
        two.close()
        await trio.testing.wait_all_tasks_blocked()
        assert scene.entered == [one, two, three]


async def test_a_turn_may_end_with_the_beginning_of_the_next_batch(autojump_clock):
    """It came with the end of the batch before: 64 KiB of it are no reason to keep the turn."""
    intake = IncomingMemory(100 * KIB, 30)
    async with trio.open_nursery() as nursery:
        scene = Connections(nursery, intake)
        one, two = shares_of(intake, 2, 60 * KIB)
        for share in (one, two):
            await scene.enter(share)
        for size, entered in ((64 * KIB + 1, [one]), (64 * KIB, [one, two])):
            one.hold(size, 0)
            await trio.testing.wait_all_tasks_blocked()
            assert scene.entered == entered


async def test_those_that_wait_come_one_by_one():
    """When memory is free again, each one decodes before the next one is called."""
    intake = IncomingMemory(600 * KIB, 30)
    async with trio.open_nursery() as nursery:
        scene = Connections(nursery, intake)
        full, holder, *others = shares_of(intake, 7, 65 * KIB)
        full.hold(600 * KIB, 0)
        await scene.enter(holder)
        holder.hold(90 * KIB, 0)
        for share in others:
            await scene.enter(share)
        full.close()
        for n, share in enumerate(others, 1):
            await trio.testing.wait_all_tasks_blocked()
            assert scene.entered == [holder, *others[:n]]
            share.hold(1, 0)
        assert intake.waiting == 0


@pytest.mark.parametrize("when", ["waiting", "before the call", "after the call"])
async def test_a_cancelled_one_leaves_nothing(when):
    """The next one is called in its place, unless it was called before it was cancelled."""
    intake = IncomingMemory(100 * KIB, 30)
    holder, one, two, full = shares_of(intake, 4, 65 * KIB)
    entered = []

    async def enter(share):
        await share.enter()
        entered.append(share)
        share.hold(0, 0)

    full.hold(200 * KIB, 0)
    await holder.enter()
    holder.hold(80 * KIB, 0)
    scope = trio.CancelScope()

    async def enter_and_be_cancelled():
        with scope:
            await enter(one)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(enter_and_be_cancelled)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(enter, two)
        await trio.testing.wait_all_tasks_blocked()
        if when == "waiting":
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert intake.waiting == 1
            holder.close()
        elif when == "before the call":
            scope.cancel()
            holder.close()
        else:
            holder.close()
            scope.cancel()
    assert entered == ([one, two] if when == "after the call" else [two])
    full.close()
    one.close()
    assert (intake.size, intake.waiting) == (0, 0)


async def test_one_that_holds_little_does_not_wait():
    """It makes small steps while the memory is at the bound, and waits once it holds much."""
    intake = IncomingMemory(100 * KIB, 30)
    small, large, waiting = shares_of(intake, 3)
    assert await small.enter()
    large.hold(100 * KIB, 0)
    assert await large.enter()  # It has the turn.
    for size in (0, 20 * KIB, 32 * KIB - 1):
        small.hold(size, 0)
        assert not await small.enter()
    async with trio.open_nursery() as nursery:
        scene = Connections(nursery, intake)
        waiting.hold(32 * KIB, 0)
        await scene.enter(waiting)
        assert (scene.entered, intake.waiting) == ([], 1)
        assert not await small.enter()
        large.close()
        small.close()


async def test_random_connections(autojump_clock):
    """The bound holds, all connections come to an end, and nothing is left."""
    one_step = 5 * KIB
    batch = 200 * KIB
    intake = IncomingMemory(300 * KIB, 1000)
    most = 0

    async def connection(number):
        nonlocal most
        rng = random.Random(number)
        share = ShareOfIncoming(intake, unexpected)
        with trio.move_on_after(rng.choice([0.5, 500])):
            for _ in range(3):
                while share.size < batch:
                    await trio.sleep(rng.random() / 100)
                    await share.enter()
                    share.hold(share.size + one_step, 0)
                    most = max(most, intake.size)
                share.hold(share.size - batch, 0)
        share.close()

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(connection, number)
    # One connection has the turn; those that were called before it make one step.
    assert most <= 300 * KIB + batch + 40 * (64 * KIB + one_step)
    assert most < 40 * batch / 2
    assert (intake.size, intake.waiting) == (0, 0)


@pytest.mark.limits_row("Lumberjack: batches that are not whole, of all senders")
async def test_many_connections_with_large_batches(monkeypatch):
    """However many senders there are, the memory stays within the named limits."""
    # All senders are in this process, which may be slow.
    monkeypatch.setattr("rsocket_trio.lumberjack.server.incoming_memory._PATIENCE", 60)
    config = LumberjackConfig(
        max_incoming_size=2 * MIB, max_held_size=2 * MIB, keepalive_interval=0.05
    )
    gate = trio.Event()

    async def handler(_batch):
        await gate.wait()

    large = encode_batch([b'{"pad":"%s"}' % (b"x" * 10_000)] * 100)  # 1 MiB, in 3 KiB.
    count = 40
    async with trio.open_nursery() as nursery:
        tracemalloc.start()
        try:
            server = await nursery.start(partial(serve, handler, ADDRESS, config=config))

            async def send():
                async with sender_to(server) as sender:
                    await sender.send(large)
                    while (ack := await sender.ack()) == (2, 0):
                        pass
                    assert ack == (2, 100)

            async with trio.open_nursery() as sending:
                for _ in range(count):
                    sending.start_soon(send)
                await until(lambda: server.statistics().waiting >= count - 3)
                statistics = server.statistics()
                assert statistics.held_size < 2 * MIB
                assert 2 * MIB <= statistics.incoming_size < (2 + 2) * MIB + count * 256 * KIB
                gate.set()
            assert server.statistics().incoming_size == 0
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        await server.aclose()
    # The bounds, two connections more, one step of decoding, and what 40 connections take.
    assert peak < (2 + 2 + 2 + 1 + 10) * MIB


async def test_incomplete_batches_do_not_wait_for_each_other(autojump_clock):
    """All senders have sent a half, and the bound is reached; all batches arrive nevertheless."""
    config = LumberjackConfig(max_incoming_size=500_000, keepalive_interval=1000)
    handled = []

    async def handler(batch):
        handled.append(batch.size)

    first = window(2) + event(1, b'"%s"' % (b"x" * 90_000))
    second = event(2, b'"%s"' % (b"x" * 90_000))
    of_all = shared(handler, config)
    async with trio.open_nursery() as nursery:

        async def send():
            async with served(of_all) as one:
                await one.sender.send(first)
                await trio.sleep(0.6)
                await one.sender.send(second)
                assert await one.sender.ack() == (2, 2)

        for _ in range(20):
            nursery.start_soon(send)
        await trio.sleep(0.5)
        assert of_all.intake.waiting > 10
        assert 500_000 <= of_all.intake.size < 500_000 + 20 * 64 * KIB
    assert handled == [180_004] * 20
    assert of_all.intake.size == 0


async def test_a_sender_that_lets_others_wait(autojump_clock, caplog):
    """It has the turn and does not finish: it is disconnected, and the next one has the turn.

    Complete batches take most of the memory, so nothing is evicted.
    """
    config = LumberjackConfig(
        max_incoming_size=400_000, max_batches=1, keepalive_interval=1000, progress_timeout=30
    )

    async def handler(_batch):
        await trio.sleep(1000)

    of_all = shared(handler, config)
    async with (
        served(of_all) as first,
        served(of_all) as second,
        served(of_all) as slow,
        served(of_all) as good,
    ):
        for one in (first, second):  # The batch of the second one waits for room.
            await one.sender.send(window(1) + event(1, b" " * 350_000))
            await trio.testing.wait_all_tasks_blocked()
        await slow.sender.send(window(9) + event(1, b" " * 70_000))
        await trio.testing.wait_all_tasks_blocked()
        await slow.sender.send(b"2")  # From now on it has the turn.
        await trio.testing.wait_all_tasks_blocked()
        await good.sender.send(window(1) + event(1, b" " * 70_000))
        began = trio.current_time()
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:

            async def trickle():
                for byte in event(2, b" " * 100)[1:]:
                    await trio.sleep(1)
                    try:
                        await slow.sender.send(bytes([byte]))
                    except trio.BrokenResourceError:
                        return

            nursery.start_soon(trickle)
            while of_all.intake.waiting:
                await trio.sleep(0.25)
            assert 30 <= trio.current_time() - began < 31
            nursery.cancel_scope.cancel()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "while others waited for memory (max_incoming_size)" in line


async def test_many_senders_that_let_a_large_batch_wait(autojump_clock):
    """They finish no batch, but send a byte now and then. An honest batch does not wait for the
    turns of all of them, and its own sender is not evicted, although it holds most.
    """
    config = LumberjackConfig(max_incoming_size=1_800_000, keepalive_interval=1000)

    async def accept(_batch):
        pass

    of_all = shared(accept, config)
    async with trio.open_nursery() as nursery:

        async def bad():
            async with served(of_all) as one:
                await one.sender.send(window(60_000) + event(1, b" " * 90_000))
                while not one.over.is_set():
                    await trio.sleep(1)
                    with suppress(trio.BrokenResourceError):
                        await one.sender.send(event(2))

        for _ in range(22):
            nursery.start_soon(bad)
        await trio.sleep(10)
        began = trio.current_time()
        async with served(of_all) as good:
            await good.sender.send(window(10))
            for n in range(1, 11):
                await good.sender.send(event(n, b" " * 40_000))
                await trio.sleep(0.3)  # Meanwhile others take their turns.
            assert await good.sender.ack() == (2, 10)
        assert trio.current_time() - began < 30
        nursery.cancel_scope.cancel()


async def test_incomplete_batches_that_let_others_wait(autojump_clock, caplog):
    """A small batch comes in at once; after two seconds the largest connection is evicted."""
    config = LumberjackConfig(max_incoming_size=400_000, keepalive_interval=1000)

    async def accept(_batch):
        pass

    of_all = shared(accept, config)
    async with trio.open_nursery() as nursery:
        ended = []
        full = trio.Event()

        async def bad(size):
            async with served(of_all) as one:
                await one.sender.send(window(9) + event(1, b" " * size))
                await full.wait()
                await one.sender.send(b"2J")
                await one.over.wait()
                ended.append((size, trio.current_time() - began))

        began = trio.current_time()
        for size in (100_000, 110_000, 120_000, 90_000):
            nursery.start_soon(bad, size)
        await trio.testing.wait_all_tasks_blocked()
        full.set()
        await trio.testing.wait_all_tasks_blocked()
        assert of_all.intake.waiting == 3
        for n in range(1, 6):
            async with served(of_all) as good:
                await good.sender.send(full_window(1, n))
                assert await good.sender.ack() == (2, n)
                assert trio.current_time() == began
        assert (of_all.intake.waiting, ended) == (3, [])
        await trio.sleep(25)
        assert ended == [(120_000, 4)]  # close_timeout is 2
        assert of_all.intake.size < 400_000
        nursery.cancel_scope.cancel()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "other senders wait for the memory that its incomplete batch takes" in line
    assert (of_all.intake.size, of_all.intake.waiting) == (0, 0)


@pytest.mark.parametrize(("waiting", "ended"), [(1, 1), (9, 1), (10, 2), (40, 2)])
async def test_for_many_more_is_made_free(waiting, ended, autojump_clock):
    """One at a time, each one of a long queue would cost those behind it two seconds."""
    intake = IncomingMemory(64 * MIB, 30)
    evicted = []
    holders = [ShareOfIncoming(intake, partial(evicted.append, n)) for n in range(8)]
    for share in holders:
        share.hold(8 * MIB, 8 * MIB)
    async with trio.open_nursery() as nursery:
        connections = Connections(nursery, intake)
        await connections.enter(holders[0])
        holders[0].hold(9 * MIB, 9 * MIB)  # It has the turn, and is silent.
        for share in shares_of(intake, waiting, 65 * KIB):
            await connections.enter(share)
        await trio.sleep(10)
        assert len(evicted) == ended
        nursery.cancel_scope.cancel()


async def test_complete_batches_evict_no_sender(autojump_clock, caplog):
    """They give back their memory when they find room, so the others wait for that."""
    config = LumberjackConfig(
        max_incoming_size=750_000, max_waiting_batches=1, keepalive_interval=1000
    )
    gate = trio.Event()

    async def handler(_batch):
        await gate.wait()

    of_all = shared(handler, config)
    of_all.room.batches = 256  # No batch finds room for now.
    large = encode_batch([b'"%s"' % (b"x" * 300_000)])
    async with trio.open_nursery() as nursery:

        async def send(data):
            async with served(of_all) as one:
                await one.sender.send(data)
                assert (await one.sender.ack())[1] == 1

        for _ in range(4):
            nursery.start_soon(send, large)
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(send, large)
        await trio.sleep(100)
        assert of_all.intake.waiting == 1
        gate.set()
        of_all.room.give_back(256, 0)
    assert not caplog.records


async def test_the_pause_does_not_count(autojump_clock, caplog):
    """A sender that waits for the turn is not too slow, however long it takes."""
    config = LumberjackConfig(max_incoming_size=200_000, keepalive_interval=5000)
    gate = trio.Event()
    handled = []

    async def handler(batch):
        await gate.wait()
        handled.append(len(batch))

    of_all = shared(handler, config)
    of_all.room.batches = 256  # No batch finds room for now.
    large = encode_batch([b'"%s"' % (b"x" * 300_000)])
    async with served(of_all) as one, served(of_all) as two, served(of_all) as three:
        slow = window(2) + event(1, b" " * 70_000) + event(2)
        await three.sender.send(slow[:-1])
        await trio.testing.wait_all_tasks_blocked()
        for sender in (one.sender, two.sender):  # The second one gets the turn.
            await sender.send(large)
            await trio.testing.wait_all_tasks_blocked()
        await three.sender.send(slow[-1:])
        await trio.sleep(1000)
        assert of_all.intake.waiting == 1
        gate.set()
        of_all.room.give_back(256, 0)
        assert await one.sender.ack() == await two.sender.ack() == (2, 1)
        assert await three.sender.ack() == (2, 2)
    assert not caplog.records
