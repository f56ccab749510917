"""A TCP proxy that records the frames between two peers, and checks their demand.

It reads each side's bytes, records their frames and only then passes the bytes on. A peer can have
acted on a frame only if it is recorded already, so there may never be more recorded items than
recorded credit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import attrs
import trio

from rsocket_trio.frames import (
    Frame,
    LengthPrefixDecoder,
    PayloadFrame,
    RequestChannelFrame,
    RequestNFrame,
    RequestStreamFrame,
    decode,
)

MAX_FRAME_SIZE = 2**24 - 1
READ_SIZE = 2**16

CLIENT = "client"
SERVER = "server"


@attrs.frozen
class Sent:
    """One recorded frame, and its sender."""

    by: str
    frame: Frame
    size: int


class Wire:
    """The frames between a client and a server; the client connects to ``uri``."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.record: list[Sent] = []
        self._changed = trio.Event()
        self._connections: list[trio.abc.Stream] = []

    def frames(self, by: str, *types: type[Frame]) -> list[Frame]:
        """Return the frames of that side, of these types if any are named."""
        return [
            sent.frame
            for sent in self.record
            if sent.by == by and (not types or isinstance(sent.frame, types))
        ]

    def sizes(self, by: str) -> list[int]:
        """Return the lengths of all frames of that side, in bytes, without the prefix."""
        return [sent.size for sent in self.record if sent.by == by]

    async def wait_for(
        self,
        by: str,
        frame_type: type[Frame],
        count: int = 1,
        *,
        where: Callable[[Frame], bool] = lambda _: True,
    ) -> list[Frame]:
        """Wait until that side has sent a number of these frames; return all of them."""
        while len(found := list(filter(where, self.frames(by, frame_type)))) < count:
            changed = self._changed
            await changed.wait()
        return found

    async def cut(self) -> None:
        """Close every connection, to both sides at once and without a frame."""
        for stream in self._connections:
            await trio.aclose_forcefully(stream)

    def on_the_way(self, by: str) -> list[tuple[int, int]]:
        """Return, for each item of that side on a stream, the items sent so far and the credit.

        Only PAYLOAD costs credit, once for all its fragments; the payload of a REQUEST_CHANNEL does
        not (Protocol.md, "Flow Control"), and neither does a response.
        """
        granted: dict[int, int] = {}
        sent: dict[int, int] = {}
        counts = []
        for entry in self.record:
            frame = entry.frame
            stream_id = frame.stream_id
            match frame:
                case RequestStreamFrame() | RequestChannelFrame():
                    granted[stream_id] = 0 if entry.by == by else frame.initial_request_n
                case RequestNFrame() if entry.by != by:
                    granted[stream_id] += frame.n
                case PayloadFrame(next=True, follows=False) if entry.by == by:
                    if stream_id in granted:
                        sent[stream_id] = sent.get(stream_id, 0) + 1
                        counts.append((sent[stream_id], granted[stream_id]))
        return counts

    async def _pump(
        self, by: str, source: trio.abc.Stream, sink: trio.abc.Stream, ended: Callable[[], None]
    ) -> None:
        decoder = LengthPrefixDecoder(MAX_FRAME_SIZE)
        try:
            while data := await source.receive_some(READ_SIZE):
                self.record.extend(
                    Sent(by, decode(frame), len(frame)) for frame in decoder.feed(data)
                )
                changed, self._changed = self._changed, trio.Event()
                changed.set()
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # Either side may close; the other side is closed below.
        ended()

    async def _connection(self, target: tuple[str, int], client: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream(*target)
        self._connections += [client, server]
        async with client, server, trio.open_nursery() as nursery:
            # The end of one direction ends both: RSocket has no half-closed connections.
            ended = nursery.cancel_scope.cancel
            nursery.start_soon(self._pump, CLIENT, client, server, ended)
            nursery.start_soon(self._pump, SERVER, server, client, ended)


@asynccontextmanager
async def wire_to(uri: str) -> AsyncIterator[Wire]:
    """A proxy before the TCP server at ``uri``, for the length of the block."""
    target = urlsplit(uri)
    assert target.scheme == "tcp", "the proxy understands TCP only"
    assert target.hostname is not None
    assert target.port is not None
    address = (target.hostname, target.port)
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        wire = Wire(f"tcp://127.0.0.1:{listener.socket.getsockname()[1]}")

        async def handle(client: trio.SocketStream) -> None:
            await wire._connection(address, client)

        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield wire
        nursery.cancel_scope.cancel(reason="the test is over")
