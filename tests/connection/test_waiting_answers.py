"""Answers and items that wait for room are bounded in bytes (`Limits.max_answers_size`).

A peer sends requests and reads nothing. The requests run when the first answer fills the outbox.

Modules of rsocket_trio.connection: sendable.
"""

from __future__ import annotations

import logging
import tracemalloc

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rsocket_trio import ConnectionConfig, Limits, Payload, Responder, StreamedPayload
from rsocket_trio.errors import Canceled, ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.reactive_streams import from_iterable
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server

SIZE = 2**16
MIB = 2**20
COUNT = 100
CONFIG = ConnectionConfig(limits=Limits(max_outbox_size=SIZE, max_answers_size=MIB))
MOST = 2**31 - 1


class Large(Responder):
    """Answers of 64 KiB each, once all handlers run."""

    def __init__(self):
        self.gate = trio.Event()
        self.at_work = 0
        self.refused = 0

    async def go(self):
        self.at_work += 1
        await self.gate.wait()

    async def request_response(self, payload):
        await self.go()
        if payload.data == b"streamed":
            return StreamedPayload(self.chunks())
        if payload.data == b"metadata":
            return StreamedPayload(self.chunks(0), metadata=bytes(SIZE))
        return Payload(bytes(SIZE))

    async def chunks(self, size=SIZE):
        yield bytes(size)

    async def request_stream(self, payload):
        await self.go()
        for _ in range(20):
            try:
                yield Payload(bytes(SIZE))
            except Canceled:  # a handler that goes on is stopped all the same
                self.refused += 1

    def request_channel(self, payload, payloads):
        return self.request_stream(payload)


REQUESTS = {
    "response": lambda number: RequestResponseFrame(number),
    "streamed": lambda number: RequestResponseFrame(number, data=b"streamed"),
    "metadata": lambda number: RequestResponseFrame(number, data=b"metadata"),
    "stream": lambda number: RequestStreamFrame(number, MOST),
    "channel": lambda number: RequestChannelFrame(number, MOST),
}


@pytest.mark.parametrize("kind", REQUESTS)
async def test_answers_of_handlers_that_run_together(kind, caplog):
    """Those past the limit end with CANCELED; the memory of all others is bounded."""
    caplog.set_level(logging.INFO)
    handlers = Large()
    async with frame_peer_client(handlers, config=CONFIG) as peer:
        await peer.send(*(REQUESTS[kind](number) for number in range(1, 2 * COUNT, 2)))
        await wait_all_tasks_blocked()
        assert handlers.at_work == COUNT
        tracemalloc.start()
        try:
            handlers.gate.set()
            await wait_all_tasks_blocked()
            assert tracemalloc.get_traced_memory()[0] < 2 * MIB
        finally:
            tracemalloc.stop()
        frames = await peer.drain()
    errors = [frame for frame in frames if isinstance(frame, ErrorFrame)]
    assert {frame.code for frame in errors} == {ErrorCode.CANCELED}
    assert len({frame.stream_id for frame in errors}) == len(errors) > COUNT // 2
    assert handlers.refused <= len(errors)


async def test_a_peer_that_reads_gets_all_answers():
    """Two honest ends: each answers the other, and both together have more than the limit."""
    here, there = Large(), Large()
    async with connected_pair(there, client_responder=here, config=CONFIG) as requester:
        answers = []

        async def ask():
            answers.append(await requester.request_response(Payload(b"")))

        async with trio.open_nursery() as nursery:
            for _ in range(15):
                nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            there.gate.set()
    assert [len(each.data) for each in answers] == [SIZE] * 15


async def test_an_item_of_our_own_request_is_not_counted():
    """The application chose how many channels it has; only what the peer causes is bounded."""
    ours = ConnectionConfig(limits=Limits(max_outbox_size=SIZE, max_answers_size=SIZE))

    async def items():
        yield Payload(b"goes with the request")
        yield Payload(bytes(SIZE))

    async with frame_peer_server(config=ours) as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def send():
                async with requester.request_channel(items()):
                    await trio.sleep_forever()

            for _ in range(COUNT):
                nursery.start_soon(send)
            await wait_all_tasks_blocked()
            await peer.send(*(RequestNFrame(number, 1) for number in range(1, 2 * COUNT, 2)))
            await wait_all_tasks_blocked()
            ended = set()
            while len(ended) < COUNT:
                frame = await peer.receive()
                assert not isinstance(frame, ErrorFrame | CancelFrame)
                if isinstance(frame, PayloadFrame) and frame.complete:
                    ended.add(frame.stream_id)
            nursery.cancel_scope.cancel(reason="the test is over")


class Ahead(Responder):
    """A small item, and then large ones, which the peer does not ask for."""

    def __init__(self):
        self.refused = 0

    async def request_stream(self, payload):
        yield Payload(b"first")
        try:
            yield Payload(bytes(SIZE), metadata=b"m")
        except Canceled:  # as above
            self.refused += 1
            yield Payload(bytes(SIZE))

    def request_channel(self, payload, payloads):
        return self.request_stream(payload)


