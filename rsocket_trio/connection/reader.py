"""Read once, and dispatch the frames: `Reader`. The task of the crew that reads calls it.

It never waits for a consumer, and never for the peer to read. It waits only for the transport, and
for one turn of the loop between two batches of a read that brought very many frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint, current_clock

from ..errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from ..protocol.keepalive_clock import KeepaliveClock
    from ..transports.base import FrameTransport
    from .dispatch import Dispatcher
    from .lifecycle import Lifecycle
    from .stream_zero import StreamZero
    from .workload import Workload

__all__ = ["READ_ERRORS", "Reader"]

_BATCH: Final = 1024
"""Frames dispatched in a row without letting another task run."""

_END: Final = (b"",)
"""A marker: the peer has closed its sending side."""

READ_ERRORS: Final = (
    RemoteProtocolError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    OSError,
)
"""The errors that end the reading, and the connection."""


class Reader:
    """Receives frames and has them dispatched.

    Args:
        transport: Receives the frames.
        dispatcher: Delivers the frames.
        zero: Looks for the acceptance of our SETUP.
        lifecycle: Is told how reading ends.
        clock: Is told when frames arrive.
        workload: Is told when the frames arrived that are dispatched now.
        frames: The frames right behind the first one, received already.

    Attributes:
        frames: The frames that are received and not dispatched.
        paused: Whether `pause` has left some frames of a read for another task.
        wait_received: Waits for the transport, if the transport can receive without waiting. The
            task that reads calls it instead of `wait` while `frames` is empty, to save a call for
            each read.
    """

    def __init__(
        self,
        transport: FrameTransport,
        dispatcher: Dispatcher,
        zero: StreamZero,
        lifecycle: Lifecycle,
        clock: KeepaliveClock,
        workload: Workload,
        frames: list[bytes],
    ) -> None:
        self._transport = transport
        self._dispatch_all = dispatcher.dispatch_all
        self._zero = zero
        self._lifecycle = lifecycle
        self._clock = clock
        self._workload = workload
        self._now = current_clock().current_time
        self.frames: Sequence[bytes] = frames
        self._position = 0  # how many of these have been dispatched
        self._batch: Iterator[bytes] = iter(())  # the rest of what is being dispatched
        self.paused = False
        self.wait_received = transport.wait_received if transport.receives_nowait else None

    def wait(self) -> Awaitable[None]:
        """Wait until `deliver` has something to do. The caller awaits it at once.

        Raises:
            Exception: One of `READ_ERRORS`.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        if self.frames:
            return checkpoint()  # noqa: ASYNC105  # the caller awaits it
        return self._receive() if self.wait_received is None else self.wait_received()

    async def _receive(self) -> None:
        self.frames = await self._transport.receive_frames()
        if self.frames:
            self._clock.received(self._now())
        else:
            self.frames = _END

    def deliver(self) -> bool:
        """Dispatch the received frames; if there are very many, the next batch of them.

        Returns:
            Whether there may be more frames; if not, the connection is over.

        Raises:
            Exception: One of `READ_ERRORS`.
        """
        frames = self.frames
        if not frames:
            received = self._transport.receive_frames_nowait()
            if received is None:
                return True
            if received:
                self._clock.last_received = self._now()
                frames = received
            else:
                frames = _END
        if frames is _END:
            self._lifecycle.peer_ended()
            return False
        if len(frames) <= _BATCH:
            self.frames = ()
        else:
            # A new list of the rest for each batch would cost quadratic time.
            position = self._position
            self._position = position + _BATCH
            self.frames = frames
            frames = frames[position : self._position]
            if self._position >= len(self.frames):
                self.frames = ()
                self._position = 0
        self.paused = False
        self._workload.arrived = self._clock.last_received
        batch = self._batch = iter(frames)
        if self._lifecycle.established:
            self._dispatch_all(batch)
        else:
            # One by one: the meaning of an ERROR depends on the frames before it.
            for frame in batch:
                self._dispatch_all([frame])
                self._zero.look_for_acceptance(frame)
        return True

    def pause(self) -> None:
        """Stop behind the frame that is being dispatched: another task dispatches the rest."""
        rest = list(self._batch)  # so the loop over it ends
        if not rest:
            return
        self.paused = True
        if self.frames:
            self._position -= len(rest)
        else:
            self.frames = rest
            self._position = 0

    def forget(self) -> None:
        """The connection is over: drop what has not been dispatched."""
        self.frames = ()
        self._batch = iter(())

    def failed(self, error: Exception) -> None:
        """End the connection: `wait` or `deliver` has raised one of `READ_ERRORS`."""
        if isinstance(error, RemoteProtocolError):
            self._lifecycle.protocol_error(error)
        else:
            self._lifecycle.lost(error)
