"""Read frames and dispatch them, for both ends: `CallReader`.

It never waits for a consumer, except for a moment: a stream whose messages arrive faster than they
are received gets `TtrpcConfig.overflow_patience` to catch up (the protocol has no flow control,
and a peer may send a thousand messages in one write). Then the stream fails, or, if the application
has chosen so, the reading goes on waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint

from ..errors import RemoteProtocolError

if TYPE_CHECKING:
    from ..connection.lifecycle import Lifecycle
    from ..transports.base import FrameTransport
    from .config import TtrpcConfig
    from .inbox import MessageInbox

__all__ = ["CallReader", "Overrun"]

Overrun = Callable[[], None]
"""Ends the stream that overflows."""

_WAIT: Final = (b"",)
"""A marker in place of frames: `CallReader.wait` has to be called, and nothing else."""


class CallReader:
    """Receives frames and has them dispatched; see `rsocket_trio.connection.job.FrameReader`.

    Args:
        transport: Receives the frames.
        dispatch_all: Called with the frames of a read; one call for each frame would cost more.
        lifecycle: Is told how reading ends.
        on_end: Called when the peer has closed its sending half.
        config: What to do with a stream that overflows.

    Attributes:
        frames: The frames that are received and not dispatched.
        paused: Whether `pause` has left some frames of a read for another task.
        received_at: When the frames came that are dispatched, by trio's clock.
        wait_received: Waits for the transport, if the transport can receive without waiting.
    """

    def __init__(
        self,
        transport: FrameTransport,
        dispatch_all: Callable[[Iterator[bytes]], None],
        lifecycle: Lifecycle,
        on_end: Callable[[], None],
        config: TtrpcConfig,
    ) -> None:
        self._transport = transport
        self._dispatch_all = dispatch_all
        self._lifecycle = lifecycle
        self._on_end = on_end
        self._patience = config.overflow_patience if config.overflow == "fail" else inf
        self.frames: Sequence[bytes] = ()
        self.paused = False
        self.received_at = 0.0
        self.wait_received: Callable[[], Awaitable[None]] | None = (
            transport.wait_received if transport.receives_nowait else None
        )
        self._batch: Iterator[bytes] = iter(())  # the rest of what is being dispatched
        self._rest: Sequence[bytes] = ()  # the frames behind `_WAIT`
        self._held: tuple[MessageInbox, Overrun] | None = None
        self._ended = False
        lifecycle.on_end.append(self._release)

    def wait(self) -> Awaitable[None]:
        """Wait until `deliver` has something to do. The caller awaits it at once.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        if self._held is not None:
            return self._wait_for_room(*self._held)
        if self._ended:
            return self._lifecycle.ended.wait()
        if self.frames:
            return checkpoint()  # noqa: ASYNC105  # the caller awaits it
        return self._receive() if self.wait_received is None else self.wait_received()

    async def _receive(self) -> None:
        self.frames = await self._transport.receive_frames()
        self.received_at = trio.current_time()
        if not self.frames:
            self._end()

    def _end(self) -> None:
        """The peer sends nothing more. There is nothing to wait for but the end."""
        self._ended = True
        self.frames = _WAIT
        self._on_end()

    async def _wait_for_room(self, inbox: MessageInbox, overrun: Overrun) -> None:
        with trio.move_on_after(self._patience) as patience:
            await inbox.wait_drained()
        self._held = None
        # It is not enough that a message was received meanwhile: a reader that takes one in each
        # of these times would hold up all other calls without end.
        if patience.cancelled_caught and not inbox.closed and self._lifecycle.failure is None:
            overrun()

    def _release(self, _error: Exception, _last_words: bytes | None) -> None:
        # Cancellation would end the wait too, unless a handler has left a shielded scope open.
        if self._held is not None:
            self._held[0].release()

    def hold(self, inbox: MessageInbox, overrun: Overrun) -> None:
        """Pause behind the frame that is being dispatched, because an inbox is full.

        Args:
            inbox: The inbox.
            overrun: Called if it is still full after the time that it gets.
        """
        self._held = inbox, overrun
        self._rest = list(self._batch)  # so the loop over it ends

    def deliver(self) -> bool:
        """Dispatch the received frames.

        Returns:
            True: there may be more frames, or at least calls that are not finished.

        Raises:
            Exception: One of `rsocket_trio.connection.reader.READ_ERRORS`.
        """
        frames = self.frames
        if frames is _WAIT:
            frames, self._rest = self._rest, ()
        elif not frames:
            received = self._transport.receive_frames_nowait()
            if received is None:
                return True
            if not received:
                self._end()
                return True
            frames = received
            self.received_at = trio.current_time()
        self.frames = _WAIT if self._ended else ()
        self.paused = False
        batch = self._batch = iter(frames)
        self._dispatch_all(batch)
        if self._held is not None:
            self.frames = _WAIT
        return True

    def pause(self) -> None:
        """Stop behind the frame that is being dispatched: another task dispatches the rest."""
        rest = list(self._batch)
        if rest:
            self.paused = True
            self.frames = rest

    def failed(self, error: Exception) -> None:
        """End the connection: `wait` or `deliver` has raised an error of reading."""
        if isinstance(error, RemoteProtocolError):
            self._lifecycle.protocol_error(error)
        else:
            self._lifecycle.lost(error)

    def forget(self) -> None:
        """The connection is over: drop what has not been dispatched."""
        self.frames = self._rest = ()
        self._batch = iter(())
        self._held = None
