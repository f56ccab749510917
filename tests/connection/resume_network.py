"""Resumable connections over memory that a test cuts at chosen bytes."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from functools import partial

import trio
import trio.testing

from rsocket_trio import (
    ClientResume,
    ConnectionConfig,
    Payload,
    Responder,
    ServerResume,
    connect,
    serve_transport,
)
from rsocket_trio.testing.faulty import FaultyStream
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport

CONFIG = ConnectionConfig(fragment_size=64)


class Network:
    """A server, the connections to it, and their faults.

    Attributes:
        dialled: How many connections there were.
        streams: The client's end of each, with its faults.
        down: While set, dialling fails.
    """

    def __init__(self, nursery, responder, options=None, config=CONFIG):
        self.options = ServerResume() if options is None else options
        self.streams: list[FaultyStream] = []
        self.down: Exception | None = None
        self.serve = partial(serve_transport, responder, config=config, resume=self.options)
        self.nursery = nursery
        self.cuts = iter(())

    @property
    def dialled(self) -> int:
        return len(self.streams)

    @asynccontextmanager
    async def dial(self):
        if self.down is not None:
            raise self.down
        client, server = trio.testing.memory_stream_pair()
        stream = FaultyStream(client)
        if self.streams:
            self.arm(stream)
        self.streams.append(stream)
        info = TransportInfo(scheme="memory")
        self.nursery.start_soon(self.serve, ByteStreamTransport(server, info=info))
        async with ByteStreamTransport(stream, info=info) as transport:
            yield transport

    def arm(self, stream: FaultyStream | None = None) -> None:
        """Cut the connection after a number of bytes: the next (direction, bytes) of `cuts`."""
        stream = self.streams[-1] if stream is None else stream
        cut = next(self.cuts, None)
        if cut is not None:
            sent, size = cut
            if sent:
                stream._cut_sent = stream.sent + size
            else:
                stream._cut_received = stream.received + size

    async def cut(self) -> None:
        """Cut the connection now."""
        await trio.aclose_forcefully(self.streams[-1].inner)


@asynccontextmanager
async def network(responder, options=None, config=CONFIG):
    """A network that is gone at the end of the block; errors of the block arrive unchanged."""
    failure = None
    async with trio.open_nursery() as nursery:
        try:
            yield Network(nursery, responder, options, config)
        except Exception as error:
            failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Talker(Responder):
    """Answers by echo and count, and sends the client requests while it answers."""

    def __init__(self):
        self.told: list[bytes] = []
        self.counted: list[bytes] = []
        self.asked = trio.Event()

    async def accept(self, setup, requester):
        self.requester = requester
        return self

    async def request_response(self, payload):
        if payload.data == b"ask the client":
            async with self.requester.request_stream(Payload(b"12"), prefetch=5) as stream:
                self.counted += [item.data async for item in stream]
            self.asked.set()
        return payload

    async def fire_and_forget(self, payload):
        self.told.append(payload.data)

    async def request_stream(self, payload):
        for number in range(int(payload.data)):
            yield Payload(b"%d " % number * 30, b"metadata")

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield item


async def conversation(requester, talker):
    """Run all interactions at once, both ways, with fragments; return what was delivered."""
    heard = {"responses": [], "stream": [], "channel": []}

    async def ask():
        for number in range(8):
            payload = Payload(b"%d" % number * (1 + 40 * (number % 3)))
            heard["responses"].append((await requester.request_response(payload)).data)

    async def stream():
        async with requester.request_stream(Payload(b"15"), prefetch=4) as items:
            heard["stream"] += [item.data async for item in items]

    async def channel():
        source = [Payload(b"%d" % number * 50) for number in range(10)]
        async with requester.request_channel(source, prefetch=3) as items:
            heard["channel"] += [item.data async for item in items]

    async def tell():
        for number in range(10):
            await requester.fire_and_forget(Payload(b"%d" % number * 20))

    async def be_asked():
        await requester.request_response(Payload(b"ask the client"))

    async with trio.open_nursery() as nursery:
        for each in (ask, stream, channel, tell, be_asked):
            nursery.start_soon(each)
    # fire_and_forget has no answer; the answer to the request behind it shows that it arrived.
    await requester.request_response(Payload(b"the end"))
    return heard | {"told": list(talker.told), "counted": list(talker.counted)}


async def run_with_cuts(cuts):
    """Run one conversation with cuts at each (direction, bytes); return also the number of cuts.

    Cuts within the handshake cost an attempt each, and with the waits of `Retry` a row of them
    takes more than the minute of a usual session.
    """
    talker = Talker()
    async with network(talker, ServerResume(session_lifetime=3600)) as net:
        net.cuts = iter(cuts)
        async with connect(
            net.dial,
            responder=Talker(),
            config=CONFIG,
            resume=ClientResume(session_lifetime=3600),
        ) as requester:
            net.arm()
            heard = await conversation(requester, talker)
        sizes = net.streams[0].sent, net.streams[0].received
    return heard, net.dialled - 1, sizes


def random_cuts(seed: int, count: int, largest: int):
    """Return a number of cuts, in either direction, reproducibly."""
    chance = random.Random(seed)
    return [(chance.random() < 0.5, chance.randrange(1, largest)) for _ in range(count)]
