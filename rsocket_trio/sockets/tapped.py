"""A stream that somebody listens in on: `TappedStream`; who does so: `tap`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

import trio

from .direct import DirectStream
from .tls_stream import TLSStream

if TYPE_CHECKING:
    from .byte_stream import TransportInfo

__all__ = ["Listening", "Tap", "TappedStream", "tap"]


class Listening(Protocol):
    """Gets the bytes of one connection. Its methods neither wait nor raise."""

    def sent(self, data: bytes) -> None:
        """Get bytes that are sent next."""

    def received(self, data: bytes) -> None:
        """Get bytes that have arrived; none is the end."""

    def closed(self) -> None:
        """Learn that the stream was closed here."""


class Tap(Protocol):
    """Listens in on connections."""

    def connection(self, info: TransportInfo, *, dialled: bool) -> Listening:
        """Return what gets the bytes of a new connection."""


tap: Final[ContextVar[Tap | None]] = ContextVar("rsocket_trio.tap", default=None)
"""Who listens in on the connections that are made in this context, behind their encryption."""


class TappedStream(trio.abc.HalfCloseableStream):
    """Passes all on to another stream, which it owns, and tells somebody.

    Attributes:
        transport_stream: The other stream.
    """

    def __init__(self, stream: trio.abc.HalfCloseableStream, listening: Listening) -> None:
        self.transport_stream = stream
        self._listening = listening

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all the bytes.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: as the other stream.
        If cancelled: any part of the data may have been sent.
        """
        self._listening.sent(bytes(data))
        await self.transport_stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: as the other stream.
        If cancelled: nothing changes.
        """
        await self.transport_stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive bytes; none at the end.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: as the other stream.
        If cancelled: nothing is lost.
        """
        data = await self.transport_stream.receive_some(max_bytes)
        self._listening.received(bytes(data))
        return data

    async def send_eof(self) -> None:
        """Send the end of the stream; receiving goes on.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: as the other stream.
        If cancelled: as the other stream.
        """
        await self.transport_stream.send_eof()

    def detach(self) -> None:
        """Use the socket no more, but leave it open: another owner closes it."""
        self._listening.closed()
        if isinstance(self.transport_stream, DirectStream | TLSStream):
            self.transport_stream.detach()

    async def aclose(self) -> None:
        """Close the stream.

        Checkpoint: as the other stream.
        If cancelled: closed nevertheless.
        """
        self._listening.closed()
        await self.transport_stream.aclose()
