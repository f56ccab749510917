"""Ctrl-C and SIGTERM for the commands that connect: `interruptible`.

The first signal cancels the work and closes the connection, so the peer receives CANCEL and an
orderly end. A second signal, or one second of waiting, stops everything.
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
    """The cancel scopes that a signal cancels. `interruptible` makes one for each run.

    Attributes:
        received: The number of the first signal, or ``None``.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._everything = trio.CancelScope()
        self._work: trio.CancelScope | None = None

    @contextmanager
    def work(self) -> Iterator[None]:
        """Let the first signal cancel the block, but not the connection around it."""
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
    """Run ``work`` until it ends or a signal stops it.

    Returns:
        The result of ``work``, or 128 plus the number of the signal.

    Raises:
        Exception: Any exception of ``work``, unchanged.

    Checkpoint: always.
    If cancelled: ``work`` is cancelled.
    """
    stop = Interruption()
    status = 0
    failure: Exception | None = None
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop._watch, signals)  # noqa: SLF001  a class of this module
            with stop._everything:  # noqa: SLF001  a class of this module
                try:
                    status = await work(stop)
                except Exception as error:  # raised below: the nursery would wrap it in a group
                    failure = error
            nursery.cancel_scope.cancel(reason="done")
    if stop.received is not None:
        return 128 + stop.received
    if failure is not None:
        raise failure
    return status
