"""Helpers for tests of the client: hosts in memory, for virtual time, that follow a script."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.lumberjack import BatchReader, ShipperConfig, connect
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from tests.lumberjack.vectors import ack, all_of

RETRY = Retry(initial_delay=0.5, jitter=0)
"""Waits without chance: 0.5, 1, 2, 4, 8, 10, 10 s."""


def numbers(batch):
    """The numbers of the events that `counted` made."""
    return [int(raw[5:-1]) for raw in batch.events]


def counted(*numbered):
    """Events with these numbers, as bytes."""
    return [b'{"n":%d}' % number for number in numbered]


@attrs.define
class Peer:
    """The server's end of one connection."""

    stream: trio.abc.Stream
    uri: str
    began: float
    version: int = 2
    _reader: BatchReader = attrs.field(factory=BatchReader)
    _batches: list = attrs.field(factory=list)

    async def batch(self):
        """The next batch, or None at the end of the connection."""
        while not self._batches:
            data = await self.stream.receive_some(65536)
            if not data:
                return None
            self._batches += all_of(self._reader, data)
        return self._batches.pop(0)

    async def numbers(self):
        """The numbers of the events in the next batch."""
        return numbers(await self.batch())

    async def ack(self, *sequences):
        for sequence in sequences:
            await self.stream.send_all(ack(sequence, self.version))

    async def accept_all(self):
        """Acknowledge every batch until the end; return the numbers of the events of each."""
        found = []
        while (batch := await self.batch()) is not None:
            found.append(numbers(batch))
            await self.ack(len(batch))
        return found

    async def accept(self, count):
        """Acknowledge batches until there were so many events; return their numbers."""
        found = []
        while len(found) < count:
            batch = await self.batch()
            found += numbers(batch)
            await self.ack(len(batch))
        return found

    async def close(self):
        await self.stream.aclose()


class Network:
    """Takes the place of `dial`. Addresses that are not up refuse connections."""

    def __init__(self, *uris, version=2):
        self.up = set(uris)
        self.attempts = []  # (time, address)
        self.version = version
        self._send, self._receive = trio.open_memory_channel(1000)

    async def dial(self, uri, shake_hands, *, ssl_context, handshake_timeout):
        self.attempts.append((trio.current_time(), str(uri)))
        await trio.lowlevel.checkpoint()
        if str(uri) not in self.up:
            raise ConnectFailed(f"cannot connect to {uri}: Connection refused")
        ours, theirs = trio.testing.memory_stream_pair()
        self._send.send_nowait(Peer(theirs, str(uri), trio.current_time(), self.version))
        return await shake_hands(ByteStream(ours, TransportInfo(scheme="memory", peer=str(uri))))

    async def peer(self):
        """Wait for the next connection."""
        return await self._receive.receive()


HOST = "lumberjack://one:5044"
OTHER = "lumberjack://two:5044"


@asynccontextmanager
async def shipping(*uris, **settings):
    """A shipper, and a nursery for its calls; the calls have ended at the end."""
    config = ShipperConfig(**{"retry": RETRY, **settings})
    async with connect(uris or (HOST,), config=config) as shipper, trio.open_nursery() as nursery:
        yield shipper, nursery
