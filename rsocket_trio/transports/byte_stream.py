"""Frames over any byte stream, e.g. TCP, TLS or Unix sockets: `ByteStreamTransport`.

Protocol.md, "Framing Protocol Usage" and "Framing Format": the length of each frame comes before
it, as an unsigned 24-bit number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import trio
from trio.lowlevel import checkpoint

from ..config import MAX_FRAME_SIZE
from ..entrance import over
from ..errors import FrameTooLong, RemoteProtocolError
from ..foreign import recognise_foreign
from ..frames.length import LengthPrefixDecoder, join_frames
from ..sockets.direct import DirectStream, close_stream
from ..sockets.farewell import drop_bytes
from .base import Capabilities, FrameTransport, TransportInfo
from .progress import note_progress, send_in_parts

__all__ = ["FRAMES_AT_ONCE", "RECEIVE_SIZE", "ByteStreamTransport", "FrameDecoder"]

RECEIVE_SIZE: Final = 64 * 2**10
"""The most bytes of one read: enough for thousands of small frames."""

FRAMES_AT_ONCE: Final = 512
"""The most frames that one call returns. One read may bring seven thousand, and the caller handles
all the frames it gets before it lets another task run."""


class FrameDecoder(Protocol):
    """Cuts a stream of bytes into frames, as `rsocket_trio.frames.LengthPrefixDecoder` does."""

    @property
    def pending(self) -> bool:
        """Whether a part of a frame, or of its length, has been received."""

    @property
    def refused(self) -> bool:
        """Whether every further `feed` raises, even without bytes."""

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take bytes, return the frames that are whole now."""


