"""Questions to several collectors, some of which may be slow: `Questions`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final, TypeVar

import trio

__all__ = ["Questions"]

K = TypeVar("K", bound=Hashable)


class Questions:
    """Asks several collectors at the same time, and waits for the answers for a limited time.

    A question goes on after that time, and its answer counts when it comes. So a slow collector
    holds up no other one, and is read all the same. It gets no second question of the same kind
    meanwhile.

    Args:
        nursery: Where the questions run.
        answered: Called at the end of each question.
    """

    def __init__(self, nursery: trio.Nursery, answered: Callable[[], None]) -> None:
        self._nursery: Final = nursery
        self._answered: Final = answered
        self._open: Final[set[Hashable]] = set()
        self._ended = trio.Event()

    async def ask(
        self, questions: Mapping[K, Callable[[], Awaitable[None]]], seconds: float
    ) -> None:
        """Begin questions, and wait for their ends, but not longer than a time.

        Args:
            questions: By the collector and the kind of the question. One that is still open is
                neither begun nor waited for.
            seconds: The time.

        Checkpoint: always.
        If cancelled: the questions go on.
        """
        begun = [key for key in questions if key not in self._open]
        for key in begun:
            self._open.add(key)
            self._nursery.start_soon(self._run, key, questions[key])
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(seconds):
            while not self._open.isdisjoint(begun):
                await self._ended.wait()

    async def _run(self, key: Hashable, question: Callable[[], Awaitable[None]]) -> None:
        try:
            await question()
        finally:
            self._open.remove(key)
            self._ended.set()
            self._ended = trio.Event()
            self._answered()
