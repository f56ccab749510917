"""Run a connection that has handlers, from its first task to its end: `Engine`.

    Engine.run
    ├─ writer         the only caller of send_frames; runs longer than the others, to send the rest
    └─ nursery        the crew, and what else the wire needs

The engine knows nothing of the protocol, so every wire with handlers uses it. State changes are
synchronous and come first: `Lifecycle.end` fails every stream before anything waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import checkpoint

from ..errors import RemoteProtocolError
from ..transports.base import close_politely
from .flushing import flushed_by_loop
from .shift import dismiss

if TYPE_CHECKING:
    from ..transports.base import FrameTransport
    from .crew import Crew
    from .job import FrameReader
    from .lifecycle import Lifecycle
    from .outbox import Outbox
    from .workload import Workload

__all__ = ["Engine", "write_frames"]

_WOKEN_PER_TURN: Final = 64
"""The number of tasks that one turn of the loop wakes when the connection is over."""


async def write_frames(outbox: Outbox, transport: FrameTransport, lifecycle: Lifecycle) -> None:
    """Send all queued frames in one call, again and again; this is the writer of a connection.

    Returns when the transport is broken; the lifecycle has been told.

    Checkpoint: whenever there is nothing to send.
    If cancelled: a batch may have been sent in part; close the transport.
    """
    send_frames = transport.send_frames
    try:
        with flushed_by_loop(outbox, transport):
            while True:
                await send_frames(await outbox.take())
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        # ClosedResourceError: the owner has closed the transport while it was in use.
        lifecycle.lost(error)
        outbox.discard()


class Engine:
    """The tasks of one connection.

    Args:
        transport: Carries the frames. Its owner closes it, after `run`.
        lifecycle: Says when the connection is over.
        outbox: The queue of frames to send.
        workload: The peer's requests that wait or run.
        crew: The tasks that read and run handlers.
        close_timeout: How long the last frames may take to leave, in seconds.
    """

    def __init__(
        self,
        transport: FrameTransport,
        lifecycle: Lifecycle,
        outbox: Outbox,
        workload: Workload,
        crew: Crew,
        close_timeout: float,
    ) -> None:
        self._transport = transport
        self._lifecycle = lifecycle
        self._outbox = outbox
        self._workload = workload
        self._crew = crew
        self._close_timeout = close_timeout

    async def run(
        self, reader: FrameReader, begin: Callable[[trio.Nursery], Awaitable[None]]
    ) -> None:
        """Drive the connection until it is over; then `Lifecycle.failure` says why.

        Args:
            reader: Reads for the crew.
            begin: Starts the crew, and what else the wire needs, in the nursery it is given.

        Checkpoint: always.
        If cancelled: every stream fails at once, handlers are cancelled, nothing more is sent.
        """
        lifecycle = self._lifecycle
        transport = self._transport
        outbox = self._outbox
        transport.wake_writer = outbox.wake_writer
        try:
            async with trio.open_nursery() as outer:
                outer.start_soon(write_frames, outbox, transport, lifecycle)
                with self._stuck_handlers():
                    async with trio.open_nursery() as nursery:
                        await begin(nursery)
                        try:
                            await lifecycle.run_out()
                            await self._release_in_turns()
                        finally:
                            # Handlers may need some time to end; this does not wait for them.
                            lifecycle.close()
                            self._release_all()
                            nursery.cancel_scope.cancel(reason=str(lifecycle.failure))
                            if await self._crew.end():
                                await transport.aclose()
                await self._flush_and_close()
                outer.cancel_scope.cancel(reason="the connection is over")
        finally:
            lifecycle.close()
            outbox.room.fail_waiting()
            outbox.discard()
            reader.forget()
            self._workload.forget()

    async def _release_in_turns(self) -> None:
        """Cancel handlers that wait, and wake tasks that wait for room: some in each turn.

        With thousands of tasks, waking all at once would block the loop for seconds.
        """
        dismissed = self._dismiss()
        room = self._outbox.room
        while sum(1 for _ in islice(dismissed, _WOKEN_PER_TURN)) or room.waiting:
            room.fail_waiting(_WOKEN_PER_TURN)
            await checkpoint()

    def _dismiss(self) -> Iterator[None]:
        failure = self._lifecycle.failure
        assert failure is not None  # the connection is over
        return dismiss(self._crew.shifts, failure)

    def _release_all(self) -> None:
        """Cancel and wake all that are left, in this turn of the loop."""
        deque(self._dismiss(), maxlen=0)
        self._outbox.room.fail_waiting()

    async def _flush_and_close(self) -> None:
        """Send the queued frames, then close so that the peer can read them, within a timeout."""
        with trio.move_on_after(self._close_timeout):
            # If the transport is gone, or the peer sends malformed frames, waiting is useless.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError):
                await self._outbox.wait_idle()
                # From here on this task sends, not the writer.
                self._transport.wake_writer = None
                await close_politely(self._transport)

    @contextmanager
    def _stuck_handlers(self) -> Iterator[None]:
        """Absorb the errors that trio raises for nurseries that handlers have left open.

        This is a fault of one handler. It is logged already, and does no harm to other streams.
        """
        try:
            yield
        except* RuntimeError as group:
            if len(group.exceptions) > self._crew.stuck:
                raise
