"""Connections for the tests of the engine: `pair` of both ends, and a raw `Stranger` to one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
import trio.testing

from rsocket_trio import rsio
from rsocket_trio.rsio.limits import RsioLimits
from rsocket_trio.rsio.wire.decoder import MessageDecoder
from rsocket_trio.rsio.wire.messages import (
    ClientHello,
    Goodbye,
    OnNext,
    OnNextPacked,
    ServerHello,
    Subscribed,
    encode,
)


@asynccontextmanager
async def pair(
    target=None, *, publish=None, config=None, client_config=None, **options
) -> AsyncIterator[rsio.Connection]:
    """A client whose server is in the same task tree, over a pair of memory streams."""
    config = config or rsio.RsioConfig()
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(rsio.serve_stream, target or {}, theirs, config=config, **options)
        )
        async with rsio.connect(ours, publish=publish, config=client_config or config) as link:
            yield link


class Recorder:
    """A subscriber that writes down its signals.

    Attributes:
        signals: ``next``, ``error`` or ``complete`` with their arguments.
        subscription: Its subscription.
    """

    def __init__(self, demand: int = 0) -> None:
        self.demand = demand
        self.elements: list[bytes] = []
        self.error: Exception | None = None
        self.completed = False
        self.subscription = None

    @property
    def ended(self) -> bool:
        return self.completed or self.error is not None

    def on_subscribe(self, subscription) -> None:
        self.subscription = subscription
        if self.demand:
            subscription.request(self.demand)

    def on_next(self, element) -> None:
        assert not self.ended
        self.elements.append(element)

    def on_error(self, error) -> None:
        assert not self.ended
        self.error = error

    def on_complete(self) -> None:
        assert not self.ended
        self.completed = True


class Stranger:
    """A raw peer: it sends messages, legal or not, and decodes what comes.

    Attributes:
        stream: Its end of the connection.
        messages: What has come, and was not taken by `next`.
        sizes: The element sizes of the streams that have been accepted.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.messages: list[object] = []
        self.sizes: dict[int, int] = {}
        self.received = 0
        self._decoder = MessageDecoder(RsioLimits(), self.sizes.__getitem__)

    async def send(self, *messages) -> None:
        """Send messages in one write; bytes are sent as they are."""
        octets = b"".join(
            each if isinstance(each, bytes) else encode(each, element_size=self._size(each))
            for each in messages
        )
        await self.stream.send_all(octets)

    def _size(self, message) -> int:
        return self.sizes.get(message.subscriber, 0) if isinstance(message, OnNext) else 0

    async def next(self, kind: type | None = None):
        """The next message, or the next of a kind; ``None`` at the end of the stream."""
        while True:
            while self.messages:
                message = self.messages.pop(0)
                if kind is None or isinstance(message, kind):
                    return message
            if not await self.receive():
                return None

    async def receive(self) -> bool:
        """Receive once; whether the stream goes on."""
        data = await self.stream.receive_some(65536)
        self.received += len(data)
        self._decoder.feed(data)
        while (message := self._decoder.next_message()) is not None:
            if isinstance(message, Subscribed):
                self.sizes[message.subscriber] = message.element_size
            if isinstance(message, OnNextPacked):
                message.elements = bytes(message.elements)
            if isinstance(message, OnNext):
                message.element = bytes(message.element)
            self.messages.append(message)
        return bool(data)

    async def rest(self) -> list[object]:
        """All further messages, up to the end of the stream."""
        while await self.receive():
            pass
        messages, self.messages = self.messages, []
        return messages


@asynccontextmanager
async def stranger_to_server(target=None, *, greet: bool = True, lockstep: bool = False, **options):
    """A raw client of a server.

    Args:
        target: What the server serves.
        greet: Whether the hellos have been exchanged.
        lockstep: What is sent waits until it is read; otherwise nothing that is sent ever waits.
    """
    if lockstep:
        ours, theirs = trio.testing.lockstep_stream_pair()
    else:
        ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(rsio.serve_stream, target or {}, theirs, **options))
        stranger = Stranger(ours)
        async with ours:
            if greet:
                await stranger.send(ClientHello(0))
                assert await stranger.next() == ServerHello(0)
            yield stranger
            if lockstep:
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def stranger_to_client(*, greet: bool = True, **options):
    """A raw server of a client: the pair of them."""
    ours, theirs = trio.testing.memory_stream_pair()
    stranger = Stranger(ours)
    async with ours:
        if greet:
            await stranger.send(ServerHello(0))
        async with rsio.connect(theirs, **options) as connection:
            if greet:
                assert await stranger.next() == ClientHello(0)
            yield stranger, connection
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stranger.send(Goodbye(""))  # so that the client need not wait for it


def numbers(count: int) -> list[bytes]:
    """The numbers below ``count`` as elements."""
    return [b"%d" % number for number in range(count)]


def words(count: int, size: int = 8) -> Iterable[bytes]:
    """The numbers below ``count`` as elements of one size."""
    return [number.to_bytes(size, "little") for number in range(count)]
