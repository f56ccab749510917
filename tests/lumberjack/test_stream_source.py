"""`ship_stream`: batches by size and time, demand, order, ends and failures of both sides."""

from __future__ import annotations

import json
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import ApplicationError, LocalProtocolError, Payload, Router, connect
from rsocket_trio import serve as serve_rsocket
from rsocket_trio.lumberjack import Batch, ShipError, ShipperConfig, serve, ship_stream
from rsocket_trio.lumberjack import connect as connect_shipper
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.testing import cancel_everywhere, connected_pair
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS

blocked = trio.testing.wait_all_tasks_blocked


@attrs.define
class Sink:
    """Takes the place of a shipper: each call of `send` waits until it is acknowledged."""

    calls: list = attrs.field(factory=list)
    acknowledged: list = attrs.field(factory=list)
    delay: float = 0.0
    fails_at: int | None = None
    error: Exception = attrs.field(factory=lambda: ShipError("gave up", 0))
    most: int = 0
    running: int = 0

    async def send(self, events):
        number = len(self.calls)
        self.calls.append((trio.current_time(), list(events)))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(self.delay)
            if number == self.fails_at:
                raise self.error
            self.acknowledged += events
        finally:
            self.running -= 1

    @property
    def sizes(self):
        return [len(events) for _, events in self.calls]


async def items(numbers, pause=0.0):
    for number in numbers:
        if pause:
            await trio.sleep(pause)
        yield b"%d" % number


def expected(*numbers):
    return [b"%d" % number for number in numbers]