class ByteStreamTransport(FrameTransport):
    """Carries frames over a `trio.abc.Stream`, your own or that of `open_transport`.

    It owns the stream, and closes it.

    Args:
        stream: The stream that carries the bytes.
        info: Facts for acceptors and logs.
        max_frame_size: The peer's frames may be this long, in bytes.
        decoder: Cuts received bytes into frames, for a protocol with another length prefix.
        join: Makes the bytes of some frames, for the same protocol.
    """

    capabilities = Capabilities(byte_stream=True)

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        info: TransportInfo,
        max_frame_size: int = MAX_FRAME_SIZE,
        decoder: FrameDecoder | None = None,
        join: Callable[[Sequence[bytes]], bytes] = join_frames,
    ) -> None:
        self.info = info
        self.stream = stream
        self._direct = stream if isinstance(stream, DirectStream) else None
        self.sends_nowait = self.receives_nowait = self._direct is not None
        note_progress(self, stream)
        self._decoder: FrameDecoder = (
            LengthPrefixDecoder(max_frame_size) if decoder is None else decoder
        )
        self._join = join
        self._pushed: list[bytes] = []
        self._unread: list[bytes] = []
        self._ended = False
        self._closed = False
        self._more = False  # Whether `_receive_more` has something to return or to raise.

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`: one write for all the frames.

        Raises:
            LocalProtocolError: A frame is too long for a 24-bit length; nothing was sent.
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as the stream's ``send_all``; a cancellation point always.
        If cancelled: frames may have been sent in part; you can only close the transport then.
        """
        if self._closed:
            await over(trio.ClosedResourceError("this transport is closed"))
        await send_in_parts(self, self.stream, self._encode(frames))

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`: one write."""
        assert self._direct is not None
        return self._direct.send_nowait(self._encode(frames))

    def _encode(self, frames: Sequence[bytes]) -> bytes:
        if self._closed:
            raise trio.ClosedResourceError("this transport is closed")
        return self._join(frames)

    def push_back(self, data: bytes) -> None:
        """Give back bytes that were read from the stream already, for `receive_frames`."""
        self._pushed.append(data)
        self._more = True

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`: the frames that one read completes.

        At most `FRAMES_AT_ONCE`; the next calls return the others.

        Raises:
            RemoteProtocolError: A frame is too long. Frames before it are returned first.
            trio.BrokenResourceError: The connection broke, or ended inside a frame.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        if self._closed:
            await over(trio.ClosedResourceError("this transport is closed"))
        while True:
            if self.receives_nowait or self._more or self._decoder.refused:
                try:
                    await self.wait_received()
                except OSError as error:
                    raise trio.BrokenResourceError(f"the socket broke: {error}") from error
                frames = self.receive_frames_nowait()
            else:
                data = await self.stream.receive_some(RECEIVE_SIZE)
                if self._closed:
                    raise trio.ClosedResourceError("this transport is closed")
                frames = self._feed(data)
            if frames is not None:
                return frames

    def limit_frames(self, at_most: int | None) -> None:
        """See `FrameTransport.limit_frames`: a length is checked as soon as it has arrived.

        A ``decoder`` of another protocol is limited if it has a method ``limit_frames``.
        """
        limit_decoder = getattr(self._decoder, "limit_frames", None)
        if limit_decoder is not None:
            limit_decoder(at_most)
            self._more = True  # more frames may have come behind the first one

    async def drop_received(self) -> None:
        """See `FrameTransport.drop_received`.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing changes; call again, or close the transport.
        """
        if self._ended:
            await checkpoint()
        else:
            await drop_bytes(self.stream)  # whatever they are: the peer may break any rule now

    def wait_received(self) -> Awaitable[None]:
        """See `FrameTransport.wait_received`."""
        if self._more or self._decoder.refused:
            if self._closed:
                raise trio.ClosedResourceError("this transport is closed")
            return checkpoint()  # noqa: ASYNC105  # the caller awaits it
        assert self._direct is not None
        return self._direct.wait_received()

    def receive_frames_nowait(self) -> list[bytes] | None:
        """See `FrameTransport.receive_frames_nowait`: one read."""
        if self._more or self._decoder.refused:
            return self._receive_more()
        assert self._direct is not None
        data = self._direct.receive_nowait(RECEIVE_SIZE)
        return None if data is None else self._feed(data)

    def _receive_more(self) -> list[bytes] | None:
        """Return frames, or raise, without a read."""
        if self._closed:
            raise trio.ClosedResourceError("this transport is closed")
        if self._unread:
            return self._hand_out(self._unread)
        if self._ended:
            return self._end()
        pushed = b"".join(self._pushed)
        self._pushed.clear()
        # Even without bytes: a frame that is too long may follow the frames returned last time.
        frames = self._cut(pushed)
        self._more = False
        return self._hand_out(frames) if frames else None

    def _feed(self, data: bytes | bytearray) -> list[bytes] | None:
        frames = self._cut(data)
        if frames:
            return frames if len(frames) <= FRAMES_AT_ONCE else self._hand_out(frames)
        if data:
            # The connection notes whole frames as a sign of life; this is a part of one.
            self.received_at = trio.current_time()
            return None
        self._ended = self._more = True
        return self._end()

    def _end(self) -> list[bytes]:
        if self._decoder.pending:
            text = "the connection ended inside a frame"
            raise trio.BrokenResourceError(self._foreign(text) or text)
        return []

    def _cut(self, data: bytes | bytearray) -> list[bytes]:
        try:
            return self._decoder.feed(data)
        except FrameTooLong as error:
            text = self._foreign(str(error))
            if text is None:
                raise
            raise RemoteProtocolError(text) from error

    def _foreign(self, text: str) -> str | None:
        """Return the text of an error with the protocol that the peer speaks, if it is another."""
        if isinstance(self._decoder, LengthPrefixDecoder):
            spoken = recognise_foreign(self._decoder.unfinished)
            if spoken is not None:
                return f"the peer does not speak RSocket, but {spoken}: {text}"
        return None

    def _hand_out(self, frames: list[bytes]) -> list[bytes]:
        self._unread = frames[FRAMES_AT_ONCE:]
        self._more = bool(self._unread or self._ended)
        return frames[:FRAMES_AT_ONCE]

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`.

        Checkpoint: always, if the stream can do it.
        If cancelled: the peer may or may not have been told; close the transport.
        """
        if self._closed or not isinstance(self.stream, trio.abc.HalfCloseableStream):
            return False
        await self.stream.send_eof()
        return True

    async def aclose(self) -> None:
        """Close the stream. Sent frames still arrive; frames that were not received are lost.

        Checkpoint: always.
        If cancelled: closed nevertheless, forcefully.
        """
        self._closed = self._more = True
        # What is left, half a frame of megabytes perhaps, must not wait for the garbage collector,
        # as the parts of a connection do, which know each other.
        self._pushed.clear()
        self._unread.clear()
        self._decoder = LengthPrefixDecoder(MAX_FRAME_SIZE)
        await close_stream(self.stream)
