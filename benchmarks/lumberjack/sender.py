"""The fast sender: plain sockets that write prepared windows and count acknowledged events.

zlib compresses the windows, whether isal is installed: other senders have no isal.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from time import perf_counter
from typing import Final

from benchmarks.lumberjack.accelerators import hide_unless_fast

hide_unless_fast()

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.lumberjack.lines import WINDOW, prepared_windows

_ACK: Final = struct.Struct(">2sI")
_PATIENCE: Final = 30.0


class Connection:
    """One connection: its windows on the way, and its ACKs.

    Attributes:
        in_flight: The windows that are begun and not acknowledged.
        waiting: The bytes that are begun and not sent.
    """

    def __init__(self, uri: str, windows: Sequence[bytes], size: int = WINDOW) -> None:
        host, _, port = uri.rpartition("/")[2].rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.in_flight = 0
        self.waiting = memoryview(b"")
        self._windows: Iterator[bytes] = cycle(windows)
        self._size: Final = size
        self._received = b""

    def begin(self, count: int = 1) -> None:
        """Take the next windows."""
        self.waiting = memoryview(b"".join(islice(self._windows, count)))
        self.in_flight += count

    def send(self) -> None:
        """Send what the kernel takes."""
        self.waiting = self.waiting[self.socket.send(self.waiting) :]

    def receive(self) -> int:
        """Read once; return how many windows were acknowledged."""
        data = self.socket.recv(4096)
        if not data:
            raise ConnectionError("the server closed the connection")
        data = self._received + data
        whole = len(data) - len(data) % _ACK.size
        self._received = data[whole:]
        complete = 0
        for code, sequence in _ACK.iter_unpack(data[:whole]):
            if code != b"2A" or sequence > self._size:
                raise ConnectionError(f"no ACK of this window: {code!r} {sequence}")
            complete += sequence == self._size
        self.in_flight -= complete
        return complete


class Sender:
    """Connections to one server."""

    def __init__(self, uri: str) -> None:
        self._uri: Final = uri
        self._windows: dict[tuple[int, int], list[bytes]] = {}
        self._connections: dict[tuple[int, int, int], list[Connection]] = {}

    def connections(self, level: int, size: int, count: int) -> list[Connection]:
        """Return connections for windows of this level and size; they stay open."""
        if (level, size) not in self._windows:
            self._windows[level, size] = prepared_windows(level, size=size)
        key = level, size, count
        if key not in self._connections:
            windows = self._windows[level, size]
            self._connections[key] = [
                # Not all connections send the same window at a time.
                Connection(self._uri, windows[index % len(windows) :] + windows[:index], size)
                for index in range(count)
            ]
        return self._connections[key]

    def ship(
        self, watch: Stopwatch, *, level: int, windows: int, connections: int, size: int = WINDOW
    ) -> None:
        """Send until the deadline, and wait for all ACKs."""
        opened = self.connections(level, size, connections)
        with selectors.DefaultSelector() as selector:
            for each in opened:
                each.begin(windows)
                selector.register(each.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, each)
            while any(each.in_flight for each in opened):
                ready = selector.select(_PATIENCE)
                if not ready:
                    raise TimeoutError(f"no ACK for {_PATIENCE:g} s")
                for key, mask in ready:
                    connection: Connection = key.data
                    if mask & selectors.EVENT_READ:
                        watch.count += size * connection.receive()
                    if mask & selectors.EVENT_WRITE:
                        connection.send()
                    room = 0 if connection.waiting else windows - connection.in_flight
                    if room and perf_counter() < watch.deadline:
                        connection.begin(room)
                    wanted = selectors.EVENT_WRITE if connection.waiting else 0
                    if key.events != selectors.EVENT_READ | wanted:
                        selector.modify(key.fd, selectors.EVENT_READ | wanted, connection)


def main() -> None:
    """Obey commands until there are no more."""
    sender = Sender(sys.argv[1])
    while (command := read_command()) is not None:
        del command["operation"], command["texts"]
        watch = Stopwatch(command.pop("seconds"))
        try:
            sender.ship(watch, **command)
        except (OSError, TypeError) as error:
            write_outcome({"error": f"{type(error).__name__}: {error}"})
        else:
            write_outcome(watch.outcome())


if __name__ == "__main__":
    main()
