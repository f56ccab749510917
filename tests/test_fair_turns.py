"""Tasks that never have to wait still let other tasks run at short intervals.

Each case does ten thousand steps for which it never has to wait, and notes in which turn of the
loop it does each of them.

Modules of rsocket_trio.connection: reader.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Limits, Payload, Responder, StreamedPayload
from rsocket_trio.frames import PayloadFrame, RequestResponseFrame, RequestStreamFrame
from rsocket_trio.interactions.payload_body import whole
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server

COUNT = 10_000
ITEM = Payload(b"item")
ROOMY = ConnectionConfig(
    prefetch=2 * COUNT,
    limits=Limits(max_outbox_size=2**24, max_prefetch=2 * COUNT, max_control_size=2**24),
)
"""So large that no task has to wait for room or credit."""


class Turns(trio.abc.Instrument):
    """Counts the steps in each turn."""

    def __init__(self):
        self._turn = 0
        self._counted = Counter()

    def before_io_wait(self, timeout):
        self._turn += 1

    def note(self):
        self._counted[self._turn] += 1

    def check(self, at_most, count=COUNT):
        assert self._counted.total() == count
        assert max(self._counted.values()) <= at_most


@pytest.fixture
def turns():
    return Turns()


@pytest.fixture(autouse=True)
async def counting(turns):
    trio.lowlevel.add_instrument(turns)
    yield
    trio.lowlevel.remove_instrument(turns)


class Endless(Responder):
    """Handlers that never wait."""

    def __init__(self, turns):
        self.turns = turns

    async def request_stream(self, payload):
        for _ in range(COUNT):
            self.turns.note()
            yield ITEM

    async def request_channel(self, payload, payloads):
        async for item in self.request_stream(payload):
            yield item

    async def request_response(self, payload):
        return StreamedPayload(self.chunks())

    async def chunks(self):
        for _ in range(COUNT):
            self.turns.note()
            yield b"c"

    async def fire_and_forget(self, payload):
        pass


# -- senders


async def a_stream(requester):
    async with requester.request_stream() as items:
        await trio.testing.wait_all_tasks_blocked()
        assert items.statistics().unread == COUNT


async def a_channel(requester):
    async with requester.request_channel([ITEM]) as items:
        await trio.testing.wait_all_tasks_blocked()
        assert items.statistics().unread == COUNT


async def chunks(requester):
    assert await requester.request_response() == Payload(b"c" * COUNT)


@pytest.mark.parametrize("ask", [a_stream, a_channel, chunks])
async def test_a_handler_that_never_waits(turns, ask):
    """Its items, or the chunks of its answer, leave in bursts."""
    async with connected_pair(Endless(turns), config=ROOMY) as requester:
        await ask(requester)
    turns.check(at_most=256)


class Sink(Responder):
    """Takes all items."""

    async def request_channel(self, payload, payloads):
        async for _ in payloads:
            pass
        return
        yield


@pytest.mark.parametrize("kind", ["generator", "iterator"])
async def test_a_source_that_never_waits(turns, kind):
    """The items of a channel's source leave in bursts."""

    async def generator():
        for item in iterator():
            yield item

    def iterator():
        for _ in range(COUNT):
            turns.note()
            yield ITEM

    source = generator() if kind == "generator" else iterator()
    async with connected_pair(Sink(), config=ROOMY) as requester:
        async with requester.request_channel(source) as replies:
            assert [item async for item in replies] == []
    turns.check(at_most=256)


async def test_chunks_of_a_request(turns):
    """The chunks of a request that is sent while it is made leave in bursts."""

    async def source():
        for _ in range(COUNT):
            turns.note()
            yield b"c"

    async with connected_pair(Sink(), config=ROOMY) as requester:
        await requester.fire_and_forget(StreamedPayload(source()))
    turns.check(at_most=256)


@pytest.mark.parametrize("send", ["fire_and_forget", "metadata_push"])
async def test_a_requester_that_never_waits(turns, send):
    """A caller of requests without an answer lets others run at least every 64 calls."""
    async with connected_pair(Endless(turns), config=ROOMY) as requester:
        for _ in range(COUNT):
            turns.note()
            if send == "fire_and_forget":
                await requester.fire_and_forget(ITEM)
            else:
                await requester.metadata_push(b"push")
    turns.check(at_most=64)


# -- readers


async def one_by_one(items, note):
    async for _ in items:
        note()


async def by_receive(items, note):
    with pytest.raises(trio.EndOfChannel):
        while True:
            await items.receive()
            note()


@pytest.mark.parametrize(("read", "at_most"), [(one_by_one, 65), (by_receive, 1)])
async def test_a_reader_whose_items_have_all_arrived(turns, read, at_most):
    """It lets others run at least every 64 items."""
    async with frame_peer_server(config=ROOMY) as (peer, requester):
        async with requester.request_stream() as items:
            await peer.receive(RequestStreamFrame)
            await peer.send(*[PayloadFrame(1, next=True, data=b"i")] * COUNT)
            await peer.send(PayloadFrame(1, complete=True))
            await trio.testing.wait_all_tasks_blocked()
            assert items.statistics().unread == COUNT
            await read(items, turns.note)
    turns.check(at_most)


@pytest.mark.parametrize("read", [one_by_one, by_receive])
async def test_a_reader_of_chunks_that_have_all_arrived(turns, read):
    """It lets others run at least every 64 chunks."""
    async with frame_peer_server(config=ROOMY) as (peer, requester):

        async def answer():
            await peer.receive()
            await peer.send(
                *[PayloadFrame(1, next=True, follows=True, data=b"c")] * (COUNT - 1),
                PayloadFrame(1, next=True, complete=True, data=b"c"),
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            async with requester.request_response_streamed() as body:
                await trio.testing.wait_all_tasks_blocked()
                await read(body, turns.note)
    turns.check(at_most=65)


async def test_chunks_that_are_joined():
    """A reader that takes all chunks as a whole joins them in parts."""
    seen = 0

    class Whole(Responder):
        here = trio.Event()

        def body_responder(self, interaction, metadata):
            return self

        async def request_response(self, body):
            await self.here.wait()
            before = seen
            assert (await whole(body)).data == b"c" * COUNT
            return Payload(b"%d" % (seen - before))

    async def others():
        nonlocal seen
        while True:
            seen += 1
            await trio.lowlevel.checkpoint()

    responder = Whole()
    async with frame_peer_client(responder, config=ROOMY) as peer:
        part = PayloadFrame(1, next=True, follows=True, data=b"c")
        await peer.send(RequestResponseFrame(1, follows=True), *[part] * COUNT)
        await peer.send(PayloadFrame(1, next=True))
        await peer.drain()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            responder.here.set()
            assert int((await peer.receive(PayloadFrame)).data) >= COUNT // 256
            nursery.cancel_scope.cancel()


async def test_a_read_with_very_many_frames(turns):
    """The frames of one read are dispatched in parts, and others run in between."""
    seen = []

    async with frame_peer_server(config=ROOMY) as (peer, requester):
        async with requester.request_stream() as items:
            await peer.receive(RequestStreamFrame)

            async def others():
                while True:
                    seen.append(items.statistics().received)
                    await trio.lowlevel.checkpoint()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(others)
                while not seen:
                    await trio.lowlevel.checkpoint()
                await peer.send(*[PayloadFrame(1, next=True, data=b"i")] * COUNT)
                while seen[-1] < COUNT:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
    # There is a batch in each turn; in two turns the others may run first and last.
    assert max(after - before for before, after in pairwise(seen)) <= 2 * 1024
