"""What a transport around another transport is made of: `TransportWrapper`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from .base import Capabilities, FrameTransport, TransportInfo

__all__ = ["TransportWrapper"]


class TransportWrapper(FrameTransport):
    """Passes everything on to another transport, in both directions. To be derived from.

    What the other one says of itself this one says too, at any time: facts, capabilities, whether
    it sends at once. What the connection sets on this one is set on the other. A subclass overrides
    what it does otherwise. One that overrides `send_frames` and not `send_frames_nowait`, itself or
    by a mixin, is not ``immediate``, so that no frame gets past it. The same holds for
    `receive_frames` and `receive_frames_nowait`.

    It owns the other one: closing this closes that.

    Args:
        inner: The other one.

    Attributes:
        inner: Likewise.
    """

    _passes_nowait = True
    _passes_received = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._passes_nowait = _keeps_up(cls, "send_frames_nowait", "send_frames")
        cls._passes_received = _keeps_up(cls, "receive_frames_nowait", "receive_frames")

    def __init__(self, inner: FrameTransport) -> None:
        self.inner = inner

    @property
    def info(self) -> TransportInfo:  # type: ignore[override]  # those of another are not set here
        """See `FrameTransport.info`."""
        return self.inner.info

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # likewise
        """See `FrameTransport.capabilities`."""
        return self.inner.capabilities

    @property
    def immediate(self) -> bool:  # type: ignore[override]  # likewise
        """See `FrameTransport.immediate`."""
        return self._passes_nowait and self.inner.immediate

    @property
    def receives_nowait(self) -> bool:  # type: ignore[override]  # likewise
        """See `FrameTransport.receives_nowait`."""
        return self._passes_received and self.inner.receives_nowait

    @property
    def wake_writer(self) -> Callable[[], None] | None:
        """See `FrameTransport.wake_writer`."""
        return self.inner.wake_writer

    @wake_writer.setter
    def wake_writer(self, wake: Callable[[], None] | None) -> None:
        self.inner.wake_writer = wake

    @property
    def on_lost(self) -> Callable[[], None] | None:
        """See `FrameTransport.on_lost`."""
        return self.inner.on_lost

    @on_lost.setter
    def on_lost(self, lost: Callable[[], None] | None) -> None:
        self.inner.on_lost = lost

    @property
    def received_at(self) -> float:  # type: ignore[override]  # as above
        """See `FrameTransport.received_at`."""
        return self.inner.received_at

    @property
    def sent_at(self) -> float:  # type: ignore[override]  # as above
        """See `FrameTransport.sent_at`."""
        return self.inner.sent_at

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as the inner transport.
        If cancelled: frames may have been sent in part; the transport is good only for closing.
        """
        await self.inner.send_frames(frames)

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`."""
        return self.inner.send_frames_nowait(frames)

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`.

        Raises:
            RemoteProtocolError: What arrives is no frame.
            trio.BrokenResourceError: The connection broke, or ended inside a frame.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as the inner transport.
        If cancelled: nothing is lost; call again.
        """
        return await self.inner.receive_frames()

    def wait_received(self) -> Awaitable[None]:
        """See `FrameTransport.wait_received`.

        Raises:
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as the inner transport.
        If cancelled: nothing is lost; call again.
        """
        return self.inner.wait_received()

    def receive_frames_nowait(self) -> list[bytes] | None:
        """See `FrameTransport.receive_frames_nowait`."""
        return self.inner.receive_frames_nowait()

    async def wait_carried(self) -> trio.Event:
        """See `FrameTransport.wait_carried`.

        Raises:
            trio.BrokenResourceError: Nothing ever will carry this again.

        Checkpoint: only if there is nothing now.
        If cancelled: nothing changes.
        """
        return await self.inner.wait_carried()

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`.

        Raises:
            trio.BrokenResourceError: The peer is gone.

        Checkpoint: as the inner transport.
        If cancelled: it may or may not have been said; close the transport.
        """
        return await self.inner.close_sending()

    async def aclose(self) -> None:
        """Close the inner transport.

        Checkpoint: always.
        If cancelled: closed all the same, forcefully.
        """
        await self.inner.aclose()


def _keeps_up(cls: type, nowait: str, other: str) -> bool:
    """Whether the class that ``other`` comes from, a base class or a mixin too, has ``nowait``."""
    return nowait in next(vars(each) for each in cls.__mro__ if other in vars(each))
