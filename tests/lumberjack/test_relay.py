"""`EventRelay`: what taken means, several subscribers, leaving, closing, back-pressure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from itertools import chain, count

import pytest
import trio
import trio.testing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rsocket_trio import Router, connect
from rsocket_trio import serve as serve_rsocket
from rsocket_trio.lumberjack import (
    Batch,
    EventRelay,
    LumberjackConfig,
    RelayedEvents,
    ShipperConfig,
    serve,
)
from rsocket_trio.lumberjack import connect as connect_shipper
from rsocket_trio.testing import cancel_everywhere, connected_pair
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to, served, shared

blocked = trio.testing.wait_all_tasks_blocked


class Publishing:
    """A call of `publish` in a task."""

    def __init__(self, nursery, relay, events):
        self.scope = trio.CancelScope()
        self.outcome = None
        nursery.start_soon(self._run, relay, events)

    async def _run(self, relay, events):
        self.outcome = "cancelled"
        with self.scope:
            try:
                await relay.publish(events)
                self.outcome = "taken"
            except trio.ClosedResourceError:
                self.outcome = "closed"


@pytest.fixture
async def nursery():
    async with trio.open_nursery() as nursery:
        yield nursery
        nursery.cancel_scope.cancel()


async def test_a_list_is_taken_when_more_is_asked_for(nursery):
    """The publisher returns when the subscriber asks for an event after the last one."""
    relay = EventRelay()
    one = Publishing(nursery, relay, [1, 2])
    await blocked()
    stream = relay.subscribe()
    assert await stream.receive() == 1
    assert await stream.receive() == 2
    await blocked()
    assert one.outcome == "cancelled", "it still waits"
    assert relay.statistics().taken == 0
    with trio.move_on_after(0):
        await stream.receive()
    await blocked()
    assert one.outcome == "taken"
    assert relay.statistics().taken == 2
    assert relay.statistics().held == 0


async def test_a_call_that_is_cancelled_already_offers_nothing(nursery):
    """A subscriber that waits gets nothing of it."""
    relay = EventRelay()
    got = []

    async def receive():
        got.append(await relay.subscribe().receive())

    nursery.start_soon(receive)
    await blocked()
    for _ in range(10):  # The order in which tasks run is random.
        with trio.CancelScope() as scope:
            scope.cancel()
            await relay.publish([1])
    await blocked()
    assert got == []


async def test_without_a_subscriber_nothing_is_taken(autojump_clock):
    """The publisher waits. A subscriber that comes later gets everything, in order."""
    relay = EventRelay()
    async with trio.open_nursery() as nursery:
        callers = []
        for first in (0, 2, 4):
            callers.append(Publishing(nursery, relay, (first, first + 1)))
            await blocked()
        await trio.sleep(1000)
        assert [caller.outcome for caller in callers] == ["cancelled"] * 3
        assert relay.statistics().waiting == 3
        async with relay.subscribe() as stream:
            assert [await stream.receive() for _ in range(6)] == [0, 1, 2, 3, 4, 5]
        await trio.sleep(1000)
        assert [caller.outcome for caller in callers] == ["taken", "taken", "cancelled"]
        nursery.cancel_scope.cancel()


async def test_a_subscriber_leaves_in_the_middle(nursery):
    """The next subscriber gets the whole list again, before other events."""
    relay = EventRelay()
    one = Publishing(nursery, relay, ["a", "b", "c"])
    await blocked()
    two = Publishing(nursery, relay, ["d"])
    await blocked()
    async with relay.subscribe() as stream:
        assert [await stream.receive(), await stream.receive()] == ["a", "b"]
    assert relay.statistics().waiting == 2
    stream = relay.subscribe()
    assert [await stream.receive() for _ in range(4)] == ["a", "b", "c", "d"]
    await blocked()
    assert (one.outcome, two.outcome) == ("taken", "cancelled")
    await stream.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive()
    with pytest.raises(trio.ClosedResourceError):
        await anext(stream)
    stream.close()


async def test_the_rest_goes_to_a_subscriber_that_waits(nursery):
    """It is woken when the other one leaves."""
    relay, got = EventRelay(), []
    first, second = relay.subscribe(), relay.subscribe()
    Publishing(nursery, relay, [1, 2])
    await blocked()
    assert await first.receive() == 1

    async def wait():
        got.append(await second.receive())

    nursery.start_soon(wait)
    await blocked()
    assert got == []
    assert relay.statistics().subscribers == 1
    first.close()
    await blocked()
    assert got == [1]


async def test_several_subscribers(nursery):
    """Each event goes to one; those that wait get lists in turn."""
    relay, got = EventRelay(), {}

    async def subscribe(name):
        async with relay.subscribe() as stream:
            async for event in stream:
                got.setdefault(name, []).append(event)
                await trio.sleep(0)

    for name in "xyz":
        nursery.start_soon(subscribe, name)
        await blocked()
    for first in range(0, 30, 10):
        await relay.publish(range(first, first + 10))
    assert sorted(chain(*got.values())) == list(range(30))
    assert all(len(events) == 10 for events in got.values())


async def test_a_publisher_is_cancelled(nursery):
    """Its list is withdrawn, wherever it is. The subscriber goes on with the next one."""
    relay = EventRelay()
    one = Publishing(nursery, relay, [1, 2, 3])
    await blocked()
    waits = Publishing(nursery, relay, [4, 5])
    await blocked()
    Publishing(nursery, relay, [6])
    await blocked()
    stream = relay.subscribe()
    assert await stream.receive() == 1
    one.scope.cancel()
    waits.scope.cancel()
    await blocked()
    assert await stream.receive() == 6
    assert relay.statistics().taken == 0


async def test_cancelled_just_when_a_list_comes(nursery):
    """The list that a cancelled subscriber got at the same time goes to another one."""
    relay = EventRelay()
    stream, scope = relay.subscribe(), trio.CancelScope()

    async def wait():
        with scope:
            await stream.receive()

    nursery.start_soon(wait)
    await blocked()

    async def take():
        async with relay.subscribe() as other:
            assert await other.receive() == 1
            await other.receive()  # Now it is taken.

    nursery.start_soon(take)
    await blocked()
    scope.cancel()  # It has not run since when it gets the list.
    await relay.publish([1])
    assert relay.statistics().taken == 1


async def test_cancelled_just_when_the_relay_is_closed(nursery):
    """The cancellation goes first: the next call has the end."""
    relay = EventRelay()
    stream, scope = relay.subscribe(), trio.CancelScope()

    async def wait():
        with scope:
            await stream.receive()

    nursery.start_soon(wait)
    await blocked()
    relay.close()
    scope.cancel()
    await blocked()
    assert scope.cancelled_caught
    with pytest.raises(trio.EndOfChannel):
        await stream.receive()


async def test_two_tasks_on_one_stream(nursery):
    """The second one gets an error, and the first one still gets its event."""
    relay, got = EventRelay(), []
    stream = relay.subscribe()

    async def wait():
        got.append(await stream.receive())

    nursery.start_soon(wait)
    await blocked()
    with pytest.raises(trio.BusyResourceError):
        await stream.receive()
    Publishing(nursery, relay, [1])
    await blocked()
    assert got == [1]


async def test_close(nursery):
    """Streams end, publishers fail, also those whose events are being handed out."""
    relay, ended = EventRelay(), []
    held, reading = relay.subscribe(), relay.subscribe()
    one = Publishing(nursery, relay, [1, 2])
    await blocked()
    two = Publishing(nursery, relay, [3])
    await blocked()
    assert await held.receive() == 1
    assert await reading.receive() == 3
    three = Publishing(nursery, relay, [4])

    async def read():
        async for _ in relay.subscribe():
            raise AssertionError
        ended.append(True)

    await blocked()
    relay.close()
    nursery.start_soon(read)
    await blocked()
    assert [each.outcome for each in (one, two, three)] == ["closed"] * 3
    assert ended == [True]
    with pytest.raises(trio.EndOfChannel):
        await held.receive()
    with pytest.raises(trio.ClosedResourceError, match="the relay is closed"):
        await relay.publish([5])
    relay.close()
    assert relay.statistics().waiting == relay.statistics().held == 0


async def test_close_wakes_those_that_wait(nursery):
    """A loop ends; a stream that is closed by another task raises."""
    relay, ended = EventRelay(), []

    async def read():
        async for _ in relay.subscribe():
            raise AssertionError
        ended.append("loop")

    stream = relay.subscribe()

    async def closed():
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive()
        ended.append("closed")

    nursery.start_soon(read)
    nursery.start_soon(closed)
    await blocked()
    stream.close()
    await blocked()
    assert ended == ["closed"]
    relay.close()
    await blocked()
    assert ended == ["closed", "loop"]


async def test_arguments():
    """One event is not several; no events are taken at once."""
    relay = EventRelay()
    for one in (b"x", "x", {"a": 1}):
        with pytest.raises(TypeError, match="publish takes several events, not one"):
            await relay.publish(one)
    await relay.publish([])
    with pytest.raises(TypeError, match=r"EventRelay\.subscribe gives one"):
        RelayedEvents(relay)


async def test_a_fast_loop_lets_others_run():
    """Another task runs at least every 64 events, and each event can be cancelled."""
    relay = EventRelay()
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await trio.sleep(0)

    async with trio.open_nursery() as nursery:
        Publishing(nursery, relay, range(1001))
        nursery.start_soon(tick)
        await trio.sleep(0)
        stream = relay.subscribe()
        for _ in range(1000):
            await anext(stream)
        assert 15 <= ticks <= 30
        nursery.cancel_scope.cancel()
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(stream)
        assert scope.cancelled_caught


async def test_a_subscriber_cancelled_everywhere():
    """Each event is received at least once, and none stays behind in a stream that is closed."""
    relay, got, published = EventRelay(), [], []

    async def publish():
        for first in count(0, 2):
            published.append((first, first + 1))
            await relay.publish(published[-1])

    async def operation():
        async with relay.subscribe() as stream:
            for _ in range(5):
                got.append(await anext(stream))

    async def check():
        statistics = relay.statistics()
        assert (statistics.held, statistics.subscribers) == (0, 0)
        assert set(got) >= set(chain(*published[:-1]))
        assert got == sorted(got), "an event may come twice, and in order"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        await blocked()
        assert await cancel_everywhere(operation, check) > 5
        nursery.cancel_scope.cancel()


async def test_a_publisher_cancelled_everywhere():
    """Nothing of its list is left behind; a list that was taken is no list that was cancelled."""
    relay, got = EventRelay(), []

    async def subscribe():
        async with relay.subscribe() as stream:
            async for event in stream:
                got.append(event)
                await trio.sleep(0)

    async def operation():
        got.clear()
        await relay.publish([1, 2])
        assert got == [1, 2]

    async def check():
        await blocked()
        assert relay.statistics().waiting == relay.statistics().held == 0
        assert got == [1, 2][: len(got)]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(subscribe)
        await blocked()
        assert await cancel_everywhere(operation, check, every_task=True) > 3
        nursery.cancel_scope.cancel()


class Model(RuleBasedStateMachine):
    """Publishers and subscribers at random; each event is seen, and lists keep their order."""

    def __init__(self):
        super().__init__()
        self.relay = EventRelay()
        self.line = []  # the lists that no subscriber holds, in order
        self.streams = []  # [stream, list or None, position, handed]
        self.numbers = count()
        self.published = {}

    @rule(size=st.integers(1, 4))
    def publish(self, size):
        from rsocket_trio.lumberjack.relay import _List

        events = tuple(next(self.numbers) for _ in range(size))
        offered = _List(events)
        self.relay._offer(offered)
        self.published[events] = offered
        self.line.append(events)

    @rule()
    def subscribe(self):
        self.streams.append([self.relay.subscribe(), None, 0, False])

    @rule(data=st.data())
    def receive(self, data):
        if not self.streams:
            return
        one = data.draw(st.sampled_from(self.streams))
        stream, events, position, handed = one
        if handed:
            position += 1
            if position == len(events):
                events, position = None, 0
        if events is None and self.line:
            events = self.line.pop(0)
        expected = None if events is None else events[position]
        one[1:] = [events, position, events is not None]

        async def receive():
            with trio.CancelScope() as scope:
                if expected is None:
                    scope.cancel()
                return await stream.receive()
            return None

        assert trio.run(receive) == expected

    @rule(data=st.data())
    def leave(self, data):
        if not self.streams:
            return
        one = data.draw(st.sampled_from(self.streams))
        self.streams.remove(one)
        stream, events, _, _ = one
        stream.close()
        if events is not None:
            self.line.insert(0, events)

    @rule(data=st.data())
    def withdraw(self, data):
        if not self.published:
            return
        events = data.draw(st.sampled_from(sorted(self.published)))
        self.relay._withdraw(self.published.pop(events))
        self.line = [each for each in self.line if each != events]
        for one in self.streams:
            if one[1] == events:
                one[1:] = [None, 0, False]

    @invariant()
    def counts(self):
        statistics = self.relay.statistics()
        assert statistics.waiting == len(self.line)
        assert statistics.held == sum(one[1] is not None for one in self.streams)


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestModel = Model.TestCase


# -- between Lumberjack and RSocket --------------------------------------------------------


def relaying():
    """A relay, and the router of its two ends."""
    relay, router = EventRelay(), Router()

    @router.events()
    async def take(batch: Batch) -> None:
        await relay.publish(batch.raw)

    @router.request_stream("events")
    async def events() -> AsyncIterator[bytes]:
        return relay.subscribe()

    return relay, router


def numbers_of(payloads):
    return [json.loads(payload.data)["n"] for payload in payloads]


async def test_acknowledged_as_the_demand_goes(autojump_clock):
    """A batch is acknowledged when the subscriber's demand has taken its last event."""
    relay, router = relaying()

    async def handler(batch):
        await relay.publish(batch.raw)

    async with connected_pair(router) as requester, served(shared(handler)) as one:
        await one.sender.send(full_window(3) + full_window(2, 1))
        await one.sender.no_ack_for(0.5)
        async with requester.request_stream(route="events", prefetch=0) as events:
            await one.sender.no_ack_for(0.5)
            events.request_n(2)  # and one that the request itself asks for
            got = [await events.receive() for _ in range(3)]
            assert await one.sender.ack() == (2, 3)
            await one.sender.no_ack_for(0.5)
            events.request_n(1)
            got.append(await events.receive())
            await one.sender.no_ack_for(0.5)
            events.request_n(1)
            got.append(await events.receive())
            assert await one.sender.ack() == (2, 2)
        assert numbers_of(got) == [1, 2, 3, 1, 2]
    assert relay.statistics().taken == 5


