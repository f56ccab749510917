"""A socket written outside of any task: an error that the kernel reports once is not lost."""

import socket
import struct
from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio.sockets.direct import DirectStream


@asynccontextmanager
async def direct_pair():
    """Our end of a TCP connection, and the socket of the peer."""
    with trio.socket.socket() as listener:
        await listener.bind(("127.0.0.1", 0))
        listener.listen()
        async with DirectStream(await trio.open_tcp_stream(*listener.getsockname())) as stream:
            peer, _ = await listener.accept()
            with peer:
                yield stream, peer


def reset(peer):
    """Close it so that the other end gets a reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


@pytest.mark.parametrize("first", ["send", "receive"])
async def test_an_error_of_a_write_that_does_not_wait(first):
    """The reader, who may come first, gets no clean end; the writer gets the same error."""
    async with direct_pair() as (stream, peer):
        assert stream.send_nowait(b"taken")
        reset(peer)
        assert not stream.send_nowait(b"not taken")
        assert not stream.send_nowait(b"nor this")
        calls = [lambda: stream.send_all(b""), lambda: stream.receive_some(10)]
        for call in calls if first == "send" else reversed(calls):
            with pytest.raises(trio.BrokenResourceError) as caught:
                await call()
            assert isinstance(caught.value.__cause__, ConnectionResetError)


async def test_bytes_before_the_error_are_read():
    """An error of a write does not hide bytes that the peer had sent."""
    async with direct_pair() as (stream, peer):
        await peer.send(b"last words")
        peer.shutdown(socket.SHUT_RD)
        while stream.send_nowait(b"x"):
            pass
        peer.close()
        assert await stream.receive_some() == b"last words"


async def test_a_stream_closed_at_this_end():
    """It raises ClosedResourceError, not the kernel's error about its descriptor."""
    async with direct_pair() as (stream, _peer):
        await stream.aclose()
        assert not stream.send_nowait(b"frame")
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"")


@pytest.mark.parametrize("later", [bytes, bytearray, memoryview])
async def test_kept_bytes_go_first(later):
    """The bytes of many writes that do not wait are joined once, in order, before later ones."""
    async with direct_pair() as (stream, peer):
        sent = []
        while True:  # until the kernel is full
            sent.append(b"%08d" % len(sent) * 1000)
            if not stream.send_nowait(sent[-1]):
                break
        for _ in range(5000):
            sent.append(b"%08d" % len(sent))
            assert not stream.send_nowait(sent[-1])
        sent.append(b"last")
        received = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, later(b"last"))
            size = sum(map(len, sent))
            while len(received) < size:
                received += await peer.recv(2**20)
        assert received == b"".join(sent)
        assert stream.send_nowait(b"room again")
        assert await peer.recv(100) == b"room again"


async def test_kept_bytes_are_not_copied_for_each_write():
    """Tens of thousands of writes behind a megabyte are kept as they are: no bytes are copied."""
    async with direct_pair() as (stream, _peer):
        while stream.send_nowait(bytes(2**20)):
            pass
        pieces = [b"%d" % number for number in range(20_000)]
        for piece in pieces:
            stream.send_nowait(piece)
        assert all(each is piece for each, piece in zip(stream._rest[1:], pieces, strict=True))
