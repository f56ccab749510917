"""A plain socket with the part of RSocket that a benchmark needs: prepared frames, no state."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator

REQUEST_RESPONSE = 0x04
REQUEST_STREAM = 0x06
REQUEST_N = 0x08
CANCEL = 0x09
PAYLOAD = 0x0A
COMPLETE = 0x40
NEXT = 0x20
KEEPALIVE_RESPOND = (0x03 << 10) | 0x80
BLOCK = 32768
"""Number of frames in a prepared block. Their ids span 65536, so from block to block only the two
upper bytes of each id change. Slice assignment changes them without a loop."""


def frame(stream_id: int, kind_and_flags: int, body: bytes) -> bytes:
    """Return a whole frame with its length prefix."""
    length = (6 + len(body)).to_bytes(3, "big")
    return length + struct.pack(">IH", stream_id, kind_and_flags) + body


def setup() -> bytes:
    """Return SETUP and a KEEPALIVE. The answer to the KEEPALIVE shows that SETUP was accepted."""
    mime = b"\x18application/octet-stream"
    body = struct.pack(">HHII", 1, 0, 60_000, 600_000) + mime + mime
    return frame(0, 0x01 << 10, body) + frame(0, KEEPALIVE_RESPOND, bytes(8))


class Requests:
    """Request frames with ascending stream ids, in batches."""

    def __init__(self, body: bytes) -> None:
        self.size = len(body) + 9
        self.block = bytearray(
            b"".join(frame(2 * n + 1, REQUEST_RESPONSE << 10, body) for n in range(BLOCK))
        )
        self.upper = 0
        self.next = 0

    def take(self, count: int) -> bytes:
        """Return the next ``count`` frames."""
        end = self.next + count
        if end <= BLOCK:
            taken = bytes(memoryview(self.block)[self.next * self.size : end * self.size])
            self.next = end
            return taken
        taken = bytes(memoryview(self.block)[self.next * self.size :])
        self.upper += 1
        self.block[3 :: self.size] = bytes([self.upper >> 8]) * BLOCK
        self.block[4 :: self.size] = bytes([self.upper & 255]) * BLOCK
        self.next = 0
        return taken + self.take(end - BLOCK)

    def take_id(self) -> int:
        """Return a stream id for another kind of request."""
        header = self.take(1)
        return int.from_bytes(header[3:7], "big")


class Raw:
    """One connection that is set up.

    Attributes:
        received: Number of received bytes of the current answer, if the caller counts them.
        next_id: The next stream id, if ids do not come from a `Requests`.
        outgoing: Frames that `exchange` must still send.
        incoming: The first part of a frame whose rest has not arrived.
    """

    def __init__(self, uri: str) -> None:
        host, _, port = uri.removeprefix("tcp://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(262144)
        self.received = 0
        self.next_id = 1
        self.outgoing = bytearray()
        self.incoming = b""
        self.socket.sendall(setup())
        header = self.receive_frame()
        if header[:6] != struct.pack(">IH", 0, 0x03 << 10):
            raise ConnectionError(f"unexpected answer to SETUP and KEEPALIVE: {header[:64]!r}")

    def receive_exactly(self, count: int) -> bytes:
        """Receive exactly ``count`` bytes."""
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return data

    def receive_frame(self) -> bytes:
        """Receive one whole frame. Return it without its length prefix."""
        return self.receive_exactly(int.from_bytes(self.receive_exactly(3), "big"))

    def receive_counted(self, size: int, behind: int) -> int:
        """Read once and return the number of bytes.

        Args:
            size: The size of every frame, with its length prefix. The first and the last whole
                frame of the read are checked.
            behind: The number of bytes of these frames received before.
        """
        length = self.socket.recv_into(self.buffer)
        if not length:
            raise ConnectionError("the server closed the connection")
        first = -behind % size
        if length >= first + 3:
            prefix = (size - 3).to_bytes(3, "big")
            last = first + (length - first - 3) // size * size
            if self.buffer[first : first + 3] != prefix or self.buffer[last : last + 3] != prefix:
                raise ConnectionError("an answer does not have the length of the first")
        return length

    def queue(self, prepared: bytes) -> None:
        """Queue a frame for `exchange`."""
        self.outgoing += prepared

    def exchange(self) -> Iterator[bytes]:
        """Wait until the socket is readable or writable; send queued frames, yield received ones.

        If a client sent everything before it reads, client and server could wait for each other.
        """
        wanted = [self.socket] if self.outgoing else []
        readable, writable, _ = select.select([self.socket], wanted, [])
        if writable:
            sent = self.socket.send(self.outgoing, socket.MSG_DONTWAIT)
            del self.outgoing[:sent]
        if not readable:
            return
        length = self.socket.recv_into(self.buffer)
        if not length:
            raise ConnectionError("the server closed the connection")
        data = self.incoming + self.buffer[:length]
        position, end = 0, len(data)
        while end - position >= 3:
            stop = position + 3 + int.from_bytes(data[position : position + 3], "big")
            if stop > end:
                break
            yield data[position + 3 : stop]
            position = stop
        self.incoming = data[position:]
