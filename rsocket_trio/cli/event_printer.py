"""Print the events of Lumberjack senders: `EventPrinter`.

One task prints the batches of all senders, one after the other. So lines of two batches do not mix,
and a sender that leaves does not end a line in its middle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import trio

from rsocket_trio.lumberjack import Batch, InvalidEvent

from .event_lines import event_line, invalid_line
from .stdio import Writer

__all__ = ["EventPrinter"]

_SLICE: Final = 64 * 2**10
"""Bytes of lines that are printed together. Other tasks run between two slices. The line of an
event with more bytes is made in a thread."""


@attrs.define(eq=False)
class _Job:
    """A batch that a handler wants to be printed.

    Attributes:
        batch: The batch.
        printed: How many of its events are printed, from the first on.
        invalid: The event that ended the job, if there was one.
        wanted: Whether the handler still waits. If not, the sender will send the events again.
        over: Set when the printer is done with it.
        settled: Set when its ACK has left, or cannot leave.
    """

    batch: Batch
    printed: int = 0
    invalid: InvalidEvent | None = None
    wanted: bool = True
    over: trio.Event = attrs.field(factory=trio.Event)
    settled: trio.Event = attrs.field(factory=trio.Event)


class EventPrinter:
    """Prints events.

    Args:
        output: Where to print events.
        errors: Where to print events that cannot be decoded.
        as_json: Print those as JSON too.
        close_at_invalid: End a batch at an event that cannot be decoded, with an error.
        take: End after this many events; ``None``: never.
    """

    def __init__(
        self,
        output: Writer,
        errors: Writer,
        *,
        as_json: bool = False,
        close_at_invalid: bool = False,
        take: int | None = None,
    ) -> None:
        self._output: Final = output
        self._errors: Final = errors
        self._as_json: Final = as_json
        self._close_at_invalid: Final = close_at_invalid
        self._left = take
        self._send, self._receive = trio.open_memory_channel[_Job](0)

    async def handle(self, batch: Batch) -> None:
        """Print a batch: the handler of the server.

        Raises:
            InvalidEvent: There is an event that cannot be decoded, and ``close_at_invalid``. The
                events before it are printed and acknowledged.

        Checkpoint: always.
        If cancelled: a part of the events may be printed, in whole lines.
        """
        job = _Job(batch)
        try:
            await self._send.send(job)
            await job.over.wait()
            if self._left == 0 or job.invalid is not None:
                await batch.ack(job.printed)
        finally:
            job.wanted = False
            job.settled.set()
        if job.invalid is not None:
            raise job.invalid
        if job.printed < len(batch):  # `take` events are printed, so this command is ending
            await trio.sleep_forever()

    async def run(self) -> None:
        """Print what the handlers want to be printed, until ``take`` events are printed.

        Raises:
            BrokenPipeError: The reader of the output has closed the pipe.
            Failure: The output cannot be written for another reason.

        Checkpoint: always.
        If cancelled: a line may be printed in part.
        """
        async for job in self._receive:
            await self._print(job)
            job.over.set()
            if self._left == 0:
                await job.settled.wait()
                return

    async def _print(self, job: _Job) -> None:
        lines: list[bytes] = []
        size = 0
        read = 0
        for raw in job.batch.raw:
            if self._left == 0 or not job.wanted:
                break
            read += 1
            try:
                line = await _apart(raw, partial(event_line, raw, is_json=job.batch.is_json))
            except InvalidEvent as error:
                if self._close_at_invalid:
                    job.invalid = error
                    read -= 1
                    break
                await self._output.write(b"".join(lines))  # first, as a terminal shows both
                lines, size = [], 0
                await self._print_invalid(job, raw, error)
                continue
            lines.append(line)
            size += len(line)
            if self._left is not None:
                self._left -= 1
            if size >= _SLICE:
                await self._output.write(b"".join(lines))
                lines, size = [], 0
        await self._output.write(b"".join(lines))
        job.printed = read

    async def _print_invalid(self, job: _Job, raw: bytes, error: InvalidEvent) -> None:
        where = job.batch.transport.peer or "a sender"
        make = partial(invalid_line, raw, error, where, as_json=self._as_json)
        await self._errors.write(await _apart(raw, make))


async def _apart(raw: bytes, make: Callable[[], bytes]) -> bytes:
    """Make the line of an event; that of a large one in a thread, as it may take seconds."""
    if len(raw) <= _SLICE:
        return make()
    return await trio.to_thread.run_sync(make, abandon_on_cancel=True)