async def test_a_slow_subscriber_slows_the_sender(autojump_clock):
    """The sender gets keep-alives, and the server reads no more than its limits allow."""
    relay, router = relaying()
    config = LumberjackConfig(max_waiting_batches=1, keepalive_interval=5)

    async def handler(batch):
        await relay.publish(batch.raw)

    async with connected_pair(router) as requester, served(shared(handler, config)) as one:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.sender.send, full_window(5) * 4)
            async with requester.request_stream(route="events", prefetch=1) as events:
                acks, got = [], []

                async def collect():
                    while len([ack for ack in acks if ack[1]]) < 4:
                        acks.append(await one.sender.ack())

                nursery.start_soon(collect)
                for _ in range(20):
                    await trio.sleep(10)
                    got.append(await events.receive())
                    assert relay.statistics().waiting + relay.statistics().held <= 1
                with trio.move_on_after(1):
                    await events.receive()
    assert numbers_of(got) == [1, 2, 3, 4, 5] * 4
    assert [ack for ack in acks if ack[1]] == [(2, 5)] * 4
    assert acks.count((2, 0)) > 20


async def test_over_sockets_with_subscribers_that_leave():
    """Each event arrives at least once, though subscribers come and go; all are acknowledged."""
    relay, router = relaying()
    got, total = [], 400
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, ADDRESS)
        other = await nursery.start(serve_rsocket, router, "tcp://127.0.0.1:0")
        config = ShipperConfig(initial_window=50, max_window=50)

        async def ship(done):
            async with connect_shipper(server.uris[0], config=config) as shipper:
                await shipper.send([{"n": n} for n in range(total)])
            done.set()

        async def subscribe():
            async with connect(other.uris[0]) as requester:
                while not done.is_set():
                    # It leaves in the middle of its second list.
                    async with requester.request_stream(route="events", prefetch=8) as events:
                        for _ in range(75):
                            got.append(await events.receive())

        done = trio.Event()
        async with trio.open_nursery() as inner:
            inner.start_soon(ship, done)
            inner.start_soon(subscribe)
            inner.start_soon(subscribe)
            with trio.fail_after(20):
                await done.wait()
            inner.cancel_scope.cancel()
        await other.aclose()
        await server.aclose()
    assert set(numbers_of(got)) == set(range(total))
    assert relay.statistics().taken == total
    assert relay.statistics().waiting == relay.statistics().held == 0


