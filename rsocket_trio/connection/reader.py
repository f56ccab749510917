"""Reading, one turn at a time: `Reader`. Whichever task of the crew reads calls it.

It never waits for a consumer, nor for the peer to read: only for the transport, and between two
batches of a read that brought very many frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint, current_clock

from ..errors import ConnectionLost, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from ..protocol.keepalive_clock import KeepaliveClock
    from ..transports.base import FrameTransport
    from .dispatch import Dispatcher
    from .lifecycle import Lifecycle
    from .stream_zero import StreamZero

__all__ = ["READ_ERRORS", "Reader"]

_BATCH: Final = 1024
"""Frames dispatched in a row without letting another task run."""

_END: Final = (b"",)
"""Stands for the end of what the peer sends."""

READ_ERRORS: Final = (RemoteProtocolError, trio.BrokenResourceError, trio.ClosedResourceError)
"""What ends the reading, and the connection."""


class Reader:
    """Receives frames and has them dispatched.

    Args:
        transport: Where they come from.
        dispatcher: Where they go to.
        zero: Looks for the acceptance of our SETUP.
        lifecycle: Learns how reading ends.
        clock: Learns that the peer lives.
        frames: What came right behind the first one, before this.

    Attributes:
        frames: What has come and has not been dispatched.
        paused: `pause` has left some of a read for another task.
        wait_received: What `wait` is while there is nothing of that, if the transport has it: the
            task that reads calls it by itself, to save a call for each read.
    """

    def __init__(
        self,
        transport: FrameTransport,
        dispatcher: Dispatcher,
        zero: StreamZero,
        lifecycle: Lifecycle,
        clock: KeepaliveClock,
        frames: list[bytes],
    ) -> None:
        self._transport = transport
        self._dispatch_all = dispatcher.dispatch_all
        self._zero = zero
        self._lifecycle = lifecycle
        self._clock = clock
        self._now = current_clock().current_time
        self.frames: Sequence[bytes] = frames
        self._position = 0  # what of these has been dispatched
        self._batch: Iterator[bytes] = iter(())  # the rest of what is being dispatched
        self.paused = False
        self.wait_received = transport.wait_received if transport.receives_nowait else None

    def wait(self) -> Awaitable[None]:
        """Wait until `deliver` has something to do. To be awaited at once.

        It may raise what `failed` is for.

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
        """Dispatch what has come, or, of very many frames, the next batch.

        Returns:
            Whether there may be more; if not the connection is over.

        Raises:
            Exception: `failed` is for it.
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
            self._lifecycle.end(ConnectionLost("the peer closed the connection"))
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
        batch = self._batch = iter(frames)
        if self._lifecycle.established:
            self._dispatch_all(batch)
        else:
            # One by one: what an ERROR means depends on the frames before it.
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
        """`wait` or `deliver` has raised one of `READ_ERRORS`: the connection is over."""
        if isinstance(error, RemoteProtocolError):
            self._lifecycle.protocol_error(error)
        else:
            self._lifecycle.lost(error)
