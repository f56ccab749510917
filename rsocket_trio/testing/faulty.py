"""Connections with faults: `FaultyStream` for bytes, `FaultyTransport` for frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from ..transports.base import FrameTransport
from ..transports.wrapper import TransportWrapper

__all__ = ["FaultyStream", "FaultyTransport"]


class FaultyStream(trio.abc.Stream):
    """A byte stream that is cut, corrupted or slow.

    Bytes are counted from 0, separately for each direction. A cut closes the inner stream, so the
    other end sees the end of the connection. This end raises `trio.BrokenResourceError`.

    Args:
        inner: The stream that carries the bytes.
        cut_sent: Cut after this number of sent bytes.
        cut_received: Cut after this number of received bytes.
        corrupt_sent: Invert all bits of the sent byte with this number.
        corrupt_received: Invert all bits of the received byte with this number.
        delay: Time to wait before each send and after each receive, in seconds.
    """

    def __init__(
        self,
        inner: trio.abc.Stream,
        *,
        cut_sent: int | None = None,
        cut_received: int | None = None,
        corrupt_sent: int | None = None,
        corrupt_received: int | None = None,
        delay: float = 0.0,
    ) -> None:
        self.inner = inner
        self.sent = 0
        self.received = 0
        self._cut_sent = cut_sent
        self._cut_received = cut_received
        self._corrupt_sent = corrupt_sent
        self._corrupt_received = corrupt_received
        self._delay = delay
        self._is_cut = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, up to the cut.

        Raises:
            trio.BrokenResourceError: The connection is cut.

        Checkpoint: always.
        If cancelled: a part of the bytes may have been sent.
        """
        if self._is_cut:
            await self._cut()
        await self._wait()
        whole = bytes(data)
        end = len(whole) if self._cut_sent is None else self._cut_sent - self.sent
        part = _corrupted(whole[:end], self._corrupt_sent, self.sent)
        self.sent += len(part)
        await self.inner.send_all(part)
        if end < len(whole):
            await self._cut()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room to send.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        if self._is_cut:
            await self._cut()
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes, up to the cut.

        Raises:
            trio.BrokenResourceError: The connection is cut.

        Checkpoint: always.
        If cancelled: nothing is lost, unless there is a delay.
        """
        if self._cut_received is not None:
            left = self._cut_received - self.received
            if left <= 0:
                self._is_cut = True
            max_bytes = left if max_bytes is None else min(max_bytes, left)
        if self._is_cut:
            await self._cut()
        data = _corrupted(
            bytes(await self.inner.receive_some(max_bytes)), self._corrupt_received, self.received
        )
        self.received += len(data)
        await self._wait()
        return data

    async def aclose(self) -> None:
        """Close the inner stream.

        Checkpoint: always.
        If cancelled: the stream is closed forcefully.
        """
        await self.inner.aclose()

    async def _wait(self) -> None:
        if self._delay:
            await trio.sleep(self._delay)

    async def _cut(self) -> None:
        self._is_cut = True
        await trio.aclose_forcefully(self.inner)
        raise trio.BrokenResourceError("the connection was cut on request")


def _corrupted(data: bytes, index: int | None, begin: int) -> bytes:
    """Return ``data``, which begins at byte ``begin``, with byte ``index`` inverted if present."""
    if index is None or not begin <= index < begin + len(data):
        return data
    at = index - begin
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


class FaultyTransport(TransportWrapper):
    """A frame transport that is cut, corrupted or slow.

    Args:
        inner: The transport that carries the frames.
        delay: Time to wait before each send and after each receive, in seconds.
        cut_after_bytes: Number of bytes of frames, sent and received together, that may pass. The
            first frame that does not fit closes ``inner`` and raises `trio.BrokenResourceError`.
        corrupt: Returns the frame that replaces a received frame.
    """

    def __init__(
        self,
        inner: FrameTransport,
        *,
        delay: float = 0.0,
        cut_after_bytes: int | None = None,
        corrupt: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(inner)
        self._delay = delay
        self._left = cut_after_bytes
        self._corrupt = corrupt
        self._is_cut = False
        self._unsent = False  # whether the inner transport holds frames that it could not send yet

    @property
    def sends_nowait(self) -> bool:  # type: ignore[override]  # as in the wrapper
        """See `FrameTransport.sends_nowait`. False if there is a delay."""
        return super().sends_nowait and not self._delay

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames, up to the cut.

        Raises:
            trio.BrokenResourceError: The peer is gone, or the connection is cut.
            trio.ClosedResourceError: This end has closed the transport.

        Checkpoint: always.
        If cancelled: a part of the frames may have been sent; the transport must be closed.
        """
        await self._wait()
        whole = self._before_cut(frames)
        if whole or self._unsent or not self._is_cut:
            self._unsent = False
            await self.inner.send_frames(whole)
        if self._is_cut:
            await self._cut()

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """Send frames, up to the cut. The next `send_frames` makes the cut."""
        before = self._left, self._is_cut
        whole = self._before_cut(frames)
        try:
            self._unsent = not self.inner.send_frames_nowait(whole)
        except Exception:  # the inner transport may raise anything; no frame was sent then
            self._left, self._is_cut = before
            raise
        return not self._unsent and not self._is_cut

    async def receive_frames(self) -> list[bytes]:
        """Receive frames, up to the cut.

        Raises:
            RemoteProtocolError: The inner transport raised it.
            trio.BrokenResourceError: The connection broke, or is cut.
            trio.ClosedResourceError: This end has closed the transport.

        Checkpoint: always.
        If cancelled: nothing is lost, unless there is a delay.
        """
        if self._is_cut:
            await self._cut()
        frames = self._before_cut(await self.inner.receive_frames())
        if self._is_cut and not frames:
            await self._cut()
        await self._wait()
        return frames if self._corrupt is None else [self._corrupt(frame) for frame in frames]

    def _before_cut(self, frames: Sequence[bytes]) -> list[bytes]:
        """Return the frames before the cut."""
        if self._left is None:
            return list(frames)
        through: list[bytes] = []
        for frame in frames:
            if self._is_cut or len(frame) > self._left:
                self._is_cut = True
                break
            self._left -= len(frame)
            through.append(frame)
        return through

    async def _wait(self) -> None:
        if self._delay:
            await trio.sleep(self._delay)

    async def _cut(self) -> None:
        await trio.aclose_forcefully(self.inner)
        raise trio.BrokenResourceError("the connection was cut on request")