async def test_an_empty_stream_can_be_cancelled():
    """Also if neither the stream nor the shipper has to wait."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await ship_stream(items(()), Sink())
    assert scope.cancelled_caught


async def test_all_are_acknowledged():
    """It returns when the stream has ended and all batches are acknowledged, in order."""
    sink = Sink()
    assert await ship_stream(items(range(250)), sink, batch_size=100) == 250
    assert set(sink.acknowledged) == set(expected(*range(250)))
    assert [event for _, events in sink.calls for event in events] == expected(*range(250))
    assert sink.sizes == [100, 100, 50]


async def test_an_empty_stream():
    """Nothing is sent."""
    sink = Sink()
    assert await ship_stream(items([]), sink) == 0
    assert sink.calls == []


async def test_linger(autojump_clock):
    """A batch that is not full leaves when its first item has waited long enough."""
    sink = Sink()
    start = trio.current_time()
    assert await ship_stream(items(range(10), pause=0.4), sink, batch_size=8, linger=1.0) == 10
    assert [(round(at - start, 6), events) for at, events in sink.calls] == [
        (1.4, expected(0, 1, 2)),
        (2.6, expected(3, 4, 5)),
        (3.8, expected(6, 7, 8)),
        (4.0, expected(9)),
    ]


async def test_a_full_batch_does_not_linger(autojump_clock):
    """It leaves at once; with linger=0 each item leaves as soon as a call is free."""
    sink = Sink()
    start = trio.current_time()
    await ship_stream(items(range(4), pause=0.1), sink, batch_size=2, linger=100)
    assert [round(at - start, 6) for at, _ in sink.calls] == [0.2, 0.4]

    sink = Sink(delay=1)
    start = trio.current_time()
    await ship_stream(items(range(4), pause=0.4), sink, linger=0, in_flight=1)
    assert [(round(at - start, 6), events) for at, events in sink.calls] == [
        (0.4, expected(0)),
        (1.4, expected(1, 2)),
        (2.4, expected(3)),
    ]


async def test_memory_is_bounded(autojump_clock):
    """While batches are not acknowledged, only so many items are read from the stream."""
    read = []

    async def endless():
        number = 0
        while True:
            read.append(number)
            yield b"%d" % number
            number += 1

    sink = Sink(delay=10)
    with trio.move_on_after(9):
        await ship_stream(endless(), sink, batch_size=50, in_flight=3)
    assert sink.most == 3
    assert len(read) == 4 * 50 + 1, "one item waits for room"
    assert sink.acknowledged == []


async def test_the_demand_follows_the_acknowledgements(autojump_clock):
    """A stream over RSocket asks its peer for more only as batches are acknowledged."""
    router, made = Router(), []

    @router.request_stream("numbers")
    async def numbers() -> AsyncIterator[bytes]:
        for number in range(1000):
            made.append(number)
            yield b"%d" % number

    sink = Sink(delay=10)
    async with connected_pair(router) as requester:
        async with requester.request_stream(route="numbers", prefetch=16) as source:
            with trio.move_on_after(5):
                await ship_stream(source, sink, batch_size=20, in_flight=2)
        assert 3 * 20 < len(made) <= 3 * 20 + 16 + 2
        made.clear()
        async with requester.request_stream(route="numbers", prefetch=16) as source:
            assert await ship_stream(source, sink, batch_size=100) == 1000
    assert [event for _, events in sink.calls for event in events][40:] == expected(*range(1000))


@given(
    st.integers(0, 60),
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([0.0, 0.3]),
    st.lists(st.sampled_from([0.0, 0.2, 1.0]), min_size=1, max_size=5),
)
def test_every_item_once_and_in_order(count, size, in_flight, linger, pause, delays):
    """Whatever the times are: batches are in order, none is too large, none too late."""

    class Uneven(Sink):
        async def send(self, events):
            self.delay = delays[len(self.calls) % len(delays)]
            await super().send(events)

    sink, told = Uneven(), []

    async def run():
        source = items(range(count), pause)
        return await ship_stream(
            source,
            sink,
            batch_size=size,
            linger=linger,
            in_flight=in_flight,
            on_acknowledged=told.append,
        )

    assert trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0)) == count
    assert [event for _, events in sink.calls for event in events] == expected(*range(count))
    assert all(0 < length <= size for length in sink.sizes)
    assert sink.most <= in_flight
    assert told == sorted(set(told))
    assert told[-1:] == ([count] if count else [])


async def test_on_acknowledged_waits_for_earlier_batches(autojump_clock):
    """A batch that is acknowledged before an earlier one does not count yet."""
    delays, told = iter([5, 1, 1]), []

    class Uneven(Sink):
        async def send(self, events):
            self.delay = next(delays)
            await super().send(events)

    def tell(number):
        told.append((round(trio.current_time() - start, 6), number))

    start = trio.current_time()
    await ship_stream(items(range(6)), Uneven(), batch_size=2, in_flight=2, on_acknowledged=tell)
    assert told == [(5, 6)]


# -- items ---------------------------------------------------------------------------------


async def test_items_of_several_kinds():
    """Payloads give their data; `convert` makes events of anything."""
    sink = Sink()

    async def payloads():
        yield Payload(b'{"a":1}', b"metadata")
        yield {"b": 2}
        yield b'{"c":3}'

    await ship_stream(payloads(), sink)
    assert sink.acknowledged == [b'{"a":1}', {"b": 2}, b'{"c":3}']

    sink = Sink()
    await ship_stream(items(range(2)), sink, convert=lambda item: {"n": int(item)})
    assert sink.acknowledged == [{"n": 0}, {"n": 1}]


async def test_arguments():
    """Wrong arguments are errors before anything is read."""
    for options, error, text in [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, not 0"),
        ({"in_flight": 0}, ValueError, "in_flight must be at least 1"),
        ({"in_flight": 1.5}, TypeError, "in_flight must be of type int, not float"),
        ({"batch_size": True}, TypeError, "batch_size must be of type int, not bool"),
        ({"linger": -1}, ValueError, "linger must be at least 0"),
        ({"linger": float("nan")}, ValueError, "linger must be at least 0"),
    ]:
        async with aclosing(items([1])) as source:
            with pytest.raises(error, match=text):
                await ship_stream(source, Sink(), **options)
            assert await anext(source) == b"1"
    with pytest.raises(TypeError, match="source must be of type AsyncIterable, not list"):
        await ship_stream([b"1"], Sink())


# -- failures ------------------------------------------------------------------------------


@asynccontextmanager
async def failing(numbers, error):
    """A generator that fails in the middle, and whether it was closed."""
    closed = []

    async def source():
        try:
            async with trio.open_nursery():
                pass
            for number in numbers:
                yield b"%d" % number
            if error is not None:
                raise error
            await trio.sleep_forever()
        finally:
            closed.append(True)

    yield source()
    assert closed == [True]


async def test_the_source_fails(autojump_clock):
    """The items that it gave are shipped first. Then its error is raised, alone."""
    sink, told = Sink(delay=3), []
    error = RuntimeError("the source broke")
    async with failing(range(25), error) as source:
        with pytest.raises(RuntimeError, match="the source broke") as caught:
            await ship_stream(source, sink, batch_size=10, on_acknowledged=told.append)
    assert caught.value is error
    assert set(sink.acknowledged) == set(expected(*range(25)))
    assert told[-1] == 25


async def test_sending_fails(autojump_clock):
    """Reading ends, the other calls are cancelled, and the error of the first is raised, alone."""
    error = ShipError("gave up after 3 attempts", 0)
    sink, told = Sink(delay=3, fails_at=2, error=error), []
    async with failing(range(35), None) as source:
        with pytest.raises(ShipError, match="gave up") as caught:
            await ship_stream(source, sink, batch_size=10, on_acknowledged=told.append)
    assert caught.value is error
    assert sink.running == 0
    assert told in ([10, 20], [20]), "both batches are acknowledged at the same time"
    assert len(sink.calls) == 4


async def test_all_calls_fail_at_once(autojump_clock):
    """There is one error, and no group."""

    class Broken:
        async def send(self, events):
            await trio.sleep(1)
            raise ShipError("gave up", 0)

    async with failing(range(30), None) as source:
        with pytest.raises(ShipError) as caught:
            await ship_stream(source, Broken(), batch_size=5, in_flight=4)
    # Its traceback, which has the items, goes with it: no cycle waits for the garbage collector.
    error = weakref.ref(caught.value)
    del caught
    assert error() is None


async def test_both_sides_fail(autojump_clock):
    """The error of sending is raised: items that were read are not acknowledged."""
    sink = Sink(delay=3, fails_at=0)
    async with failing(range(5), RuntimeError("the source broke")) as source:
        with pytest.raises(ShipError) as caught:
            await ship_stream(source, sink)
    assert sink.acknowledged == []
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("where", ["convert", "on_acknowledged"])
async def test_functions_of_the_caller_fail(where):
    """Their errors are raised, alone."""

    def fail(_):
        raise KeyError(where)

    async with failing(range(3), None) as source:
        with pytest.raises(KeyError, match=where):
            await ship_stream(source, Sink(), linger=0, **{where: fail})


async def test_an_event_that_can_never_be_sent():
    """The error of `Shipper.send` is raised."""
    async with connect_shipper("lumberjack://127.0.0.1:9") as shipper:
        with pytest.raises(LocalProtocolError):
            await ship_stream(items([1]), shipper, convert=lambda _: b"")
        with pytest.raises(TypeError):
            await ship_stream(items([1]), shipper, convert=lambda _: 7)


async def test_a_generator_with_a_scope_of_its_own():
    """It is read and closed in one task, so its scopes and nurseries work."""

    async def source():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0)
            with trio.CancelScope():
                yield b"1"
        yield b"2"

    sink = Sink()
    assert await ship_stream(source(), sink) == 2


async def test_other_streams_are_left_open():
    """The owner of a channel closes it."""
    sending, receiving = trio.open_memory_channel[bytes](10)
    async with receiving:
        with pytest.raises(ShipError):
            sending.send_nowait(b"1")
            await ship_stream(receiving, Sink(fails_at=0), linger=0)
        sending.send_nowait(b"2")
        assert await receiving.receive() == b"2"


async def test_cancelled_everywhere():
    """Nothing is left behind: no call of send, no open generator, no task."""
    sink, still_open = Sink(), []

    async def source():
        still_open.append(True)
        try:
            for number in range(5):
                await trio.sleep(0)
                yield b"%d" % number
        finally:
            still_open.pop()

    async def operation():
        sink.calls.clear()
        sink.acknowledged.clear()
        assert await ship_stream(source(), sink, batch_size=2, in_flight=2) == 5
        assert set(sink.acknowledged) == set(expected(*range(5)))

    async def check():
        assert sink.running == 0
        assert still_open == []
        assert set(sink.acknowledged) <= set(expected(*range(5)))

    async with assert_no_leaks():
        assert await cancel_everywhere(operation, check) > 5
    assert await cancel_everywhere(operation, check, every_task=True) > 10


# -- over real sockets ---------------------------------------------------------------------


async def test_from_rsocket_to_lumberjack():
    """A stream of a server is shipped to a receiver, which gets each item."""
    got, router = [], Router()

    @router.request_stream("numbers")
    async def numbers() -> AsyncIterator[bytes]:
        for number in range(3000):
            yield json.dumps({"n": number}).encode()

    async def handler(batch: Batch):
        got.extend(event["n"] for event in batch.events)

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        receiver = await nursery.start(serve, handler, ADDRESS)
        other = await nursery.start(serve_rsocket, router, "tcp://127.0.0.1:0")
        async with connect(other.uris[0]) as requester, connect_shipper(receiver.uris[0]) as sender:
            async with requester.request_stream(route="numbers") as source:
                with trio.fail_after(20):
                    assert await ship_stream(source, sender, batch_size=256) == 3000
        await receiver.aclose()
        await other.aclose()
    assert got == list(range(3000))


async def test_the_receiver_fails_in_the_middle():
    """The items arrive at least once, on its next connection."""
    got, failures = [], iter([False, True, False, True] + [False] * 1000)

    async def handler(batch: Batch):
        if next(failures):
            raise RuntimeError("the disk is full")
        got.extend(event["n"] for event in batch.events)

    config = ShipperConfig(retry=Retry(initial_delay=0.01, max_delay=0.05))
    async with trio.open_nursery() as nursery:
        receiver = await nursery.start(serve, handler, ADDRESS)
        async with connect_shipper(receiver.uris[0], config=config) as shipper:
            with trio.fail_after(20):
                shipped = await ship_stream(
                    items(range(500)),
                    shipper,
                    batch_size=50,
                    convert=lambda item: {"n": int(item)},
                )
        await receiver.aclose()
    assert shipped == 500
    assert set(got) == set(range(500))


async def test_the_peer_of_the_stream_fails():
    """What arrived before is acknowledged, then the error of the stream is raised."""
    got, router = [], Router()

    @router.request_stream("numbers")
    async def numbers() -> AsyncIterator[bytes]:
        for number in range(100):
            yield b"%d" % number
        raise ApplicationError("no more")

    async def handler(batch: Batch):
        got.extend(batch.events)

    async with trio.open_nursery() as nursery:
        receiver = await nursery.start(serve, handler, ADDRESS)
        async with connected_pair(router) as requester:
            async with connect_shipper(receiver.uris[0]) as shipper:
                async with requester.request_stream(route="numbers") as source:
                    with pytest.raises(ApplicationError, match="no more"):
                        await ship_stream(source, shipper, batch_size=30)
        await receiver.aclose()
    assert got == list(range(100))
