"""Async items for code without trio: `Items`, which a task fetches ahead, a bounded number."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Generic, TypeVar, cast

import trio

from .thread_run import Task, ThreadRun

__all__ = ["Items"]

_T = TypeVar("_T")


class Items(Iterator[_T], Generic[_T]):
    """What `TrioThread.iterate` returns: an iterator that can be closed.

    One thread at a time uses it. The task starts with the first item.
    """

    def __init__(
        self,
        running: Callable[[], ThreadRun],
        open_items: Callable[[], AbstractAsyncContextManager[AsyncIterable[_T]]],
        buffer: int,
        name: str,
    ) -> None:
        self._running: Final = running
        self._open: Final = open_items
        self._room: Final = _Room(buffer)
        self._share: Final = (buffer + 1) // 2
        self._name: Final = name
        self._taken = 0
        self._over = False
        self._run: ThreadRun | None = None
        self._task: Task[None] | None = None

    def __iter__(self) -> Items[_T]:
        return self

    def __enter__(self) -> Items[_T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __next__(self) -> _T:
        """Return the next item, and wait for it."""
        if self._over:
            raise StopIteration
        self._check_place()
        try:
            run, task = self._started()
            item = task.queue.get()
        except BaseException:  # goes on: an interrupted wait is the end of the items
            if self._task is not None:
                self.close()
            raise
        if item is task:  # It comes behind all items.
            self._over = True
            task.result()
            raise StopIteration
        self._taken += 1
        if self._taken == self._share:
            # Some at a time: each time wakes the other thread.
            run.call_soon(partial(self._room.add, self._taken))
            self._taken = 0
        return cast("_T", item)

    def _check_place(self) -> None:
        run = self._run
        if run is not None and not run.can_be_awaited:
            where = "in another process" if not run.is_here else "in the thread that fetches them"
            raise RuntimeError(f"{self._name}: these items cannot be taken {where}")

    def _started(self) -> tuple[ThreadRun, Task[None]]:
        if self._run is None or self._task is None:
            run = self._running()
            # The task does not refer to this object, which can be collected when it is dropped.
            queue: SimpleQueue[_T | Task[None]] = SimpleQueue()
            fetch = partial(_fetch, self._open, self._room, queue.put)
            self._run, self._task = run, Task(run, fetch, self._name, queue=queue)
            run.start(self._task)
        return self._run, self._task

    def close(self) -> None:
        """Cancel the task, wait until it has ended, and drop the items that were fetched."""
        self._over = True
        if self._task is not None:
            self._task.cancel()
            self._task.wait()

    def __del__(self) -> None:
        # The garbage collector may run in any thread, so this does not wait.
        task = getattr(self, "_task", None)
        if task is not None and not self._over:
            task.cancel()


class _Room:
    """How many items may be fetched. It belongs to the trio thread."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._more = trio.Event()

    def add(self, count: int) -> None:
        """Have room for more items."""
        self._room += count
        self._more.set()
        self._more = trio.Event()

    async def take(self) -> None:
        """Wait for room, and use it."""
        while not self._room:
            await self._more.wait()
        self._room -= 1


async def _fetch(
    open_items: Callable[[], AbstractAsyncContextManager[AsyncIterable[_T]]],
    room: _Room,
    put: Callable[[_T], None],
) -> None:
    async with open_items() as items:
        iterator = aiter(items)
        while True:
            # Room first: an item that is fetched too early is credit that the peer should not have.
            await room.take()
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            put(item)
