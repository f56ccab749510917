"""Frames over byte streams: the frames of a read, and every way a stream can end."""

import pytest
import trio
import trio.testing

from rsocket_trio.errors import LocalProtocolError, RemoteProtocolError
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport

INFO = TransportInfo(scheme="tcp")


def prefixed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(3, "big") + frame for frame in frames)


def make(max_frame_size: int = 0xFFFFFF) -> tuple[ByteStreamTransport, trio.StapledStream]:
    ours, theirs = trio.testing.memory_stream_pair()
    return ByteStreamTransport(ours, info=INFO, max_frame_size=max_frame_size), theirs


async def cancel_when_blocked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


async def test_frames_leave_with_their_lengths_in_one_write() -> None:
    """Several frames are one `send_all`, each behind its 24-bit length."""
    ours, theirs = trio.testing.memory_stream_pair()
    writes: list[bytes] = []
    send_all = ours.send_all

    async def counted(data: bytes) -> None:
        writes.append(bytes(data))
        await send_all(data)

    ours.send_all = counted
    transport = ByteStreamTransport(ours, info=INFO)
    await transport.send_frames([b"abc", b"", b"d" * 300])
    assert writes == [b"\0\0\3abc\0\0\0\0\1\x2c" + b"d" * 300]
    assert await theirs.receive_some() == writes[0]


async def test_one_read_gives_all_its_frames(nursery: trio.Nursery) -> None:
    """Frames that arrive together are returned together; a partial frame waits for its rest."""
    transport, peer = make()
    await peer.send_all(prefixed(b"one", b"two") + b"\0\0")
    assert await transport.receive_frames() == [b"one", b"two"]
    await peer.send_all(b"\5thr")
    with trio.CancelScope() as scope:
        nursery.start_soon(cancel_when_blocked, scope)
        await transport.receive_frames()
    assert scope.cancelled_caught
    await peer.send_all(b"ee")
    assert await transport.receive_frames() == [b"three"]


async def test_the_end_between_frames_is_clean() -> None:
    """EOF between frames is the empty list, on every later call too."""
    transport, peer = make()
    await peer.send_all(prefixed(b"last"))
    await peer.aclose()
    assert await transport.receive_frames() == [b"last"]
    assert await transport.receive_frames() == []
    with trio.testing.assert_checkpoints():
        assert await transport.receive_frames() == []


@pytest.mark.parametrize("cut", range(1, 8))
async def test_the_end_inside_a_frame_is_an_error(cut: int) -> None:
    """EOF inside a frame or its length is an error, on every later call too."""
    transport, peer = make()
    await peer.send_all(prefixed(b"whole") + prefixed(b"broken")[:cut])
    await peer.aclose()
    assert await transport.receive_frames() == [b"whole"]
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError, match="inside a frame"):
            await transport.receive_frames()


async def test_a_frame_over_the_limit_is_refused_before_it_is_read() -> None:
    """Its length alone is enough, and later calls raise the same error."""
    transport, peer = make(max_frame_size=100)
    await peer.send_all(prefixed(b"x" * 100))
    assert await transport.receive_frames() == [b"x" * 100]
    await peer.send_all(b"\0\0\x65")
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            await transport.receive_frames()


async def test_frames_before_one_over_the_limit_are_returned_first() -> None:
    """A bad frame does not lose the good ones before it, and needs no further read."""
    transport, peer = make(max_frame_size=100)
    await peer.send_all(prefixed(b"good", b"fine") + b"\xff\xff\xff")
    assert await transport.receive_frames() == [b"good", b"fine"]
    with pytest.raises(RemoteProtocolError):
        await transport.receive_frames()


async def test_a_frame_too_long_for_its_length_field_is_not_sent() -> None:
    """The 24-bit length is the limit: no frame of the call is sent, not even the first."""
    transport, peer = make()
    with pytest.raises(LocalProtocolError, match="longer"):
        await transport.send_frames([b"first", bytes(0x1000000)])
    await transport.aclose()
    assert await peer.receive_some() == b""


async def test_a_closed_transport_raises_closed() -> None:
    """Sending and receiving on a transport closed at this end raise ClosedResourceError."""
    transport, peer = make()
    await peer.send_all(prefixed(b"unread"))
    await transport.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await transport.receive_frames()
    with pytest.raises(trio.ClosedResourceError):
        await transport.send_frames([b"late"])
