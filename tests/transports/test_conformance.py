"""One suite checks that every transport keeps the promises of `FrameTransport`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio

from rsocket_trio.errors import FrameTooLong
from rsocket_trio.testing.transport_suite import check_transport
from rsocket_trio.transports import FrameTransport, TrioWebSocketTransport, memory_transport_pair
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.websocket_frames import encode_messages

MakePair = Callable[[], AbstractAsyncContextManager[tuple[FrameTransport, FrameTransport]]]


def beginning_of_a_frame(info: TransportInfo) -> bytes:
    if info.scheme in {"ws", "wss"}:
        return b"".join(encode_messages([b"frame" * 100], mask=False))[:50]
    return b"\0\1\0frame"


async def test_a_transport_over_the_network(make_pair: MakePair) -> None:
    """TCP, TLS, Unix sockets, and WebSocket of both implementations pass on either side."""

    @asynccontextmanager
    async def make_cut() -> AsyncIterator[FrameTransport]:
        async with make_pair() as (client, server):
            adapted = isinstance(server, TrioWebSocketTransport)
            stream = server._ws._stream if adapted else server.stream
            await stream.send_all(beginning_of_a_frame(client.info))
            await stream.aclose()
            yield client

    await check_transport(make_pair, make_cut=make_cut)


async def test_the_memory_pair() -> None:
    """The in-memory pair passes the suite, with small and with large buffers."""
    for size in (100_000, 2**25):

        @asynccontextmanager
        async def make_pair(size: int = size) -> AsyncIterator[tuple[FrameTransport, ...]]:
            yield memory_transport_pair(max_bytes=size)

        await check_transport(make_pair)


class Careless(FrameTransport):
    """A transport with a fault that the suite has to notice."""

    def __init__(self, inner: FrameTransport, fault: str) -> None:
        self.inner, self.fault = inner, fault
        self.info = inner.info

    async def send_frames(self, frames: list[bytes]) -> None:
        if self.fault == "reorders":
            frames = sorted(frames, key=len, reverse=True)
        if self.fault == "truncates":
            frames = [frame[:65535] for frame in frames]
        if self.fault == "no checkpoint" and not frames:
            return
        await self.inner.send_frames(frames)

    async def receive_frames(self) -> list[bytes]:
        try:
            frames = await self.inner.receive_frames()
        except trio.ClosedResourceError:
            if self.fault == "silent close":
                return []
            raise
        if not frames and self.fault == "ends with an error":
            raise trio.BrokenResourceError("the end")
        return frames

    async def aclose(self) -> None:
        if self.fault == "cancelled close":
            await trio.lowlevel.checkpoint()
        await self.inner.aclose()


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("reorders", "frames_of_every_size"),
        ("truncates", "frames_of_every_size"),
        ("no checkpoint", "calls_can_be_cancelled"),
        ("ends with an error", "a_clean_close"),
        ("silent close", "use_after_close"),
        ("cancelled close", "a_cancelled_close_closes"),
    ],
)
async def test_the_suite_notices_broken_promises(
    fault: str, check: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A transport that breaks a promise fails the check of that promise."""

    @asynccontextmanager
    async def make_pair() -> AsyncIterator[tuple[FrameTransport, FrameTransport]]:
        a, b = memory_transport_pair()
        yield Careless(a, fault), Careless(b, fault)

    with pytest.raises(BaseException) as caught:
        await check_transport(make_pair)
    assert caught.value.__notes__ == [f"check_transport: {check}, a to b"]


async def test_the_first_frame_has_a_limit_of_its_own(make_pair: MakePair) -> None:
    """A longer frame behind it waits until the limit is lifted, and is whole then."""
    async with make_pair() as (client, server):
        server.limit_frames(100)
        await client.send_frames([bytes(100), bytes(5000), b"last"])
        assert await server.receive_frames() == [bytes(100)]
        server.limit_frames(None)
        received: list[bytes] = []
        while len(received) < 2:
            received += await server.receive_frames()
        assert received == [bytes(5000), b"last"]


async def test_a_first_frame_over_its_limit(make_pair: MakePair) -> None:
    """It is refused, and the rest of it can be dropped."""
    async with make_pair() as (client, server):
        server.limit_frames(100)
        await client.send_frames([bytes(101)])
        with pytest.raises(FrameTooLong, match=r"101 bytes .* limit of 100 \(of a peer") as info:
            await server.receive_frames()
        assert info.value.limit == 100
