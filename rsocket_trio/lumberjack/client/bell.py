"""Wakes the tasks of a client when there may be something to do: `Bell`."""

from __future__ import annotations

from collections.abc import Callable

import trio

__all__ = ["Bell"]


class Bell:
    """Tasks wait for a condition; `ring` makes all of them check it again."""

    def __init__(self) -> None:
        self._rung: trio.Event | None = None

    def ring(self) -> None:
        """Wake the tasks that wait."""
        if self._rung is not None:
            self._rung.set()
            self._rung = None

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition is true.

        Checkpoint: if it is not true yet.
        If cancelled: nothing changes.
        """
        while not condition():
            if self._rung is None:
                self._rung = trio.Event()
            await self._rung.wait()
