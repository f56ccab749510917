"""An agent that writes prepared windows: a number of events as fast as it can, or so many a second.

Paced events have the time at which they were made, in microseconds of the wall clock.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from benchmarks.control import read_command, write_outcome
from benchmarks.lumberjack.lines import WINDOW
from benchmarks.lumberjack.sender import Connection
from benchmarks.spark.events import make_texts, make_windows
from rsocket_trio.lumberjack import encode_batch

_PATIENCE: Final = 60.0
_IN_FLIGHT: Final = 2
_PAUSE: Final = 0.01
"""Seconds between two windows of paced events."""


def ship(uris: Sequence[str], windows: Sequence[bytes], *, events: int) -> int:
    """Send whole windows, on a connection to each server, and wait for the ACKs; return the events.

    Args:
        uris: The servers.
        windows: Prepared windows.
        events: About how many events to send, in all.
    """
    each_one = max(1, events // WINDOW // len(uris))
    left = [each_one] * len(uris)
    opened = [
        Connection(uri, [*windows[number % len(windows) :], *windows[: number % len(windows)]])
        for number, uri in enumerate(uris)
    ]
    with selectors.DefaultSelector() as selector:
        for number, each in enumerate(opened):
            selector.register(each.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, number)
        while any(left) or any(each.in_flight for each in opened):
            ready = selector.select(_PATIENCE)
            if not ready:
                raise TimeoutError(f"no ACK for {_PATIENCE:g} s")
            for key, mask in ready:
                number: int = key.data
                connection = opened[number]
                if mask & selectors.EVENT_READ:
                    connection.receive()
                if not connection.waiting and left[number] and connection.in_flight < _IN_FLIGHT:
                    connection.begin()
                    left[number] -= 1
                if connection.waiting and mask & selectors.EVENT_WRITE:
                    connection.send()
                more = left[number] and connection.in_flight < _IN_FLIGHT
                wanted = selectors.EVENT_WRITE if connection.waiting or more else 0
                if key.events != selectors.EVENT_READ | wanted:
                    selector.modify(key.fd, selectors.EVENT_READ | wanted, number)
    for each in opened:
        each.socket.close()
    return each_one * len(uris) * WINDOW


def stamped(texts: Iterator[bytes], count: int) -> list[bytes]:
    """Return events that have the time of now."""
    stamp = b'{"sent":%d,' % (time.time_ns() // 1000)
    return [stamp + next(texts)[1:] for _ in range(count)]


def again_and_again(texts: Sequence[bytes]) -> Iterator[bytes]:
    while True:
        yield from texts


def read_acks(connection: socket.socket, windows: int, size: int) -> None:
    """Read until so many windows are acknowledged."""
    head = struct.Struct(">2sI")
    data = b""
    while windows:
        received = connection.recv(4096)
        if not received:
            raise ConnectionError("the server closed the connection")
        data += received
        whole = len(data) - len(data) % head.size
        windows -= sum(sequence == size for _, sequence in head.iter_unpack(data[:whole]))
        data = data[whole:]


def pace(rate: int, seconds: float, send: Callable[[list[bytes]], None]) -> int:
    """Send new events at a steady rate; return how many.

    Args:
        rate: Events per second.
        seconds: How long to send.
        send: Called with the events of each 10 ms.
    """
    texts = again_and_again(make_texts())
    size, count = paced_sizes(rate, seconds)
    begun = time.perf_counter()
    for number in range(count):
        # The rate must be steady, and this program does nothing else.
        time.sleep(max(0.0, begun + number * _PAUSE - time.perf_counter()))
        send(stamped(texts, size))
    return size * count


def paced_sizes(rate: int, seconds: float) -> tuple[int, int]:
    """Return how many events are sent at once, and how often."""
    return max(1, int(rate * _PAUSE)), max(1, int(seconds / _PAUSE))


def ship_paced(uri: str, *, rate: int, seconds: float, level: int) -> int:
    """Send windows at a steady rate on one connection, and wait for their ACKs."""
    size, count = paced_sizes(rate, seconds)
    host, _, port = uri.rpartition("/")[2].rpartition(":")
    with socket.create_connection((host, int(port)), _PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = threading.Thread(target=read_acks, args=(connection, count, size))
        reader.start()

        def send(events: list[bytes]) -> None:
            connection.sendall(encode_batch(events, compression_level=level))

        sent = pace(rate, seconds, send)
        reader.join()
    return sent


def obey(command: dict[str, Any], windows: dict[int, list[bytes]]) -> int:
    """Obey one command; return the events that were sent and acknowledged."""
    operation, level = command.pop("operation"), command["level"]
    if operation == "pace":
        return ship_paced(**command)
    if level not in windows:
        windows[level] = make_windows(level)
    if operation == "prepare":
        return 0
    return ship(command["uris"], windows[level], events=command["events"])


def main() -> None:
    """Obey commands until there are no more."""
    windows: dict[int, list[bytes]] = {}
    while (command := read_command()) is not None:
        begun = time.perf_counter()
        try:
            count = obey(command, windows)
        except (OSError, TypeError) as error:
            write_outcome({"error": f"{type(error).__name__}: {error}"})
        else:
            write_outcome({"count": count, "elapsed": time.perf_counter() - begun})


if __name__ == "__main__":
    sys.exit(main())
