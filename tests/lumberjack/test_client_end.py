"""How calls and blocks of the client end: by cancellation at any step, by errors, by leaving."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.errors import InternalError, LocalProtocolError
from rsocket_trio.lumberjack import ShipError, Shipper, ShipperConfig, connect, serve
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.testing import assert_no_leaks, cancel_everywhere
from tests.lumberjack.receiving import ADDRESS
from tests.lumberjack.shipping import HOST, counted, shipping

settled = trio.testing.wait_all_tasks_blocked


def test_shippers_are_sealed():
    with pytest.raises(TypeError, match=r"lumberjack\.connect gives one"):
        Shipper()


@pytest.mark.parametrize(
    ("uris", "settings", "error", "match"),
    [
        ([], {}, ValueError, "name an address to ship to"),
        ("tcp://127.0.0.1:1", {}, ValueError, "lumberjack"),
        (["lumberjack://a", 7], {}, TypeError, "int"),
        ("lumberjack://a", {"config": 7}, TypeError, "config must be a ShipperConfig, not int"),
        ("lumberjack://a", {"ssl_context": 7}, TypeError, "ssl_context must be"),
    ],
)
async def test_wrong_arguments(uris, settings, error, match):
    with pytest.raises(error, match=match):
        async with connect(uris, **settings):
            pass


@pytest.mark.parametrize("events", [{"a": 1}, b"{}", "text", bytearray(b"{}")])
async def test_one_event_instead_of_several(network, events):
    """The mistake is named, instead of a strange error about its parts."""
    async with connect(HOST) as shipper:
        with pytest.raises(TypeError, match="put it into a list"):
            await shipper.send(events)
        with pytest.raises(TypeError, match=r"events must be .* not int"):
            await shipper.send(7)


@pytest.mark.parametrize("count", [10, 5000])
async def test_nothing_is_sent_of_a_call_with_a_bad_event(network, autojump_clock, count):
    """Also if it is the last one of many; other calls are not harmed."""
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        assert await peer.numbers() == [1]
        with pytest.raises(TypeError, match=f"event {count + 1} "):
            await shipper.send([*counted(*range(count)), {"bad": object()}])
        with pytest.raises(LocalProtocolError, match=f"event {count + 1} is empty"):
            await shipper.send([*counted(*range(count)), b""])
        with pytest.raises(ZeroDivisionError):
            await shipper.send(1 // 0 for _ in "x")
        nursery.start_soon(shipper.send, counted(2))
        assert await peer.numbers() == [2]
        await peer.ack(1, 1)
        assert shipper.statistics().waiting == 0


async def test_calls_when_the_block_ends(network, autojump_clock):
    """They get an error that says how much is acknowledged; later calls are refused."""
    found = []

    async def send(shipper, events):
        with pytest.raises(ShipError, match=r"the block of lumberjack\.connect has ended") as info:
            await shipper.send(events)
        found.append(info.value)

    async with trio.open_nursery() as nursery:
        config = ShipperConfig(initial_window=2, max_window=2)
        async with connect(HOST, config=config) as shipper:
            nursery.start_soon(send, shipper, counted(*range(6)))
            peer = await network.peer()
            await peer.ack(2)
            assert [await peer.numbers(), await peer.numbers()] == [[0, 1], [2, 3]]
            await settled()
    assert await peer.numbers() == [4, 5]
    assert await peer.batch() is None
    (error,) = found
    assert error.acknowledged == 2
    assert isinstance(error.__cause__, trio.ClosedResourceError)
    for events in (counted(1), []):
        with pytest.raises(trio.ClosedResourceError, match="has ended"):
            await shipper.send(events)


async def test_a_cancelled_call_gets_no_error(network, autojump_clock):
    """Two calls fail in one moment, and the first cancels the other, as a nursery does."""
    scopes = [trio.CancelScope(), trio.CancelScope()]
    failed = []

    async def send(shipper, number):
        with scopes[number]:
            try:
                await shipper.send(counted(number))
            except ShipError:
                failed.append(number)
                scopes[1 - number].cancel()

    network.up.clear()
    async with shipping(retry=Retry(initial_delay=1, jitter=0, max_attempts=1)) as (
        shipper,
        nursery,
    ):
        for number in range(2):
            nursery.start_soon(send, shipper, number)
    assert len(failed) == 1
    assert scopes[1 - failed[0]].cancelled_caught


async def test_errors_of_the_body_leave_alone(network, autojump_clock):
    """There is no exception group."""
    with pytest.raises(KeyError):
        async with connect(HOST) as shipper:
            with trio.move_on_after(1):
                await shipper.send(counted(1))
            raise KeyError
    with pytest.raises(KeyboardInterrupt):
        async with connect(HOST):
            raise KeyboardInterrupt
    with trio.CancelScope() as scope:
        async with connect(HOST):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_fault_of_the_client(network, monkeypatch):
    """It ends the block with one error, and not with a group; calls do not hang."""
    monkeypatch.setattr("rsocket_trio.lumberjack.client.outgoing.pack", None)
    with pytest.raises(InternalError, match="please report this"):
        async with connect(HOST) as shipper:
            await shipper.send(counted(1))


@pytest.mark.parametrize("size", [3, 5000])
async def test_cancelling_send_at_any_step(network, size):
    """The connection stays usable, and nothing waits any more."""
    expected = counted(7)
    async with shipping() as (shipper, nursery):

        async def serve_one():
            peer = await network.peer()
            while (batch := await peer.batch()) is not None:
                received.extend(batch.events)
                await peer.ack(len(batch))

        received = []
        nursery.start_soon(serve_one)

        async def check():
            received.clear()
            with trio.fail_after(30):
                await shipper.send(expected)
            assert received[-1:] == expected
            statistics = shipper.statistics()
            assert (statistics.waiting, statistics.connections) == (0, 1)
            assert len(network.attempts) == 1

        places = await cancel_everywhere(
            partial(shipper.send, counted(*range(size))), check, every_task=True
        )
        assert places > 10
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("every_task", [False, True])
async def test_cancelling_the_block_at_any_step(every_task):
    """Nothing stays open, on real sockets too."""
    async with trio.open_nursery() as nursery:

        async def accept(_batch):
            pass

        server = await nursery.start(serve, accept, ADDRESS)

        async def ship():
            async with connect(server.uris) as shipper:
                await shipper.send(counted(1, 2, 3))

        async def check():
            with trio.fail_after(30):
                while server.statistics().connections:
                    await trio.sleep(0.001)

        async with assert_no_leaks():
            assert await cancel_everywhere(ship, check, every_task=every_task) > 4
        nursery.cancel_scope.cancel()


async def test_cancelled_calls_leave_no_memory(network, autojump_clock):
    """While no host is up, calls that were cancelled do not pile up."""

    class Event(dict):
        pass

    network.up.clear()
    async with shipping() as (shipper, _):
        references = []
        for _ in range(100):
            event = Event(a=1)
            references.append(weakref.ref(event))
            with trio.move_on_after(0.1):
                await shipper.send([event])
            del event
        gc.collect()
        assert shipper.statistics().waiting == 0
        # The last one may be in a traceback of the test.
        assert sum(reference() is not None for reference in references) <= 1


async def test_events_that_come_back_are_dropped_if_cancelled(network, autojump_clock):
    """The rest of a cancelled call is not sent again."""
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        with trio.move_on_after(3):
            await shipper.send(counted(2, 3))
        peer = await network.peer()
        await peer.close()
        assert await (await network.peer()).accept(1) == [1]
        await settled()
        assert shipper.statistics().acknowledged == 1
