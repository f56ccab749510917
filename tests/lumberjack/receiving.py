"""Helpers for tests of the server: senders on real sockets, and in memory for virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from rsocket_trio.lumberjack import LumberjackConfig
from rsocket_trio.lumberjack.server.incoming_memory import IncomingMemory
from rsocket_trio.lumberjack.server.receiver import Receiver, Shared
from rsocket_trio.lumberjack.server.room import Room
from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from tests.lumberjack.vectors import event, window

ADDRESS = "lumberjack://127.0.0.1:0"
DEFAULT = LumberjackConfig()


def full_window(count, first=1, version=2):
    """A window and its events, plain."""
    return window(count, version) + b"".join(
        event(sequence, b'{"n":%d}' % sequence, version) for sequence in range(first, first + count)
    )


def port_of(server):
    return int(server.uris[0].rpartition(":")[2])


@attrs.define
class Sender:
    """Sends bytes and reads ACKs."""

    stream: trio.abc.Stream
    _rest: bytes = b""

    async def send(self, data):
        await self.stream.send_all(data)

    async def ack(self):
        """The next ACK as (version, sequence), or None at the end of the stream."""
        while len(self._rest) < 6:
            data = await self.stream.receive_some()
            if not data:
                assert not self._rest
                return None
            self._rest += data
        frame, self._rest = self._rest[:6], self._rest[6:]
        assert frame[1:2] == b"A"
        return int(frame[:1]), int.from_bytes(frame[2:])

    async def acks_until_end(self):
        found = []
        while (ack := await self.ack()) is not None:
            found.append(ack)
        return found

    async def no_ack_for(self, seconds):
        """Check that nothing arrives, and that the connection stays open, for this long."""
        with trio.move_on_after(seconds):
            raise AssertionError(f"unexpected: {await self.ack()}")


@asynccontextmanager
async def sender_to(server, ssl_context=None, server_hostname="localhost"):
    """A sender on a connection to the server."""
    stream = await trio.open_tcp_stream("127.0.0.1", port_of(server))
    if ssl_context is not None:
        stream = trio.SSLStream(
            stream, ssl_context, server_hostname=server_hostname, https_compatible=True
        )
    async with stream:
        yield Sender(stream)


def shared(handler, config=DEFAULT, on_poison=None, room=None):
    """What the receivers of one server share."""
    return Shared(
        handler=handler,
        on_poison=on_poison,
        config=config,
        room=room or Room(config.max_batches, config.max_held_size),
        intake=IncomingMemory(config.max_incoming_size, config.progress_timeout),
    )


@attrs.define
class Served:
    """A receiver in memory, and its sender."""

    sender: Sender
    receiver: Receiver
    over: trio.Event
    scope: trio.CancelScope


@asynccontextmanager
async def served(of_all, *, lockstep=False):
    """Run a receiver in memory; at the end the sender closes."""
    ours, theirs = trio.testing.memory_stream_pair()
    if lockstep:  # The server can send nothing before the sender reads.
        answers, reading = trio.testing.lockstep_stream_one_way_pair()
        ours = trio.StapledStream(ours.send_stream, reading)
        theirs = trio.StapledStream(answers, theirs.receive_stream)
    receiver = Receiver(ByteStream(theirs, TransportInfo(scheme="memory", peer="tester")), of_all)
    one = Served(Sender(ours), receiver, trio.Event(), trio.CancelScope())

    async def run():
        try:
            with one.scope:
                async with theirs:
                    await receiver.run()
        finally:
            one.over.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        try:
            yield one
        finally:
            with trio.CancelScope(shield=True):
                await ours.aclose()
                await one.over.wait()
    assert of_all.room.waiting == 0
