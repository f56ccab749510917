"""Send a million items over a session whose connection is cut two hundred times.

    python -m benchmarks.resume_endurance [ITEMS [CUTS [SEED]]]

Both ends run in this process. The memory streams between them are cut at random bytes in both
directions, also within RESUME and RESUME_OK. The client reads a stream of ITEMS. Meanwhile it sends
requests, channels and messages, some of them in fragments. The program fails if an item is lost,
doubled or reordered, or if an end retains more than allowed. It prints counts and memory sizes.
"""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
import trio.testing

from rsocket_trio import (
    ClientResume,
    ConnectionConfig,
    FrameTransport,
    Payload,
    Requester,
    Responder,
    ServerResume,
    TransportInfo,
    connect,
    serve_transport,
)
from rsocket_trio.connection.session_store import session_of
from rsocket_trio.transports.byte_stream import ByteStreamTransport

CONFIG = ConnectionConfig(fragment_size=256)
RETAINED = 2**20
TOKEN = b"endurance of a session"
INFO = TransportInfo(scheme="memory")


class Pipe(trio.abc.Stream):
    """Passes bytes on until its cut."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self.inner = inner
        self.cut_sent: int | None = None
        self.cut_received: int | None = None

    @property
    def armed(self) -> bool:
        """Whether a cut is already set. A second cut would lose bytes between the two."""
        return self.cut_sent is not None or self.cut_received is not None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        left = self.cut_sent
        if left is None or len(data) < left:
            self.cut_sent = None if left is None else left - len(data)
            await self.inner.send_all(data)
        else:
            await self.inner.send_all(bytes(data)[:left])
            await self.break_off()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        left = self.cut_received
        if left is None:
            return bytes(await self.inner.receive_some(max_bytes))
        if left <= 0:
            await self.break_off()
        data = bytes(await self.inner.receive_some(left))
        self.cut_received = left - len(data)
        return data

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def break_off(self) -> None:
        await trio.aclose_forcefully(self.inner)
        raise trio.BrokenResourceError("cut")


class Source(Responder):
    """Counts, echoes, and stores the messages it receives."""

    def __init__(self) -> None:
        self.told: list[bytes] = []

    async def request_response(self, payload: Payload) -> Payload:
        return payload

    async def fire_and_forget(self, payload: Payload) -> None:
        self.told.append(payload.data)

    async def request_stream(self, payload: Payload) -> AsyncIterator[Payload]:
        for number in range(int(payload.data)):
            yield item(number)

    async def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterator[Payload]:
        async for each in payloads:
            yield each


def item(number: int) -> Payload:
    """Return an item of the stream. Every thousandth item is sent in fragments."""
    return Payload(b"%d " % number * (100 if number % 1000 == 999 else 1))


async def run(items: int, cuts: int, seed: int) -> None:
    chance = random.Random(seed)
    source = Source()
    options = ServerResume(max_retained_size=RETAINED)
    pipes: list[Pipe] = []
    every = max(1, items // (2 * cuts))  # some cuts come so late that the next one is skipped
    largest = 0

    async with trio.open_nursery() as nursery:

        @asynccontextmanager
        async def dial() -> AsyncIterator[FrameTransport]:
            client, server = trio.testing.memory_stream_pair()
            pipes.append(Pipe(client))
            # One in five attempts is cut within its handshake.
            if len(pipes) > 1 and chance.random() < 0.2:
                pipes[-1].cut_received = chance.randrange(40)
            carrier = ByteStreamTransport(server, info=INFO)
            nursery.start_soon(
                partial(serve_transport, source, carrier, config=CONFIG, resume=options)
            )
            async with ByteStreamTransport(pipes[-1], info=INFO) as transport:
                yield transport

        resume = ClientResume(token=TOKEN, max_retained_size=RETAINED)
        async with connect(dial, config=CONFIG, resume=resume) as requester:
            session = session_of(await options.store.find(TOKEN))
            assert session is not None
            log = session.link.log
            async with trio.open_nursery() as beside:
                asked = [0]
                beside.start_soon(keep_asking, requester, asked)
                beside.start_soon(keep_channelling, requester, asked)
                async with requester.request_stream(Payload(b"%d" % items), prefetch=512) as stream:
                    expected = 0
                    async for payload in stream:
                        assert payload == item(expected), f"item {expected}: {payload.data[:20]!r}"
                        expected += 1
                        if expected % every == 0 and not pipes[-1].armed:
                            if chance.random() < 0.5:
                                pipes[-1].cut_sent = chance.randrange(1, 60)
                            else:
                                pipes[-1].cut_received = chance.randrange(1, 5000)
                            largest = max(largest, log.size)
                assert expected == items, expected
                beside.cancel_scope.cancel()
            await requester.request_response(Payload(b"the end"))
            # The last message may have been cancelled before it was sent.
            numbers = [int(each) for each in source.told]
            assert numbers == list(range(len(numbers))), "messages lost, doubled or reordered"
            assert not log.evicted
            assert largest <= RETAINED
        nursery.cancel_scope.cancel()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{items} items, {asked[0]} requests, {len(numbers)} messages, {len(pipes) - 1} "
        f"connections lost; at most {largest} bytes retained; {memory} MiB of memory at most"
    )


async def keep_asking(requester: Requester, asked: list[int]) -> None:
    """Send requests and messages in turns until cancelled."""
    number = 0
    while True:
        data = b"%d" % asked[0] * (1 + 200 * (asked[0] % 7 == 0))
        assert await requester.request_response(Payload(data)) == Payload(data)
        asked[0] += 1
        await requester.fire_and_forget(Payload(b"%d" % number))
        number += 1


async def keep_channelling(requester: Requester, asked: list[int]) -> None:
    """Open one channel after another until cancelled."""
    while True:
        sent = [Payload(b"%d" % number * 90) for number in range(20)]
        async with requester.request_channel(sent, prefetch=6) as channel:
            assert [each async for each in channel] == sent
        asked[0] += 1


def main() -> None:
    given = [int(each) for each in sys.argv[1:]]
    items, cuts, seed = (given + [1_000_000, 200, 1][len(given) :])[:3]
    trio.run(run, items, cuts, seed)


if __name__ == "__main__":
    main()
