"""A neutral client: a plain socket that writes prepared RSocket frames and counts the answers.

It is the same for every server, and faster than every server, so it measures the server alone. It
counts answers by their length: all must have the length of the first one.
"""

from __future__ import annotations

import select
import struct
import sys
from time import perf_counter
from typing import Any

from benchmarks.control import (
    COUNT,
    IDLE,
    ITEM_SIZE,
    TRACED,
    Stopwatch,
    read_command,
    write_outcome,
)
from benchmarks.raw_connection import (
    CANCEL,
    COMPLETE,
    NEXT,
    PAYLOAD,
    REQUEST_N,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    Raw,
    Requests,
    frame,
)

Outcome = dict[str, Any]


class RawClient:
    """Runs the commands of the harness."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.raw = Raw(uri)
        self.requests = Requests(b"x" * ITEM_SIZE)
        self.idle: list[Raw] = []
        self.many: list[Raw] = []

    def answer_size(self) -> int:
        """Send one request and return the size of its answer, with the length prefix."""
        self.raw.socket.sendall(self.requests.take(1))
        answer = self.raw.receive_frame()
        if struct.unpack_from(">H", answer, 4)[0] >> 10 != PAYLOAD or len(answer) < ITEM_SIZE:
            raise ConnectionError(f"unexpected answer: {answer[:64]!r}")
        return len(answer) + 3

    def sequential(self, *, seconds: float) -> Outcome:
        raw, take = self.raw, self.requests.take
        size = self.answer_size()
        watch = Stopwatch(seconds)
        now = watch.start
        while now < watch.deadline:
            raw.socket.sendall(take(1))
            received = 0
            while received < size:
                received += raw.receive_counted(size, received)
            before, now = now, perf_counter()
            watch.latencies.append(now - before)
        watch.count = len(watch.latencies)
        return watch.outcome()

    def request_response(self, *, seconds: float, in_flight: int) -> Outcome:
        raw, take = self.raw, self.requests.take
        size = self.answer_size()
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

    def synchronise(self, question: bytes = COUNT) -> bytes:
        """Wait until the server has handled all frames so far. Return the frame that it answers."""
        stream_id = self.requests.take_id()
        self.raw.socket.sendall(frame(stream_id, REQUEST_RESPONSE << 10, question))
        while True:
            answer = self.raw.receive_frame()
            if int.from_bytes(answer[:4], "big") == stream_id:
                return answer

    def many_connections(self, *, seconds: float, connections: int) -> Outcome:
        size = self.answer_size()
        self.many += [Raw(self.uri) for _ in range(connections - len(self.many))]
        by_number = {raw.socket.fileno(): raw for raw in self.many}
        body = b"x" * ITEM_SIZE

        def ask(raw: Raw) -> None:
            raw.socket.sendall(frame(raw.next_id, REQUEST_RESPONSE << 10, body))
            raw.next_id += 2

        with select.epoll() as readable:
            for number in by_number:
                readable.register(number, select.EPOLLIN)
            watch = Stopwatch(seconds)
            for raw in self.many:
                ask(raw)
            asking = len(self.many)
            while asking:
                for number, _ in readable.poll():
                    raw = by_number[number]
                    raw.received += raw.receive_counted(size, raw.received)
                    if raw.received == size:
                        raw.received = 0
                        watch.count += 1
                        if perf_counter() < watch.deadline:
                            ask(raw)
                        else:
                            asking -= 1
            return watch.outcome()

    def many_streams(self, *, seconds: float, streams: int, items: int, window: int) -> Outcome:
        """Read all streams to their end, once, without a time limit.

        For each received item, request one more, up to the number of items of the stream.
        """
        raw = self.raw
        watch = Stopwatch(seconds)
        request = struct.pack(">I", window) + b"%d" % items
        header, one = struct.Struct(">IH"), struct.pack(">I", 1)
        ungranted = {}
        for _ in range(streams):
            stream_id = self.requests.take_id()
            ungranted[stream_id] = items - window
            raw.queue(frame(stream_id, REQUEST_STREAM << 10, request))
        while ungranted:
            for received in raw.exchange():
                stream_id, kind_and_flags = header.unpack_from(received)
                if kind_and_flags >> 10 != PAYLOAD:
                    raise ConnectionError(f"unexpected answer: {bytes(received[:64])!r}")
                if kind_and_flags & NEXT:
                    watch.count += 1
                    if ungranted[stream_id] > 0:
                        ungranted[stream_id] -= 1
                        raw.queue(frame(stream_id, REQUEST_N << 10, one))
                if kind_and_flags & COMPLETE:
                    del ungranted[stream_id]
        if watch.count != streams * items:
            raise ConnectionError(f"received {watch.count} of {streams * items} items")
        return watch.outcome()

    def traced(self) -> Outcome:
        """Return the size of the server's Python objects, in bytes, as the count."""
        watch = Stopwatch(0)
        watch.count = int(self.synchronise(TRACED)[6:])
        return watch.outcome()

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
