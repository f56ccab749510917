"""Ctrl-C, SIGTERM and a limit of time for the commands that connect: `interruptible`.

The first signal cancels the work and closes the connection, so the peer receives CANCEL and an
orderly end. A second signal, or one second of waiting, stops everything. So does the end of the
time, without a second signal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from math import inf
from typing import Any, Final

import trio

from rsocket_trio.os_support import STOP_SIGNALS

from .stdio import reader_gone

__all__ = ["Interruption", "interruptible"]

_CLOSE_TIME: Final = 1.0


class Interruption:
    """The cancel scopes that a signal cancels. `interruptible` makes one for each run.

    Attributes:
        received: The number of the first signal, or ``None``.
    """

    def __init__(self, nursery: trio.Nursery, deadline: float) -> None:
        self.received: int | None = None
        self._nursery = nursery
        self._deadline = deadline
        self._everything = trio.CancelScope(deadline=deadline)
        self._work: trio.CancelScope | None = None
        self._unread = False

    @property
    def late(self) -> bool:
        """Whether the time was over before the work ended."""
        work_cut = self._work is not None and self._work.cancelled_caught
        return self.received is None and (work_cut or self._everything.cancelled_caught)

    @property
    def unread(self) -> bool:
        """Whether the work ended because nobody reads what it prints."""
        return self._unread and self._work is not None and self._work.cancelled_caught

    @contextmanager
    def work(self, *, prints: bool = False) -> Iterator[None]:
        """Let the first signal and the deadline cancel the block, but not what is around it.

        Args:
            prints: The block prints what comes, so it also ends with the reader of the output.
        """
        with trio.CancelScope(deadline=self._deadline) as self._work:
            self._everything.deadline = self._deadline + _CLOSE_TIME
            try:
                with self.beside(self._watch_reader) if prints else nullcontext():
                    yield
            finally:
                if not self._work.cancel_called:  # to close takes the time that it takes
                    self._everything.deadline = inf

    @contextmanager
    def beside(self, function: Callable[..., Awaitable[None]], *args: Any) -> Iterator[None]:
        """Run a function that raises nothing in a task, until the block is left."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await function(*args)

        self._nursery.start_soon(run)
        try:
            yield
        finally:
            scope.cancel(reason="the work has ended")

    def _stop(self, reason: str) -> None:
        if self.received is not None or self._work is None:
            self._everything.cancel(reason=reason)
        else:
            self._work.cancel(reason=reason)
            self._everything.deadline = trio.current_time() + _CLOSE_TIME

    async def _watch_reader(self) -> None:
        await reader_gone()
        self._unread = True
        self._stop("nobody reads the output")

    async def _watch(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._stop("interrupted")
            self.received = self.received or number


async def interruptible(
    work: Callable[[Interruption], Awaitable[int]], seconds: float = inf
) -> int:
    """Run ``work`` until it ends or a signal stops it.

    Args:
        work: What to run; it does its part between connecting and closing in `Interruption.work`.
        seconds: How long that part may take, with all that is before it.

    Returns:
        The result of ``work``, or 128 plus the number of the signal.

    Raises:
        trio.TooSlowError: The time was over first.
        BrokenPipeError: The reader of the output has closed the pipe.
        Exception: Any exception of ``work``, unchanged.

    Checkpoint: always.
    If cancelled: ``work`` is cancelled.
    """
    status = 0
    failure: Exception | None = None
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            stop = Interruption(nursery, trio.current_time() + seconds)
            nursery.start_soon(stop._watch, signals)  # noqa: SLF001  a class of this module
            with stop._everything:  # noqa: SLF001  a class of this module
                try:
                    status = await work(stop)
                except Exception as error:  # raised below: the nursery would wrap it in a group
                    failure = error
            nursery.cancel_scope.cancel(reason="done")
    if stop.received is not None:
        return 128 + stop.received
    if stop.unread:
        raise BrokenPipeError
    if stop.late:
        raise trio.TooSlowError
    if failure is not None:
        raise failure
    return status
