"""No frames pile up behind the outbox: waiting frames are counted, and their senders wait."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Limits, Payload, Responder, StreamedPayload, connect
from rsocket_trio.frames import KeepaliveFrame as EngineKeepalive
from rsocket_trio.reactivesocket.frames import (
    KeepaliveFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.reactivesocket.transport import ReactiveSocketTransport
from rsocket_trio.transports import TransportWrapper, memory_transport_pair

CHUNK = bytes(1000)
SMALL = ConnectionConfig(
    fragment_size=1000, limits=Limits(max_frame_size=200_000, max_outbox_size=10_000)
)


class Large(Responder):
    """Streams of items of a megabyte, which are made while they are sent."""

    def __init__(self):
        self.made = 0
        self.begun = 0

    async def chunks(self):
        for _ in range(1000):
            self.made += 1
            yield CHUNK

    async def request_stream(self, payload):
        for _ in range(3):
            self.begun += 1
            yield StreamedPayload(self.chunks())

    def request_channel(self, payload, payloads):
        return self.request_stream(payload)


@pytest.mark.parametrize(
    "open_stream",
    [
        lambda number: RequestStreamFrame(number, 0),
        lambda number: RequestSubFrame(number, 0),
        lambda number: RequestChannelFrame(number, None, data=b"x"),
        lambda number: RequestChannelFrame(number, 0, data=b"x"),
    ],
    ids=["stream", "subscription", "channel", "channel with 0"],
)
async def test_an_item_without_credit_is_not_made(draft_client, open_stream):
    """A stream opened with 0 sends nothing, and costs nothing, until there is credit."""
    responder = Large()
    async with draft_client(responder, config=SMALL) as peer:
        await peer.send(*[open_stream(2 * number) for number in range(1, 11)])
        sent = [f for f in await peer.drain() if not isinstance(f, RequestNFrame)]
        assert (sent, responder.begun, responder.made) == ([], 10, 0)
        await peer.send(RequestNFrame(4, 1))
        fragments = [await peer.receive(ResponseFrame)]
        while fragments[-1].follows:
            fragments.append(await peer.receive(ResponseFrame))
        assert sum(len(frame.data) for frame in fragments) == 1_000_000
        assert {frame.stream_id for frame in fragments} == {4}
        await peer.expect_alive()
        assert (responder.begun, responder.made) == (11, 1000)


class Stuck(TransportWrapper):
    """Its peer stops reading at some point."""

    def __init__(self, inner):
        super().__init__(inner)
        self.stuck = False

    async def send_frames(self, frames):
        if frames and self.stuck:
            await trio.sleep_forever()
        await super().send_frames(frames)


@pytest.mark.parametrize("streamed", [False, True], ids=["bytes", "chunks"])
async def test_large_requests_wait_for_room(nursery, streamed):
    """They wait as a whole: a request without room is not begun."""
    ours, theirs = memory_transport_pair()
    stuck = Stuck(ours)
    nursery.start_soon(accept, theirs)

    async def chunks():
        for _ in range(50):
            yield CHUNK

    async with connect(stuck, protocol="reactivesocket", config=SMALL) as requester:
        await trio.testing.wait_all_tasks_blocked()
        stuck.stuck = True
        async with trio.open_nursery() as callers:
            for _ in range(50):
                payload = StreamedPayload(chunks()) if streamed else Payload(bytes(50_000))
                callers.start_soon(requester.request_response, payload)
            await trio.testing.wait_all_tasks_blocked()
            numbers = requester.statistics()
            # One is on its way, and one waits: together they exceed the outbox.
            assert numbers.open_streams == 2
            assert 50_000 <= numbers.queued_size <= SMALL.limits.max_outbox_size + 51_000
            callers.cancel_scope.cancel()


async def accept(theirs):
    """A server that accepts the SETUP, and sends nothing more."""
    frames = []
    while len(frames) < 2:
        frames += map(decode, await theirs.receive_frames())
    assert isinstance(frames[0], SetupFrame)
    await theirs.send_frames([KeepaliveFrame(False).encode()])


async def test_a_request_in_chunks_is_one_frame(draft_server):
    """This holds for every kind; a request that is not sent has no id."""

    async def chunks(n):
        for _ in range(n):
            await trio.lowlevel.checkpoint()
            yield b"x" * 70

    async def use(requester):
        for n in (0, 1, 5):
            await requester.fire_and_forget(StreamedPayload(chunks(n), b"m"))
        async with requester.request_stream(StreamedPayload(chunks(3)), prefetch=7):
            with trio.move_on_after(0):
                await requester.request_response(StreamedPayload(chunks(9)))
            async with requester.request_channel([StreamedPayload(chunks(3))], prefetch=2):
                await trio.testing.wait_all_tasks_blocked()

    async with draft_server(use, config=ConnectionConfig(fragment_size=64)) as peer:
        for number, n in ((2, 0), (4, 1), (6, 5)):
            assert await peer.receive() == RequestFnfFrame(number, b"m", b"x" * 70 * n)
        assert await peer.receive() == RequestStreamFrame(8, 7, None, b"x" * 210, n_flag=True)
        fragments = [await peer.receive(RequestChannelFrame)]
        while fragments[-1].follows:
            fragments.append(await peer.receive(RequestChannelFrame))
        assert {frame.stream_id for frame in fragments} == {10}
        assert len(fragments) > 1
        others = [type(frame) for frame in await peer.drain()]
        assert RequestResponseFrame not in others


async def test_a_backlog_is_translated_in_parts():
    """A peer may leave tens of thousands of frames unread: other tasks run in between."""
    near, far = memory_transport_pair()
    transport = ReactiveSocketTransport(near, client=True, with_length=False)
    frames = [EngineKeepalive(True, 0, b"%d" % number).encode() for number in range(5000)]
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    with pytest.raises(trio.WouldBlock):
        transport.send_frames_nowait(frames)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await transport.send_frames(frames)
        nursery.cancel_scope.cancel()
    assert turns >= 15
    assert [decode(frame).data for frame in await far.receive_frames()] == [
        b"%d" % number for number in range(5000)
    ]
