"""Reads the bytes of one connection within its deadlines: `TimedReader`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from ...errors import RemoteProtocolError
from ..wire.batches import IncomingBatch, held_size
from ..wire.decoder import STEP
from ..wire.reader import BatchReader, ReaderState
from .config import LumberjackConfig
from .incoming_memory import ShareOfIncoming
from .turns import ShareOfTurns

__all__ = ["TimedReader"]

_READ_SIZE: Final = 64 * 2**10
_SMALL_STEP: Final = 32 * 2**10
"""The work of one step, as of `BatchReader.feed`, while the memory is short."""
_MAX_FLUSH_DELAYS: Final = 20
"""A sender without window frames that is never silent gets its ACKs after this many delays."""


class TimedReader:
    """Turns what arrives at a stream into batches, and ends senders that are too slow.

    Args:
        stream: The stream of the connection.
        config: The limits and times.
        share: Gets the memory of what has arrived, up to `delivered`.
        turns: Says when it may be decoded.
        owes: Returns whether the sender waits for an ACK.
        pauses: Called before a wait for a turn or for memory.

    Attributes:
        reading: Whether it waits for bytes: the end of the connection ends this wait.
        pausing: Whether it waits for its turn or for memory: nothing ends this wait.
    """

    def __init__(
        self,
        stream: trio.abc.ReceiveStream,
        config: LumberjackConfig,
        share: ShareOfIncoming,
        turns: ShareOfTurns,
        owes: Callable[[], bool],
        pauses: Callable[[], None],
    ) -> None:
        self._stream: Final = stream
        self._config: Final = config
        self._share: Final = share
        self._turns: Final = turns
        self.reading = self.pausing = False
        self._returned = 0  # The memory of the batches that are not delivered yet.
        self._owes: Final = owes
        self._pauses: Final = pauses
        self._reader: Final = BatchReader(config.limits)
        self._heard = self._began = trio.current_time()

    @property
    def inside(self) -> bool:
        """Whether a part of a batch has arrived."""
        return self._reader.state is not ReaderState.BETWEEN

    async def read(self) -> list[IncomingBatch] | None:
        """Wait for bytes; return the batches that are complete, or ``None`` at the end.

        Raises:
            RemoteProtocolError: The sender broke the protocol, went past a limit, or is too slow.
            trio.BrokenResourceError: The connection broke.

        Checkpoint: always.
        If cancelled: what has arrived may be lost, so read no more.
        """
        reader = self._reader
        if reader.refused:
            reader.feed(b"")  # Raises the error, now that the batches before it are taken.
        if reader.more:
            await trio.lowlevel.checkpoint()
            return await self._feed(b"")
        while True:
            data: bytes | bytearray | None = None
            self.reading = True
            try:
                with trio.CancelScope(deadline=self._deadline()):
                    data = await self._stream.receive_some(_READ_SIZE)
            finally:
                self.reading = False
            if data is not None:
                return await self._feed(data) if data else None
            if not self.inside and reader.received and self._owes():
                self._heard = trio.current_time()  # It may wait for us as long as we need.
            if trio.current_time() >= self._deadline():
                return self._overdue()

    def answered(self) -> None:
        """Take note that an ACK was sent: a sender that owes nothing is idle from now on."""
        if not self.inside and self._reader.received:
            self._heard = trio.current_time()

    def resumed(self) -> None:
        """Take note that the reading has paused: the sender had no chance to make progress."""
        now = trio.current_time()
        pause = now - self._heard
        self._began += pause
        self._share.deadline += pause
        self._heard = now

    def delivered(self, size: int) -> None:
        """Take note that a batch of this size has found room."""
        self._returned -= size
        self._hold()

    def close(self) -> None:
        """Forget what has arrived and is not returned."""
        self._reader.drop()
        self._hold()

    async def _feed(self, data: bytes | bytearray) -> list[IncomingBatch]:
        free = self._share.free and not self._turns.closed
        step = STEP if free else await self._admission()
        between = self._reader.state is ReaderState.BETWEEN
        batches: list[IncomingBatch] = []
        try:
            batches = self._reader.feed(data, step)
        finally:
            self._turns.spent(self._reader.work)
            self._returned += sum(map(held_size, batches))
            self._heard = trio.current_time()
            if between or batches:
                self._began = self._share.began = self._heard
            self._hold()
        return batches

    async def _admission(self) -> int:
        """Wait for a turn of the loop and for memory; return how large the step may be."""
        began = trio.current_time()
        self.pausing = True
        self._pauses()
        try:
            await self._turns.wait()
            return STEP if await self._share.enter() else _SMALL_STEP
        finally:
            self.pausing = False
            self._began += trio.current_time() - began

    def _hold(self) -> None:
        incomplete = self._reader.held
        self._share.hold(self._returned + incomplete, incomplete)

    def _deadline(self) -> float:
        return min(self._share.deadline, self._deadline_of_state())

    def _deadline_of_state(self) -> float:
        config = self._config
        state = self._reader.state
        if not self._reader.received:
            return self._heard + config.first_byte_timeout
        if state is ReaderState.INSIDE:
            progress = self._heard + config.progress_timeout
            return min(progress, self._began + config.batch_timeout)
        if state is ReaderState.UNFLUSHED:
            delay = config.flush_delay
            return min(self._heard + delay, self._began + _MAX_FLUSH_DELAYS * delay)
        return inf if config.idle_timeout is None else self._heard + config.idle_timeout

    def _overdue(self) -> list[IncomingBatch]:
        """Return the batch that the silence completes.

        Raises:
            RemoteProtocolError: The sender is too slow.
        """
        batch = self._reader.flush()
        if batch is not None:
            self._returned += held_size(batch)
            self._hold()
            return [batch]
        config = self._config
        if not self._reader.received:
            why = f"it sent nothing for {config.first_byte_timeout:g} s (first_byte_timeout)"
        elif not self.inside:
            why = f"it was idle for {config.idle_timeout:g} s (idle_timeout)"
        elif trio.current_time() >= self._began + config.batch_timeout:
            why = f"one batch took {config.batch_timeout:g} s (batch_timeout)"
        elif trio.current_time() >= self._share.deadline:
            why = (
                f"it did not finish a batch within {config.progress_timeout:g} s"
                " (progress_timeout) while others waited for memory (max_incoming_size)"
            )
        else:
            why = f"it stopped inside a batch for {config.progress_timeout:g} s (progress_timeout)"
        raise RemoteProtocolError(why)
