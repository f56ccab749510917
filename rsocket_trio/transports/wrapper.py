"""The base class of transports around another transport: `TransportWrapper`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from .base import Capabilities, FrameTransport, TransportInfo

__all__ = ["TransportWrapper"]


class TransportWrapper(FrameTransport):
    """A base class that passes all calls on to another transport, the inner one.

    It has the facts, the capabilities and the other attributes of the inner transport. Attributes
    that the connection sets are set on the inner transport. A subclass overrides the methods that
    it changes. A subclass that overrides `send_frames` but not `send_frames_nowait`, itself or by a
    mixin, does not have ``sends_nowait``, so that all frames pass through it. In the same way, one
    that overrides `receive_frames` but not `receive_frames_nowait` does not have
    ``receives_nowait``.

    It owns the inner transport, and closes it.

    Args:
        inner: The other transport.

    Attributes:
        inner: The other transport.
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
    def info(self) -> TransportInfo:  # type: ignore[override]  # read-only: the inner one sets it
        """See `FrameTransport.info`."""
        return self.inner.info

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # as above
        """See `FrameTransport.capabilities`."""
        return self.inner.capabilities

    @property
    def sends_nowait(self) -> bool:  # type: ignore[override]  # as above
        """See `FrameTransport.sends_nowait`."""
        return self._passes_nowait and self.inner.sends_nowait

    @property
    def receives_nowait(self) -> bool:  # type: ignore[override]  # as above
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
        If cancelled: frames may have been sent in part; you can only close the transport then.
        """
        await self.inner.send_frames(frames)

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`."""
        return self.inner.send_frames_nowait(frames)

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`.

        Raises:
            RemoteProtocolError: The peer sent something else than a frame.
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

    def limit_frames(self, at_most: int | None) -> None:
        """See `FrameTransport.limit_frames`."""
        self.inner.limit_frames(at_most)

    async def drop_received(self) -> None:
        """See `FrameTransport.drop_received`.

        Raises:
            trio.BrokenResourceError: The connection broke.

        Checkpoint: always.
        If cancelled: nothing changes; call again, or close the transport.
        """
        await self.inner.drop_received()

    async def wait_connected(self) -> trio.Event:
        """See `FrameTransport.wait_connected`.

        Raises:
            trio.BrokenResourceError: There will be no connection any more.

        Checkpoint: only if there is no connection now.
        If cancelled: nothing changes.
        """
        return await self.inner.wait_connected()

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`.

        Raises:
            trio.BrokenResourceError: The peer is gone.

        Checkpoint: as the inner transport.
        If cancelled: the peer may or may not have been told; close the transport.
        """
        return await self.inner.close_sending()

    async def aclose(self) -> None:
        """Close the inner transport.

        Checkpoint: always.
        If cancelled: closed nevertheless, forcefully.
        """
        await self.inner.aclose()


def _keeps_up(cls: type, nowait: str, other: str) -> bool:
    """Whether the class that ``other`` comes from, a base class or a mixin too, has ``nowait``."""
    return nowait in next(vars(each) for each in cls.__mro__ if other in vars(each))
