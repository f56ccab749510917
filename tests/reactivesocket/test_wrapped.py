"""A transport of the draft inside another transport is still one of the draft."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionConfig,
    Limits,
    LocalProtocolError,
    Payload,
    RejectedSetup,
    connect,
    serve_transport,
)
from rsocket_trio.reactivesocket import ReactiveSocketTransport, request_subscription
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    KeepaliveFrame,
    RequestSubFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.testing.faulty import FaultyStream, FaultyTransport
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import (
    ByteStreamTransport,
    FrameTransport,
    TransportInfo,
    memory_transport_pair,
)


class Tap(FrameTransport):
    """Notes the frames between a transport of the draft and its carrier."""

    def __init__(self, inner):
        self.inner = inner
        self.info = inner.info
        self.sent = []

    async def send_frames(self, frames):
        self.sent += frames
        await self.inner.send_frames(frames)

    async def receive_frames(self):
        return await self.inner.receive_frames()

    async def aclose(self):
        await self.inner.aclose()


def wrapped(carrier, *, client):
    return FaultyTransport(FaultyTransport(ReactiveSocketTransport(carrier, client=client)))


async def pair(nursery, responder, **options):
    """A client's transport that notes its frames, and a server at its other end."""
    ours, theirs = memory_transport_pair()
    tap = Tap(ours)
    serving = partial(serve_transport, **options)
    nursery.start_soon(serving, responder, wrapped(theirs, client=False))
    return tap


@pytest.mark.parametrize("protocols", [["reactivesocket"], ["rsocket", "reactivesocket"]])
async def test_requests_through_a_wrapper_are_translated_once(nursery, protocols):
    """The protocol is not recognized again, and a subscription stays one."""
    tap = await pair(nursery, KnownAnswers(), protocols=protocols)
    async with connect(wrapped(tap, client=True), protocol="reactivesocket") as requester:
        assert await requester.request_response(Payload(b"x", b"m")) == Payload(b"x", b"m")
        async with request_subscription(requester, Payload(b"3"), prefetch=2) as items:
            assert (await items.receive()).data == b"0"
        assert requester.transport.extra["protocol"] == "reactivesocket"
    kinds = [type(decode(frame)) for frame in tap.sent]
    assert kinds[:2] == [SetupFrame, KeepaliveFrame]
    assert kinds.count(RequestSubFrame) == 1
    assert CancelFrame in kinds


async def test_a_request_that_does_not_fit_a_frame(nursery):
    """The draft cannot cut it, so it is refused here; one that fits a frame is sent."""
    config = ConnectionConfig(limits=Limits(max_frame_size=1000))
    tap = await pair(nursery, KnownAnswers(), config=config)
    target = wrapped(tap, client=True)
    async with connect(target, protocol="reactivesocket", config=config) as requester:
        largest = Payload(b"x" * 980)
        assert await requester.request_response(largest) == largest
        with pytest.raises(LocalProtocolError, match="too large"):
            await requester.request_response(Payload(b"x" * 981))
        async with requester.request_channel([Payload(b"y" * 3000)]) as items:
            assert [len(item.data) async for item in items] == [3000]
    assert max(map(len, tap.sent)) <= 1000


async def test_facts_of_the_first_frame(nursery):
    """The client's request for a strict reading is known behind a wrapper too."""
    seen = []

    def accept(setup, _requester):
        seen.append(dict(setup.transport.extra))
        raise RejectedSetup("seen")

    ours, theirs = memory_transport_pair()
    nursery.start_soon(serve_transport, accept, wrapped(theirs, client=False))
    await ours.send_frames([SetupFrame(0, 500, 2500, strict=True).encode()])
    assert await ours.receive_frames()
    assert seen == [{"protocol": "reactivesocket", "strict": True}]
    await ours.aclose()


async def test_a_wrapper_around_lengths_of_1_0_is_refused(nursery):
    """The draft has other lengths: the error says so, and no frame is sent."""
    ours, theirs = trio.testing.memory_stream_pair()
    info = TransportInfo(scheme="memory")
    near = FaultyTransport(ByteStreamTransport(ours, info=info))
    far = FaultyTransport(ByteStreamTransport(theirs, info=info))
    with pytest.raises(TypeError, match="FaultyTransport is a wrapper around a ByteStream"):
        async with connect(near, protocol="reactivesocket"):
            raise AssertionError
    with pytest.raises(TypeError, match="FaultyTransport is a wrapper around a ByteStream"):
        await serve_transport(KnownAnswers(), far, protocols=["reactivesocket"])
    assert await theirs.receive_some() == b""
    # The advice of the error works, and 1.0 works in any case.
    ours, theirs = trio.testing.memory_stream_pair()
    slow = ByteStreamTransport(FaultyStream(ours), info=info)
    nursery.start_soon(serve_transport, KnownAnswers(), ByteStreamTransport(theirs, info=info))
    async with connect(slow, protocol="reactivesocket") as requester:
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    ours, theirs = trio.testing.memory_stream_pair()
    far = FaultyTransport(ByteStreamTransport(theirs, info=info))
    nursery.start_soon(serve_transport, KnownAnswers(), far)
    async with connect(FaultyTransport(ByteStreamTransport(ours, info=info))) as requester:
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")


async def test_a_wrapper_that_sends_at_once():
    """Translated frames that the carrier did not take are sent later, and not translated twice."""

    class Reluctant(Tap):
        sends_nowait = True
        answers = iter(())

        def send_frames_nowait(self, frames):
            answer = next(self.answers)
            if isinstance(answer, Exception):
                raise answer
            self.sent += frames
            return answer

    ours, theirs = memory_transport_pair()
    tap = Reluctant(ours)
    tap.answers = iter([True, ValueError("no"), False])
    transport = FaultyTransport(ReactiveSocketTransport(tap, client=True))
    assert transport.sends_nowait
    keepalives = [KeepaliveFrame(True, bytes((number,))).encode() for number in range(5)]
    said = [
        bytes.fromhex("00000000 0c80 0000000000000000") + bytes((number,)) for number in range(5)
    ]
    assert transport.send_frames_nowait(said[:1])
    assert not transport.send_frames_nowait(said[1:2])
    assert tap.sent == keepalives[:1]
    assert not transport.send_frames_nowait(said[2:4])
    await transport.send_frames(said[4:])
    assert tap.sent == keepalives
    await theirs.aclose()
