"""The client against scripted servers in memory: what is sent, in which order, and what again."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.lumberjack import (
    BatchReader,
    LumberjackLimits,
    ShipperConfig,
    connect,
    decode_events,
)
from tests.lumberjack.shipping import HOST, counted, shipping
from tests.lumberjack.vectors import ack

settled = trio.testing.wait_all_tasks_blocked


async def test_events_are_acknowledged(network, autojump_clock):
    """`send` returns with the ACK, not before."""
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1, 2, 3))
        peer = await network.peer()
        assert await peer.numbers() == [1, 2, 3]
        await settled()
        assert shipper.statistics().in_flight == 3
        await peer.ack(2)
        await settled()
        assert shipper.statistics().in_flight == 1
        assert nursery.child_tasks
        await peer.ack(3)
        await settled()
        assert not nursery.child_tasks
        assert shipper.statistics().acknowledged == 3


async def test_windows_are_pipelined(network, autojump_clock):
    """Two windows are on the way, and the third waits for an ACK."""
    async with shipping(initial_window=3, max_window=3) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(8)))
        peer = await network.peer()
        assert await peer.numbers() == [0, 1, 2]
        assert await peer.numbers() == [3, 4, 5]
        with trio.move_on_after(20) as scope:
            await peer.numbers()
        assert scope.cancelled_caught
        await peer.ack(3)
        assert await peer.numbers() == [6, 7]
        await peer.ack(3, 2)


async def test_the_rest_is_sent_again(network, autojump_clock):
    """Partial ACKs count, also in the second window; then order is kept."""
    async with shipping(initial_window=4, max_window=4) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(10)))
        peer = await network.peer()
        assert await peer.numbers() == [0, 1, 2, 3]
        assert await peer.numbers() == [4, 5, 6, 7]
        await peer.ack(4, 1)
        assert await peer.numbers() == [8, 9]
        await peer.close()
        peer = await network.peer()
        assert await peer.accept(5) == [5, 6, 7, 8, 9]
        statistics = shipper.statistics()
        assert (statistics.resent, statistics.reconnects) == (5, 1)


async def test_nothing_to_send(network):
    """No connection is made for no events."""
    async with connect(HOST) as shipper:
        await shipper.send([])
        assert not network.attempts


@pytest.mark.parametrize("setting", ["max_window", "pipelining", "initial_window"])
def test_settings_are_checked(setting):
    with pytest.raises(ValueError, match=setting):
        ShipperConfig(**{setting: 0})


@pytest.mark.parametrize("level", [-1, 10])
def test_levels_that_zlib_does_not_have(level):
    with pytest.raises(ValueError, match="compression_level"):
        ShipperConfig(compression_level=level)


async def test_windows_are_in_the_order_of_the_calls(network, autojump_clock):
    """Also while an earlier call has many events to check; small calls share a window."""
    async with shipping(initial_window=5000, max_window=5000, pipelining=1) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(0))
        peer = await network.peer()
        assert await peer.numbers() == [0]
        begun = []

        async def send(first, count):
            begun.append(first)
            await shipper.send([{"n": n} for n in range(first, first + count)])

        for first, count in ((1, 1), (2, 10_000), (20_000, 2), (30_000, 2)):
            nursery.start_soon(send, first, count)
            while first not in begun:
                await trio.lowlevel.checkpoint()
        await settled()
        assert shipper.statistics().waiting == 10_005
        await peer.ack(1)
        expected = [1, *range(2, 10_002), 20_000, 20_001, 30_000, 30_001]
        assert await peer.accept(10_005) == expected


async def test_others_run_while_a_generator_is_read(network, autojump_clock):
    """And a later call does not overtake it; an empty one has no place in the line."""
    turns = []

    def events():
        for number in range(3000):
            turns.append(steps.count)
            yield {"n": number}

    async with shipping() as (shipper, nursery):
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        nursery.start_soon(shipper.send, events())
        while not turns:
            await trio.lowlevel.checkpoint()
        nursery.start_soon(shipper.send, counted(3000))
        await shipper.send(event for event in ())
        peer = await network.peer()
        assert await peer.accept(3001) == [*range(3001)]
        trio.lowlevel.remove_instrument(steps)
    assert len(set(turns)) > 10


async def test_others_run_while_a_long_list_is_checked(network, autojump_clock):
    async with shipping() as (shipper, nursery):
        taken = []
        for size in (1, 20_000):
            steps = Steps()
            trio.lowlevel.add_instrument(steps)
            await nursery.start(shipper.send, [{"n": 1}] * size)
            trio.lowlevel.remove_instrument(steps)
            taken.append(steps.count)
        assert taken[1] >= taken[0] + 9
        peer = await network.peer()
        assert len(await peer.accept(20_001)) == 20_001


async def test_a_call_that_is_cancelled_already_sends_nothing(network, autojump_clock):
    """Its events do not even have a place in the line, and no generator is read."""
    async with shipping() as (shipper, _):
        read = []
        with trio.CancelScope() as scope:
            scope.cancel()
            await shipper.send({"n": read.append(n)} for n in range(3))
        assert (read, shipper.statistics().waiting) == ([], 0)


async def test_a_generator_that_fails_or_is_not_read_to_its_end(network, autojump_clock):
    """Nothing of it is sent, and nothing of it holds up the next call."""

    def failing():
        yield from counted(1) * 1000
        raise KeyError("of the application")

    async with shipping() as (shipper, nursery):
        with pytest.raises(KeyError, match="of the application"):
            await shipper.send(failing())
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_soon, scope)
            await shipper.send({"n": 1} for _ in range(1_000_000))
        assert scope.cancelled_caught
        nursery.start_soon(shipper.send, counted(2))
        assert await (await network.peer()).accept(1) == [2]


async def cancel_soon(scope):
    scope.cancel()


class Steps(trio.abc.Instrument):
    """Counts how often a task runs."""

    count = 0

    def before_task_step(self, task):
        self.count += 1


async def test_a_long_line_of_calls_moves_on_without_waking_all_of_it(network, autojump_clock):
    """The effort for each call does not depend on how many wait behind a large one."""
    network.up.clear()
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, [b"1"] * 200_000)
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        for _ in range(500):
            nursery.start_soon(shipper.send, [b"2"])
        while shipper.statistics().waiting < 200_500:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(steps)
        assert steps.count < 5000
        nursery.cancel_scope.cancel()


async def test_a_bad_call_lets_later_ones_go_on(network, autojump_clock):
    """A call that is refused, or cancelled while it is checked, holds nothing up."""
    async with shipping() as (shipper, nursery):

        async def bad():
            with pytest.raises(TypeError):
                await shipper.send([*({"n": n} for n in range(5000)), {"n": object()}])

        async def cancelled():
            with trio.CancelScope() as scope:
                nursery.start_soon(cancel, scope)
                await shipper.send([{"n": n} for n in range(5000)])
            assert scope.cancelled_caught

        async def cancel(scope):
            scope.cancel()

        async with trio.open_nursery() as failing:
            failing.start_soon(bad)
            failing.start_soon(cancelled)
        assert shipper._intake.kept == 0, "what was encoded of them goes"
        nursery.start_soon(bad)
        nursery.start_soon(cancelled)
        await trio.lowlevel.checkpoint()
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        while 1 not in (found := await peer.accept(1)):
            pass
        assert found[-1] == 1


async def test_encoded_events_that_wait_are_bounded(network, autojump_clock):
    """Each call keeps its own events; of their encoded form some MiB wait at most."""
    network.up.clear()
    async with shipping() as (shipper, nursery):
        intake = shipper._intake
        for _ in range(20):
            nursery.start_soon(shipper.send, [{"message": "x" * 100_000}] * 10)
        await settled()
        assert shipper.statistics().waiting == 200
        assert 7 * 2**20 < intake.kept <= 8 * 2**20
        network.up.add(HOST)
        peer = await network.peer()
        received = 0
        while received < 200:
            batch = await peer.batch()
            received += len(batch)
            await peer.ack(len(batch))
        await settled()
    assert intake.kept == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("acknowledged", range(13))
async def test_a_loss_after_each_number_of_acks(
    network, autojump_clock, acknowledged, level, version
):
    """Exactly the rest is sent again, in order, in windows that begin at sequence 1."""
    settings = {"initial_window": 4, "max_window": 4, "compression_level": level}
    network.version = version
    async with shipping(version=version, **settings) as (shipper, nursery):
        events = [{"n": str(n)} for n in range(12)]
        nursery.start_soon(shipper.send, events)
        peer = await network.peer()
        left = acknowledged
        while left:
            batch = await peer.batch()
            await peer.ack(min(left, len(batch)))
            left -= min(left, len(batch))
        await settled()
        await peer.close()
        if acknowledged < 12:
            peer = await network.peer()
            received = []
            while len(received) < 12 - acknowledged:
                batch = await peer.batch()
                assert next(iter(batch.sequences)) == 1
                assert batch.window == len(batch)
                received += decode_events(batch)
                await peer.ack(len(batch))
            assert received == events[acknowledged:]
        await settled()
        assert shipper.statistics().acknowledged == 12
        assert not nursery.child_tasks


@pytest.mark.parametrize("turns", [0, 2, 5, 10, 20, 30])
async def test_a_loss_while_a_window_is_formed(network, autojump_clock, turns):
    """No event is lost or sent again: neither those that do not fit, nor those being compressed."""
    events = [{"n": n, "text": "x" * 20_000} for n in range(20)]
    settings = {"initial_window": 20, "max_window_size": 100_000, "compression_level": 9}
    async with shipping(**settings) as (shipper, nursery):
        for start in range(0, 20, 2):
            nursery.start_soon(shipper.send, events[start : start + 2])
        peer = await network.peer()
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        await peer.close()
        peer = await network.peer()
        received = []
        while len(received) < 20:
            batch = await peer.batch()
            received += [event["n"] for event in decode_events(batch)]
            await peer.ack(len(batch))
        await settled()
        assert shipper.statistics().waiting == 0
    assert sorted(received) == list(range(20))


@pytest.mark.parametrize("cut", [*range(0, 114, 7), 57, 58, 113, 114])
async def test_a_loss_after_each_number_of_bytes(slow_hosts, autojump_clock, cut):
    """The connection breaks while a window is being written."""
    async with shipping(initial_window=3, compression_level=0) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(6)))
        await settled()
        _, reading, answers = slow_hosts[0]
        received = 0
        while received < cut:
            received += len(await reading.receive_some(min(7, cut - received)))
        await reading.aclose()
        await answers.aclose()
        while len(slow_hosts) < 2:
            await trio.sleep(0.1)
        _, reading, answers = slow_hosts[1]
        reader, numbers = BatchReader(), []
        while len(numbers) < 6:
            for batch in reader.feed(await reading.receive_some(50)):
                numbers += [event["n"] for event in decode_events(batch)]
                await answers.send_all(ack(len(batch)))
        assert numbers == list(range(6))


async def test_the_pairs_of_a_window_of_version_1(network, autojump_clock):
    """The bytes of a window bound its pairs, as each takes eight."""
    limits = LumberjackLimits(max_batch_pairs=4)
    network.version = 1
    async with shipping(version=1, limits=limits) as (shipper, nursery):
        nursery.start_soon(shipper.send, [{"": ""}] * 10)
        peer = await network.peer()
        sizes = []
        while sum(sizes) < 10:
            sizes.append(len(await peer.batch()))
            await peer.ack(sizes[-1])
    assert max(sizes) <= 4
