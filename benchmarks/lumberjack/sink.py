"""A server that only acknowledges: it finds the ends of the windows, and looks at nothing else.

There is a thread for each connection, which reads with a plain socket. Numbers begin at 1 in each
window; with ``--running`` they run on from window to window, as pylogbeat wants it. With
``--delay`` it sleeps before each ACK, as a receiver that stores the events takes its time.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import threading
from contextlib import suppress
from functools import partial
from time import sleep
from typing import Final

from benchmarks.control import ready

_HEAD: Final = struct.Struct(">2sI")
_JSON_HEAD: Final = struct.Struct(">2sII")
_READ_SIZE: Final = 256 * 2**10


class Sink:
    """Finds the ends of windows in the bytes of one connection."""

    def __init__(self, *, running: bool) -> None:
        self._running: Final = running
        self._data = bytearray()  # The first part of a frame.
        self._skip = 0  # Bytes to come that belong to a compressed frame.
        self._events = 0  # Events to come in plain frames.
        self._last = 0  # The last sequence number of the window.

    def feed(self, data: memoryview) -> bytes:
        """Take bytes; return ACKs."""
        acks = bytearray()
        if self._skip > len(data):
            self._skip -= len(data)
            return b""
        position = self._skip
        if self._skip:
            acks += _HEAD.pack(b"2A", self._last)
        self._skip = 0
        self._data += data[position:]
        self._walk(acks)
        return bytes(acks)

    def _walk(self, acks: bytearray) -> None:
        data = self._data
        position, end = 0, len(data)
        while end - position >= _JSON_HEAD.size:
            code, number = _HEAD.unpack_from(data, position)
            if code == b"2J":
                position = self._events_of_run(position, end)
                if not self._events:
                    acks += _HEAD.pack(b"2A", self._last)
                elif position + _JSON_HEAD.size <= end:
                    break  # The frame at this position is not complete.
            elif code == b"2W":
                self._events = number
                self._last = self._last + number if self._running else number
                position += _HEAD.size
            elif code == b"2C":
                position += _HEAD.size + number
                if position > end:
                    self._skip = position - end
                    position = end
                    break
                acks += _HEAD.pack(b"2A", self._last)
            else:
                raise ValueError(f"no frame of version 2: {code!r}")
        del data[:position]

    def _events_of_run(self, position: int, end: int) -> int:
        """Return the position behind the complete J frames of the window."""
        data, unpack, head = self._data, _JSON_HEAD.unpack_from, _JSON_HEAD.size
        events = self._events
        while events and position + head <= end:
            behind = position + head + unpack(data, position)[2]
            if behind > end:
                break
            position = behind
            events -= 1
        self._events = events
        return position


def serve(connection: socket.socket, *, running: bool, delay: float) -> None:
    """Read one connection to its end."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sink = Sink(running=running)
    buffer = bytearray(_READ_SIZE)
    view = memoryview(buffer)
    with connection, suppress(ConnectionError):
        while size := connection.recv_into(buffer):
            acks = sink.feed(view[:size])
            for start in range(0, len(acks), _HEAD.size):
                if delay:
                    sleep(delay)
                connection.sendall(acks[start : start + _HEAD.size])


def accept(listener: socket.socket, *, running: bool, delay: float) -> None:
    """Serve each connection in a thread of its own."""
    while True:
        connection, _ = listener.accept()
        work = partial(serve, connection, running=running, delay=delay)
        threading.Thread(target=work, daemon=True).start()


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scheme", choices=["tcp"])
    parser.add_argument("--running", action="store_true", help="numbers run on")
    parser.add_argument("--delay", type=float, default=0, help="before each ACK, in milliseconds")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    work = partial(accept, listener, running=options.running, delay=options.delay / 1000)
    threading.Thread(target=work, daemon=True).start()
    host, port = listener.getsockname()
    ready(f"tcp://{host}:{port}")
    sys.stdin.read()


if __name__ == "__main__":
    main()
