"""Ctrl-C and SIGTERM for the commands that connect: `interruptible`.

The first signal cancels the work and lets the connection close, so that the peer sees CANCEL and
an orderly end; a second one, or a second of waiting, ends everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from rsocket_trio.os_support import STOP_SIGNALS

__all__ = ["Interruption", "interruptible"]

_CLOSE_TIME: Final = 1.0


class Interruption:
    """The scopes a signal cancels. Made by `interruptible`, one for each run.

    Attributes:
        received: The first signal that came, or ``None``.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._everything = trio.CancelScope()
        self._work: trio.CancelScope | None = None

    @contextmanager
    def work(self) -> Iterator[None]:
        """What the first signal cancels, while the connection around it stays up to be closed."""
        with trio.CancelScope() as self._work:
            yield

    async def _watch(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if self.received is not None or self._work is None:
                self._everything.cancel(reason="interrupted")
            else:
                self._work.cancel(reason="interrupted")
                self._everything.deadline = trio.current_time() + _CLOSE_TIME
            self.received = self.received or number


async def interruptible(work: Callable[[Interruption], Awaitable[int]]) -> int:
    """Run ``work`` until it ends or a signal ends it.

    Returns:
        What ``work`` returns, or 128 and the number of the signal.

    Raises:
        Exception: What ``work`` raises, as it is.

    Checkpoint: always.
    If cancelled: ``work`` is cancelled.
    """
    stop = Interruption()
    status = 0
    failure: Exception | None = None
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop._watch, signals)  # noqa: SLF001  one file, one mechanism
            with stop._everything:  # noqa: SLF001  likewise
                try:
                    status = await work(stop)
                except Exception as error:  # kept out of the nursery, which would group it
                    failure = error
            nursery.cancel_scope.cancel(reason="done")
    if stop.received is not None:
        return 128 + stop.received
    if failure is not None:
        raise failure
    return status