@pytest.mark.parametrize(
    "request_of", [lambda i: RequestStreamFrame(i, 1), lambda i: RequestChannelFrame(i, 1)]
)
async def test_items_that_wait_for_credit_are_bounded(request_of, caplog):
    """A peer that reads all it gets, and grants no more, decides how long the next items wait.

    They count as answers that wait for room do. Those within the limit still come with credit, and
    their bytes are given back.
    """
    caplog.set_level(logging.INFO)
    handlers = Ahead()
    numbers = range(1, 2 * COUNT, 2)
    async with frame_peer_client(handlers, config=CONFIG) as peer:
        tracemalloc.start()
        try:
            await peer.send(*map(request_of, numbers))
            frames = await peer.drain()
            assert tracemalloc.get_traced_memory()[0] < 2 * MIB
        finally:
            tracemalloc.stop()
        refused = {frame.stream_id for frame in frames if isinstance(frame, ErrorFrame)}
        kept = [number for number in numbers if number not in refused]
        assert len(kept) == MIB // SIZE - 1  # each counts some bytes more than it has
        for _ in range(2):
            await peer.send(*(RequestNFrame(number, 1) for number in kept))
            frames = await peer.drain()
            items = [frame for frame in frames if isinstance(frame, PayloadFrame) and frame.next]
            assert {frame.stream_id for frame in items} == set(kept)
            kept = [number + 2 * COUNT for number in kept]
            await peer.send(*map(request_of, kept))
            frames = await peer.drain()
            assert not [frame for frame in frames if isinstance(frame, ErrorFrame)]
    assert handlers.refused == len(refused)


class Published(Responder):
    """A publisher that makes each element when it is asked for, and as many as it is asked for."""

    def __init__(self, source):
        self.source = source

    def request_stream(self, payload):
        return self.source()

    def request_channel(self, payload, payloads):
        return self.source()


@pytest.mark.limits_row("RSocket: the same, for answers that are publishers")
@pytest.mark.parametrize("size", [SIZE, 1000])
@pytest.mark.parametrize(
    "request_of", [lambda i: RequestStreamFrame(i, 50), lambda i: RequestChannelFrame(i, 50)]
)
async def test_a_publisher_is_asked_for_few_large_elements_ahead(request_of, size):
    """What it has made waits behind the item that waits: 64 KiB or an item, and not 64 items."""

    def elements():
        return from_iterable(Payload(bytes(size)) for _ in range(100))

    count = 200
    async with frame_peer_client(Published(elements), config=CONFIG) as peer:
        tracemalloc.start()
        try:
            await peer.send(*map(request_of, range(1, 2 * count, 2)))
            await wait_all_tasks_blocked()
            assert tracemalloc.get_traced_memory()[0] < 4 * MIB
        finally:
            tracemalloc.stop()
        frames = await peer.drain()
        errors = [frame for frame in frames if isinstance(frame, ErrorFrame)]
        assert {frame.code for frame in errors} <= {ErrorCode.CANCELED}
        assert len(errors) < count


async def test_a_stream_of_large_elements_alone_is_not_refused():
    """However many it is asked for: those ahead are few."""

    def elements():
        return from_iterable(Payload(bytes(size)) for size in (10, *[4 * SIZE] * 30))

    async with frame_peer_client(Published(elements), config=CONFIG) as peer:
        await peer.send(RequestStreamFrame(1, MOST))
        received = 0
        while not (frame := await peer.receive(PayloadFrame)).complete:
            received += len(frame.data)
        assert received == 10 + 30 * 4 * SIZE


class Pushed:
    """A publisher whose elements come when the test says so."""

    def __init__(self):
        self.demand = 0
        self.canceled = False

    def subscribe(self, subscriber):
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n):
        self.demand += n

    def cancel(self):
        self.canceled = True


async def test_elements_that_arrive_while_an_item_waits_are_counted():
    """They were asked for when there was room: past the limit their publisher is cancelled."""
    source = Pushed()
    async with frame_peer_client(Published(lambda: source), config=CONFIG) as peer:
        await peer.send(RequestStreamFrame(1, MOST))
        for _ in range(200):  # small ones, until it is asked for many
            if source.demand == 0:
                await wait_all_tasks_blocked()
            if source.demand > 30:
                break
            source.demand -= 1
            source.subscriber.on_next(Payload(b""))
        many = source.demand
        assert many > 30
        for number in range(many):
            source.subscriber.on_next(Payload(bytes(SIZE)))
            if number < 10:
                await wait_all_tasks_blocked()  # the first fill the room, and then one waits
        assert source.canceled
        kept = 0
        while not isinstance(frame := await peer.receive(), ErrorFrame):
            kept += frame.next
        assert frame.code == ErrorCode.CANCELED
        assert kept >= 1
