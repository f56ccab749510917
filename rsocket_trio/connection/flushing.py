"""Sending at the end of a turn of trio's loop: `FlushHook`.

Between a task that queues a frame and the writer that sends it lie a task switch and a turn of
the loop, for each batch of frames. But the loop says when everybody who can run has run: right
before it waits for I/O it calls `trio.abc.Instrument.before_io_wait`. There, whatever has been
queued in that turn, by however many tasks, leaves in one write that does not wait
(docs/performance.md has what it bought).

It is the writer's own write, done for it while it sleeps. Where the kernel does not take all, or
there is an error, the writer is woken and goes on; so there is one sender at a time, and errors
arise in a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import (
    RunVar,
    add_instrument,
    current_trio_token,
    in_trio_task,
    remove_instrument,
)

if TYPE_CHECKING:
    from ..transports.base import FrameTransport
    from .outbox import Outbox

__all__ = ["FlushHook", "flushed_by_loop"]


class FlushHook(trio.abc.Instrument):
    """Flushes the outboxes of one trio run.

    Attributes:
        connections: How many connections use it.
    """

    def __init__(self) -> None:
        self.connections = 0
        self._marked: list[tuple[Outbox, Callable[[list[bytes]], bool]]] = []
        self._token = current_trio_token()

    def marker(self, outbox: Outbox, transport: FrameTransport) -> Callable[[], object]:
        """What asks for a flush of this outbox, at the end of the turn; once in a turn."""
        marked = (outbox, transport.send_frames_nowait)

        def mark() -> None:
            if in_trio_task():
                self._marked.append(marked)
            else:
                # Code of the host, in guest mode: trio's loop may be waiting for I/O already.
                self._token.run_sync_soon(outbox.wake_writer)

        return mark

    def before_io_wait(self, timeout: float) -> None:
        """Flush what has been marked. Raises nothing: trio would switch this off."""
        if self._marked:
            marked, self._marked = self._marked, []
            for outbox, send_nowait in marked:
                if not outbox.flush(send_nowait):
                    # Not woken here: trio has decided already how long it is going to wait.
                    self._token.run_sync_soon(outbox.wake_writer)


_hook: Final[RunVar[FlushHook | None]] = RunVar("rsocket_trio_flush_hook", None)


@contextmanager
def flushed_by_loop(outbox: Outbox, transport: FrameTransport) -> Iterator[None]:
    """While in the block, have the loop flush ``outbox``, if the transport can without waiting.

    A run has one hook, and only while it has connections.
    """
    if not transport.immediate:
        yield
        return
    hook = _hook.get()
    if hook is None:
        hook = FlushHook()
        _hook.set(hook)
        add_instrument(hook)
    hook.connections += 1
    outbox.writer.mark = hook.marker(outbox, transport)
    try:
        yield
    finally:
        outbox.writer.mark = None
        hook.connections -= 1
        if not hook.connections:
            _hook.set(None)
            remove_instrument(hook)
