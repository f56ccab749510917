"""Hostile clients of the ReactiveSocket draft, at a server that speaks both protocols."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio import connect
from rsocket_trio.payload import Payload
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    KeepaliveFrame,
    LeaseFrame,
    LengthDecoder,
    MetadataPushFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
    SetupFrame,
    decode,
    encode_length,
)

MIB = 2**20
MOST = 2**32 - 1


class DraftClient:
    """A client of bytes that keeps no rule by itself."""

    def __init__(self, stream):
        self.stream = stream
        self._decoder = LengthDecoder(2**24)
        self._frames = []

    @staticmethod
    def encode(*frames):
        encoded = [frame if isinstance(frame, bytes) else frame.encode() for frame in frames]
        return b"".join(encode_length(frame) + frame for frame in encoded)

    async def send(self, *frames):
        await self.stream.send_all(self.encode(*frames))

    async def frame(self):
        """Return the next frame, or ``None`` at the end of the connection."""
        with trio.fail_after(20):
            while not self._frames:
                try:
                    data = await self.stream.receive_some()
                except trio.BrokenResourceError:
                    return None
                if not data:
                    return None
                self._frames = self._decoder.feed(data)
        return decode(self._frames.pop(0))

    async def frames_before_probe(self):
        """Return the frames before the answer to a KEEPALIVE."""
        await self.send(KeepaliveFrame(True, b"alive?"))
        frames = []
        while (frame := await self.frame()) != KeepaliveFrame(False, b"alive?"):
            assert frame is not None, "the connection has ended"
            frames.append(frame)
        return frames


@pytest.fixture
def draft(target):
    @asynccontextmanager
    async def dial(lifetime=90.0):
        host, port = target.tcp.removeprefix("tcp://").split(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            client = DraftClient(stream)
            await client.send(SetupFrame(0, 500, round(lifetime * 1000)))
            yield client

    return dial


@pytest.mark.parametrize("kind", [RequestStreamFrame, RequestSubFrame])
async def test_streams_without_credit(target, draft, kind):
    """A thousand streams of large items, opened with 0 and never granted credit, cost little."""
    allowed = target.limits["max_active_requests"]
    async with target.attacked():
        async with draft() as raw:
            await raw.send(*(kind(2 * i, 0, data=b"large") for i in range(1, allowed + 1)))
            for _ in range(500):  # The pause gives the handlers the turns to make them.
                assert await raw.frames_before_probe() == []


@pytest.mark.parametrize("n", [1, MOST])
async def test_items_that_are_not_read(target, draft, n):
    """With credit they cost one outbox, and a client that does not read is found dead."""
    async with target.attacked() as requester:
        async with draft(target.short_lifetime) as raw:
            for number in range(2, 400, 2):
                await raw.send(RequestStreamFrame(number, 0, data=b"large"))
                await raw.send(RequestNFrame(number, n), RequestNFrame(number, n))
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def send_keepalives():
                    while True:
                        try:
                            await raw.send(KeepaliveFrame(False))
                        except trio.BrokenResourceError:
                            return
                        await trio.sleep(0.3)

                await target.wait_until_alone(requester)
                nursery.cancel_scope.cancel()


async def test_channels_that_end_before_their_requester(target, draft):
    """Twenty thousand of them, each with late items: they are forgotten in time."""
    async with target.attacked():
        async with draft() as raw:
            for first in range(2, 40_002, 1000):
                await raw.send(
                    *(
                        frame
                        for number in range(first, first + 1000, 2)
                        for frame in (
                            RequestChannelFrame(number, 5, data=b"x"),
                            ErrorFrame(number, 0x201),
                            RequestChannelFrame(number, None, complete=True, data=b"late"),
                        )
                    )
                )
                await raw.frames_before_probe()


@pytest.mark.parametrize(
    "make",
    [
        lambda i: KeepaliveFrame(True, bytes(1000)),
        lambda i: RequestResponseFrame(i, data=bytes(1000)),
        lambda i: RequestStreamFrame(i, 9, data=b"no number" * 100),
    ],
    ids=["keepalive", "response", "stream"],
)
async def test_unread_answers_end_the_connection(target, draft, make):
    """The server refuses requests beyond its limits, and then ends the connection."""
    async with target.attacked() as requester:
        async with draft(target.short_lifetime) as raw:
            sent = 0
            for first in range(2, 2_000_002, 2000):
                data = raw.encode(*(make(number) for number in range(first, first + 2000, 2)))
                try:
                    with trio.fail_after(0.5):
                        await raw.stream.send_all(data)
                except (trio.TooSlowError, trio.BrokenResourceError):
                    break
                sent += len(data)
            assert (
                sent < 400 * MIB
            )  # 1.5 MiB of refusals (max_unsent_control_size), or the lifetime
            await target.wait_until_alone(requester)


FLOODS = {
    "fnf": lambda i: RequestFnfFrame(i, data=bytes(100)),
    "stuck fnf": lambda i: RequestFnfFrame(i, data=b"stuck" + bytes(1000)),
    "stuck push": lambda i: MetadataPushFrame(b"stuck" + bytes(1000)),
    "fragments without end": lambda i: RequestChannelFrame(2, 1, follows=True, data=bytes(1000)),
    "channels in fragments": lambda i: RequestChannelFrame(i, 1, follows=True, data=bytes(1000)),
    "stuck channels": lambda i: RequestChannelFrame(i, 1, data=b"stuck"),
    "unexpected items": lambda i: RequestChannelFrame(2, None, data=bytes(1000)),
    "credit": lambda i: RequestNFrame(2, MOST),
    "cancel": CancelFrame,
    "responses": lambda i: ResponseFrame(i, data=bytes(1000)),
    "errors": lambda i: ErrorFrame(i, 0x201, None, bytes(100)),
    "leases": lambda i: LeaseFrame(MOST, MOST, bytes(100)),
    "setups": lambda i: SetupFrame(0, 500, 500),
    "what is not understood": lambda i: ExtFrame(i, 7, True),
    "impossible metadata": lambda i: bytes.fromhex("0004 4000 00000002 7fffffff"),
}


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_of_one_kind(target, draft, kind):
    """Twenty thousand frames of a kind: their cost is bounded, and the connection lives."""
    make = FLOODS[kind]
    async with target.attacked():
        async with draft() as raw:
            for first in range(2, 40_002, 2000):
                await raw.send(*(make(number) for number in range(first, first + 2000, 2)))
                await raw.frames_before_probe()


async def test_a_flood_of_mixed_frames(target, draft):
    """Frames of all kinds in any order on few streams: the cost is bounded, and serving goes on."""
    rng = random.Random(7)
    ids = [0, 2, 4, 6, 8, 3, 5, 2**32 - 1]
    numbers = [0, 1, 2, 7, MOST]
    texts = [b"", b"3", b"large", b"never", b"stuck", b"error:x", bytes(2000)]

    def any_frame():
        number, n, data = rng.choice(ids), rng.choice(numbers), rng.choice(texts)
        metadata = rng.choice([None, b"", b"m" * 20])
        flag, other = rng.random() < 0.5, rng.random() < 0.5
        return rng.choice(
            [
                lambda: RequestResponseFrame(number, metadata, data),
                lambda: RequestFnfFrame(number, metadata, data),
                lambda: RequestStreamFrame(number, n, metadata, data),
                lambda: RequestSubFrame(number, n, metadata, data),
                lambda: RequestChannelFrame(
                    number, rng.choice([None, n]), flag, other, metadata, data
                ),
                lambda: RequestNFrame(number, n),
                lambda: CancelFrame(number),
                lambda: ResponseFrame(number, flag, other, metadata, data),
                lambda: ErrorFrame(number or 2, 0x201, metadata, data),
                lambda: LeaseFrame(n, n, metadata),
                lambda: KeepaliveFrame(flag, data),
                lambda: MetadataPushFrame(data),
                lambda: SetupFrame(0, 500, 500),
                lambda: ExtFrame(number, 9, True),
            ]
        )()

    async with target.attacked():
        async with draft() as raw:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def attack():
                    for _ in range(100):
                        await raw.send(*(any_frame() for _ in range(500)))
                    await raw.send(*(CancelFrame(number) for number in ids))
                    await raw.send(KeepaliveFrame(True, b"done"))

                while (frame := await raw.frame()) != KeepaliveFrame(False, b"done"):
                    assert frame is not None


async def test_an_honest_client_of_the_draft_beside_a_flood(target, draft):
    """It is served in the same way as clients of RSocket 1.0."""
    async with target.attacked(), draft() as raw:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def attack():
                while True:
                    await raw.send(*[RequestStreamFrame(2, MOST, data=b"1000000")] * 100)
                    await raw.frames_before_probe()

            async with connect(target.tcp, protocol="reactivesocket") as requester:
                for _ in range(5):
                    with trio.fail_after(10):
                        reply = await requester.request_response(Payload(b"honest"))
                    assert reply == Payload(b"honest")
            nursery.cancel_scope.cancel()
