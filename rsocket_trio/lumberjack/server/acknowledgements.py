"""The task that writes the ACK frames of one connection: `AckWriter`.

No other task writes to the stream, so no lock is needed, and ACKs leave in the order in which they
were handed over. The task is shielded from cancellation: an ACK that was handed over is a promise,
and a part of a frame would destroy those behind it. `AckWriter.finish` limits its time instead.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from ...entrance import Home, over
from ...errors import ConnectionLost
from ...sockets.failures import describe_failure
from ..wire.batches import IncomingBatch
from ..wire.frames import AckFrame

__all__ = ["AckWriter", "BatchProgress", "Departure"]

_KEEPALIVE: Final = AckFrame(2, 0).encode()
_BACKLOG: Final = 4096
"""Bytes of ACKs that may wait before the handling of further batches waits."""


class Departure:
    """Frames that were handed over together.

    Attributes:
        over: Set when they have left, or cannot leave any more.
        left: Whether they have left.
    """

    __slots__ = ("left", "over")

    def __init__(self) -> None:
        self.over = trio.Event()
        self.left = False

    async def wait(self) -> None:
        """Wait until the frames have left.

        Raises:
            ConnectionLost: They may not have left: the connection broke.

        Checkpoint: always.
        If cancelled: the frames leave nevertheless.
        """
        await self.over.wait()
        if not self.left:
            await over(ConnectionLost("the connection broke before the ACK had left"))


class AckWriter:
    """Writes ACK frames, and keep-alives while the sender waits for an ACK.

    A keep-alive would show that the sender is gone, but version 1 has none, and a first write to a
    connection that the sender has closed succeeds. So the writer looks before.

    Args:
        stream: The stream of the connection.
        keepalive_interval: See `LumberjackConfig`.
        send_timeout: See `LumberjackConfig`.
        awaited: Returns whether the sender waits for us: for an ACK, or until we read on.
        wants_keepalive: Returns whether it may get keep-alives meanwhile.
        departed: Returns whether the sender is gone.
        lost: Called with a text when the stream is broken, or the sender does not read.

    Attributes:
        home: The thread of the connection.
    """

    def __init__(
        self,
        stream: trio.abc.SendStream,
        *,
        keepalive_interval: float,
        send_timeout: float,
        awaited: Callable[[], bool],
        wants_keepalive: Callable[[], bool],
        departed: Callable[[], bool],
        lost: Callable[[str], None],
    ) -> None:
        self.home: Final = Home()
        self._stream: Final = stream
        self._interval: Final = keepalive_interval
        self._send_timeout: Final = send_timeout
        self._awaited: Final = awaited
        self._wants_keepalive: Final = wants_keepalive
        self._departed: Final = departed
        self._lost: Final = lost
        self._frames = bytearray()  # Handed over, and not taken by the task yet.
        self._departure = Departure()  # Of these frames.
        self._wake = trio.Event()
        self._nap = trio.CancelScope()
        self._armed = False
        self._life: Final = trio.CancelScope(shield=True)
        self._finishing = False
        self._over = False

    def hand_over(self, frames: bytes) -> Departure:
        """Take frames that leave soon. They leave even if the caller is cancelled.

        Raises:
            ConnectionLost: The connection is over.
        """
        if self._over or self._finishing:
            raise ConnectionLost("the connection of this batch is over")
        self._frames += frames
        self._wake.set()
        return self._departure

    async def wait_backlog(self) -> None:
        """Wait while many frames have not left.

        Checkpoint: if there are many.
        If cancelled: nothing changes.
        """
        if len(self._frames) > _BACKLOG:
            await self._departure.over.wait()

    def arm(self) -> None:
        """Begin with keep-alives after an interval, unless they have begun."""
        if not self._armed and self._awaited():
            self._armed = True
            self._nap.deadline = trio.current_time() + self._interval

    def finish(self, patience: float) -> None:
        """Let the frames that were handed over leave, and then end the task.

        Args:
            patience: The time for this in seconds; 0 ends it at once.
        """
        self._finishing = True
        self._wake.set()
        self._life.deadline = min(self._life.deadline, trio.current_time() + patience)

    async def run(self) -> None:
        """Write until `finish` is called, or the stream breaks.

        Checkpoint: where it waits for frames, and as the stream's ``send_all``.
        If cancelled: goes on until `finish` ends it.
        """
        leaving = self._departure
        try:
            with self._life:
                while frames := await self._next():
                    if frames is _KEEPALIVE:
                        leaving = Departure()
                    else:
                        leaving, self._departure = self._departure, Departure()
                    if not await self._write(frames):
                        return
                    leaving.left = True
                    leaving.over.set()
        finally:
            self._over = True
            leaving.over.set()
            self._departure.over.set()

    async def _next(self) -> bytes:
        """Wait for frames, or for the time of a keep-alive; empty: there will be none."""
        while not self._frames:
            if self._finishing:
                return b""
            self._armed = self._awaited()
            deadline = trio.current_time() + self._interval if self._armed else inf
            with trio.CancelScope(deadline=deadline) as self._nap:
                await self._wake.wait()
            if self._wake.is_set():
                continue
            if self._departed():
                self._lost("it closed the connection")
                return b""
            if self._wants_keepalive():
                return _KEEPALIVE
        self._wake = trio.Event()
        frames = bytes(self._frames)
        self._frames.clear()
        return frames

    async def _write(self, frames: bytes) -> bool:
        why = f"it has read no ACK for {self._send_timeout:g} s (send_timeout)"
        with trio.move_on_after(self._send_timeout):
            try:
                await self._stream.send_all(frames)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                why = describe_failure(error)
            else:
                return True
        self._lost(why)
        return False


class BatchProgress:
    """How many events of one batch are acknowledged, and the frames for it.

    Args:
        incoming: The batch.
        writer: Writes the frames.
        done: Called when all events are acknowledged.

    Attributes:
        acknowledged: How many events are, from the first on. It never goes back.
    """

    def __init__(
        self, incoming: IncomingBatch, writer: AckWriter, done: Callable[[], None]
    ) -> None:
        self.acknowledged = 0
        self._incoming: Final = incoming
        self._writer: Final = writer
        self._done: Final = done
        self._complete = False

    def advance(self, n: int) -> Departure | None:
        """Acknowledge the first ``n`` events, without waiting.

        Returns:
            The ACK on its way; ``None`` if nothing is to be sent.

        Raises:
            ConnectionLost: The connection is over; nothing is acknowledged.
        """
        count = len(self._incoming)
        if self._complete or (n <= self.acknowledged and n < count):
            return None
        departure = None
        if numbers := self._incoming.acks_for(n):
            version = self._incoming.version
            frames = b"".join(AckFrame(version, number).encode() for number in numbers)
            departure = self._writer.hand_over(frames)
        self.acknowledged = n
        if n == count:
            self._complete = True
            self._done()
        return departure

    async def acknowledge(self, n: int) -> None:
        """Acknowledge the first ``n`` events; see `rsocket_trio.lumberjack.Batch.ack`."""
        self._writer.home.check("this batch")
        try:
            departure = self.advance(n)
        except ConnectionLost as error:
            await over(error)
        if departure is None:
            await trio.lowlevel.checkpoint()
        else:
            await departure.wait()
