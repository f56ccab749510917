"""The bytes of one read are decoded in shares, and other tasks run in between."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
import trio.testing
from wsproto.connection import Connection, ConnectionType

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.reactivesocket.frames import CancelFrame, LengthDecoder, SetupFrame
from rsocket_trio.reactivesocket.frames.length import encode_length, join_frames
from rsocket_trio.reactivesocket.transport import ReactiveSocketTransport
from rsocket_trio.transports import (
    ByteStreamTransport,
    FrameTransport,
    TransportInfo,
    WsprotoTransport,
)

INFO = TransportInfo(scheme="test")
READ = 64 * 2**10
KEY = b"\1\2\3\4"
EMPTY_FRAME = b"\0\0\6" + bytes(6)


class OneRead(trio.abc.Stream):
    """A stream whose first read is of the largest size, and whose second is the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        data, self.data = self.data, b""
        return data

    async def send_all(self, data: bytes) -> None:
        raise NotImplementedError

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def filled(frame: bytes, first: bytes = b"") -> OneRead:
    return OneRead((first + frame * READ)[:READ])


def websocket(frame: bytes, first: bytes = b"") -> FrameTransport:
    stream = filled(frame, first)
    return WsprotoTransport(stream, Connection(ConnectionType.SERVER), info=INFO)


def plain(frame: bytes) -> FrameTransport:
    return ByteStreamTransport(filled(frame), info=INFO)


def draft() -> FrameTransport:
    setup = SetupFrame(0, 1000, 10_000).encode()
    cancel = CancelFrame(2).encode()
    carrier = ByteStreamTransport(
        filled(encode_length(cancel) + cancel, encode_length(setup) + setup),
        info=INFO,
        decoder=LengthDecoder(1000),
        join=join_frames,
    )
    return ReactiveSocketTransport(carrier, client=False)


CASES = {
    "frames": (lambda: plain(EMPTY_FRAME), 512, 7281),
    "lengths": (lambda: plain(b"\0\0\0"), 512, 21845),
    "draft": (draft, 256, 5400),
    "pings": (lambda: websocket(b"\x89\x80" + KEY), 512, 10922),
    "pongs": (lambda: websocket(b"\x8a\x80" + KEY), 512, 10922),
    "empty messages": (lambda: websocket(b"\x82\x80" + KEY), 512, 10922),
    "tiny parts": (lambda: websocket(b"\x00\x81" + KEY + b"x", b"\x02\x80" + KEY), 512, 9361),
}


async def receive_all(transport: FrameTransport) -> list[list[bytes]]:
    """Return the result of each call up to the end, clean or inside a frame."""
    shares: list[list[bytes]] = []
    with suppress(trio.BrokenResourceError, RemoteProtocolError):
        while frames := await transport.receive_frames():
            shares.append(frames)
    return shares


@pytest.mark.parametrize("case", CASES)
async def test_other_tasks_run_between_shares(case: str, nursery: trio.Nursery) -> None:
    """64 KiB of tiny frames are decoded in many turns of the loop, a bounded share in each."""
    make, share, frames = CASES[case]
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    nursery.start_soon(count_turns)
    shares = await receive_all(make())
    assert turns >= frames // share
    assert max(map(len, shares), default=0) <= share
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("case", CASES)
async def test_a_cancelled_receive_loses_no_share(case: str) -> None:
    """Cancelled between all its shares, the call returns the same frames."""
    make, _, _ = CASES[case]
    undisturbed = await receive_all(make())
    transport = make()
    shares: list[list[bytes]] = []
    with suppress(trio.BrokenResourceError, RemoteProtocolError):
        while True:
            with trio.CancelScope() as scope:
                scope.cancel()
                await transport.receive_frames()
            assert scope.cancelled_caught
            if not (frames := await transport.receive_frames()):
                break
            shares.append(frames)
    assert shares == undisturbed


async def test_pushed_back_bytes_are_not_lost() -> None:
    """A cancelled call leaves the pushed back bytes, in order, for the next call."""
    transport = ByteStreamTransport(OneRead(b""), info=INFO)
    for piece in (b"\0\0\3on", b"e\0\0", b"\3two"):
        transport.push_back(piece)
    with trio.CancelScope() as scope:
        scope.cancel()
        await transport.receive_frames()
    assert scope.cancelled_caught
    with trio.testing.assert_checkpoints():
        assert await transport.receive_frames() == [b"one", b"two"]


@pytest.mark.parametrize("push", [False, True])
async def test_a_receive_that_fails_is_a_checkpoint(push: bool) -> None:
    """Receiving lets other tasks run also if it raises at once: a loop cannot spin on it."""
    data = b"\0\0\1x" + b"\xff\xff\xff"
    transport = ByteStreamTransport(OneRead(b"" if push else data), info=INFO, max_frame_size=10)
    if push:
        transport.push_back(data)
    assert await transport.receive_frames() == [b"x"]
    for _ in range(3):
        with trio.testing.assert_checkpoints(), pytest.raises(RemoteProtocolError):
            await transport.receive_frames()
