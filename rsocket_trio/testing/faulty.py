"""Connections that fail where you say: `FaultyStream` by the byte, `FaultyTransport` by frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from ..transports.base import FrameTransport
from ..transports.wrapper import TransportWrapper

__all__ = ["FaultyStream", "FaultyTransport"]


class FaultyStream(trio.abc.Stream):
    """A byte stream that is cut, corrupted or slow.

    Bytes are counted from 0, each direction by itself. A cut closes the inner stream, so that the
    other end sees the connection end there, and raises `trio.BrokenResourceError` here.

    Args:
        inner: What carries the bytes.
        cut_sent: Cut after so many bytes sent.
        cut_received: Cut after so many bytes received.
        corrupt_sent: Invert all bits of this one byte sent.
        corrupt_received: Invert all bits of this one byte received.
        delay: Wait before each send and after each receive, in seconds.
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
        """Send, as far as there is no cut.

        Raises:
            trio.BrokenResourceError: The connection is cut.

        Checkpoint: always.
        If cancelled: bytes may have been sent in part.
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
        """Receive, as far as there is no cut.

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
        If cancelled: closed all the same, forcefully.
        """
        await self.inner.aclose()

    async def _wait(self) -> None:
        if self._delay:
            await trio.sleep(self._delay)

    async def _cut(self) -> None:
        self._is_cut = True
        await trio.aclose_forcefully(self.inner)
        raise trio.BrokenResourceError("the connection was cut, as asked for")


def _corrupted(data: bytes, index: int | None, begin: int) -> bytes:
    """``data``, which begins at byte ``begin``, with the byte ``index`` inverted if it is there."""
    if index is None or not begin <= index < begin + len(data):
        return data
    at = index - begin
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


class FaultyTransport(TransportWrapper):
    """A frame transport that is cut, corrupted or slow.

    Args:
        inner: What carries the frames.
        delay: Wait before each send and after each receive, in seconds.
        cut_after_bytes: Once frames of so many bytes, sent and received together, went through,
            the next one that does not fit closes ``inner`` instead and raises
            `trio.BrokenResourceError`.
        corrupt: Makes another frame of each frame received.
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
        self._unsent = False  # the inner transport keeps frames that it could not send at once

    @property
    def immediate(self) -> bool:  # type: ignore[override]  # as for the wrapper
        """See `FrameTransport.immediate`: not where there is a delay."""
        return super().immediate and not self._delay

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send, as far as there is no cut.

        Raises:
            trio.BrokenResourceError: The peer is gone, or the connection is cut.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: frames may have been sent in part; the transport is good only for closing.
        """
        await self._wait()
        whole = self._before_cut(frames)
        if whole or self._unsent or not self._is_cut:
            self._unsent = False
            await self.inner.send_frames(whole)
        if self._is_cut:
            await self._cut()

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """Send, as far as there is no cut; the cut itself is for `send_frames` to make."""
        before = self._left, self._is_cut
        whole = self._before_cut(frames)
        try:
            self._unsent = not self.inner.send_frames_nowait(whole)
        except Exception:
            self._left, self._is_cut = before  # nothing went through
            raise
        return not self._unsent and not self._is_cut

    async def receive_frames(self) -> list[bytes]:
        """Receive, as far as there is no cut; frames before it are returned first.

        Raises:
            RemoteProtocolError: As the inner transport.
            trio.BrokenResourceError: The connection broke, or is cut.
            trio.ClosedResourceError: This transport was closed here.

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
        """The frames that still go through."""
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
        raise trio.BrokenResourceError("the connection was cut, as asked for")
