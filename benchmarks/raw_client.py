"""A neutral client: a plain socket that writes prepared RSocket frames and counts the answers.

It is the same against every server and leaner than any of them, so what it shows is the server
alone. Answers are counted by length: all must have the length of the first one.
"""

from __future__ import annotations

import socket
import struct
import sys
from time import perf_counter
from typing import Any

from benchmarks.control import COUNT, IDLE, ITEM_SIZE, Stopwatch, read_command, write_outcome

Outcome = dict[str, Any]

REQUEST_RESPONSE = 0x04
REQUEST_STREAM = 0x06
REQUEST_N = 0x08
CANCEL = 0x09
PAYLOAD = 0x0A
KEEPALIVE_RESPOND = (0x03 << 10) | 0x80
BLOCK = 32768
"""Frames prepared at once. Their ids span 65536, so between two blocks only the two upper bytes
of each id change, which slice assignment does without a loop."""


def frame(stream_id: int, kind_and_flags: int, body: bytes) -> bytes:
    """A whole frame with its length prefix."""
    length = (6 + len(body)).to_bytes(3, "big")
    return length + struct.pack(">IH", stream_id, kind_and_flags) + body


def setup() -> bytes:
    """SETUP, then a KEEPALIVE that asks for an answer: proof that the SETUP was accepted."""
    mime = b"\x18application/octet-stream"
    body = struct.pack(">HHII", 1, 0, 60_000, 600_000) + mime + mime
    return frame(0, 0x01 << 10, body) + frame(0, KEEPALIVE_RESPOND, bytes(8))


class Requests:
    """Request frames with ascending stream ids, handed out in batches."""

    def __init__(self, body: bytes) -> None:
        self.size = len(body) + 9
        self.block = bytearray(
            b"".join(frame(2 * n + 1, REQUEST_RESPONSE << 10, body) for n in range(BLOCK))
        )
        self.upper = 0
        self.next = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` frames."""
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
        """A stream id of its own for another kind of request."""
        header = self.take(1)
        return int.from_bytes(header[3:7], "big")


class Raw:
    """One connection, set up."""

    def __init__(self, uri: str) -> None:
        host, _, port = uri.removeprefix("tcp://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(262144)
        self.socket.sendall(setup())
        header = self.receive_frame()
        if header[:6] != struct.pack(">IH", 0, 0x03 << 10):
            raise ConnectionError(f"the answer to SETUP and KEEPALIVE is {header[:64]!r}")

    def receive_exactly(self, count: int) -> bytes:
        """Exactly so many bytes."""
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return data

    def receive_frame(self) -> bytes:
        """One whole frame, without its length prefix."""
        return self.receive_exactly(int.from_bytes(self.receive_exactly(3), "big"))

    def receive_counted(self, size: int, behind: int) -> int:
        """How many bytes the next read brought.

        Args:
            size: What each frame has, with its length prefix. The first and the last whole
                frame of the read are held to it.
            behind: How many bytes of such frames came before.
        """
        length = self.socket.recv_into(self.buffer)
        if not length:
            raise ConnectionError("the server closed the connection")
        first = -behind % size
        if length >= first + 3:
            prefix = (size - 3).to_bytes(3, "big")
            last = first + (length - first - 3) // size * size
            if self.buffer[first : first + 3] != prefix or self.buffer[last : last + 3] != prefix:
                raise ConnectionError("an answer differs in length from the first")
        return length


class RawClient:
    """Runs the commands."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.raw = Raw(uri)
        self.requests = Requests(b"x" * ITEM_SIZE)
        self.idle: list[Raw] = []

    def request_response(self, *, seconds: float, in_flight: int) -> Outcome:
        raw, take = self.raw, self.requests.take
        raw.socket.sendall(take(1))
        answer = raw.receive_frame()
        if struct.unpack_from(">H", answer, 4)[0] >> 10 != PAYLOAD or len(answer) < ITEM_SIZE:
            raise ConnectionError(f"the answer is {answer[:64]!r}")
        size = len(answer) + 3
        watch = Stopwatch(seconds)
        raw.socket.sendall(take(in_flight))
        sent, received = in_flight, 0
        while watch.count < sent:
            received += raw.receive_counted(size, received)
            count = received // size - watch.count
            watch.count += count
            if count and perf_counter() < watch.deadline:
                sent += count
                raw.socket.sendall(take(count))
        return watch.outcome()

    def request_stream(self, *, seconds: float, window: int) -> Outcome:
        raw = self.raw
        stream_id = self.requests.take_id()
        batch = window * 3 // 4
        raw.socket.sendall(frame(stream_id, REQUEST_STREAM << 10, struct.pack(">I", window)))
        size = len(raw.receive_frame()) + 3
        watch = Stopwatch(seconds)
        watch.count = 1
        granted, unreplenished, received = window, 1, size
        while watch.count < granted:
            received += raw.receive_counted(size, received)
            count = received // size - watch.count
            watch.count += count
            unreplenished += count
            if unreplenished >= batch and perf_counter() < watch.deadline:
                more = struct.pack(">I", unreplenished)
                raw.socket.sendall(frame(stream_id, REQUEST_N << 10, more))
                granted += unreplenished
                unreplenished = 0
        outcome = watch.outcome()
        raw.socket.sendall(frame(stream_id, CANCEL << 10, b""))
        self.synchronise()
        return outcome

    def synchronise(self) -> None:
        """Wait until the server has taken everything sent so far."""
        stream_id = self.requests.take_id()
        self.raw.socket.sendall(frame(stream_id, REQUEST_RESPONSE << 10, COUNT))
        while int.from_bytes(self.raw.receive_frame()[:4], "big") != stream_id:
            pass

    def idle_connections(self, *, connections: int) -> Outcome:
        watch = Stopwatch(0)
        self.idle += [Raw(self.uri) for _ in range(connections)]
        watch.count = connections
        return watch.outcome()

    def idle_streams(self, *, streams: int) -> Outcome:
        watch = Stopwatch(0)
        body = struct.pack(">I", 1) + IDLE
        for _ in range(streams):
            stream_id = self.requests.take_id()
            self.raw.socket.sendall(frame(stream_id, REQUEST_STREAM << 10, body))
        self.synchronise()
        watch.count = streams
        return watch.outcome()


def main() -> None:
    client = RawClient(sys.argv[1])
    while (command := read_command()) is not None:
        try:
            write_outcome(getattr(client, command.pop("operation"))(**command))
        except (OSError, struct.error) as error:
            write_outcome({"error": str(error)})
            return


if __name__ == "__main__":
    main()
