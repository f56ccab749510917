"""Send at the end of a turn of trio's loop: `FlushHook`.

If only the writer sends, each batch of frames costs a task switch and a turn of the loop. But trio
calls `trio.abc.Instrument.before_io_wait` right before the loop waits for I/O, when every task that
could run has run. There the hook sends all frames that any tasks have queued in that turn, in one
write that does not wait (docs/performance.md has the gain).

The loop sends only while the writer sleeps. If the kernel does not take all bytes, or there is an
error, the writer is woken and goes on. So there is one sender at a time, and errors are raised in
a task.
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
        """Return a function that asks for a flush of this outbox at the end of the turn.

        It is called once in a turn.
        """
        marked = (outbox, transport.send_frames_nowait)

        def mark() -> None:
            if in_trio_task():
                self._marked.append(marked)
            else:
                # In guest mode, code of the host loop: trio may be waiting for I/O already.
                self._token.run_sync_soon(outbox.wake_writer)

        return mark

    def before_io_wait(self, timeout: float) -> None:
        """Flush the marked outboxes. Raises nothing: trio would disable the instrument."""
        if self._marked:
            marked, self._marked = self._marked, []
            for outbox, send_nowait in marked:
                if not outbox.flush(send_nowait):
                    # Not woken here: trio has already decided how long it waits for I/O.
                    self._token.run_sync_soon(outbox.wake_writer)


_hook: Final[RunVar[FlushHook | None]] = RunVar("rsocket_trio_flush_hook", None)


@contextmanager
def flushed_by_loop(outbox: Outbox, transport: FrameTransport) -> Iterator[None]:
    """Within the block the loop flushes ``outbox``, if the transport can send without waiting.

    A run of trio has one hook, and only while it has connections.
    """
    if not transport.sends_nowait:
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
