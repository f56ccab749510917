"""`Timer`: one task that calls a function at a time, in a nursery of the user."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...entrance import Home
from ..errors import SourceClosed
from ..pumps import start_in

__all__ = ["Timer"]


class Timer:
    """Calls a function once each time that was set has come. Its task has an owner: a nursery.

    Args:
        nursery: Where the task runs, from `start` to `stop`.
        due: Called in the task. It must not raise.
        lost: Called with a `SourceClosed` if the nursery ends the task before `stop`.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        due: Callable[[], None],
        lost: Callable[[Exception], None],
    ) -> None:
        self._nursery = nursery
        self._due: Callable[[], None] | None = due
        self._lost: Callable[[Exception], None] | None = lost
        self._scope = trio.CancelScope()
        self._time: float | None = None
        self._set = trio.Event()
        self._home = Home()

    def start(self) -> Exception | None:
        """Start the task; return why this is not possible."""
        return start_in(self._nursery, self._work, "this operator")

    def at(self, time: float) -> None:
        """Set the time, by the clock of trio. It is not earlier than one that was set before.

        Raises:
            RuntimeError: The caller is in another thread than the task.
        """
        self._home.check("this operator")
        self._time = time
        self._set.set()

    def clear(self) -> None:
        """Unset the time."""
        self._time = None

    def stop(self) -> None:
        """End the task, and forget the functions.

        Raises:
            RuntimeError: The caller is in another thread than the task.
        """
        if self._due is not None:
            self._home.check("this operator")
        self._due = self._lost = None
        self._scope.cancel()

    async def _work(self) -> None:
        try:
            with self._scope:
                while True:
                    await self._next_time()
                    if self._due is not None:
                        self._due()
        finally:
            # No await here: the task may be cancelled.
            lost, self._due, self._lost = self._lost, None, None
            if lost is not None:
                lost(SourceClosed("the nursery of this operator has ended"))

    async def _next_time(self) -> None:
        while True:
            time = self._time
            if time is None:
                self._set = trio.Event()
                await self._set.wait()
            elif time > trio.current_time():
                await trio.sleep_until(time)
            else:
                self._time = None
                await trio.lowlevel.checkpoint()
                return
