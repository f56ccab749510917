"""Faults happen exactly where they were asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from rsocket_trio.testing.faulty import FaultyStream, FaultyTransport
from rsocket_trio.transports import FrameTransport, TransportInfo, memory_transport_pair


async def all_of(stream: trio.abc.ReceiveStream) -> bytes:
    return b"".join([bytes(part) async for part in stream])


@pytest.mark.parametrize("cut", range(6))
async def test_a_stream_is_cut_after_a_byte_sent(cut: int) -> None:
    """The peer receives the bytes before the cut and the end; the sender gets an error."""
    inner, peer = trio.testing.memory_stream_pair()
    stream = FaultyStream(inner, cut_sent=cut)

    async def send() -> None:
        for part in (b"abc", b"def"):
            await stream.send_all(part)

    with pytest.raises(trio.BrokenResourceError):
        await send()
    assert await all_of(peer) == b"abcdef"[:cut]
    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"more")
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()
    with pytest.raises(trio.BrokenResourceError):
        await stream.wait_send_all_might_not_block()


@pytest.mark.parametrize("cut", range(6))
async def test_a_stream_is_cut_after_a_byte_received(cut: int) -> None:
    """The reader gets the bytes before the cut, then an error; the peer sees the end."""
    inner, peer = trio.testing.memory_stream_pair()
    stream = FaultyStream(inner, cut_received=cut)
    await peer.send_all(b"abcdef")
    received = b""

    async def receive() -> None:
        nonlocal received
        while True:
            received += await stream.receive_some(4)

    with pytest.raises(trio.BrokenResourceError):
        await receive()
    assert received == b"abcdef"[:cut]
    assert await peer.receive_some() == b""


async def test_a_byte_is_corrupted_each_way() -> None:
    """One byte of each direction is inverted, wherever its chunk begins."""
    inner, peer = trio.testing.memory_stream_pair()
    stream = FaultyStream(inner, corrupt_sent=3, corrupt_received=0)
    await stream.wait_send_all_might_not_block()
    await stream.send_all(b"ab")
    await stream.send_all(b"cd")
    await peer.send_all(b"xy")
    assert await stream.receive_some() == b"\x87y"
    await stream.aclose()
    assert await all_of(peer) == b"abc\x9b"


async def test_a_stream_is_slow(autojump_clock: trio.testing.MockClock) -> None:
    """Each send and each receive takes the delay."""
    inner, peer = trio.testing.memory_stream_pair()
    stream = FaultyStream(inner, delay=2.0)
    await stream.send_all(b"ab")
    assert trio.current_time() == 2.0
    await peer.send_all(b"ab")
    await stream.receive_some()
    assert trio.current_time() == 4.0


async def test_a_transport_is_cut_between_frames() -> None:
    """Frames that fit go through; the next one is not sent, and both ends get an error."""
    inner, peer = memory_transport_pair()
    transport = FaultyTransport(inner, cut_after_bytes=10)
    await transport.send_frames([b"12345"])
    with pytest.raises(trio.BrokenResourceError):
        await transport.send_frames([b"678", b"901", b"2"])
    assert await peer.receive_frames() == [b"12345", b"678"]
    assert await peer.receive_frames() == []
    with pytest.raises(trio.BrokenResourceError):
        await transport.receive_frames()
    with pytest.raises(trio.BrokenResourceError):
        await transport.send_frames([b"1"])


async def test_a_transport_is_cut_while_receiving() -> None:
    """Frames before the cut are returned, then the error is raised."""
    inner, peer = memory_transport_pair()
    transport = FaultyTransport(inner, cut_after_bytes=5)
    await peer.send_frames([b"123", b"456"])
    assert await transport.receive_frames() == [b"123"]
    with pytest.raises(trio.BrokenResourceError):
        await transport.receive_frames()
    inner, peer = memory_transport_pair()
    transport = FaultyTransport(inner, cut_after_bytes=0)
    await peer.send_frames([b"123"])
    with pytest.raises(trio.BrokenResourceError):
        await transport.receive_frames()
    assert await peer.receive_frames() == []


async def test_frames_are_corrupted_and_late(autojump_clock: trio.testing.MockClock) -> None:
    """A function changes the received frames, and every call takes the delay."""
    inner, peer = memory_transport_pair()
    transport = FaultyTransport(inner, delay=1.0, corrupt=lambda frame: frame[::-1])
    await peer.send_frames([b"123"])
    assert await transport.receive_frames() == [b"321"]
    await transport.send_frames([b"123"])
    assert await peer.receive_frames() == [b"123"]
    assert trio.current_time() == 2.0
    await transport.aclose()
    assert await peer.receive_frames() == []


async def test_a_pending_write_is_passed_on() -> None:
    """An inner transport that has bytes to send wakes the writer of the outer one."""
    inner, _ = memory_transport_pair()
    transport = FaultyTransport(inner)
    woken: list[bool] = []
    transport.wake_writer = lambda: woken.append(True)
    assert inner.wake_writer is not None
    inner.wake_writer()
    assert woken == [True]


class AtOnce(FrameTransport):
    """Sends a number of frames without waiting, and notes all sent frames."""

    sends_nowait = True

    def __init__(self, room: int = 1000, *, broken: bool = False) -> None:
        self.info = TransportInfo(scheme="memory")
        self.room = room
        self.broken = broken
        self.sent: list[bytes] = []
        self.rest: list[bytes] = []

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        if self.broken:
            raise ValueError("internal")
        self.sent += frames[: self.room]
        self.rest = list(frames[self.room :])
        return not self.rest

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent += [*self.rest, *frames]
        self.rest = []

    async def receive_frames(self) -> list[bytes]:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.sent.append(b"closed")


async def test_a_transport_is_cut_while_it_sends_at_once() -> None:
    """Frames that fit leave, also if the inner transport keeps some of them; then it is cut."""
    for room in (0, 1, 2, 1000):
        inner = AtOnce(room)
        transport = FaultyTransport(inner, cut_after_bytes=6)
        assert transport.sends_nowait
        assert not transport.send_frames_nowait([b"12", b"34", b"56", b"78"])
        with pytest.raises(trio.BrokenResourceError):
            await transport.send_frames([])
        assert inner.sent == [b"12", b"34", b"56", b"closed"]


async def test_frames_that_do_not_leave_at_once_count_once() -> None:
    """Frames that could not be handed over count when they are."""
    inner = AtOnce(broken=True)
    transport = FaultyTransport(inner, cut_after_bytes=4)
    with pytest.raises(ValueError, match="internal"):
        transport.send_frames_nowait([b"12", b"34", b"56"])
    inner.broken = False
    assert transport.send_frames_nowait([b"12", b"34"])
    assert not transport.send_frames_nowait([b"56"])
    assert inner.sent == [b"12", b"34"]


def test_a_slow_transport_does_not_send_at_once() -> None:
    """A delay is a wait."""
    assert FaultyTransport(AtOnce()).sends_nowait
    assert not FaultyTransport(AtOnce(), delay=1).sends_nowait
