"""The client against scripted servers in memory: what is sent, in which order, and what again."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.lumberjack import ShipperConfig, connect
from tests.lumberjack.shipping import HOST, counted, shipping

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
