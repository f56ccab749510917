"""The client of the floor: one task that sends in batches and counts the answers."""

from __future__ import annotations

import struct
import sys
from time import perf_counter
from typing import Any

import trio

from benchmarks.control import BURST, ITEM_SIZE, Stopwatch, read_command, write_outcome

Outcome = dict[str, Any]
CHUNK = 65536


def message(kind: bytes, size: int) -> bytes:
    return struct.pack(">I", size) + kind + b"x" * (size - len(kind))


ECHO = message(b"e", ITEM_SIZE)


class Floor:
    """One connection to the server of the floor."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.buffer = b""

    async def receive(self) -> int:
        """Read once, split the data into messages, and return their number."""
        data = await self.stream.receive_some(262144)
        buffer = self.buffer + data if self.buffer else data
        unpack = struct.Struct(">I").unpack_from
        position, end, count = 0, len(buffer), 0
        while end - position >= 4:
            stop = position + 4 + unpack(buffer, position)[0]
            if stop > end:
                break
            _body = buffer[position + 4 : stop]
            count += 1
            position = stop
        self.buffer = buffer[position:]
        return count

    async def request_response(
        self, *, seconds: float, in_flight: int, size: int = ITEM_SIZE
    ) -> Outcome:
        if size > CHUNK:
            return await self.large(seconds, size)
        watch = Stopwatch(seconds)
        await self._echo(watch, in_flight)
        return watch.outcome()

    async def _echo(self, watch: Stopwatch, in_flight: int) -> None:
        sent = in_flight
        await self.stream.send_all(ECHO * in_flight)
        while watch.count < sent:
            count = await self.receive()
            watch.count += count
            if count and perf_counter() < watch.deadline:
                sent += count
                await self.stream.send_all(ECHO * count)

    async def sequential(self, *, seconds: float) -> Outcome:
        watch = Stopwatch(seconds)
        now = watch.start
        while now < watch.deadline:
            await self.stream.send_all(ECHO)
            while not await self.receive():
                pass
            before, now = now, perf_counter()
            watch.latencies.append(now - before)
        watch.count = len(watch.latencies)
        return watch.outcome()

    async def large(self, seconds: float, size: int) -> Outcome:
        chunks = size // CHUNK
        chunk = message(b"e", CHUNK)
        watch = Stopwatch(seconds)

        async def send() -> None:
            for _ in range(chunks):
                await self.stream.send_all(chunk)

        while perf_counter() < watch.deadline:
            left = chunks
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                while left:
                    left -= await self.receive()
            watch.count += 1
        return watch.outcome()

    async def request_stream(self, *, seconds: float, window: int) -> Outcome:
        def want(items: int) -> bytes:
            return message(b"s" + struct.pack(">I", items), ITEM_SIZE)

        watch = Stopwatch(seconds)
        batch = window * 3 // 4
        await self.stream.send_all(want(window))
        granted, unreplenished = window, 0
        while watch.count < granted:
            count = await self.receive()
            watch.count += count
            unreplenished += count
            if unreplenished >= batch and perf_counter() < watch.deadline:
                await self.stream.send_all(want(unreplenished))
                granted += unreplenished
                unreplenished = 0
        return watch.outcome()

    async def request_channel(self, *, seconds: float, window: int) -> Outcome:
        return await self.request_response(seconds=seconds, in_flight=window)

    async def fire_and_forget(self, *, seconds: float) -> Outcome:
        burst = message(b"f", ITEM_SIZE) * BURST + message(b"c", 1)
        watch = Stopwatch(seconds)
        await self.stream.send_all(burst * 2)
        waiting = 2
        while waiting:
            for _ in range(await self.receive()):
                watch.count += BURST
                waiting -= 1
                if perf_counter() < watch.deadline:
                    await self.stream.send_all(burst)
                    waiting += 1
        return watch.outcome()


async def many_connections(
    uri: str, floors: list[Floor], *, seconds: float, connections: int
) -> Outcome:
    while len(floors) < connections:
        floors.append(await dial(uri))
    watch = Stopwatch(seconds)

    async def ask(floor: Floor) -> None:
        while True:  # at least once, even if this task begins late
            await floor.stream.send_all(ECHO)
            count = await floor.receive()  # not ``+= await``: other tasks add to it meanwhile
            watch.count += count
            if perf_counter() >= watch.deadline:
                break

    async with trio.open_nursery() as nursery:
        for floor in floors:
            nursery.start_soon(ask, floor)
    return watch.outcome()


async def dial(uri: str) -> Floor:
    return Floor(await trio.open_tcp_stream("127.0.0.1", int(uri.rpartition(":")[2])))


async def main(uri: str) -> None:
    floor = await dial(uri)
    many: list[Floor] = []
    while (command := await trio.to_thread.run_sync(read_command)) is not None:
        name = command.pop("operation")
        if name == "many_connections":
            write_outcome(await many_connections(uri, many, **command))
        else:
            write_outcome(await getattr(floor, name)(**command))


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
