"""How long a task waits for a peer that does nothing: `Patience`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from ...errors import single_error
from .errors import SinkError

__all__ = ["Patience"]


class Patience:
    """Ends a block in which nothing happens for a time.

    Args:
        timeout: Seconds without progress. It may be twice as long until the block ends.
        idle: Whether the peer has nothing to do now, because Spark has no rows.
        more: Counts progress that ``steps`` does not.

    Attributes:
        steps: Counts the progress; the user of the block adds to it.
    """

    def __init__(
        self, timeout: float, idle: Callable[[], bool], more: Callable[[], int] = lambda: 0
    ) -> None:
        self.steps = 0
        self._timeout = timeout
        self._idle = idle
        self._more = more

    @asynccontextmanager
    async def guard(self, what: str) -> AsyncIterator[trio.Nursery]:
        """Surround what needs progress; its nursery ends with the block.

        Raises:
            SinkError: There was no progress; with ``what`` in the text.
        """
        failed = False

        async def watch() -> None:
            nonlocal failed
            while True:
                seen = self.steps + self._more()
                await trio.sleep(self._timeout)
                if self.steps + self._more() == seen and not self._idle():
                    failed = True
                    nursery.cancel_scope.cancel(reason="the peer makes no progress")
                    return

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                yield nursery
                nursery.cancel_scope.cancel(reason="the block has ended")
        except BaseExceptionGroup as group:  # one error happened, and its group tells nothing more
            alone = single_error(group)
            if alone is group:
                raise
            raise alone from alone.__cause__
        if failed:
            raise SinkError(
                f"{what} took nothing for {self._timeout:g} s: see whether it hangs, or raise the "
                "option timeoutMs"
            )