async def test_the_sender_leaves_in_the_middle():
    """Its batch is withdrawn. It comes again on the next connection, from its first event."""
    relay, router = relaying()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, ADDRESS)
        stream = relay.subscribe()
        async with sender_to(server) as sender:
            await sender.send(full_window(3))
            assert await stream.receive() == b'{"n":1}'
            assert await stream.receive() == b'{"n":2}'
        while relay.statistics().held:
            await trio.sleep(0.001)
        async with sender_to(server) as sender:
            await sender.send(full_window(3))
            got = [await stream.receive() for _ in range(3)]
            with trio.move_on_after(0):
                await stream.receive()
            assert await sender.ack() == (2, 3)
        assert got == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
        await server.aclose()


async def test_the_connection_of_the_subscriber_is_lost():
    """The batch is not acknowledged, and goes to the next subscriber from its first event."""
    relay, router = relaying()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, ADDRESS)
        other = await nursery.start(serve_rsocket, router, "tcp://127.0.0.1:0")
        async with sender_to(server) as sender:
            await sender.send(full_window(4))
            async with connect(other.uris[0]) as requester:
                async with requester.request_stream(route="events", prefetch=2) as events:
                    assert numbers_of([await events.receive()]) == [1]
            await sender.no_ack_for(0.05)
            with trio.fail_after(30):
                while relay.statistics().waiting == 0:
                    await trio.sleep(0.001)
            async with connect(other.uris[0]) as requester:
                async with requester.request_stream(route="events", prefetch=8) as events:
                    got = [await events.receive() for _ in range(4)]
                    assert numbers_of(got) == [1, 2, 3, 4]
                    assert await sender.ack() == (2, 4)
        await other.aclose()
        await server.aclose()


async def test_to_several_relays():
    """To give all events to several subscribers, a handler publishes to a relay for each."""
    relays = [EventRelay(), EventRelay()]

    async def handler(batch):
        async with trio.open_nursery() as nursery:
            for relay in relays:
                nursery.start_soon(relay.publish, batch.raw)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, ADDRESS))
        async with sender_to(server) as sender:
            await sender.send(full_window(2))
            for relay in relays:
                stream = relay.subscribe()
                assert [await stream.receive(), await stream.receive()] == [b'{"n":1}', b'{"n":2}']
                await sender.no_ack_for(0.02)
                with trio.move_on_after(0):
                    await stream.receive()
            assert await sender.ack() == (2, 2)
        await server.aclose()
