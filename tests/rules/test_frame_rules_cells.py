"""Every cell of the frame rules against what a real connection does with such a frame.

A client and a server, with a channel of its own and one of its peer's open, receive each type of
frame on stream 0, on both channels, and on free ids of either side. The visible effect has to be
what `judge` says, and what the statement below says a second time.

Modules of rsocket_trio.connection: dispatch.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from struct import pack

import pytest
import trio

from rsocket_trio import LeaseOptions, Payload, Responder, RSocketError
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    FrameType,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.frames.header import HEADER, IGNORE
from rsocket_trio.protocol import frame_rules
from rsocket_trio.protocol.frame_rules import Verdict, judge
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server

T = FrameType

FRAMES = {
    T.SETUP: SetupFrame(1, 0, 1000, 5000),
    T.LEASE: LeaseFrame(1000, 77),
    T.KEEPALIVE: KeepaliveFrame(respond=True, data=b"?"),
    T.REQUEST_RESPONSE: RequestResponseFrame(1, data=b"response"),
    T.REQUEST_FNF: RequestFnfFrame(1, data=b"fnf"),
    T.REQUEST_STREAM: RequestStreamFrame(1, 1, data=b"stream"),
    T.REQUEST_CHANNEL: RequestChannelFrame(1, 1, data=b"channel"),
    T.REQUEST_N: RequestNFrame(1, 1),
    T.CANCEL: CancelFrame(1),
    T.PAYLOAD: PayloadFrame(1, next=True, data=b"item"),
    T.ERROR: ErrorFrame(1, ErrorCode.CONNECTION_ERROR, b"over"),
    T.METADATA_PUSH: MetadataPushFrame(b"pushed"),
    T.RESUME: ResumeFrame(1, 0, b"token", 0, 0),
    T.RESUME_OK: ResumeOkFrame(0),
}
"""One frame of each known type; its stream id is set later."""

PLACES = ["zero", "our channel", "their channel", "our free id", "their free id"]
OPEN_CHANNELS = {"our channel", "their channel"}

UNKNOWN = [code for code in range(0x40) if code not in FRAMES]


def expected(frame_type, place, *, client):
    """Return what a connection has to do with a frame of a known type."""
    if place == "zero":
        if frame_type is T.RESUME and not client:
            return Verdict.REFUSE
        handled = {T.KEEPALIVE, T.LEASE, T.METADATA_PUSH, T.ERROR}
    elif place.startswith("our"):
        handled = {T.PAYLOAD, T.REQUEST_N, T.CANCEL, T.ERROR}
    else:
        handled = {T.PAYLOAD, T.REQUEST_N, T.CANCEL, T.ERROR, *REQUESTS}
    return Verdict.HANDLE if frame_type in handled else Verdict.IGNORE


REQUESTS = [T.REQUEST_RESPONSE, T.REQUEST_FNF, T.REQUEST_STREAM, T.REQUEST_CHANNEL]


def means_nothing(frame_type, place):
    """Return whether the effect depends on more than the header: on a free id, or one in use."""
    if place == "zero":
        return False
    return (frame_type in REQUESTS) is (place in OPEN_CHANNELS)


class World(Responder):
    """A connection with a channel each way that answers its peer.

    Attributes:
        noted: The effect of each frame that arrived.
    """

    def __init__(self, *, client):
        self.client = client
        self.noted = []

    @asynccontextmanager
    async def begun(self):
        """Connect, and open both channels; each has an item to send, and no credit for it."""
        if self.client:
            async with frame_peer_server(self, lease=LeaseOptions()) as (self.peer, self.end):
                async with self._channels(ours=1, theirs=2):
                    yield
        else:
            async with frame_peer_client(self._accept, lease=LeaseOptions()) as self.peer:
                async with self._channels(ours=2, theirs=1):
                    yield

    async def _accept(self, _setup, requester):
        self.end = requester
        return self

    @asynccontextmanager
    async def _channels(self, *, ours, theirs):
        await self.peer.receive(LeaseFrame)
        self.ids = dict(zip(PLACES, [0, ours, theirs, ours + 2, theirs + 2], strict=True))
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            nursery.start_soon(self._ask)
            await self.peer.send(LeaseFrame(10_000, 5), RequestChannelFrame(theirs, 1, data=b"?"))
            await self.peer.drain()
            self.noted.clear()
            yield
            nursery.cancel_scope.cancel()

    async def _ask(self):
        source = self._items("our channel")
        async with self.end.request_channel(source, payload=Payload(b"?")) as items:
            await self._hear(items, "our channel")

    def request_channel(self, payload, payloads):
        self.noted.append("request_channel")
        self.nursery.start_soon(self._hear, payloads, "their channel")
        return self._items("their channel")

    async def _items(self, where):
        try:
            if where == "their channel":
                yield Payload(b"takes the credit of the request")
            yield Payload(b"waits for credit")
            await trio.sleep_forever()
        finally:
            self.noted.append(f"{where} is stopped")

    async def _hear(self, items, where):
        try:
            async for item in items:
                self.noted.append((where, item.data))
        except (RSocketError, trio.ClosedResourceError):
            self.noted.append(f"{where} failed")

    async def request_response(self, payload):
        self.noted.append("request_response")

    async def fire_and_forget(self, payload):
        self.noted.append("fire_and_forget")

    async def request_stream(self, payload):
        self.noted.append("request_stream")
        yield Payload()

    async def metadata_push(self, metadata):
        self.noted.append("metadata_push")

    async def done_with(self, *frames):
        """Everything that can be done with a frame."""
        lease = self.end.leases.received_lease
        await self.peer.send(*frames)
        sent = await self.peer.drain()
        refusal = ErrorFrame(0, ErrorCode.CONNECTION_ERROR)
        if any((e.stream_id, e.code) == (0, refusal.code) for e in sent if type(e) is ErrorFrame):
            assert self.end.closed
            return Verdict.REFUSE
        if sent or self.noted or self.end.closed or self.end.leases.received_lease != lease:
            return Verdict.HANDLE
        await self.peer.expect_alive()
        return Verdict.IGNORE


def on(stream_id, flags, frame):
    """The bytes of a frame on another stream, with an additional flag."""
    _, type_and_flags = HEADER.unpack_from(frame)
    return HEADER.pack(stream_id, type_and_flags | flags) + frame[HEADER.size :]


ENDS = [pytest.param(True, id="client"), pytest.param(False, id="server")]


@pytest.mark.parametrize("client", ENDS)
@pytest.mark.parametrize("flags", [pytest.param(0, id=""), pytest.param(IGNORE, id="I")])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("frame_type", FRAMES, ids=lambda each: each.name)
async def test_every_cell(frame_type, place, flags, client):
    """`judge`, the statement of its rules and the connection agree, with I and without."""
    world = World(client=client)
    async with world.begun():
        stream_id = world.ids[place]
        done = await world.done_with(on(stream_id, flags, FRAMES[frame_type].encode()))
    verdict = expected(frame_type, place, client=client)
    assert judge(frame_type, flags, stream_id, client=client) is verdict
    assert done is (Verdict.IGNORE if means_nothing(frame_type, place) else verdict)


@pytest.mark.parametrize("client", ENDS)
@pytest.mark.parametrize("place", ["zero", "our channel"])
@pytest.mark.parametrize("code", UNKNOWN, ids=hex)
async def test_unknown_types_without_ignore_end_the_connection(code, place, client):
    """The tables have no cell for unknown types or EXT: without I they end the connection."""
    world = World(client=client)
    async with world.begun():
        stream_id = world.ids[place]
        done = await world.done_with(pack(">IHI", stream_id, code << 10, 0))
    assert done is judge(code, 0, stream_id, client=client) is Verdict.REFUSE


@pytest.mark.parametrize("client", ENDS)
async def test_unknown_types_with_ignore_are_skipped(client):
    """With I a frame of an unknown type has no effect on any stream."""
    world = World(client=client)
    async with world.begun():
        ids = world.ids.values()
        frames = [pack(">IHI", i, code << 10 | IGNORE, 0) for code in UNKNOWN for i in ids]
        assert await world.done_with(*frames) is Verdict.IGNORE
    verdicts = {judge(code, IGNORE, i, client=client) for code in UNKNOWN for i in ids}
    assert verdicts == {Verdict.IGNORE}


def test_types_that_begin_a_stream():
    """The four request types begin a stream, and no other type does."""
    assert {*REQUESTS} == frame_rules.REQUEST_TYPES
